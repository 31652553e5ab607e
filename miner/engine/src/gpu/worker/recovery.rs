//! Decides what happens after a failure of a device: open it again, wait for work that it can do,
//! or give it up.
//!
//! Classifies and counts errors. The worker carries out the decision. Knows no device.

use std::time::{Duration, Instant};

use crate::gpu::GpuError;

/// The wait before a lost device is opened again for the first time. It doubles with each failure.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
/// The longest such wait.
const LAST_BACK_OFF: Duration = Duration::from_secs(30);
/// A device is given up after more than this number of failures in a row. A device that is absent
/// counts as out of use after more than this number of attempts to open it.
const FAILURES_MAX: u32 = 6;
/// Wrong results within this time after others show that the device is faulty. The first ones may
/// come from a single bit that flipped.
const WRONG_DATA_AGAIN: Duration = Duration::from_secs(24 * 3600);
/// After this time a refused dataset is tried again in the same epoch, because memory may be free
/// now.
pub(super) const REFUSED_AGAIN: Duration = Duration::from_secs(300);

/// The next step of a worker after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryAction {
    /// Open the device again after this time.
    Reopen(Duration),
    /// Wait for work of another epoch. The device works, but the dataset of this epoch is too large
    /// for it.
    WaitForOtherEpoch,
    /// Give the device up.
    GiveUp,
}

/// The failures of a device so far.
#[derive(Debug, Default)]
pub(super) struct FailureRecord {
    /// Number of failures since the last batch.
    failures: u32,
    /// Number of attempts since the last batch in which the device could not be opened.
    absences: u32,
    /// The time at which the device last gave wrong results.
    wrong_data: Option<Instant>,
    /// Whether the device was ever opened.
    opened: bool,
    /// Whether the engine was told that the device is out of use.
    pub(super) is_out_of_use: bool,
}

impl FailureRecord {
    /// Records that the device was opened.
    pub(super) const fn record_opening(&mut self) {
        self.opened = true;
    }

    /// Forgets all failures, because somebody wants the device to begin anew.
    pub(super) fn forget(&mut self) {
        *self = Self {
            opened: self.opened,
            is_out_of_use: self.is_out_of_use,
            ..Self::default()
        };
    }

    /// Records that the device has finished a batch. Returns true if it was out of use until now.
    pub(super) fn record_batch(&mut self) -> bool {
        self.failures = 0;
        self.absences = 0;
        std::mem::take(&mut self.is_out_of_use)
    }

    /// Whether the device was absent so often that it counts as out of use.
    pub(super) const fn is_long_absent(&self) -> bool {
        self.absences > FAILURES_MAX
    }

    /// Records `error` and decides what to do. `loading` tells that the error came while a dataset
    /// was loaded to an open device. `now` is the time of the error.
    pub(super) fn action_after(&mut self, error: &GpuError, loading: bool, now: Instant) -> RecoveryAction {
        if error.is_wrong_data() {
            let last = self.wrong_data.replace(now);
            let again = last.is_some_and(|last| now.duration_since(last) < WRONG_DATA_AGAIN);
            return if again {
                RecoveryAction::GiveUp
            } else {
                RecoveryAction::Reopen(FIRST_BACK_OFF)
            };
        }
        let too_large = matches!(
            error,
            GpuError::AdapterTooSmall { .. } | GpuError::AllocationRefused { .. }
        );
        if loading && too_large {
            return RecoveryAction::WaitForOtherEpoch;
        }
        // While a driver resets its device, it reports for some time that there is none. Before the
        // device was opened for the first time, the same error means that it never existed.
        let absent = matches!(
            error,
            GpuError::AdapterAbsent { .. } | GpuError::DeviceRefused { .. }
        );
        if self.opened && absent {
            self.absences = self.absences.saturating_add(1);
            return RecoveryAction::Reopen(back_off(self.absences));
        }
        self.failures = self.failures.saturating_add(1);
        let may_pass = error.needs_rebuild() || matches!(error, GpuError::AllocationRefused { .. });
        if may_pass && self.failures <= FAILURES_MAX {
            RecoveryAction::Reopen(back_off(self.failures))
        } else {
            RecoveryAction::GiveUp
        }
    }
}

/// Returns the wait after this number of failures in a row.
fn back_off(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_BACK_OFF.saturating_mul(doubled).min(LAST_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> GpuError {
        GpuError::DeviceLost {
            reason: "reset".into(),
        }
    }

    fn absent() -> GpuError {
        GpuError::AdapterAbsent {
            adapter: "X".into(),
            found: 1,
        }
    }

    fn opening_refused() -> GpuError {
        GpuError::DeviceRefused {
            adapter: "X".into(),
            reason: "resetting".into(),
        }
    }

    fn too_small() -> GpuError {
        GpuError::AdapterTooSmall {
            what: "max_bindings_per_bind_group",
            got: 1,
            needed: 2,
        }
    }

    fn out_of_memory() -> GpuError {
        GpuError::AllocationRefused {
            what: "page".into(),
            bytes: 1,
            reason: "full".into(),
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        assert_eq!(back_off(1), Duration::from_millis(250));
        assert_eq!(back_off(2), Duration::from_millis(500));
        assert_eq!(back_off(6), Duration::from_secs(8));
        assert_eq!(back_off(8), LAST_BACK_OFF);
        assert_eq!(back_off(1000), LAST_BACK_OFF);
    }

    #[test]
    fn a_device_that_fails_again_and_again_is_given_up() {
        let mut record = FailureRecord::default();
        record.record_opening();
        for round in 0..2 {
            for failures in 1..=FAILURES_MAX {
                let action = record.action_after(&lost(), failures % 2 == 0, Instant::now());
                assert_eq!(
                    action,
                    RecoveryAction::Reopen(back_off(failures)),
                    "round {round}"
                );
            }
            assert!(!record.record_batch(), "it was never out of use");
        }
    }

    #[test]
    fn wrong_results_are_forgiven_once_a_day() {
        let wrong = GpuError::WrongItem {
            item: 0,
            got: 1,
            expected: 2,
        };
        let now = Instant::now();
        let mut record = FailureRecord::default();
        for (loading, day) in [(true, 0), (false, 2)] {
            let at = now + Duration::from_secs(day * 24 * 3600);
            assert_eq!(
                record.action_after(&wrong, loading, at),
                RecoveryAction::Reopen(FIRST_BACK_OFF)
            );
            // Batches in between prove nothing.
            record.record_batch();
        }
        let again = now + Duration::from_secs(2 * 24 * 3600 + 3600);
        assert_eq!(record.action_after(&wrong, false, again), RecoveryAction::GiveUp);
    }

    #[test]
    fn an_absent_device_that_was_open_before_is_waited_for() {
        for error in [absent(), opening_refused()] {
            let mut record = FailureRecord::default();
            assert_eq!(
                record.action_after(&error, false, Instant::now()),
                RecoveryAction::GiveUp,
                "the device never existed"
            );
            let mut record = FailureRecord::default();
            record.record_opening();
            for absences in 1..=100 {
                assert_eq!(
                    record.action_after(&error, false, Instant::now()),
                    RecoveryAction::Reopen(back_off(absences))
                );
                assert_eq!(record.is_long_absent(), absences > FAILURES_MAX);
            }
            assert_eq!(
                record.action_after(&lost(), true, Instant::now()),
                RecoveryAction::Reopen(FIRST_BACK_OFF),
                "absences do not count as failures"
            );
            record.is_out_of_use = true;
            assert!(record.record_batch());
            assert!(!record.record_batch() && !record.is_long_absent());
        }
    }

    #[test]
    fn only_a_dataset_that_is_too_large_waits_for_another_epoch() {
        let mut record = FailureRecord::default();
        for _ in 0..=FAILURES_MAX {
            for error in [too_small(), out_of_memory()] {
                assert_eq!(
                    record.action_after(&error, true, Instant::now()),
                    RecoveryAction::WaitForOtherEpoch
                );
            }
        }
        assert_eq!(
            record.action_after(&too_small(), false, Instant::now()),
            RecoveryAction::GiveUp,
            "the kernel does not run"
        );
        let rejected = GpuError::Rejected {
            what: "kernel".into(),
            reason: "invalid".into(),
        };
        assert_eq!(
            record.action_after(&rejected, true, Instant::now()),
            RecoveryAction::GiveUp
        );
    }
}
