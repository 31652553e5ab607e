//! The other parts of the process, as the methods see them: the searchers, the HTTP listener, the
//! peer-to-peer network, the service for application chains.
//!
//! Each is a trait here. The package `node` implements them.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use primitives::{Address, B256, B512, Enode, Transaction, U256};

use crate::access::Cors;
use crate::modules::Modules;

/// Default address of the HTTP listener.
pub const HOST: &str = "localhost";
/// Default port of the HTTP listener of the base-chain node.
pub const PORT: u16 = 8545;
/// Default port of the WebSocket listener.
pub const PORT_WS: u16 = 8546;
/// Default port of the HTTP listener of the application-chain node.
pub const PORT_SCS: u16 = 8548;

/// The reason why another part of the process does not do as a method asks, as text for the caller.
/// The package that implements the trait has an enum of its causes.
pub type ControlError = Box<dyn Error + Send + Sync>;

/// The search for seals in the node's own process.
pub trait MinerControl: Send + Sync {
    /// The hash rate of this process alone, in hashes per second. It is called on network threads,
    /// so it must not wait until a start or a stop has finished.
    fn hashrate(&self) -> f64;

    /// Starts the search, with `threads` CPU threads if a number is given.
    ///
    /// # Errors
    /// The reason why the search cannot start, for the caller.
    fn start(&self, threads: Option<usize>) -> Result<(), ControlError>;

    /// Stops the search. Does nothing if no search is running.
    fn stop(&self);
}

/// The listener that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRequest {
    /// The address or the name to listen on.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The browser origins that may read answers.
    pub cors: Cors,
    /// The modules to serve.
    pub modules: Modules,
}

/// The reason why the HTTP listener did not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// A listener is open already. There can be only one.
    #[error("HTTP RPC listener already running on {0}")]
    Running(String),
    /// The node cannot listen on the address.
    #[error("{0}")]
    Bind(String),
}

/// A future that a control returns.
pub type ControlFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The HTTP or the WebSocket listener, opened and closed at run time.
pub trait ListenerControl: Send + Sync {
    /// Opens the listener.
    fn start(&self, request: ListenerRequest) -> ControlFuture<'_, Result<(), ListenerError>>;

    /// Whether the listener is open on an address that other machines can reach.
    fn is_exposed(&self) -> bool;

    /// Closes the listener. Returns whether one was open. Requests that are running are still
    /// answered, also the one that closes the listener.
    fn stop(&self) -> ControlFuture<'_, bool>;
}

/// The running service for the servers of application chains.
pub trait ScsServiceControl: Send + Sync {
    /// The port on which it listens.
    fn port(&self) -> u16;

    /// Takes a signed transaction for an application chain and pushes it to the chain's servers.
    /// Returns its hash. Only the signature is checked.
    ///
    /// # Errors
    /// The reason why it is refused, for the caller.
    fn submit(&self, transaction: &Transaction) -> Result<B256, ControlError>;
}

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The public key.
    pub id: B512,
    /// The address that was dialled. A node that has dialled by itself: where its connection comes
    /// from.
    pub enode: Enode,
    /// The text of its node record, if it is known.
    pub record: Option<String>,
    /// The client name that it has announced.
    pub name: String,
    /// The protocols that it supports, as name and version.
    pub capabilities: Vec<String>,
    /// The address of this node's end of the connection.
    pub local_address: String,
    /// The address of the peer's end.
    pub remote_address: String,
    /// The peer has dialled.
    pub is_inbound: bool,
    /// The peer is a static node.
    pub is_static: bool,
    /// The peer is a trusted node.
    pub is_trusted: bool,
    /// The name of the protocol of the connection.
    pub protocol: String,
    /// The version of the protocol.
    pub version: u64,
    /// The hash of the peer's head.
    pub head: B256,
    /// The total difficulty with it.
    pub total_difficulty: U256,
    /// The figures of the connection.
    pub measures: PeerMeasures,
}

/// The figures of the connection to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerMeasures {
    /// The number of the peer's place among the connections, by which the metrics name it.
    pub slot: usize,
    /// The time at which the peer came, in seconds since 1970.
    pub since: u64,
    /// Messages that it has sent.
    pub messages_in: u64,
    /// Messages that it was sent.
    pub messages_out: u64,
    /// The bytes that it has sent, after decompression.
    pub bytes_in: u64,
    /// The bytes that it was sent, before compression.
    pub bytes_out: u64,
    /// The usual time from a request to its answer. `None` before the first answer.
    pub round_trip: Option<Duration>,
    /// Requests that it did not answer in time.
    pub late_answers: u64,
    /// Faults of the peer for which it did not lose its place.
    pub faults: u64,
}

/// A network of an application chain that this node is part of, or will be part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The application chain.
    pub address: Address,
    /// The first block at which the node is part of the network.
    pub block_start: u64,
    /// The first block at which it is no longer part of it. `u64::MAX` if there is no end.
    pub block_end: u64,
    /// The number of connected peers in it, as text.
    pub peers: String,
}

/// The peer-to-peer network.
pub trait NetworkControl: Send + Sync {
    /// The URL under which other nodes reach this node.
    fn enode(&self) -> Enode;

    /// The text of this node's record (EIP-778). `None` if it does not listen.
    fn record(&self) -> Option<String>;

    /// Reads how a user names a node: by its enode URL or by the text of its record.
    ///
    /// # Errors
    /// The fault in the text.
    fn read_node(&self, text: &str) -> Result<Enode, ControlError>;

    /// The address that the node listens on. `None` if it does not listen.
    fn listen_address(&self) -> Option<String>;

    /// The connected peers.
    fn peers(&self) -> Vec<Peer>;

    /// Waits until a peer was sent what the pool has before `position` of its feed, for at most
    /// `limit`. Returns whether one was.
    fn wait_until_told(&self, position: u64, limit: Duration) -> bool;

    /// Adds a node to the static nodes. The node stays connected to its static nodes.
    ///
    /// # Errors
    /// The reason why the list cannot be stored.
    fn add_peer(&self, node: &Enode) -> Result<(), ControlError>;

    /// Removes a node from the static nodes. Returns whether it was one.
    ///
    /// # Errors
    /// The reason why the list cannot be stored.
    fn remove_peer(&self, node: &Enode) -> Result<bool, ControlError>;

    /// Adds a node to the trusted nodes, for which there is always a place.
    ///
    /// # Errors
    /// The reason why the list cannot be stored.
    fn add_trusted_peer(&self, node: &Enode) -> Result<(), ControlError>;

    /// Removes a node from the trusted nodes. Returns whether it was one.
    ///
    /// # Errors
    /// The reason why the list cannot be stored.
    fn remove_trusted_peer(&self, node: &Enode) -> Result<bool, ControlError>;

    /// Joins the network of an application chain at the block `block_start`.
    ///
    /// # Errors
    /// The reason why that cannot be stored.
    fn add_subnet(&self, address: Address, block_start: u64) -> Result<(), ControlError>;

    /// Leaves the network of an application chain at the block `block_end`. Returns whether the
    /// node was part of it.
    ///
    /// # Errors
    /// The reason why that cannot be stored.
    fn remove_subnet(&self, address: Address, block_end: u64) -> Result<bool, ControlError>;

    /// The networks of application chains, without those that end at block `head` or before.
    fn subnets(&self, head: u64) -> Vec<Subnet>;
}
