//! Times a query: first on an empty cache of pages, then again and again, then by blooms.
//!
//! Of repetitions the shortest counts: whatever else runs on the machine only adds to it.
//! The two plans must give the same number of logs, or there are no figures.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use chain::View;
use chain::logs::{LogLimits, LogPlan, LogQuery};
use store::Store;

use crate::chain_maker::{Planted, account, contract, event, spec};

/// Time that repetitions may take in all.
const REPEAT: Duration = Duration::from_millis(500);
/// Most repetitions.
const REPEATS_MAX: usize = 101;

/// A query with its name.
pub(crate) struct Question {
    name: String,
    query: LogQuery,
}

impl Question {
    fn new(name: impl Into<String>, query: LogQuery) -> Self {
        Self {
            name: name.into(),
            query,
        }
    }

    /// What is asked of a chain of `stage` blocks.
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

/// What a query took.
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

/// Times `question` on the whole chain of a store that was just opened.
pub(crate) fn measure(store: &Store, question: &Question, blooms: bool) -> Result<Figures, Box<dyn Error>> {
    let (first, (matches, read)) = run(store, LogPlan::Index, &question.query)?;
    let mut times = Vec::new();
    let started = Instant::now();
    while times.len() < REPEATS_MAX && (times.len() < 3 || started.elapsed() < REPEAT) {
        times.push(run(store, LogPlan::Index, &question.query)?.0);
    }
    let blooms = match blooms {
        false => None,
        true => {
            // The first fills the cache as far as it goes.
            let (first, _) = run(store, LogPlan::Blooms, &question.query)?;
            let (time, (by_blooms, _)) = run(store, LogPlan::Blooms, &question.query)?;
            if by_blooms != matches {
                let name = &question.name;
                return Err(format!("{name}: {matches} logs by the index, {by_blooms} by blooms").into());
            }
            Some(time.min(first))
        }
    };
    Ok(Figures {
        name: question.name.clone(),
        matches,
        read,
        first,
        again: times.into_iter().min().unwrap_or(first),
        blooms,
    })
}

/// The time from taking a view to the last log; logs found and blocks read.
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
