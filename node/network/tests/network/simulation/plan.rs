//! The faults of a run: a list that is made from the seed before the run, so that faults can be
//! left out one by one.
//!
//! As text a fault is `AT KIND NODE AMOUNT LASTS`, with times in seconds, and a list is joined by
//! commas.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use network::testing::Entropy;

use crate::simulation::liar::Lie;

const HOUR: u64 = 3600;
/// Each month of so many hours ends with some hours without new faults, in which all must agree.
pub(crate) const MONTH_HOURS: u64 = 30 * 24;
pub(crate) const CALM_HOURS: u64 = 24;
/// The longest fault, in hours.
const LONGEST_HOURS: usize = 24;

/// Liars whose blocks are all invalid.
pub(crate) const INVALID_LIES: [Lie; 9] = [
    Lie::Silent,
    Lie::NoHead,
    Lie::BadSeal,
    Lie::OtherBodies,
    Lie::BadState,
    Lie::Junk,
    Lie::NoSeals,
    Lie::Huge,
    Lie::Implausible,
];

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The process ends. What it has written stays.
    Kill,
    /// The power fails. Of what was not synced, any sectors stay.
    PowerLoss,
    /// Every write fails for lack of space.
    Full,
    /// Writes behind the end of the files fail for lack of space.
    NoGrowth,
    /// The drive refuses every write.
    Broken,
    /// A sync fails and loses a part of what it should have written. Later the power fails.
    LostSync,
    /// Syncs do nothing and say nothing. Then the power fails, and all since the beginning is lost.
    ForgottenSyncs,
    /// A byte of a file changes. The process ends.
    Damage,
    /// The clock jumps by the amount minus half a day, in seconds, and back at the end.
    Clock,
    /// The hash power becomes the amount; usual are 4.
    HashPower,
    /// The network falls into as many parts as the amount.
    Cut,
    /// Messages are late, so that they overtake each other; of 16, as many as the amount are lost,
    /// and as many come twice.
    Weather,
    /// A liar comes: the amount says which.
    Liar,
}

const KINDS: [(FaultKind, &str); 13] = [
    (FaultKind::Kill, "kill"),
    (FaultKind::PowerLoss, "power-loss"),
    (FaultKind::Full, "full"),
    (FaultKind::NoGrowth, "no-growth"),
    (FaultKind::Broken, "broken"),
    (FaultKind::LostSync, "lost-sync"),
    (FaultKind::ForgottenSyncs, "forgotten-syncs"),
    (FaultKind::Damage, "damage"),
    (FaultKind::Clock, "clock"),
    (FaultKind::HashPower, "hash-power"),
    (FaultKind::Cut, "cut"),
    (FaultKind::Weather, "weather"),
    (FaultKind::Liar, "liar"),
];

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    /// The time at which it begins, in seconds.
    pub(crate) at: u64,
    pub(crate) kind: FaultKind,
    pub(crate) node: usize,
    pub(crate) amount: u64,
    /// Its length in seconds, or the time until a node is back.
    pub(crate) lasts: u64,
}

/// Half a day: the amount of a jump of the clock by nothing.
pub(crate) const NO_JUMP: u64 = 12 * HOUR;

/// The faults of a seed, in order: `a_day` on average.
pub(crate) fn faults_of(seed: u64, nodes: usize, hours: u64, a_day: u64) -> Vec<PlannedFault> {
    let mut bytes = [0xfa; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let mut entropy = Entropy::from_seed(bytes);
    let mut faults = Vec::new();
    let (mut at, gap_max) = (0, (2 * 24 * HOUR / a_day) as usize);
    loop {
        at += 60 + entropy.below(gap_max) as u64;
        let kind = KINDS[entropy.below(KINDS.len())].0;
        let longest = match kind {
            // A restart, or what keeps a node asking all the time.
            FaultKind::Kill | FaultKind::PowerLoss | FaultKind::Damage => 3,
            FaultKind::Full | FaultKind::NoGrowth | FaultKind::Broken => 1,
            FaultKind::Clock | FaultKind::Weather | FaultKind::Liar => 6,
            FaultKind::Cut => 12,
            _ => LONGEST_HOURS,
        };
        let lasts = 10 + entropy.below(longest * HOUR as usize) as u64;
        let amount = match kind {
            FaultKind::Clock => NO_JUMP - 3 * HOUR + entropy.below(6 * HOUR as usize) as u64,
            FaultKind::HashPower => entropy.below(17) as u64,
            FaultKind::Cut => 2 + entropy.below(2) as u64,
            FaultKind::Weather => 1 + entropy.below(4) as u64,
            FaultKind::Liar => entropy.below(INVALID_LIES.len()) as u64,
            _ => entropy.below(1 << 30) as u64,
        };
        let node = entropy.below(nodes);
        let (month, hour) = (at / HOUR / MONTH_HOURS, (at + lasts) / HOUR);
        if at / HOUR >= hours {
            return faults;
        }
        if hour < (month + 1) * MONTH_HOURS - CALM_HOURS && hour + CALM_HOURS < hours {
            faults.push(PlannedFault {
                at,
                kind,
                node,
                amount,
                lasts,
            });
        }
    }
}

impl PlannedFault {
    pub(crate) const fn begins(&self) -> Duration {
        Duration::from_secs(self.at)
    }

    pub(crate) const fn length(&self) -> Duration {
        Duration::from_secs(self.lasts)
    }
}

impl Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let (_, name) = name.expect("each kind has a name");
        write!(
            f,
            "{} {name} {} {} {}",
            self.at, self.node, self.amount, self.lasts
        )
    }
}

impl FromStr for PlannedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("fault: got `{text}`, expected AT KIND NODE AMOUNT LASTS");
        let [at, name, node, amount, lasts] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(refused());
        };
        let number = |text: &str| text.parse().map_err(|_| refused());
        let kind = KINDS.iter().find(|(_, known)| *known == name);
        Ok(Self {
            at: number(at)?,
            kind: kind.ok_or_else(refused)?.0,
            node: number(node)? as usize,
            amount: number(amount)?,
            lasts: number(lasts)?,
        })
    }
}

/// A list as text.
pub(crate) fn text_of(faults: &[PlannedFault]) -> String {
    let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// The list of a text.
pub(crate) fn faults_from(text: &str) -> Result<Vec<PlannedFault>, String> {
    text.split(',')
        .filter(|one| !one.trim().is_empty())
        .map(str::parse)
        .collect()
}

/// The smallest part of a list that is found with which `breaks` still holds: halves are left out,
/// then ever smaller pieces, then single faults.
pub(crate) fn shrink(
    mut faults: Vec<PlannedFault>,
    mut breaks: impl FnMut(&[PlannedFault]) -> bool,
) -> Vec<PlannedFault> {
    let mut piece = faults.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < faults.len() {
            let mut fewer = faults.clone();
            fewer.drain(at..(at + piece).min(faults.len()));
            if breaks(&fewer) {
                faults = fewer;
            } else {
                at += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    faults
}
