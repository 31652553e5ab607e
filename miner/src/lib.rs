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
//! | the standalone miner | [`rig`], observed by [`monitor`], shown by [`display`] and [`status`] |
//! | measuring, checking | [`mod@bench`], [`verify`] |

pub mod bench;
pub mod client;
mod cpu;
mod crew;
pub mod dataset;
mod desk;
mod device;
pub mod display;
mod engine;
mod gauge;
pub mod gpu;
mod gpu_worker;
mod intensity;
mod keeper;
mod light;
pub mod monitor;
mod progress;
mod rate;
pub mod rig;
mod room;
mod sensors;
mod shared;
pub mod status;
mod stop;
mod task;
mod threads;
pub mod verify;

pub use device::{DeviceChoice, DeviceParseError};
pub use engine::{DatasetPolicy, Engine, EngineConfig, KernelPolicy, MinerError};
pub use gauge::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus};
pub use intensity::{Intensity, IntensityError};
pub use sensors::SensorReading;
pub use stop::StopSignal;
pub use task::{Found, NonceSpace, Task};
pub use threads::end_if_hung;
