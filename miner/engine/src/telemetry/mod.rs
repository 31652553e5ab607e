//! The state of the devices of an engine: hash rate, counts, state, progress of their datasets.
//!
//! Searchers write these figures, anyone may read them. The commands to a device are here, too,
//! because its state follows from them. Knows no device and no search.

mod control;
mod device;
mod hash_rate;
mod progress;

pub use control::RestCause;
pub(crate) use device::DeviceTelemetry;
pub use device::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus, SelfCheckCounts};
pub use progress::ProgressReporter;
