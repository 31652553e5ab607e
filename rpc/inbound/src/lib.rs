//! What every server of the workspace asks of those who connect to it.
//!
//! | subject | module |
//! |---|---|
//! | the address that connections are counted by | `address` |
//! | the client that a connection belongs to | `client` |
//! | host names that requests may name | `hosts` |
//! | places for connections, and which connection makes room | `places` |
//! | how good the claim of a connection to its place is | `claim` |
//! | shares in percent | `share` |
//!
//! Knows neither sockets nor protocols: a server says who connects and what its connections do.

mod address;
mod claim;
mod client;
mod hosts;
mod places;
mod share;

pub use address::ClientAddress;
pub use claim::{Claim, Claimant, StatedClaim};
pub use client::ClientId;
pub use hosts::{BadHost, Hosts};
pub use places::{Place, PlaceLimits, Places};
pub use share::percent_of;
