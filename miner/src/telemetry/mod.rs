//! What the devices of an engine are doing: hash rate, counts, state, progress of their datasets.
//!
//! Searchers write these figures, anyone may read them. Knows no device and no search.

mod device;
mod hash_rate;
mod progress;

pub(crate) use device::DeviceTelemetry;
pub use device::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus, SelfCheckCounts};
pub(crate) use progress::ProgressReporter;
