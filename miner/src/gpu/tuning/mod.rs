//! Chooses the search kernel for an adapter: its form, its workgroup size, and how long its batches are.
//!
//! Which one is fastest depends on card, driver and number of pages, so it is measured, for some seconds and on
//! the dataset that will be searched, and remembered. A form that hashes differently from the CPU is never
//! chosen. Knows no file; see [`TuningCache`].

mod cache;
mod policy;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::LightCache;

use crate::gpu::check::CheckSample;
use crate::gpu::error::GpuError;
use crate::gpu::kernel_form::{ChosenKernel, KernelForm};
use crate::gpu::searcher::GpuSearcher;

pub use cache::TuningCache;
pub use policy::KernelPolicy;

/// All measuring together takes less than this, unless one driver needs it to compile a kernel.
pub const CHOICE_TIME_MAX: Duration = Duration::from_millis(2500);
/// How long the rate of a kernel is measured.
const TRIAL: Duration = Duration::from_millis(200);
/// How long it runs before, while its batches grow.
const WARM_UP: Duration = Duration::from_millis(100);
/// The workgroup that forms are compared with.
const FIRST_WORKGROUP: u32 = 64;
/// Others that the fastest form is tried with.
const OTHER_WORKGROUPS: [u32; 3] = [128, 256, 32];
/// Parts of the longest batch that are tried. Shorter ones take new work sooner.
const SHORTER_BATCHES: [u32; 2] = [4, 2];
/// A shorter batch is chosen where it keeps this part of the rate.
const RATE_KEPT: f64 = 0.99;

/// Makes `searcher` use the kernel that suits its adapter: the one remembered in `memory`, or the fastest, which
/// is remembered then. The dataset must be on the device. Ends the search under way.
///
/// Once `wanted` says no, the best so far is taken, and not remembered.
///
/// # Errors
/// When no form works, or the device is gone.
pub fn choose_kernel(
    searcher: &mut GpuSearcher,
    memory: Option<&TuningCache>,
    wanted: &dyn Fn() -> bool,
) -> Result<ChosenKernel, GpuError> {
    let cache = Arc::clone(searcher.cache().ok_or(GpuError::NoDataset)?);
    let pages = searcher.dataset_pages();
    let remembered = memory.and_then(|memory| memory.recall(searcher.adapter(), pages));
    if let Some(chosen) = remembered {
        match apply(searcher, &cache, &chosen) {
            Ok(()) => return Ok(chosen),
            Err(error) if error.needs_rebuild() => return Err(error),
            Err(error) => tracing::warn!(
                adapter = %searcher.adapter().name,
                "the kernel remembered does not work, others are measured: {error}"
            ),
        }
    }
    let chosen = measure(searcher, &cache, wanted)?;
    if let Some(memory) = memory.filter(|_| wanted()) {
        memory.remember(searcher.adapter(), pages, &chosen);
    }
    Ok(chosen)
}

/// Uses `chosen`, once it has hashed as the CPU does. A longer batch than the one asked for is not made.
fn apply(searcher: &mut GpuSearcher, cache: &LightCache, chosen: &ChosenKernel) -> Result<(), GpuError> {
    searcher.set_kernel(chosen.form, chosen.workgroup_size)?;
    if let Some(batch) = chosen.target_batch {
        searcher.set_target_batch(batch.min(searcher.options().target_batch));
    }
    searcher.check_hashes(&CheckSample::new(cache, chosen.workgroup_size))
}

/// One attempt after the other, within the time.
struct KernelTrials<'a> {
    searcher: &'a mut GpuSearcher,
    /// What every form must hash right first: enough for a whole workgroup of any.
    sample: CheckSample,
    wanted: &'a dyn Fn() -> bool,
    deadline: Instant,
    /// What the longest trial so far took.
    longest: Duration,
    best: Option<ChosenKernel>,
    last_error: Option<GpuError>,
}

fn measure(
    searcher: &mut GpuSearcher,
    cache: &LightCache,
    wanted: &dyn Fn() -> bool,
) -> Result<ChosenKernel, GpuError> {
    let asked = searcher.options().target_batch;
    let batches_count = searcher.options().in_flight > 1;
    let with_subgroups = KernelForm::Shuffle.runs_on(searcher.adapter());
    let deadline = Instant::now() + CHOICE_TIME_MAX;
    let largest = OTHER_WORKGROUPS.into_iter().fold(FIRST_WORKGROUP, u32::max);
    let mut trials = KernelTrials {
        searcher,
        sample: CheckSample::new(cache, largest),
        wanted,
        deadline,
        longest: Duration::ZERO,
        best: None,
        last_error: None,
    };
    trials.kernel(KernelForm::Lane, FIRST_WORKGROUP)?;
    // Through memory only where registers cannot be reached: it is the same with more steps.
    let together = if with_subgroups {
        KernelForm::Shuffle
    } else {
        KernelForm::Group
    };
    trials.kernel(together, FIRST_WORKGROUP)?;
    // More reads at once can only help where reading together does.
    if trials.best.is_some_and(|best| best.form == KernelForm::Shuffle) {
        trials.kernel(KernelForm::Shuffle8, FIRST_WORKGROUP)?;
    }
    if let Some(best) = trials.best {
        for workgroup_size in OTHER_WORKGROUPS {
            trials.kernel(best.form, workgroup_size)?;
        }
    }
    let Some(mut best) = trials.best else {
        return Err(trials.last_error.unwrap_or(GpuError::NoDataset));
    };
    trials.searcher.set_kernel(best.form, best.workgroup_size)?;
    if batches_count {
        best.target_batch = Some(trials.batch(asked, best.hashrate.unwrap_or(0.0))?);
    }
    if let Some(batch) = best.target_batch {
        trials.searcher.set_target_batch(batch);
    }
    Ok(best)
}

impl KernelTrials<'_> {
    /// Whether there is time for a trial that takes `expected`. The first one always has it: something must be
    /// chosen.
    fn has_time(&self, expected: Duration) -> bool {
        self.best.is_none() || ((self.wanted)() && Instant::now() + expected < self.deadline)
    }

    /// Checks and measures a kernel. One that does not work is left out; a device that is gone is an error.
    fn kernel(&mut self, form: KernelForm, workgroup_size: u32) -> Result<(), GpuError> {
        // How long a driver compiles another form is not known, and which form it is matters most.
        let expected = match self.best {
            Some(best) if best.form == form => self.longest,
            _ => WARM_UP + TRIAL,
        };
        if !self.has_time(expected) {
            return Ok(());
        }
        let start = Instant::now();
        let rate = self
            .searcher
            .set_kernel(form, workgroup_size)
            .and_then(|()| self.searcher.check_hashes(&self.sample))
            .and_then(|()| rate(self.searcher));
        self.longest = self.longest.max(start.elapsed());
        match rate {
            Ok(rate) => {
                tracing::debug!(form = form.name(), workgroup_size, rate, "kernel measured");
                if self.best.is_none_or(|best| best.hashrate < Some(rate)) {
                    self.best = Some(ChosenKernel {
                        form,
                        workgroup_size,
                        target_batch: None,
                        hashrate: Some(rate),
                    });
                }
                Ok(())
            }
            Err(error) if error.needs_rebuild() => Err(error),
            Err(error) => {
                // A workgroup beyond the adapter's limit is no fault of anybody.
                if matches!(error, GpuError::AdapterTooSmall { .. }) {
                    tracing::debug!(form = form.name(), workgroup_size, "kernel left out: {error}");
                } else {
                    let adapter = &self.searcher.adapter().name;
                    tracing::warn!(%adapter, form = form.name(), workgroup_size, "kernel left out: {error}");
                }
                self.last_error = Some(error);
                Ok(())
            }
        }
    }

    /// The shortest batch that keeps `best_rate`, at most `asked`.
    fn batch(&mut self, asked: Duration, best_rate: f64) -> Result<Duration, GpuError> {
        for part in SHORTER_BATCHES {
            if !self.has_time(WARM_UP + TRIAL) {
                break;
            }
            self.searcher.set_target_batch(asked / part);
            let rate = rate(self.searcher)?;
            tracing::debug!(batch = ?asked / part, rate, "batch measured");
            if rate >= best_rate * RATE_KEPT {
                return Ok(asked / part);
            }
        }
        Ok(asked)
    }
}

/// Hashes per second of the kernel that `searcher` has.
fn rate(searcher: &mut GpuSearcher) -> Result<f64, GpuError> {
    let rate = searcher.hashrate(WARM_UP, TRIAL)?;
    searcher.stop()?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuOptions;
    use crate::gpu::fixture::searcher;

    #[test]
    fn the_choice_works_and_is_remembered() {
        let Some((mut searcher, _)) = searcher(&GpuOptions::default()) else {
            return;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = TuningCache::in_folder(folder.path());
        let chosen = choose_kernel(&mut searcher, Some(&memory), &|| true).expect("some form works");
        assert!(chosen.hashrate.is_some_and(|rate| rate > 0.0), "{chosen:?}");
        assert!(
            chosen.target_batch <= Some(GpuOptions::default().target_batch),
            "{chosen:?}"
        );
        assert_eq!(searcher.options().kernel, chosen.form);
        assert_eq!(searcher.options().workgroup_size, chosen.workgroup_size);
        let again = choose_kernel(&mut searcher, Some(&memory), &|| true).expect("it works again");
        let remembered = ChosenKernel {
            hashrate: None,
            ..chosen
        };
        assert_eq!(again, remembered, "nothing is measured twice");
    }

    #[test]
    fn a_kernel_that_hashes_wrongly_is_never_chosen() {
        let Some((mut searcher, _)) = searcher(&GpuOptions::default()) else {
            return;
        };
        // The light cache of another seed: whatever the device hashes is wrong for it.
        let other = LightCache::with_sizes(ethash::seed_hash(1), 1024, 32_768).expect("the test sizes");
        for form in KernelForm::ALL {
            if !form.runs_on(searcher.adapter()) {
                continue;
            }
            let chosen = ChosenKernel {
                form,
                workgroup_size: 64,
                target_batch: None,
                hashrate: None,
            };
            let own = Arc::clone(searcher.cache().expect("there is a dataset"));
            assert_eq!(apply(&mut searcher, &own, &chosen), Ok(()), "{form:?}");
            let wrong = apply(&mut searcher, &other, &chosen);
            assert!(
                matches!(wrong, Err(GpuError::WrongMix { .. })),
                "{form:?}: {wrong:?}"
            );
        }
        let none = measure(&mut searcher, &other, &|| true);
        assert!(matches!(none, Err(GpuError::WrongMix { .. })), "{none:?}");
    }
}
