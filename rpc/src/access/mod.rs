//! Who may speak to the servers: pages of which browser origins, and under which host names.

mod cors;
mod hosts;

pub use cors::{BadOrigin, Cors};
pub use hosts::{BadHost, Hosts};
