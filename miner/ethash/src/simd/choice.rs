//! Chooses the instruction set of the process by the time that a loop takes.
//!
//! The greatest set is not always the quickest one: some processors run twice as fast with AVX2 as
//! with AVX-512. Does not know which loop that is.

use core::sync::atomic::Ordering;
use std::sync::Once;
use std::time::{Duration, Instant};

use super::{IN_USE, InstructionSet};

/// Rounds of a comparison, each with all sets. The shortest time of a set counts, because other
/// threads only make it longer.
const ROUNDS: usize = 8;

/// Makes the process use the set on which `work` is quickest. Does nothing if a set was chosen
/// before. Waits if another thread is choosing.
pub(crate) fn choose_once(mut work: impl FnMut(InstructionSet)) {
    static CHOICE: Once = Once::new();
    if IN_USE.load(Ordering::Relaxed) != 0 {
        return;
    }
    CHOICE.call_once(|| {
        let is_compared = |set: &InstructionSet| set.runs_here() && *set != InstructionSet::Baseline;
        let sets: Vec<_> = InstructionSet::ALL.into_iter().filter(is_compared).collect();
        let quickest = quickest(&sets, |set| {
            let start = Instant::now();
            work(set);
            start.elapsed()
        });
        let set = quickest.unwrap_or_else(InstructionSet::detect);
        // A set of `limit` stays.
        let _ = IN_USE.compare_exchange(0, set as u8, Ordering::Relaxed, Ordering::Relaxed);
    });
}

/// Returns the one of `sets` with the shortest time. A lesser set is taken only if it needs at most
/// nine tenths of the time of a greater one. A single set is not timed. `None` if there is no set.
///
/// The baseline is not among `sets`: it is slower than any vectors, but on a busy machine it could
/// seem quicker.
fn quickest(
    sets: &[InstructionSet],
    mut time: impl FnMut(InstructionSet) -> Duration,
) -> Option<InstructionSet> {
    if let [] | [_] = sets {
        return sets.first().copied();
    }
    let mut shortest: Vec<_> = sets.iter().map(|set| (*set, Duration::MAX)).collect();
    for _ in 0..ROUNDS {
        for (set, shortest) in &mut shortest {
            *shortest = time(*set).min(*shortest);
        }
    }
    let chosen = shortest.into_iter().rev().reduce(|greater, lesser| {
        if lesser.1.saturating_mul(10) <= greater.1.saturating_mul(9) {
            lesser
        } else {
            greater
        }
    });
    chosen.map(|(set, _)| set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set that is chosen if AVX-512 takes a millisecond, in the first round `longer`
    /// microseconds more, and AVX2 takes `avx2` microseconds.
    fn chosen(avx2: u64, longer: u64) -> Option<InstructionSet> {
        let mut extra = longer;
        quickest(&[InstructionSet::Avx2, InstructionSet::Avx512], |set| {
            Duration::from_micros(if set == InstructionSet::Avx512 {
                1_000 + core::mem::take(&mut extra)
            } else {
                avx2
            })
        })
    }

    #[test]
    fn a_lesser_set_is_used_only_if_it_is_clearly_quicker() {
        assert_eq!(chosen(3_000, 0), Some(InstructionSet::Avx512));
        assert_eq!(chosen(1_000, 0), Some(InstructionSet::Avx512));
        assert_eq!(chosen(901, 0), Some(InstructionSet::Avx512));
        assert_eq!(chosen(900, 0), Some(InstructionSet::Avx2));
        // Another thread had the processor in one round.
        assert_eq!(chosen(3_000, 50_000), Some(InstructionSet::Avx512));
    }

    #[test]
    fn a_single_set_is_not_timed() {
        let timed = |_| panic!("nothing to compare with");
        assert_eq!(quickest(&[], timed), None);
        assert_eq!(
            quickest(&[InstructionSet::Neon], timed),
            Some(InstructionSet::Neon)
        );
    }
}
