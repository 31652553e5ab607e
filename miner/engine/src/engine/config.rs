//! The settings of an engine.

use ethash::{LightCaches, Schedule};

use super::device_choice::DeviceChoice;
use crate::dataset::DatasetPolicy;
use crate::gpu::{GpuOptions, KernelPolicy};
use crate::search::Intensity;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The devices that search.
    pub device: DeviceChoice,
    /// Number of CPU threads that search or generate a dataset. With 0 threads nothing is searched,
    /// not even on a graphics adapter.
    pub threads: usize,
    /// The source of the full dataset of the CPU threads.
    pub dataset: DatasetPolicy,
    /// The light caches. They are shared with the code that checks seals.
    pub caches: LightCaches,
    /// Tells which epoch comes next.
    pub schedule: Schedule,
    /// Settings of the graphics adapters.
    pub gpu: GpuOptions,
    /// The way in which each graphics adapter gets its search kernel.
    pub kernels: KernelPolicy,
    /// The share of its time that every device searches.
    pub intensity: Intensity,
    /// The niceness of the CPU threads, from 0 (normal priority) to 19 (lowest priority). It has an
    /// effect on Linux only.
    pub niceness: u8,
    /// Whether progress bars are drawn on the terminal while a dataset is generated. Turn this off
    /// if the program draws on the terminal itself.
    pub bars: bool,
}

impl Default for EngineConfig {
    /// The best device, one thread for each CPU core, no full dataset.
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            dataset: DatasetPolicy::Never,
            caches: LightCaches::new(),
            schedule: Schedule::Ethash,
            gpu: GpuOptions::default(),
            kernels: KernelPolicy::default(),
            intensity: Intensity::FULL,
            niceness: 0,
            bars: true,
        }
    }
}
