//! The Stratum dialects of Ethash mining: their messages, and the state of a session.
//!
//! Both sides are in this package, so that they fit each other: [`client::ClientSession`] is the
//! side of a miner, [`server::ServerSession`] that of a pool. Both take lines and return lines.
//! The package opens no socket, has no clock and computes no hash.
//!
//! | dialect | also known as | properties |
//! |---|---|---|
//! | [`Dialect::EthProxy`] | eth-proxy, `stratum1` | getWork over a socket; each job contains its boundary |
//! | [`Dialect::EthereumStratum1`] | EthereumStratum/1.0.0, NiceHash, `stratum2` | extranonce; difficulty as a number |
//! | [`Dialect::EthereumStratum2`] | EthereumStratum/2.0.0, EIP-1571, `stratum3` | extranonce; target; epoch as a number |
//!
//! A line is a JSON object of at most [`LINE_LEN_MAX`] bytes, followed by a line feed.
//!
//! Source of EthereumStratum/2.0.0: EIP-1571 (<https://eips.ethereum.org/EIPS/eip-1571>). Source of
//! EthereumStratum/1.0.0:
//! <https://github.com/nicehash/Specifications/blob/master/EthereumStratum_NiceHash_v1.0.0.txt>.

pub mod client;
mod dialect;
mod difficulty;
mod error;
mod extranonce;
mod line;
mod message;
pub mod server;
mod values;

pub use dialect::Dialect;
pub use difficulty::{DifficultyError, boundary_of_difficulty, difficulty_of_boundary};
pub use error::{ErrorReply, MessageError};
pub use extranonce::{Extranonce, ExtranonceError};
pub use line::{LINE_LEN_MAX, LineBuffer, LineTooLong};
