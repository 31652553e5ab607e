//! What methods can ask of the rest of the process, as interfaces that the process fills:
//! searchers, the HTTP listener, the peer-to-peer network.
//!
//! Knows questions and answers; who answers is decided where the node is put together.

use std::future::Future;
use std::pin::Pin;

use primitives::{Address, B512, Enode};

use crate::access::Cors;
use crate::modules::Modules;

/// Default address of the HTTP listener.
pub const HOST: &str = "localhost";
/// Default port of the HTTP listener of the base-chain node.
pub const PORT: u16 = 8545;

/// The searchers within the node's own process.
pub trait MinerControl: Send + Sync {
    /// Hashes per second of this process alone. It is asked on network threads, so it waits for no
    /// start and no stop under way.
    fn hashrate(&self) -> f64;

    /// Starts the search, with so many CPU threads where they are named.
    ///
    /// # Errors
    /// Why it cannot be started.
    fn start(&self, threads: Option<usize>) -> Result<(), String>;

    /// Stops the search; nothing happens where there is none.
    fn stop(&self);
}

/// An HTTP listener to open. What is not given has the interface's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRequest {
    /// Where to listen.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Browser origins that may read answers.
    pub cors: Cors,
    /// The modules to serve.
    pub modules: Modules,
}

/// Why the HTTP listener did not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// There may be one at a time.
    #[error("HTTP RPC listener already running on {0}")]
    Running(String),
    /// The address cannot be listened on.
    #[error("{0}")]
    Bind(String),
}

/// An answer that comes later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The HTTP listener, opened and closed at run time.
pub trait ListenerControl: Send + Sync {
    /// Opens the listener.
    fn start(&self, request: ListenerRequest) -> Later<'_, Result<(), ListenerError>>;

    /// Closes the listener; `false` where there is none. Requests under way are still answered,
    /// also the one that asked for this.
    fn stop(&self) -> Later<'_, bool>;
}

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its public key.
    pub id: B512,
    /// What it calls itself.
    pub name: String,
    /// The protocols it speaks, as name and version.
    pub capabilities: Vec<String>,
    /// This node's end of the connection.
    pub local_address: String,
    /// The peer's end.
    pub remote_address: String,
}

/// A network of an application chain that this node takes part in, or will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The application chain.
    pub address: Address,
    /// The first block at which the node is part of it.
    pub block_start: u64,
    /// The first block at which it no longer is; `u64::MAX` without an end.
    pub block_end: u64,
    /// The connected peers, in words.
    pub peers: String,
}

/// The peer-to-peer network.
pub trait NetworkControl: Send + Sync {
    /// How this node is reached.
    fn enode(&self) -> Enode;

    /// Where it listens; `None` where it does not.
    fn listen_address(&self) -> Option<String>;

    /// The connected peers.
    fn peers(&self) -> Vec<Peer>;

    /// Adds a node to the list of those that a connection is kept with.
    ///
    /// # Errors
    /// Why the list cannot be kept.
    fn add_peer(&self, node: &Enode) -> Result<(), String>;

    /// Takes a node from that list; `false` where it is not on it.
    ///
    /// # Errors
    /// Why the list cannot be kept.
    fn remove_peer(&self, node: &Enode) -> Result<bool, String>;

    /// Joins the network of an application chain at a block.
    ///
    /// # Errors
    /// Why that cannot be kept.
    fn add_subnet(&self, address: Address, block_start: u64) -> Result<(), String>;

    /// Leaves the network of an application chain at a block; `false` where the node is not part
    /// of it.
    ///
    /// # Errors
    /// Why that cannot be kept.
    fn remove_subnet(&self, address: Address, block_end: u64) -> Result<bool, String>;

    /// The networks of application chains that do not end at `head` or before.
    fn subnets(&self, head: u64) -> Vec<Subnet>;
}
