//! Measures a query: first with an empty page cache, then repeatedly, then by blooms.
//!
//! The shortest repetition counts, because other load on the machine only adds time. The index and
//! the blooms must give the same number of logs, otherwise there are no figures.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use chain::View;
use chain::logs::{LogLimits, LogPlan, LogQuery};
use store::Store;

use crate::chain_maker::{Planted, account, contract, event, spec};

/// Longest time for all repetitions.
const REPEAT: Duration = Duration::from_millis(500);
/// Most repetitions.
const REPEATS_MAX: usize = 101;

/// A query with its name.
pub(crate) struct NamedQuery {
    name: String,
    query: LogQuery,
}

impl NamedQuery {
    fn new(name: impl Into<String>, query: LogQuery) -> Self {
        Self {
            name: name.into(),
            query,
        }
    }

    /// The queries for a chain of `stage` blocks.
    pub(crate) fn all(planted: &[Planted], stage: u64) -> Vec<Self> {
        let own = || planted.iter().filter(|planted| planted.blocks == stage);
        let mut all: Vec<_> = own()
            .map(|planted| {
                let query = LogQuery::new(vec![planted.address()], Vec::new());
                Self::new(format!("address, {} planted", planted.matches), query)
            })
            .collect();
        all.extend(own().skip(1).take(1).flat_map(|planted| {
            let topic = vec![planted.topic()];
            [
                Self::new(
                    "topic alone",
                    LogQuery::new(Vec::new(), vec![vec![], topic.clone()]),
                ),
                Self::new(
                    "that topic and the first event",
                    LogQuery::new(Vec::new(), vec![vec![event(0)], topic]),
                ),
            ]
        }));
        let rare = vec![account(1_000), account(1_001), account(1_002)];
        all.push(Self::new(
            "20th contract and 3 rare accounts",
            LogQuery::new(vec![contract(19)], vec![vec![], rare]),
        ));
        all.push(Self::new(
            "30th contract and 10th event",
            LogQuery::new(vec![contract(29)], vec![vec![event(9)]]),
        ));
        let contracts = (4_000..4_100).map(contract).collect();
        all.push(Self::new(
            "100 rare contracts",
            LogQuery::new(contracts, Vec::new()),
        ));
        all
    }
}

/// The times of a query, the logs found and the blocks read.
pub(crate) struct Figures {
    name: String,
    matches: u64,
    read: u64,
    first: Duration,
    again: Duration,
    blooms: Option<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
        let (blooms, ratio) = match self.blooms {
            None => ("-".to_owned(), "-".to_owned()),
            Some(blooms) => {
                let ratio = blooms.as_secs_f64() / self.again.as_secs_f64().max(1e-9);
                (ms(blooms), format!("{ratio:.0}"))
            }
        };
        write!(
            f,
            "{:<34} {:>8} {:>8} {:>11} {:>11} {:>11} {:>8}",
            self.name,
            self.matches,
            self.read,
            ms(self.first),
            ms(self.again),
            blooms,
            ratio
        )
    }
}

/// Measures `query` on the whole chain of a store that was just opened.
pub(crate) fn measure(store: &Store, query: &NamedQuery, blooms: bool) -> Result<Figures, Box<dyn Error>> {
    let (first, (matches, read)) = run(store, LogPlan::Index, &query.query)?;
    let mut times = Vec::new();
    let started = Instant::now();
    while times.len() < REPEATS_MAX && (times.len() < 3 || started.elapsed() < REPEAT) {
        times.push(run(store, LogPlan::Index, &query.query)?.0);
    }
    let blooms = match blooms {
        false => None,
        true => {
            // The first run fills the page cache as far as possible.
            let (first, _) = run(store, LogPlan::Blooms, &query.query)?;
            let (time, (by_blooms, _)) = run(store, LogPlan::Blooms, &query.query)?;
            if by_blooms != matches {
                let name = &query.name;
                return Err(format!(
                    "{name}: got {matches} logs by the index, expected {by_blooms} as by blooms"
                )
                .into());
            }
            Some(time.min(first))
        }
    };
    Ok(Figures {
        name: query.name.clone(),
        matches,
        read,
        first,
        again: times.into_iter().min().unwrap_or(first),
        blooms,
    })
}

/// Runs a query. Returns the time from opening a view to the last log, the logs found and the
/// blocks read.
fn run(store: &Store, plan: LogPlan, query: &LogQuery) -> Result<(Duration, (u64, u64)), Box<dyn Error>> {
    let spec = spec();
    let started = Instant::now();
    let view = View::new(store, spec)?;
    let mut search = view.logs_by(Some(plan), 0..=u64::MAX, query, LogLimits::NONE)?;
    let mut found = 0;
    for log in &mut search {
        log?;
        found += 1;
    }
    Ok((started.elapsed(), (found, search.blocks_read())))
}
