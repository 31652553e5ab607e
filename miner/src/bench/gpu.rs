//! Measures a graphics adapter: dataset, search, and what its memory can deliver at best. All
//! figures come from one run on the same buffers.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ProgressReporter;
use engine::gpu::{AdapterInfo, GpuError, GpuSearcher, choose_kernel};
use ethash::LightCache;

use super::{BenchConfig, BenchFigures, DeviceKind};

/// The time for which a device searches before its hash rate is measured. Its batches grow
/// meanwhile.
const WARM_UP: Duration = Duration::from_secs(1);

/// Measures `adapter`. After a failure, the remaining figures are absent.
pub(super) fn measure(
    config: &BenchConfig,
    cache: &Arc<LightCache>,
    adapter: &AdapterInfo,
    note: &mut dyn FnMut(&BenchFigures),
) -> BenchFigures {
    let mut figures = BenchFigures {
        device: format!("gpu:{}", adapter.index),
        name: adapter.name.clone(),
        kind: DeviceKind::Gpu,
        light_cache_seconds: Some(cache.build_time().as_secs_f64()),
        ..BenchFigures::default()
    };
    note(&figures);
    if config.light_only {
        figures.error = Some("not measured: adapters search from the full dataset, which is left out".into());
        return figures;
    }
    if let Err(error) = fill(&mut figures, config, cache, adapter, note) {
        figures.error = Some(error.to_string());
    }
    figures
}

fn fill(
    figures: &mut BenchFigures,
    config: &BenchConfig,
    cache: &Arc<LightCache>,
    adapter: &AdapterInfo,
    note: &mut dyn FnMut(&BenchFigures),
) -> Result<(), GpuError> {
    let options = config.kernel.apply(config.gpu.clone());
    let mut searcher = GpuSearcher::new(adapter.index, options)?;
    let mut progress = ProgressReporter::new(format!(
        "generating the dataset of epoch {} on {}",
        config.epoch, adapter.name
    ));
    let start = Instant::now();
    let mut generated = start;
    let loaded = searcher.set_epoch(cache, &mut |at| {
        progress.report(at.items_done, at.items_total);
        generated = Instant::now();
        ControlFlow::Continue(())
    });
    progress.end();
    loaded?;
    figures.dataset_seconds = Some((generated - start).as_secs_f64());
    note(figures);

    if config.kernel.form.is_none() {
        choose_kernel(&mut searcher, None, &|| true)?;
    }
    let options = searcher.options();
    figures.kernel = Some(options.kernel.to_string());
    figures.workgroup_size = Some(options.workgroup_size);
    figures.hashrate = Some(searcher.measure_hashrate(WARM_UP, config.time)?);
    note(figures);

    let ceilings = searcher.measure_ceilings(config.ceiling_time())?;
    figures.copy_bytes_per_second = ceilings.copy_bytes_per_second;
    figures.random_read_bytes_per_second = ceilings.random_read_bytes_per_second;
    figures.cache_read_bytes_per_second = ceilings.cache_read_bytes_per_second;
    Ok(())
}
