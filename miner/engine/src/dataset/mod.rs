//! The full dataset of the CPU and the light caches: where they come from, and when they are made.
//!
//! | subject | module |
//! |---|---|
//! | one dataset: generated in memory, or read from a file | `full_dataset` |
//! | locks of dataset files, and what the system keeps of them | `file` |
//! | which dataset is made now, and which in advance | `manager` |
//! | light caches, made in the background | `light_cache` |
//! | free memory of this machine | `free_memory` |
//!
//! The datasets of graphics adapters are in [`gpu`](crate::gpu).

mod error;
mod file;
mod file_format;
mod free_memory;
mod full_dataset;
mod light_cache;
mod manager;
mod policy;

pub use error::DatasetError;
pub use file_format::file_name;
pub(crate) use free_memory::{FreeMemory, MemoryShortage};
pub use full_dataset::Dataset;
pub(crate) use light_cache::LightCacheBuilder;
pub(crate) use manager::DatasetManager;
pub use policy::DatasetPolicy;
