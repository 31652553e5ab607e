//! Collects the figures of all rounds and prints them as a table.

use std::fmt;

/// The measurements for one line of the table: times, of which the shortest counts, or rates, of
/// which the highest counts.
pub(crate) struct Figure {
    name: String,
    is_rate: bool,
    /// Measurements by instruction set.
    ours: Vec<Vec<f64>>,
    peer: Vec<f64>,
    ceiling: Vec<f64>,
}

impl Figure {
    /// Creates a figure of times, for `sets` instruction sets.
    pub(crate) fn new(name: &str, sets: usize) -> Self {
        Self {
            name: name.to_owned(),
            is_rate: false,
            ours: vec![Vec::new(); sets],
            peer: Vec::new(),
            ceiling: Vec::new(),
        }
    }

    /// Creates a figure of rates, for `sets` instruction sets.
    pub(crate) fn rate(name: String, sets: usize) -> Self {
        Self {
            is_rate: true,
            ..Self::new(&name, sets)
        }
    }

    pub(crate) fn ours(&mut self, set: usize, value: f64) {
        self.ours[set].push(value);
    }

    pub(crate) fn peer(&mut self, value: f64) {
        self.peer.push(value);
    }

    pub(crate) fn ceiling(&mut self, value: f64) {
        self.ceiling.push(value);
    }

    /// The highest upper bound of the rounds.
    pub(crate) fn highest_ceiling(&self) -> f64 {
        self.best(&self.ceiling)
    }

    /// The best of the rounds; NaN if there are none.
    fn best(&self, rounds: &[f64]) -> f64 {
        let better = if self.is_rate { f64::max } else { f64::min };
        rounds.iter().copied().fold(f64::NAN, better)
    }

    /// Returns the factor by which `ours` is better than `theirs`.
    fn ratio(&self, ours: f64, theirs: f64) -> f64 {
        if self.is_rate {
            ours / theirs
        } else {
            theirs / ours
        }
    }
}

/// All figures.
pub(crate) struct Table {
    sets: Vec<String>,
    has_peer: bool,
    figures: Vec<Figure>,
}

impl Table {
    pub(crate) fn new(sets: impl Iterator<Item = String>, has_peer: bool) -> Self {
        Self {
            sets: sets.collect(),
            has_peer,
            figures: Vec::new(),
        }
    }

    pub(crate) fn extend(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.figures.extend(figures);
    }
}

impl fmt::Display for Table {
    /// Writes Markdown: our figures for each instruction set, then each peer with the ratio of our
    /// last column to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "|  |")?;
        for set in &self.sets {
            write!(f, " {set} |")?;
        }
        if self.has_peer {
            write!(f, " chfast | times chfast |")?;
        }
        writeln!(f, " ceiling | share |")?;
        let columns = self.sets.len() + if self.has_peer { 4 } else { 2 };
        writeln!(f, "|---|{}", "---|".repeat(columns))?;
        for figure in &self.figures {
            write!(f, "| {} |", figure.name)?;
            let mut best = f64::NAN;
            for rounds in &figure.ours {
                best = figure.best(rounds);
                write!(f, " {best:.4} |")?;
            }
            if self.has_peer && figure.peer.is_empty() {
                write!(f, "  |  |")?;
            } else if self.has_peer {
                let peer = figure.best(&figure.peer);
                write!(f, " {peer:.4} | {:.2} |", figure.ratio(best, peer))?;
            }
            if figure.ceiling.is_empty() {
                writeln!(f, "  |  |")?;
            } else {
                let ceiling = figure.highest_ceiling();
                writeln!(f, " {ceiling:.4} | {:.2} |", best / ceiling)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_round_counts() {
        let mut time = Figure::new("item, us", 2);
        let mut rate = Figure::rate("search, kH/s".into(), 2);
        for (set, value) in [(0, 3.0), (1, 1.0), (0, 2.0), (1, 1.5)] {
            time.ours(set, value);
            rate.ours(set, value);
        }
        time.peer(4.0);
        rate.peer(0.5);
        rate.ceiling(3.0);
        let mut table = Table::new(["one".to_owned(), "two".to_owned()].into_iter(), true);
        table.extend([time, rate]);
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], "| item, us | 2.0000 | 1.0000 | 4.0000 | 4.00 |  |  |");
        assert_eq!(
            lines[3],
            "| search, kH/s | 3.0000 | 1.5000 | 0.5000 | 3.00 | 3.0000 | 0.50 |"
        );
    }
}
