//! Nonce search: takes work packages through a channel, returns solutions through another.
//!
//! Knows proof of work and devices; knows no chain, no network and no node. Whoever has work starts an
//! [`Engine`], sends it [`ethash::WorkPackage`]s and receives [`ethash::Solution`]s, every one of them
//! checked with the light cache.
//!
//! | subject | module |
//! |---|---|
//! | threads, work, solutions | [`Engine`] |
//! | which device searches | [`DeviceChoice`] |
//! | full dataset in memory and on disk | [`dataset`] |
//! | graphics adapters | [`gpu`] |
//! | measuring | [`mod@bench`] |

pub mod bench;
mod cpu;
pub mod dataset;
mod desk;
mod device;
mod engine;
pub mod gpu;
mod gpu_worker;
mod keeper;
mod progress;
mod rate;
mod shared;

pub use device::{DeviceChoice, DeviceParseError};
pub use engine::{DatasetPolicy, Engine, EngineConfig, MinerError};
pub use shared::EngineStatus;
