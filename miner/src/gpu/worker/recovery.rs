//! What is to be done about a device that fails: open it anew, wait for work that it can do, or give it up.
//!
//! Judges errors and counts them; who follows its advice is the worker above. Knows no device.

use std::time::Duration;

use crate::gpu::GpuError;

/// The wait before a lost device is opened anew, doubled with each failure.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
/// The longest such wait.
const LAST_BACK_OFF: Duration = Duration::from_secs(30);
/// Failures in a row after which a device is given up, and one that is not there is counted as out of use.
const FAILURES_MAX: u32 = 6;
/// A dataset that was refused is tried again after this time although the epoch is the same: memory may have
/// become free.
pub(super) const REFUSED_AGAIN: Duration = Duration::from_secs(300);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryAction {
    /// OpenAdapter the device anew after this time.
    Reopen(Duration),
    /// The device is well, but the dataset of this epoch is too large for it: wait for work of another.
    WaitForOtherEpoch,
    /// Nothing can be done.
    GiveUp,
}

/// How a device has done so far.
#[derive(Debug, Default)]
pub(super) struct FailureRecord {
    /// Failures since the last batch.
    failures: u32,
    /// Attempts since the last batch that did not even open the device.
    absences: u32,
    /// Whether it could be opened once.
    opened: bool,
    /// Whether the crew counts it as out of use.
    pub(super) is_out_of_use: bool,
}

impl FailureRecord {
    /// The device was opened.
    pub(super) fn record_opening(&mut self) {
        self.opened = true;
    }

    /// The device has done a batch. True where it was out of use until now.
    pub(super) fn record_batch(&mut self) -> bool {
        self.failures = 0;
        self.absences = 0;
        std::mem::take(&mut self.is_out_of_use)
    }

    /// Whether the device was not there so often that nobody should count on it.
    pub(super) fn is_long_absent(&self) -> bool {
        self.absences > FAILURES_MAX
    }

    /// Takes note of `error` and advises. `loading`: it came while a dataset was brought to an open device.
    pub(super) fn action_after(&mut self, error: &GpuError, loading: bool) -> RecoveryAction {
        let too_large = matches!(
            error,
            GpuError::AdapterTooSmall { .. } | GpuError::AllocationRefused { .. }
        );
        if loading && too_large {
            return RecoveryAction::WaitForOtherEpoch;
        }
        // A driver that resets its device tells for a while that there is none. Before the first opening the
        // same words mean that there never was one.
        let absent = matches!(
            error,
            GpuError::AdapterAbsent { .. } | GpuError::DeviceRefused { .. }
        );
        if self.opened && absent {
            self.absences = self.absences.saturating_add(1);
            return RecoveryAction::Reopen(back_off(self.absences));
        }
        self.failures = self.failures.saturating_add(1);
        let may_pass = error.needs_rebuild()
            || error.is_wrong_data()
            || matches!(error, GpuError::AllocationRefused { .. });
        if may_pass && self.failures <= FAILURES_MAX {
            RecoveryAction::Reopen(back_off(self.failures))
        } else {
            RecoveryAction::GiveUp
        }
    }
}

/// The wait after so many failures in a row.
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
    fn a_device_that_fails_time_and_again_is_given_up() {
        let mut record = FailureRecord::default();
        record.record_opening();
        for round in 0..2 {
            for failures in 1..=FAILURES_MAX {
                let action = record.action_after(&lost(), failures % 2 == 0);
                assert_eq!(
                    action,
                    RecoveryAction::Reopen(back_off(failures)),
                    "round {round}"
                );
            }
            assert!(!record.record_batch(), "it was never out of use");
        }
        let wrong = GpuError::WrongItem {
            item: 0,
            got: 1,
            expected: 2,
        };
        for failures in 1..=FAILURES_MAX {
            assert_eq!(
                record.action_after(&wrong, true),
                RecoveryAction::Reopen(back_off(failures))
            );
        }
        assert_eq!(record.action_after(&wrong, true), RecoveryAction::GiveUp);
    }

    #[test]
    fn a_device_that_was_there_is_waited_for() {
        for error in [absent(), opening_refused()] {
            let mut record = FailureRecord::default();
            assert_eq!(
                record.action_after(&error, false),
                RecoveryAction::GiveUp,
                "it never was there"
            );
            let mut record = FailureRecord::default();
            record.record_opening();
            for absences in 1..=100 {
                assert_eq!(
                    record.action_after(&error, false),
                    RecoveryAction::Reopen(back_off(absences))
                );
                assert_eq!(record.is_long_absent(), absences > FAILURES_MAX);
            }
            assert_eq!(
                record.action_after(&lost(), true),
                RecoveryAction::Reopen(FIRST_BACK_OFF),
                "absences are no failures"
            );
            record.is_out_of_use = true;
            assert!(record.record_batch());
            assert!(!record.record_batch() && !record.is_long_absent());
        }
    }

    #[test]
    fn only_a_dataset_that_is_too_large_is_outwaited() {
        let mut record = FailureRecord::default();
        for _ in 0..=FAILURES_MAX {
            for error in [too_small(), out_of_memory()] {
                assert_eq!(
                    record.action_after(&error, true),
                    RecoveryAction::WaitForOtherEpoch
                );
            }
        }
        assert_eq!(
            record.action_after(&too_small(), false),
            RecoveryAction::GiveUp,
            "the kernel does not run"
        );
        let rejected = GpuError::Rejected {
            what: "kernel".into(),
            reason: "invalid".into(),
        };
        assert_eq!(record.action_after(&rejected, true), RecoveryAction::GiveUp);
    }
}
