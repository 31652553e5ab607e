//! A miner: it searches nonces on CPUs and graphics adapters.
//!
//! The [`Engine`] takes work through one channel and sends solutions through another. Every
//! solution was checked with the light cache. The engine knows proof of work and devices. It knows
//! no chain, no network and no node. Two programs start an engine: a node, in its own process, and
//! a [`rig`], whose [`client`] gets work from nodes and pools.
//!
//! | subject | module |
//! |---|---|
//! | threads, work, solutions | [`Engine`] |
//! | which devices search | [`DeviceChoice`] |
//! | current job, nonces, check of solutions | `search` |
//! | search on the CPU | `cpu` |
//! | search on graphics adapters | [`gpu`] |
//! | full dataset in memory and on disk, light caches | [`dataset`] |
//! | hash rates, counts, states | [`EngineStatus`], `telemetry` |
//! | nodes and pools | [`client`] |
//! | the standalone miner | [`rig`], shown by [`display`], [`status`] and [`dashboard`] |
//! | measurements, checks of single hashes | [`mod@bench`], [`verify`] |
//!
//! `error` and `threads` are below all of them; the engine is above `cpu`, `gpu`, `dataset` and
//! `search`.

pub mod bench;
pub mod client;
mod cpu;
pub mod dashboard;
pub mod dataset;
pub mod display;
mod engine;
mod error;
pub mod gpu;
pub mod monitor;
pub mod rig;
mod search;
mod sensors;
pub mod status;
mod stop;
mod telemetry;
mod threads;
pub mod verify;

pub use dataset::DatasetPolicy;
pub use engine::{DeviceChoice, DeviceParseError, Engine, EngineConfig, EpochRefusal};
pub use error::MinerError;
pub use gpu::KernelPolicy;
pub use search::{FoundSolution, Intensity, IntensityError, NonceSpace, SearchTask};
pub use sensors::{SensorReading, SlowdownCause};
pub use stop::StopSignal;
pub use telemetry::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus, SelfCheckCounts};
pub use threads::end_if_hung;
