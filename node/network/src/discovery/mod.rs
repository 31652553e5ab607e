//! Discovery v4: how nodes find each other by UDP, in Ethereum's and the public network's dialect.
//!
//! [`Discovery`] decides; [`DiscoverySocket`] runs it on a socket. Knows neither connections nor
//! chains. Source: docs/p2p.md, 4.

mod bonds;
mod budget;
mod lookup;
mod packet;
mod service;
mod socket;
mod table;
#[cfg(test)]
mod tests;
mod told_address;
mod values;

pub use packet::{
    DiscoveryDialect, DiscoveryPacket, PACKET_BYTES_MAX, PacketEndpoint, PacketError, PacketTail,
};
pub(crate) use service::SEEDS_MAX;
pub use service::{Discovery, DiscoveryAction, DiscoveryEvent, DiscoverySettings};
pub use socket::{DiscoveryHandle, DiscoverySocket};
pub(crate) use table::ContactKind;
