//! Measures the processor: each instruction set, each kind of memory pages, one to all threads,
//! beside what the memory delivers to as many threads.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::dataset::Dataset;
use engine::rates;
use ethash::{FullDataset, InstructionSet, LightCache};
use memmap2::{MmapMut, MmapOptions};
use serde_json::json;

use super::clock::BenchClock;
use super::figure::{FigureError, FigureResult};
use super::scale::BenchScale;
use crate::bench::{BYTES_PER_HASH, search_full, search_light};

/// The base-two logarithm of the size of a huge page.
const HUGE_PAGE_BITS: u8 = 21;
/// The epoch whose dataset is searched. Its dataset is the smallest one.
const EPOCH: u32 = 0;
/// Nonces that are compared with the light cache before a rate is measured.
const NONCES_COMPARED: u64 = 16;

/// The kind of memory that the system gives for the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    /// Huge pages where the system finds some.
    Transparent,
    /// Huge pages that the administrator has reserved.
    Explicit,
    /// Small pages only.
    Small,
}

impl MemoryKind {
    pub(super) const ALL: [Self; 3] = [Self::Transparent, Self::Small, Self::Explicit];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Transparent => "transparent",
            Self::Explicit => "explicit",
            Self::Small => "small",
        }
    }
}

/// One measurement on the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessorFigure {
    /// The dataset of all threads.
    Dataset { set: InstructionSet },
    /// Random reads of dataset items.
    Ceiling { memory: MemoryKind, threads: usize },
    /// Hashes from the full dataset.
    Search {
        set: InstructionSet,
        memory: MemoryKind,
        threads: usize,
    },
    /// Hashes from the light cache.
    Light { set: InstructionSet, threads: usize },
}

/// Returns the figures in the order of their value, for up to `threads_max` threads.
pub(super) fn figures(threads_max: usize) -> Vec<ProcessorFigure> {
    let best = InstructionSet::detect();
    let mut sets: Vec<_> = InstructionSet::ALL
        .into_iter()
        .filter(|set| set.runs_here())
        .collect();
    sets.reverse();
    let mut figures = vec![ProcessorFigure::Dataset { set: best }];
    for threads in thread_counts(threads_max) {
        for memory in MemoryKind::ALL {
            figures.push(ProcessorFigure::Ceiling { memory, threads });
            figures.extend(
                sets.iter()
                    .map(|&set| ProcessorFigure::Search { set, memory, threads }),
            );
        }
        figures.extend(sets.iter().map(|&set| ProcessorFigure::Light { set, threads }));
    }
    figures.extend(
        sets.into_iter()
            .skip(1)
            .map(|set| ProcessorFigure::Dataset { set }),
    );
    figures
}

/// All threads, then one, two, four and so on.
fn thread_counts(all: usize) -> Vec<usize> {
    let powers = (0..usize::BITS)
        .map(|shift| 1_usize << shift)
        .take_while(|count| *count < all);
    std::iter::once(all).chain(powers).collect()
}

impl ProcessorFigure {
    /// The key of its record.
    pub(super) fn key(self, scale: BenchScale) -> String {
        let what = match self {
            Self::Dataset { set } => format!("dataset/{set}"),
            Self::Ceiling { memory, threads } => format!("ceiling/{}/{threads}", memory.name()),
            Self::Search { set, memory, threads } => format!("search/{set}/{}/{threads}", memory.name()),
            Self::Light { set, threads } => format!("light/{set}/{threads}"),
        };
        format!("cpu/{}/e{EPOCH}/{what}", scale.name())
    }

    /// The name of the kind of figure.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Dataset { .. } => "dataset",
            Self::Ceiling { .. } => "ceilings",
            Self::Search { .. } => "hashrate",
            Self::Light { .. } => "light_hashrate",
        }
    }
}

/// The dataset in memory of one kind.
struct ProcessorTable {
    kind: MemoryKind,
    memory: MmapMut,
    words: usize,
}

impl ProcessorTable {
    fn view(&self) -> &[u32] {
        &bytemuck::cast_slice(&self.memory[..])[..self.words]
    }

    /// Copies `words` into memory of this kind.
    fn new(kind: MemoryKind, words: &[u32]) -> Result<Self, FigureError> {
        let bytes = size_of_val(words).next_multiple_of(1 << HUGE_PAGE_BITS);
        let mut options = MmapOptions::new();
        options.len(bytes);
        if kind == MemoryKind::Explicit {
            options.huge(Some(HUGE_PAGE_BITS));
        }
        let mut memory = options.map_anon().map_err(|error| match kind {
            MemoryKind::Explicit => FigureError::NotHere(format!("no reserved huge pages: {error}")),
            _ => FigureError::other(error),
        })?;
        match kind {
            MemoryKind::Transparent => ethash::advise_huge_pages(&mut memory[..]),
            #[cfg(target_os = "linux")]
            MemoryKind::Small => {
                let refused =
                    |error| FigureError::NotHere(format!("small pages cannot be asked for: {error}"));
                memory.advise(memmap2::Advice::NoHugePage).map_err(refused)?;
            }
            #[cfg(not(target_os = "linux"))]
            MemoryKind::Small => {}
            MemoryKind::Explicit => {}
        }
        let table: &mut [u32] = bytemuck::cast_slice_mut(&mut memory[..]);
        table[..words.len()].copy_from_slice(words);
        Ok(Self {
            kind,
            memory,
            words: words.len(),
        })
    }
}

/// The processor, with what is in memory for its figures.
pub(super) struct ProcessorBench<'a> {
    scale: BenchScale,
    time: Duration,
    threads_max: usize,
    clock: &'a BenchClock,
    cache: Option<Arc<LightCache>>,
    dataset: Option<Dataset>,
    table: Option<ProcessorTable>,
}

impl<'a> ProcessorBench<'a> {
    pub(super) const fn new(
        scale: BenchScale,
        time: Duration,
        threads_max: usize,
        clock: &'a BenchClock,
    ) -> Self {
        Self {
            scale,
            time,
            threads_max,
            clock,
            cache: None,
            dataset: None,
            table: None,
        }
    }

    /// Takes one figure. `ceiling` is what the memory delivers to as many threads, if it was
    /// measured. Afterwards the process uses the same instruction set as before.
    pub(super) fn take(&mut self, figure: ProcessorFigure, ceiling: Option<f64>) -> FigureResult {
        let before = InstructionSet::in_use();
        let taken = self.measure(figure, ceiling);
        before.limit();
        taken
    }

    fn measure(&mut self, figure: ProcessorFigure, ceiling: Option<f64>) -> FigureResult {
        self.clock.check()?;
        let time = self.time;
        match figure {
            ProcessorFigure::Dataset { set } => {
                use_set(set)?;
                self.dataset = None;
                self.table = None;
                let seconds = self.generate()?;
                let bytes = self.cache()?.dataset_bytes() as f64;
                Ok(json!({
                    "value": seconds,
                    "unit": "s",
                    "set": set.to_string(),
                    "threads": self.threads_max,
                    "dataset_bytes": bytes,
                    "seconds_per_gib": seconds * f64::from(1 << 30) / bytes,
                }))
            }
            ProcessorFigure::Ceiling { memory, threads } => {
                let words = self.table(memory)?;
                Ok(json!({
                    "value": rates::item_read_rate(words, threads, time),
                    "unit": "B/s",
                    "memory": memory.name(),
                    "threads": threads,
                }))
            }
            ProcessorFigure::Search { set, memory, threads } => {
                use_set(set)?;
                let cache = self.cache()?;
                let full = FullDataset::new(self.table(memory)?).ok_or(FigureError::NothingToCompare)?;
                compare(&cache, &full)?;
                let hashrate = rates::rate(threads, time, |first, end| search_full(&full, first, end));
                Ok(json!({
                    "value": hashrate,
                    "unit": "H/s",
                    "set": set.to_string(),
                    "memory": memory.name(),
                    "threads": threads,
                    "predicted": ceiling.map(|bytes| bytes / BYTES_PER_HASH),
                    "share_of_ceiling": ceiling.map(|bytes| hashrate * BYTES_PER_HASH / bytes),
                    "hits_compared": NONCES_COMPARED,
                }))
            }
            ProcessorFigure::Light { set, threads } => {
                use_set(set)?;
                let cache = self.cache()?;
                Ok(json!({
                    "value": rates::rate(threads, time, |first, end| search_light(&cache, first, end)),
                    "unit": "H/s",
                    "set": set.to_string(),
                    "threads": threads,
                }))
            }
        }
    }

    fn cache(&mut self) -> Result<Arc<LightCache>, FigureError> {
        if let Some(cache) = &self.cache {
            return Ok(Arc::clone(cache));
        }
        let cache = Arc::new(self.scale.light_cache(EPOCH).map_err(FigureError::other)?);
        self.cache = Some(Arc::clone(&cache));
        Ok(cache)
    }

    /// Generates the dataset. Returns how many seconds it took.
    fn generate(&mut self) -> Result<f64, FigureError> {
        let cache = self.cache()?;
        let clock = self.clock;
        let start = Instant::now();
        let dataset = Dataset::generate(&cache, self.threads_max, &mut |_, _| {
            if clock.is_over() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        clock.check()?;
        self.dataset = Some(dataset.map_err(FigureError::other)?);
        Ok(start.elapsed().as_secs_f64())
    }

    /// The dataset in memory of this kind.
    fn table(&mut self, kind: MemoryKind) -> Result<&[u32], FigureError> {
        if self.dataset.is_none() {
            self.generate()?;
        }
        if self.table.as_ref().is_none_or(|table| table.kind != kind) {
            // The memory of the last kind is free before more is taken.
            self.table = None;
            let words = self.dataset.as_ref().map_or(&[][..], Dataset::words);
            self.table = Some(ProcessorTable::new(kind, words)?);
        }
        Ok(self.table.as_ref().map_or(&[], ProcessorTable::view))
    }
}

/// Makes the process use `set`.
fn use_set(set: InstructionSet) -> Result<(), FigureError> {
    if set.limit() == set {
        return Ok(());
    }
    Err(FigureError::NotHere(format!("the processor does not have {set}")))
}

/// Compares hashes from the dataset with hashes from the light cache.
fn compare(cache: &LightCache, full: &FullDataset<'_>) -> Result<(), FigureError> {
    let header_hash = ethash::B256::repeat_byte(0x3c);
    for nonce in 0..NONCES_COMPARED {
        if full.hash(&header_hash, nonce) != cache.hash(&header_hash, nonce) {
            return Err(FigureError::Wrong(format!(
                "hash of nonce {nonce} differs from the light cache's"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_count_comes_once_and_all_come_first() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(6), [6, 1, 2, 4]);
        assert_eq!(thread_counts(8), [8, 1, 2, 4]);
        let figures = figures(4);
        for (place, figure) in figures.iter().enumerate() {
            assert!(!figures[..place].contains(figure), "{figure:?} comes twice");
        }
    }

    #[test]
    fn each_kind_of_memory_holds_the_table() {
        let words: Vec<u32> = (0..100_000).collect();
        for kind in MemoryKind::ALL {
            match ProcessorTable::new(kind, &words) {
                Ok(table) => assert_eq!(table.view(), words, "{kind:?}"),
                Err(FigureError::NotHere(reason)) => eprintln!("skipped: {reason}"),
                Err(error) => panic!("{kind:?}: {error}"),
            }
        }
    }
}
