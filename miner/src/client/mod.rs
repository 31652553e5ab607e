//! The client side of mining: gets work from nodes (getWork) and pools (Stratum), and sends
//! solutions back.
//!
//! Several endpoints can be given, in order of preference. The client passes tasks to an engine and
//! takes its solutions. It knows neither devices nor chains.
//!
//! | subject | file |
//! |---|---|
//! | addresses of nodes and pools | `endpoint.rs` |
//! | which endpoint is used, and when a failed one is tried again | `failover.rs` |
//! | one connection that gives work, of either kind | `work_source.rs` |
//! | polling a node | `getwork/`, over `http.rs` |
//! | a connection to a pool | `pool.rs`; the messages are in the package `stratum` |
//! | odd messages, and how many of them are too many | `skipped.rs` |
//! | the clock of the time limits | `clock.rs` |
//! | which epochs an endpoint may name | `epochs.rs` |
//! | where a pool may send its miners | `site.rs` |
//! | TCP, with TLS or without | `net.rs` |

mod clock;
mod config;
mod context;
mod endpoint;
mod engine_link;
mod epochs;
mod error;
mod failover;
mod getwork;
mod http;
mod net;
mod pool;
mod site;
mod skipped;
mod work_source;

pub use config::ClientConfig;
pub use endpoint::{MiningEndpoint, MiningEndpointError, MiningProtocol};
pub(crate) use engine_link::EngineLink;
pub(crate) use failover::{ClientEnd, run};

/// A client without an engine, for the tests of this package.
pub mod testing {
    pub use super::clock::ClientClock;
    pub use super::engine_link::EngineLink;
    pub use super::epochs::EpochCheck;
    pub use super::error::ClientError;
    pub use super::failover::{ClientEnd, run};
}
