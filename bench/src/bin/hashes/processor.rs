//! Measures Ethash on the processor: light cache, dataset items, seal check, search over the full
//! dataset.
//!
//! Each instruction set of the processor is measured, and also chfast/ethash if `--chfast` names
//! its library. They take turns in each round, so that other load on the machine slows all of them.
//! The shortest time of the rounds is printed, because disturbances only add time. The search is
//! also compared with an upper bound, the random reads of [`engine::rates`].

use std::hint::black_box;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench::Failure;
use clap::Args;
use engine::dataset::Dataset;
use engine::rates::{item_read_rate, rate, row_read_rate};
use ethash::{ACCESSES, B256, DATASET_PARENTS, Epoch, ITEM_BYTES, ITEM_WORDS, InstructionSet, LightCache};
use miner::bench::{light_cache, search_full};

use crate::chfast::{Chfast, ChfastError};
use crate::seals::processor_rate;
use crate::table::{Figure, Table};

/// Number of items that are computed for one figure.
const ITEMS: usize = 4096;
/// Number of hashes with the light cache for one figure.
const SEALS: u64 = 64;
/// Bytes of the dataset that one hash reads.
const BYTES_PER_HASH: f64 = (ACCESSES as usize * ITEM_BYTES) as f64;
/// Bytes of the light cache that a seal check reads: a row for each parent of each row that one
/// hash reads of the dataset.
const BYTES_PER_SEAL: f64 = BYTES_PER_HASH * DATASET_PARENTS as f64;

/// Measures the processor.
#[derive(Args)]
pub(crate) struct ProcessorArgs {
    /// Epoch of caches and dataset.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Number of items of an artificial dataset, instead of that of the epoch.
    #[arg(long, conflicts_with = "chfast")]
    items: Option<u64>,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a search, in milliseconds.
    #[arg(long, default_value_t = 500)]
    search_ms: u64,
    /// Do not measure the full dataset.
    #[arg(long)]
    light: bool,
    /// Library of chfast/ethash 1.1, built as a shared object.
    #[arg(long, value_name = "FILE")]
    chfast: Option<PathBuf>,
}

/// Takes all figures and prints them.
pub(crate) fn run(args: &ProcessorArgs) -> Result<(), Failure> {
    let sets: Vec<_> = InstructionSet::ALL
        .into_iter()
        .filter(|set| set.runs_here())
        .collect();
    let cache = light_cache(args.epoch, args.items)?;
    let chosen = InstructionSet::in_use();
    let mut peer = args
        .chfast
        .as_ref()
        .map(|path| {
            let library = Chfast::load(path, args.epoch)?;
            library.must_agree(&cache)?;
            Ok::<_, ChfastError>(library)
        })
        .transpose()?;
    println!(
        "epoch {}: light cache {} bytes, dataset {} bytes; best of {} rounds; programs here use {chosen}",
        args.epoch,
        cache.as_bytes().len(),
        cache.dataset_bytes(),
        args.rounds
    );
    let mut table = Table::new(sets.iter().map(ToString::to_string), peer.is_some());
    measure_light(args, &sets, &cache, peer.as_ref(), &mut table)?;
    if !args.light {
        chosen.limit();
        measure_full(args, &sets, &cache, peer.as_mut(), &mut table)?;
    }
    print!("{table}");
    Ok(())
}

/// Measures everything that needs only the light cache.
fn measure_light(
    args: &ProcessorArgs,
    sets: &[InstructionSet],
    cache: &LightCache,
    peer: Option<&Chfast>,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut build = Figure::new("light cache, ms", sets.len());
    let mut together = Figure::new("four light caches at once, ms", sets.len());
    let four = [args.epoch, args.epoch + 1, args.epoch + 2, args.epoch + 3].map(Epoch::ethash);
    for _ in 0..args.rounds {
        for (index, set) in sets.iter().enumerate() {
            set.limit();
            let start = Instant::now();
            black_box(light_cache(args.epoch, args.items)?);
            build.ours(index, start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            black_box(LightCache::build_many(&four)?);
            together.ours(index, start.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(peer) = peer {
            build.peer(peer.build_time(args.epoch)?.as_secs_f64() * 1e3);
        }
    }
    // Each side runs twice in a row, and the second time counts. In the first run its light cache
    // is not in the cache of the processor yet, because the other side has used that.
    let mut items = Figure::new("dataset item, us", sets.len());
    let mut out = vec![0; ITEMS * ITEM_WORDS];
    for round in 0..args.rounds as u32 {
        let first =
            round.wrapping_mul(0x9e37_79b9) % cache.dataset_items().saturating_sub(ITEMS as u32).max(1);
        for (index, set) in sets.iter().enumerate() {
            set.limit();
            items.ours(
                index,
                second_time(ITEMS, || cache.fill_items(first, black_box(&mut out))),
            );
        }
        if let Some(peer) = peer {
            items.peer(second_time(ITEMS, || {
                for item in first..first + ITEMS as u32 {
                    black_box(peer.item(item));
                }
            }));
        }
    }
    let mut seals = Figure::new("seal check, us", sets.len());
    for round in 0..args.rounds as u64 {
        let nonces = round * SEALS..(round + 1) * SEALS;
        for (index, set) in sets.iter().enumerate() {
            set.limit();
            seals.ours(
                index,
                second_time(SEALS as usize, || {
                    for nonce in nonces.clone() {
                        black_box(cache.hash(&B256::repeat_byte(1), nonce));
                    }
                }),
            );
        }
        if let Some(peer) = peer {
            seals.peer(second_time(SEALS as usize, || {
                for nonce in nonces.clone() {
                    black_box(peer.hash_light(&B256::repeat_byte(1), nonce));
                }
            }));
        }
    }
    table.extend([build, together, items, seals]);
    measure_many_seals(args, sets, cache, peer, table);
    Ok(())
}

/// Measures checks of seals that are there together, as while a chain is imported, by one thread
/// and by all.
fn measure_many_seals(
    args: &ProcessorArgs,
    sets: &[InstructionSet],
    cache: &LightCache,
    peer: Option<&Chfast>,
    table: &mut Table,
) {
    let time = Duration::from_millis(args.search_ms);
    for threads in thread_counts() {
        let mut figure = Figure::rate(format!("seals together, 1/s, {threads} thread(s)"), sets.len());
        for _ in 0..args.rounds {
            let ceiling = row_read_rate(cache.as_words(), threads, time);
            figure.ceiling(ceiling.unwrap_or(f64::NAN) / BYTES_PER_SEAL);
            for (index, set) in sets.iter().enumerate() {
                set.limit();
                figure.ours(index, processor_rate(cache, threads, time));
            }
            if let Some(peer) = peer {
                let search = |first, end| {
                    let mut hashes = 0;
                    while Instant::now() < end {
                        black_box(peer.hash_light(&B256::repeat_byte(1), first + hashes));
                        hashes += 1;
                    }
                    hashes
                };
                figure.peer(rate(threads, time, search));
            }
        }
        println!(
            "random rows of the light cache by {threads} thread(s): {:.2} GB/s",
            figure.highest_ceiling() * BYTES_PER_SEAL / 1e9
        );
        table.extend([figure]);
    }
}

/// One thread, and as many as there are processors.
fn thread_counts() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut counts = vec![1];
    counts.extend((all > 1).then_some(all));
    counts
}

/// Runs `work` twice. Returns the time of the second run divided by `count`, in microseconds.
fn second_time(count: usize, mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}

/// Measures the generation of the full dataset, and the search by one thread and by all.
fn measure_full(
    args: &ProcessorArgs,
    sets: &[InstructionSet],
    cache: &LightCache,
    mut peer: Option<&mut Chfast>,
    table: &mut Table,
) -> Result<(), Failure> {
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    let start = Instant::now();
    let dataset = Dataset::generate(cache, all, &mut |_, _| ControlFlow::Continue(()))?;
    let took = start.elapsed().as_secs_f64();
    let words = dataset.words();
    println!(
        "dataset by {all} threads: {took:.2} s, {:.2} s per GiB",
        took / cache.dataset_bytes() as f64 * f64::from(1 << 30)
    );
    let full = dataset.view();
    if let Some(peer) = &mut peer {
        peer.fill(args.epoch, words)?;
        let header = B256::repeat_byte(9);
        let (ours, theirs) = (full.hash(&header, 5), peer.hash_full(&header, 5)?);
        if ours != theirs {
            return Err(ChfastError::WrongHash {
                got: theirs.into(),
                expected: ours.into(),
            }
            .into());
        }
    }
    let time = Duration::from_millis(args.search_ms);
    for threads in thread_counts() {
        let mut figure = Figure::rate(format!("search, kH/s, {threads} thread(s)"), sets.len());
        for _ in 0..args.rounds {
            let ceiling = item_read_rate(words, threads, time);
            figure.ceiling(ceiling.unwrap_or(f64::NAN) / BYTES_PER_HASH / 1e3);
            for (index, set) in sets.iter().enumerate() {
                set.limit();
                let rate = rate(threads, time, |first, end| search_full(&full, first, end));
                figure.ours(index, rate / 1e3);
            }
            if let Some(peer) = peer.as_deref() {
                figure.peer(rate(threads, time, |first, end| peer.search(first, end)) / 1e3);
            }
        }
        println!(
            "random reads by {threads} thread(s): {:.2} GB/s",
            figure.highest_ceiling() * 1e3 * BYTES_PER_HASH / 1e9
        );
        table.extend([figure]);
    }
    Ok(())
}
