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
        let set = quickest(|set| {
            let start = Instant::now();
            work(set);
            start.elapsed()
        });
        // A set of `limit` stays.
        let _ = IN_USE.compare_exchange(0, set as u8, Ordering::Relaxed, Ordering::Relaxed);
    });
}

/// Returns the set of this processor with the shortest time. A lesser set is taken only if it needs
/// at most nine tenths of the time of a greater one.
///
/// The baseline never is the quickest if there are vectors, so only sets with vectors are compared.
fn quickest(mut time: impl FnMut(InstructionSet) -> Duration) -> InstructionSet {
    let is_compared = |set: &InstructionSet| set.runs_here() && *set != InstructionSet::Baseline;
    let sets = InstructionSet::ALL.into_iter().filter(is_compared);
    let mut shortest: Vec<_> = sets.map(|set| (set, Duration::MAX)).collect();
    if shortest.len() < 2 {
        return InstructionSet::detect();
    }
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
    chosen.map_or_else(InstructionSet::detect, |(set, _)| set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set that is chosen if the sets take these times in microseconds, and the greatest one
    /// takes `longer` in the first round.
    fn chosen(times: impl Fn(InstructionSet) -> u64, longer: u64) -> InstructionSet {
        let greatest = InstructionSet::detect();
        let mut first = true;
        quickest(|set| {
            let extra = if set == greatest && core::mem::take(&mut first) {
                longer
            } else {
                0
            };
            Duration::from_micros(times(set) + extra)
        })
    }

    #[test]
    fn a_lesser_set_is_used_only_if_it_is_clearly_quicker() {
        let greatest = InstructionSet::detect();
        let others = |time| move |set| if set == greatest { 1_000 } else { time };
        assert_eq!(chosen(others(3_000), 0), greatest);
        assert_eq!(chosen(others(1_000), 0), greatest);
        assert_eq!(chosen(others(901), 0), greatest);
        // Another thread had the processor in one round.
        assert_eq!(chosen(others(3_000), 50_000), greatest);
        let lesser = chosen(others(900), 0);
        let can_choose = greatest == InstructionSet::Avx512;
        assert_eq!(
            lesser,
            if can_choose {
                InstructionSet::Avx2
            } else {
                greatest
            }
        );
    }
}
