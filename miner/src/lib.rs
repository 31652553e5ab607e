//! Nonce search, and everything around it that makes a miner.
//!
//! The [`Engine`] takes work through a channel and gives solutions through another, every one of them checked
//! with the light cache. It knows proof of work and devices; it knows no chain, no network and no node. Whoever
//! has work starts one: a node in its own process, or a [`rig`], whose [`client`] brings work from elsewhere.
//!
//! | subject | module |
//! |---|---|
//! | threads, work, solutions | [`Engine`] |
//! | which devices search | [`DeviceChoice`] |
//! | full dataset in memory and on disk | [`dataset`] |
//! | graphics adapters | [`gpu`] |
//! | nodes and pools | [`client`] |
//! | the standalone miner | [`rig`], shown by [`display`] and [`status`] |
//! | measuring, checking | [`mod@bench`], [`verify`] |

pub mod bench;
pub mod client;
mod cpu;
pub mod dataset;
pub mod display;
mod engine;
mod error;
pub mod gpu;
pub mod rig;
mod search;
mod sensors;
pub mod status;
mod stop;
mod telemetry;
mod threads;
pub mod verify;

pub use dataset::DatasetPolicy;
pub use engine::{DeviceChoice, DeviceParseError, Engine, EngineConfig};
pub use error::MinerError;
pub use gpu::KernelPolicy;
pub use search::{FoundSolution, Intensity, IntensityError, NonceSpace, SearchTask};
pub use sensors::Reading;
pub use stop::StopSignal;
pub use telemetry::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus};
pub use threads::end_if_hung;
