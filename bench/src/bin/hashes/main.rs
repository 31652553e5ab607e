//! Measures Ethash on the processor: light cache, dataset items, seal check, search over the full
//! dataset.
//!
//! `cargo run --release -p bench --bin hashes`. Each instruction set of the processor is measured,
//! and also chfast/ethash if `--chfast` names its library. They take turns in each round, so that
//! other load on the machine slows all of them. The shortest time of the rounds is printed, because
//! disturbances only add time. The search is also compared with an upper bound: reads of random
//! items from the same dataset with as many in flight and no computation. No hashrate can be above
//! the rate of those reads divided by 64.

mod ceiling;
mod chfast;
mod table;

use std::hint::black_box;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use ethash::{
    ACCESSES, B256, Epoch, FullDataset, ITEM_BYTES, ITEM_WORDS, InstructionSet, LightCache, SEARCH_GROUP,
    SEARCH_IN_FLIGHT,
};

use chfast::Chfast;
use table::{Figure, Table};

/// Number of items that are computed for one figure.
const ITEMS: usize = 4096;
/// Number of hashes with the light cache for one figure.
const SEALS: u64 = 64;
/// Number of items that a thread generates at a time.
const ITEMS_PER_CHUNK: usize = 4096;

#[derive(Parser)]
#[command(about = "Measures Ethash on the processor", long_about = None)]
struct Args {
    /// Epoch of caches and dataset.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
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

fn main() {
    if let Err(error) = run(&Args::parse()) {
        eprintln!("hashes: {error}");
        std::process::exit(1);
    }
}

fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let sets: Vec<_> = InstructionSet::ALL
        .into_iter()
        .filter(|set| set.runs_here())
        .collect();
    let cache = LightCache::build(Epoch::ethash(args.epoch))?;
    let mut peer = args
        .chfast
        .as_ref()
        .map(|path| {
            let library = Chfast::load(path, args.epoch)?;
            library.must_agree(&cache)?;
            Ok::<_, Box<dyn std::error::Error>>(library)
        })
        .transpose()?;
    println!(
        "epoch {}: light cache {} bytes, dataset {} bytes; best of {} rounds",
        args.epoch,
        cache.as_bytes().len(),
        cache.dataset_bytes(),
        args.rounds
    );
    let mut table = Table::new(sets.iter().map(ToString::to_string), peer.is_some());
    measure_light(args, &sets, &cache, peer.as_ref(), &mut table)?;
    if !args.light {
        measure_full(args, &sets, &cache, peer.as_mut(), &mut table)?;
    }
    print!("{table}");
    Ok(())
}

/// Measures everything that needs only the light cache.
fn measure_light(
    args: &Args,
    sets: &[InstructionSet],
    cache: &LightCache,
    peer: Option<&Chfast>,
    table: &mut Table,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut build = Figure::new("light cache, ms", sets.len());
    for _ in 0..args.rounds {
        for (index, set) in sets.iter().enumerate() {
            set.limit();
            let start = Instant::now();
            black_box(LightCache::build(Epoch::ethash(args.epoch))?);
            build.ours(index, start.elapsed().as_secs_f64() * 1e3);
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
        let first = round.wrapping_mul(0x9e37_79b9) % (cache.dataset_items() - ITEMS as u32);
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
    table.extend([build, items, seals]);
    Ok(())
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
    args: &Args,
    sets: &[InstructionSet],
    cache: &LightCache,
    mut peer: Option<&mut Chfast>,
    table: &mut Table,
) -> Result<(), Box<dyn std::error::Error>> {
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    InstructionSet::detect().limit();
    let generated = generate(cache, all)?;
    let (words, took) = (&generated.words[generated.offset..], generated.time);
    println!(
        "dataset by {all} threads: {:.2} s, {:.2} s per GiB",
        took.as_secs_f64(),
        took.as_secs_f64() / cache.dataset_bytes() as f64 * f64::from(1 << 30)
    );
    let full = FullDataset::new(words).ok_or("the dataset has no items")?;
    if let Some(peer) = &mut peer {
        peer.fill(args.epoch, words)?;
        let header = B256::repeat_byte(9);
        let (ours, theirs) = (full.hash(&header, 5), peer.hash_full(&header, 5)?);
        if ours != theirs {
            return Err(format!("nonce 5 from the full dataset: got {theirs:?}, expected {ours:?}").into());
        }
    }
    let time = Duration::from_millis(args.search_ms);
    let mut counts = vec![1];
    counts.extend((all > 1).then_some(all));
    for threads in counts {
        let mut figure = Figure::rate(format!("search, kH/s, {threads} thread(s)"), sets.len());
        for _ in 0..args.rounds {
            figure.ceiling(rate_of_threads(threads, time, |thread, end| {
                ceiling::reads(words, SEARCH_IN_FLIGHT, thread, end) / u64::from(ACCESSES)
            }));
            for (index, set) in sets.iter().enumerate() {
                set.limit();
                let rate = rate_of_threads(threads, time, |thread, end| search(&full, thread, end));
                figure.ours(index, rate);
            }
            if let Some(peer) = peer.as_deref() {
                figure.peer(rate_of_threads(threads, time, |thread, end| {
                    peer.search(thread, end)
                }));
            }
        }
        println!(
            "random reads by {threads} thread(s), {SEARCH_IN_FLIGHT} in flight each: {:.2} GB/s",
            figure.highest_ceiling() * 1e3 * f64::from(ACCESSES) * ITEM_BYTES as f64 / 1e9
        );
        table.extend([figure]);
    }
    Ok(())
}

/// A generated dataset. It is in huge pages, and each item is on cache lines of its own.
struct GeneratedDataset {
    words: Vec<u32>,
    /// Index of the first word of the first item.
    offset: usize,
    time: Duration,
}

/// Generates the dataset with `threads` threads.
fn generate(cache: &LightCache, threads: usize) -> Result<GeneratedDataset, Box<dyn std::error::Error>> {
    let length = usize::try_from(cache.dataset_bytes())? / size_of::<u32>();
    let mut words: Vec<u32> = Vec::new();
    words.try_reserve_exact(length + ITEM_WORDS)?;
    let offset = words.as_ptr().align_offset(ITEM_BYTES);
    ethash::advise_huge_pages(words.spare_capacity_mut());
    // This makes the system provide the pages before the clock starts.
    words.resize(offset + length, 0);
    let start = Instant::now();
    let chunks = words[offset..]
        .chunks_mut(ITEMS_PER_CHUNK * ITEM_WORDS)
        .enumerate();
    let chunks = std::sync::Mutex::new(chunks);
    let next_chunk = || chunks.lock().ok().and_then(|mut chunks| chunks.next());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, chunk)) = next_chunk() {
                    cache.fill_items((index * ITEMS_PER_CHUNK) as u32, chunk);
                }
            });
        }
    });
    let time = start.elapsed();
    Ok(GeneratedDataset { words, offset, time })
}

/// Searches until `end`. Returns the number of hashes. `thread` chooses the range of nonces.
fn search(full: &FullDataset<'_>, thread: usize, end: Instant) -> u64 {
    let (mut nonce, mut hashes) = ((thread as u64) << 48, 0);
    full.search(
        &B256::repeat_byte(7),
        || {
            nonce += SEARCH_GROUP as u64;
            (Instant::now() < end).then(|| core::array::from_fn(|i| nonce + i as u64))
        },
        |nonces, done| {
            hashes += nonces.len() as u64;
            black_box(done);
        },
    );
    hashes
}

/// Runs `work` on `threads` threads for `time`. Returns the sum of their results per millisecond.
/// `work` gets the number of its thread and the time at which it has to end.
fn rate_of_threads(threads: usize, time: Duration, work: impl Fn(usize, Instant) -> u64 + Sync) -> f64 {
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread, start + time)
                })
            })
            .collect();
        // A thread that panicked counts as 0.
        running.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    done as f64 / (start.elapsed().as_secs_f64() * 1e3)
}
