//! Who may speak to the servers: pages of which browser origins, and under which host names. The
//! check of host names is that of the package `inbound`.

mod cors;

pub use cors::{BadOrigin, Cors};
pub use inbound::{BadHost, Hosts};
