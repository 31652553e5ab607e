//! Fixtures for tests on a device: an adapter, and a searcher with a small dataset.

use std::ops::ControlFlow;
use std::sync::Arc;

use ethash::LightCache;

use super::adapter::{AdapterInfo, list_adapters};
use super::options::GpuOptions;
use super::searcher::GpuSearcher;

/// Returns the first adapter. If there is none, prints that the test is skipped.
///
/// # Panics
/// If there is no adapter and the environment variable `REQUIRE_GPU` is set.
pub(crate) fn first_adapter() -> Option<AdapterInfo> {
    let adapter = list_adapters().into_iter().next();
    if adapter.is_none() {
        assert!(
            std::env::var_os("REQUIRE_GPU").is_none(),
            "REQUIRE_GPU is set and there is no adapter"
        );
        eprintln!("skipped: no graphics adapter");
    }
    adapter
}

/// Returns a searcher on `adapter` with the dataset of `cache`.
pub(crate) fn loaded(adapter: &AdapterInfo, options: &GpuOptions, cache: &Arc<LightCache>) -> GpuSearcher {
    let mut searcher = GpuSearcher::find(adapter, options.clone()).expect("the adapter opens");
    searcher
        .set_epoch(cache, &mut |_| ControlFlow::Continue(()))
        .expect("the test dataset");
    searcher
}

/// Returns a searcher with a dataset of 256 items, and its light cache. Returns `None` if there is
/// no adapter.
pub(super) fn searcher(options: &GpuOptions) -> Option<(GpuSearcher, Arc<LightCache>)> {
    let adapter = first_adapter()?;
    let cache = LightCache::with_sizes(ethash::seed_hash(0), 1024, 32_768).expect("the test sizes");
    let cache = Arc::new(cache);
    Some((loaded(&adapter, options, &cache), cache))
}
