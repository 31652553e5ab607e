//! The state of the devices of an engine: hash rate, counts, state, progress of their datasets.
//!
//! Searchers write these figures, anyone may read them. Knows no device and no search.

mod device;
mod hash_rate;
mod progress;

pub(crate) use device::DeviceTelemetry;
pub use device::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus, SelfCheckCounts};
pub use progress::ProgressReporter;
