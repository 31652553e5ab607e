//! Searches nonces on CPUs and graphics adapters, and shows the devices that do so.
//!
//! The [`Engine`] takes work through one channel and sends solutions through another. Every
//! solution was checked with the light cache. The engine knows proof of work and devices. It knows
//! no chain, no node and no pool. Two programs start an engine: a node, in its own process, and the
//! program `miner`.
//!
//! | subject | module |
//! |---|---|
//! | threads, work, solutions | [`Engine`] |
//! | which devices search | [`DeviceChoice`] |
//! | current job, nonces, check of solutions | `search` |
//! | search on the CPU | `cpu` |
//! | search on graphics adapters | [`gpu`] |
//! | seals of many headers on a graphics adapter | [`SealCard`] |
//! | full dataset in memory and on disk, light caches | [`dataset`] |
//! | hash rates, counts, states | [`EngineStatus`], `telemetry` |
//! | answers to solutions | [`ClientStats`] |
//! | temperature, power and fan of devices | [`sensors`] |
//! | a report of all of them, and the page that shows it | [`monitor`], [`dashboard`] |
//!
//! `error` and `threads` are below all of them; the engine is above `cpu`, `gpu`, `dataset` and
//! `search`. `seals` needs `gpu` only.

mod client_stats;
mod cpu;
pub mod dashboard;
pub mod dataset;
mod engine;
mod error;
pub mod gpu;
pub mod monitor;
pub mod rates;
mod seals;
mod search;
pub mod sensors;
mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod threads;
pub mod units;

pub use client_stats::{ClientStats, ClientStatus, EndpointStatus, JobStatus, ShareCounts, difficulty};
pub use dataset::DatasetPolicy;
pub use engine::{
    DeviceChoice, DeviceParseError, DeviceSelection, Engine, EngineConfig, EpochRefusal, check_bench_memory,
};
pub use error::MinerError;
pub use gpu::KernelPolicy;
pub use seals::{SealCard, SealCounts, SealDevice, SealDeviceParseError};
pub use search::{FoundSolution, Intensity, IntensityError, NonceSpace, SearchTask};
pub use telemetry::{
    DatasetProgress, DeviceState, DeviceStatus, EngineStatus, ProgressReporter, RestCause, SelfCheckCounts,
};
pub use threads::end_if_hung;
