//! The Stratum dialects of Ethash mining: what goes over the wire, and what a session remembers.
//!
//! Both sides are here, so that they cannot drift: [`client::Session`] is a miner's,
//! [`server::Session`] a pool's. Each takes lines and gives lines; this package opens no socket,
//! keeps no clock and hashes nothing.
//!
//! | dialect | also known as | says |
//! |---|---|---|
//! | [`Dialect::EthProxy`] | eth-proxy, `stratum1` | getWork over a socket: the boundary stands in each job |
//! | [`Dialect::EthereumStratum1`] | EthereumStratum/1.0.0, NiceHash, `stratum2` | extranonce, difficulty as a number |
//! | [`Dialect::EthereumStratum2`] | EthereumStratum/2.0.0, EIP-1571, `stratum3` | extranonce, target, epoch as a number |
//!
//! A line is a JSON object of at most [`LINE_LEN_MAX`] bytes, ended by a line feed.

pub mod client;
mod difficulty;
mod extranonce;
mod line;
mod message;
pub mod server;
mod values;

pub use difficulty::{DifficultyError, boundary_of_difficulty, difficulty_of_boundary};
pub use extranonce::{Extranonce, ExtranonceError};
pub use line::{LINE_LEN_MAX, LineBuffer, LineError};
pub use message::{ErrorReply, MessageError};

use core::fmt;

/// How a miner and a pool speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// eth-proxy: `eth_submitLogin`, `eth_getWork`, `eth_submitWork`, jobs pushed as answers nobody
    /// asked for.
    EthProxy,
    /// EthereumStratum/1.0.0.
    EthereumStratum1,
    /// EthereumStratum/2.0.0.
    EthereumStratum2,
}

impl Dialect {
    /// All of them, in the order in which a miner that does not know tries them: the most telling
    /// first.
    pub const ALL: [Self; 3] = [Self::EthereumStratum2, Self::EthereumStratum1, Self::EthProxy];

    /// Its name, as on the wire where it has one there.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EthProxy => "eth-proxy",
            Self::EthereumStratum1 => "EthereumStratum/1.0.0",
            Self::EthereumStratum2 => "EthereumStratum/2.0.0",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
