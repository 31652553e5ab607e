//! Which senders of messages count as one client. What the node has is shared by clients.

/// A client, as far as the node can tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    /// The clients at an address, which the servers make a number of.
    Address(u128),
    /// One connection on the local socket, by its number.
    Local(u64),
}
