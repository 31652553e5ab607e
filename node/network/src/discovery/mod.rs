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
mod values;

pub use bonds::{BOND_LIFETIME, BOND_NEIGHBOURS_MAX, BONDS_MAX};
pub use budget::SecondLimits;
pub use lookup::{LOOKUP_NEIGHBOURS_MAX, LOOKUP_NODES_MAX, LOOKUP_WIDTH};
pub use packet::{
    DiscoveryDialect, DiscoveryPacket, NEIGHBORS_IN_PACKET, PACKET_BYTES_MAX, PACKET_LIFETIME,
    PacketEndpoint, PacketError, PacketTail, ReadPacket,
};
pub use service::{
    ANSWER_TIMEOUT, Discovery, DiscoveryAction, DiscoverySettings, EMPTY_REFRESH_INTERVAL, FAILURES_MAX,
    LASTING_AGE, LOOKUPS_MAX, PACKETS_IN_SECOND, PENDING_ANSWERS_MAX, REFRESH_INTERVAL,
    REVALIDATION_INTERVAL, SEEDS_MAX, UNKNOWN_LIFETIME, UNPROVEN_PINGS_IN_SECOND,
};
pub use socket::{DISCOVERY_EVENTS_MAX, DiscoveryEvent, DiscoveryRecords, DiscoverySocket, DiscoveryValues};
pub use table::{
    BUCKET_NEIGHBOURS_MAX, BUCKET_NODES_MAX, ContactKind, REPLACEMENTS_MAX, TABLE_NEIGHBOURS_MAX,
};
pub use values::{
    KEYS_MAX, VALUE_LIFETIME, VALUE_NEIGHBOURS_MAX, VALUES_IN_ANSWER, VALUES_OF_KEY_MAX,
    VALUES_OF_KEY_NEIGHBOURS_MAX,
};
