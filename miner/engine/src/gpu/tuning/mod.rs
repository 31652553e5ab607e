//! Chooses the search kernel for an adapter: its form, its workgroup size, and the length of its
//! batches.
//!
//! The fastest kernel depends on the card, the driver and the number of pages. So it is measured
//! for a few seconds on the dataset that will be searched, and stored in a [`TuningCache`]. A
//! kernel that hashes differently from the CPU is never chosen.

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

/// All measurements together take less than this, unless the driver needs the time to compile one
/// kernel.
const CHOICE_TIME_MAX: Duration = Duration::from_secs(2);
/// The time for which the hash rate of a kernel is measured.
const TRIAL: Duration = Duration::from_millis(120);
/// The time for which a kernel runs before the measurement, while its batches grow.
const WARM_UP: Duration = Duration::from_millis(80);
/// The workgroup size with which the forms are compared.
const FIRST_WORKGROUP: u32 = 64;
/// The forms that are tried on adapters with subgroups. Of those that read items together, the
/// likely best one comes first.
const FORMS_WITH_SUBGROUPS: &[KernelForm] = &[KernelForm::Lane, KernelForm::Shuffle, KernelForm::Shuffle2];
/// The forms that are tried on adapters without subgroups. With subgroups [`KernelForm::Group`] is
/// not tried, because the exchange through workgroup memory takes more steps.
const FORMS_WITHOUT_SUBGROUPS: &[KernelForm] = &[KernelForm::Lane, KernelForm::Group];
/// Other workgroup sizes, which are tried with the fastest form.
const OTHER_WORKGROUPS: [u32; 3] = [128, 256, 32];
/// Divisors of the longest batch that are tried. With shorter batches new work begins sooner.
const SHORTER_BATCHES: [u32; 2] = [4, 2];
/// A kernel replaces one that was tried before it only if it is faster by this factor. Trials are
/// short, so a smaller difference may be chance.
const RATE_GAINED: f64 = 1.01;
/// A shorter batch is chosen if it keeps this part of the hash rate.
const RATE_KEPT: f64 = 0.99;

/// Makes `searcher` use the best kernel for its adapter: the one in `stored`, or else the fastest
/// one, which is then stored. The dataset must be on the device. Ends the search under way.
///
/// If `is_needed` returns false, the best kernel so far is used and not stored.
///
/// # Errors
/// If no form works, and when the device is lost.
pub fn choose_kernel(
    searcher: &mut GpuSearcher,
    stored: Option<&TuningCache>,
    is_needed: &dyn Fn() -> bool,
) -> Result<ChosenKernel, GpuError> {
    let cache = Arc::clone(searcher.cache().ok_or(GpuError::NoDataset)?);
    let pages = searcher.dataset_pages();
    let remembered = stored.and_then(|stored| stored.load(searcher.adapter(), pages));
    if let Some(chosen) = remembered {
        match apply(searcher, &cache, &chosen) {
            Ok(()) => return Ok(chosen),
            Err(error) if error.needs_rebuild() => return Err(error),
            Err(error) => tracing::warn!(
                adapter = %searcher.adapter().name,
                "the stored kernel does not work, others are measured: {error}"
            ),
        }
    }
    let chosen = measure(searcher, &cache, is_needed)?;
    if let Some(stored) = stored.filter(|_| is_needed()) {
        stored.store(searcher.adapter(), pages, &chosen);
    }
    Ok(chosen)
}

/// Uses `chosen` after a check of its hashes. Batches do not become longer than the current options
/// say.
fn apply(searcher: &mut GpuSearcher, cache: &LightCache, chosen: &ChosenKernel) -> Result<(), GpuError> {
    searcher.set_kernel(chosen.kernel, chosen.workgroup_size)?;
    if let Some(batch) = chosen.target_batch {
        searcher.set_target_batch(batch.min(searcher.options().target_batch));
    }
    searcher.check_hashes(&CheckSample::new(cache, chosen.workgroup_size))
}

/// A series of measurements within a time limit.
struct KernelTrials<'a> {
    searcher: &'a mut GpuSearcher,
    /// The hashes that every kernel must compute. There are enough for a whole workgroup of any
    /// size.
    sample: CheckSample,
    is_needed: &'a dyn Fn() -> bool,
    deadline: Instant,
    /// The time of the longest trial so far.
    longest: Duration,
    best: Option<ChosenKernel>,
    last_error: Option<GpuError>,
}

/// Finds the fastest kernel: first the form, then the workgroup size, then the length of the
/// batches.
fn measure(
    searcher: &mut GpuSearcher,
    cache: &LightCache,
    is_needed: &dyn Fn() -> bool,
) -> Result<ChosenKernel, GpuError> {
    let longest_batch = searcher.options().target_batch;
    let has_several_batches = searcher.options().in_flight > 1;
    let forms = if KernelForm::Shuffle.runs_on(searcher.adapter()) {
        FORMS_WITH_SUBGROUPS
    } else {
        FORMS_WITHOUT_SUBGROUPS
    };
    let deadline = Instant::now() + CHOICE_TIME_MAX;
    let largest = OTHER_WORKGROUPS.into_iter().fold(FIRST_WORKGROUP, u32::max);
    let mut trials = KernelTrials {
        searcher,
        sample: CheckSample::new(cache, largest),
        is_needed,
        deadline,
        longest: Duration::ZERO,
        best: None,
        last_error: None,
    };
    for form in forms {
        trials.try_kernel(*form, FIRST_WORKGROUP)?;
    }
    if let Some(best) = trials.best {
        for workgroup_size in OTHER_WORKGROUPS {
            trials.try_kernel(best.kernel, workgroup_size)?;
        }
    }
    let Some(mut best) = trials.best else {
        return Err(trials.last_error.unwrap_or(GpuError::NoDataset));
    };
    trials.searcher.set_kernel(best.kernel, best.workgroup_size)?;
    if has_several_batches {
        best.target_batch = Some(trials.shortest_batch(longest_batch, best.hashrate.unwrap_or(0.0))?);
    }
    if let Some(batch) = best.target_batch {
        trials.searcher.set_target_batch(batch);
    }
    Ok(best)
}

impl KernelTrials<'_> {
    /// Whether there is time for a trial that takes `expected`. The first trial is always made,
    /// because one kernel must be chosen.
    fn has_time(&self, expected: Duration) -> bool {
        self.best.is_none() || ((self.is_needed)() && Instant::now() + expected < self.deadline)
    }

    /// Checks and measures a kernel. A kernel that does not work is skipped.
    ///
    /// # Errors
    /// If the device is lost.
    fn try_kernel(&mut self, kernel: KernelForm, workgroup_size: u32) -> Result<(), GpuError> {
        // The time that the driver needs to compile another form is unknown. The choice of the form
        // has the greatest effect, so it gets the benefit of the doubt.
        let expected = match self.best {
            Some(best) if best.kernel == kernel => self.longest,
            _ => WARM_UP + TRIAL,
        };
        if !self.has_time(expected) {
            return Ok(());
        }
        let start = Instant::now();
        let rate = self
            .searcher
            .set_kernel(kernel, workgroup_size)
            .and_then(|()| self.searcher.check_hashes(&self.sample))
            .and_then(|()| rate(self.searcher));
        self.longest = self.longest.max(start.elapsed());
        match rate {
            Ok(rate) => {
                tracing::debug!(%kernel, workgroup_size, rate, "kernel measured");
                if is_faster(rate, self.best.and_then(|best| best.hashrate)) {
                    self.best = Some(ChosenKernel {
                        kernel,
                        workgroup_size,
                        target_batch: None,
                        hashrate: Some(rate),
                    });
                }
                Ok(())
            }
            Err(error) if error.needs_rebuild() => Err(error),
            Err(error) => {
                // A workgroup above the limit of the adapter is normal.
                if matches!(error, GpuError::AdapterTooSmall { .. }) {
                    tracing::debug!(%kernel, workgroup_size, "kernel skipped: {error}");
                } else {
                    let adapter = &self.searcher.adapter().name;
                    tracing::warn!(%adapter, %kernel, workgroup_size, "kernel skipped: {error}");
                }
                self.last_error = Some(error);
                Ok(())
            }
        }
    }

    /// Returns the shortest batch time that keeps `best_rate`. It is at most `longest_batch`.
    fn shortest_batch(&mut self, longest_batch: Duration, best_rate: f64) -> Result<Duration, GpuError> {
        for divisor in SHORTER_BATCHES {
            if !self.has_time(WARM_UP + TRIAL) {
                break;
            }
            self.searcher.set_target_batch(longest_batch / divisor);
            let rate = rate(self.searcher)?;
            tracing::debug!(batch = ?longest_batch / divisor, rate, "batch measured");
            if rate >= best_rate * RATE_KEPT {
                return Ok(longest_batch / divisor);
            }
        }
        Ok(longest_batch)
    }
}

/// Whether a kernel of this rate replaces the best one so far.
fn is_faster(rate: f64, best: Option<f64>) -> bool {
    best.is_none_or(|best| rate > best * RATE_GAINED)
}

/// Measures the hash rate of the current kernel of `searcher`.
fn rate(searcher: &mut GpuSearcher) -> Result<f64, GpuError> {
    let rate = searcher.measure_hashrate(WARM_UP, TRIAL)?;
    searcher.stop()?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuOptions;
    use crate::gpu::fixture::searcher;

    #[test]
    fn the_choice_works_and_is_stored() {
        let Some((mut searcher, _)) = searcher(&GpuOptions::default()) else {
            return;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stored = TuningCache::in_folder(folder.path());
        let chosen = choose_kernel(&mut searcher, Some(&stored), &|| true).expect("some form works");
        assert!(chosen.hashrate.is_some_and(|rate| rate > 0.0), "{chosen:?}");
        assert!(
            chosen.target_batch <= Some(GpuOptions::default().target_batch),
            "{chosen:?}"
        );
        assert_eq!(searcher.options().kernel, chosen.kernel);
        assert_eq!(searcher.options().workgroup_size, chosen.workgroup_size);
        let again = choose_kernel(&mut searcher, Some(&stored), &|| true).expect("it works again");
        let remembered = ChosenKernel {
            hashrate: None,
            ..chosen
        };
        assert_eq!(again, remembered, "nothing is measured twice");
    }

    #[test]
    fn a_kernel_replaces_another_only_if_it_is_clearly_faster() {
        assert!(is_faster(1.0, None));
        assert!(is_faster(366.0, Some(359.0)));
        assert!(!is_faster(366.0, Some(365.0)));
        assert!(!is_faster(359.0, Some(366.0)));
    }

    #[test]
    fn a_kernel_that_hashes_wrongly_is_never_chosen() {
        let Some((mut searcher, _)) = searcher(&GpuOptions::default()) else {
            return;
        };
        // The light cache has another seed, so every hash of the device is wrong for it.
        let other = LightCache::with_sizes(ethash::seed_hash(1), 1024, 32_768).expect("the test sizes");
        for kernel in KernelForm::ALL {
            if !kernel.runs_on(searcher.adapter()) {
                continue;
            }
            let chosen = ChosenKernel {
                kernel,
                workgroup_size: 64,
                target_batch: None,
                hashrate: None,
            };
            let own = Arc::clone(searcher.cache().expect("there is a dataset"));
            assert_eq!(apply(&mut searcher, &own, &chosen), Ok(()), "{kernel}");
            let wrong = apply(&mut searcher, &other, &chosen);
            assert!(
                matches!(wrong, Err(GpuError::WrongMix { .. })),
                "{kernel}: {wrong:?}"
            );
        }
        let failed = measure(&mut searcher, &other, &|| true);
        assert!(matches!(failed, Err(GpuError::WrongMix { .. })), "{failed:?}");
    }
}
