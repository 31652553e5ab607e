//! What every server of the workspace asks of those who connect to it.
//!
//! | subject | module |
//! |---|---|
//! | the address that connections are counted by | `address` |
//! | host names that requests may name | `hosts` |
//! | places for connections | `places` |
//!
//! Knows neither sockets nor protocols: a server says who connects and what its connections do.

mod address;
mod hosts;
mod places;

pub use address::ClientAddress;
pub use hosts::{BadHost, Hosts};
pub use places::{Claim, Place, PlaceLimits, Places};
