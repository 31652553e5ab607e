//! The light cache of an epoch, and what is computed from it: dataset items and hashes.
//!
//! Building is serial: every row depends on the row before it. Dataset items do not depend on each
//! other, so several are computed at once, which hides the latency of the rows that they read.
//!
//! Knows neither files nor threads, and does not decide which epoch is needed.
//!
//! | file | content |
//! |---|---|
//! | `cache.rs` | [`LightCache`]: the rows and their sizes |
//! | `build.rs` | how the rows are computed |
//! | `items.rs` | dataset items from the rows |
//! | `hash.rs` | hashes of nonces from the rows |

mod build;
mod cache;
mod hash;
mod items;
#[cfg(test)]
mod reference;

pub use build::CacheError;
pub(crate) use build::CacheSizes;
pub use cache::LightCache;
pub use hash::LIGHT_IN_FLIGHT;
