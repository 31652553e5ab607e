//! The figures of an attack, and what is wrong with them.

use std::fmt;
use std::time::Duration;

use super::Attack;
use super::witness::WitnessTimes;

/// The most memory that an attacked node may take over what it has when it is idle: 300 MiB.
pub const MEMORY_OVER_IDLE_MAX: u64 = 300 << 10;
/// The median time of the answers that a witness gets, on a machine that is otherwise idle. If
/// other programs take the processors before or after the attack, all bounds of time are larger by
/// the same factor ([`machine_load`](super::machine_load)).
pub const WITNESS_MEDIAN_MAX: Duration = Duration::from_millis(100);
/// Guesses that may be judged at once, and then one a second.
const GUESSES_MAX: u64 = 10;

/// The times in which honest ones were served.
#[derive(Clone, Debug)]
pub struct HonestTimes {
    /// The thing that they wanted.
    pub what: &'static str,
    /// The times until they had it.
    pub times: Vec<Duration>,
    /// The number of those who did not get it while the attack lasted.
    pub missing: u64,
    /// The largest median that is allowed.
    pub median_max: Duration,
}

impl HonestTimes {
    /// The median, with those who did not get it.
    pub fn median(&self) -> Option<Duration> {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let missing = usize::try_from(self.missing).unwrap_or(usize::MAX);
        sorted.get((sorted.len().saturating_add(missing)) / 2).copied()
    }
}

/// The figures of an attack.
#[derive(Clone, Debug)]
pub struct AttackFigures {
    /// The attack.
    pub attack: Attack,
    /// The load of the machine by other programs, before the attack or after it.
    pub load: f64,
    /// Memory before it.
    pub idle_kib: u64,
    /// The most memory during it.
    pub peak_kib: u64,
    /// Memory a second after it; 0 if the node has ended.
    pub later_kib: u64,
    /// Whether the node has ended.
    pub has_died: bool,
    /// The answers over JSON-RPC during it.
    pub by_rpc: WitnessTimes,
    /// The answers to a peer during it.
    pub as_peer: WitnessTimes,
    /// The number of times that the attackers did it.
    pub done: u64,
    /// The number of their guesses that were judged.
    pub judged: Option<u64>,
    /// The times in which honest ones were served.
    pub honest: Option<HonestTimes>,
}

impl AttackFigures {
    /// The head of a table of figures.
    pub const HEAD: &str = "| attack | done | memory idle → peak → later, MiB | JSON-RPC: median, longest, lost | peer: median, longest, lost | honest | load |\n|---|---|---|---|---|---|---|";

    /// Returns the faults of the node.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.has_died {
            return vec!["the node has ended".to_owned()];
        }
        let over = self.peak_kib.saturating_sub(self.idle_kib);
        if over > MEMORY_OVER_IDLE_MAX {
            faults.push(format!(
                "memory over idle: got {} MiB, expected at most {} MiB",
                over >> 10,
                MEMORY_OVER_IDLE_MAX >> 10
            ));
        }
        let time_max = WITNESS_MEDIAN_MAX.mul_f64(self.load);
        for (who, seen) in [("JSON-RPC", &self.by_rpc), ("the peer", &self.as_peer)] {
            let median = seen.median();
            if median > time_max {
                faults.push(format!(
                    "the median of the answers to {who}: got {median:?}, expected at most {time_max:?}"
                ));
            }
        }
        if let Some(judged) = self
            .judged
            .filter(|judged| *judged > GUESSES_MAX + self.attack.time().as_secs())
        {
            faults.push(format!(
                "guesses that were judged: got {judged}, expected {GUESSES_MAX} and one a second"
            ));
        }
        if let Some(honest) = &self.honest {
            let max = honest.median_max.mul_f64(self.load);
            match honest.median() {
                // The machine was too slow to make a single block in the time of the attack.
                None if honest.missing == 0 => {}
                None => faults.push(format!(
                    "{}: most were not served, {} of {}",
                    honest.what,
                    honest.missing,
                    honest.times.len() as u64 + honest.missing
                )),
                Some(median) if median > max => faults.push(format!(
                    "the median of {}: got {median:?}, expected at most {max:?}",
                    honest.what
                )),
                Some(_) => {}
            }
        }
        faults
    }
}

/// A row of the table.
impl fmt::Display for AttackFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |kib: u64| kib >> 10;
        let times =
            |seen: &WitnessTimes| format!("{:.1?}, {:.1?}, {}", seen.median(), seen.longest(), seen.lost);
        let later = match self.has_died {
            true => "ended".to_owned(),
            false => mib(self.later_kib).to_string(),
        };
        write!(
            f,
            "| {} | {} | {} → {} → {later} | {} | {} | ",
            self.attack.name(),
            self.done,
            mib(self.idle_kib),
            mib(self.peak_kib),
            times(&self.by_rpc),
            times(&self.as_peer),
        )?;
        if let Some(judged) = self.judged {
            write!(f, "{judged} guesses judged ")?;
        }
        if let Some(honest) = &self.honest {
            let longest = honest.times.iter().max().copied().unwrap_or_default();
            write!(f, "{}: ", honest.what)?;
            match honest.median() {
                Some(median) => write!(f, "median {median:.1?}, longest {longest:.1?}, ")?,
                None => write!(f, "not served, ")?,
            }
            write!(f, "{} missing ", honest.missing)?;
        }
        write!(f, "| {:.1} |", self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(millis: u64) -> WitnessTimes {
        WitnessTimes {
            times: vec![Duration::from_millis(millis); 10],
            lost: 0,
        }
    }

    fn figures() -> AttackFigures {
        AttackFigures {
            attack: Attack::UnsealedBlocks,
            load: 1.0,
            idle_kib: 50 << 10,
            peak_kib: 350 << 10,
            later_kib: 60 << 10,
            has_died: false,
            by_rpc: seen(100),
            as_peer: seen(5),
            done: 7,
            judged: None,
            honest: None,
        }
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(figures().faults(), [""; 0]);
        let check = |figures: AttackFigures, part: &str| {
            let faults = figures.faults();
            assert!(
                faults.len() == 1 && faults[0].contains(part),
                "{part}: {faults:?}"
            );
        };
        check(
            AttackFigures {
                has_died: true,
                ..figures()
            },
            "has ended",
        );
        check(
            AttackFigures {
                peak_kib: 351 << 10,
                ..figures()
            },
            "got 301 MiB, expected at most 300",
        );
        check(
            AttackFigures {
                as_peer: seen(101),
                ..figures()
            },
            "to the peer: got 101ms",
        );
        check(
            AttackFigures {
                by_rpc: WitnessTimes::default(),
                ..figures()
            },
            "to JSON-RPC: got 5s",
        );
        check(
            AttackFigures {
                judged: Some(40),
                ..figures()
            },
            "got 40",
        );
        let honest = |times: &[u64], missing| HonestTimes {
            what: "heads",
            times: times.iter().copied().map(Duration::from_millis).collect(),
            missing,
            median_max: Duration::from_millis(100),
        };
        check(
            AttackFigures {
                honest: Some(honest(&[20, 101, 500], 0)),
                ..figures()
            },
            "got 101ms",
        );
        check(
            AttackFigures {
                honest: Some(honest(&[20, 30], 3)),
                ..figures()
            },
            "3 of 5",
        );
        assert!(
            AttackFigures {
                honest: Some(honest(&[20, 30, 40], 1)),
                ..figures()
            }
            .faults()
            .is_empty()
        );
        // Another program takes the processors.
        let busy = AttackFigures {
            load: 3.0,
            by_rpc: seen(300),
            ..figures()
        };
        assert_eq!(busy.faults(), [""; 0]);
        check(
            AttackFigures {
                by_rpc: seen(301),
                ..busy
            },
            "at most 300ms",
        );
    }
}
