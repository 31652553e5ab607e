//! Measures an adapter on the dataset of a real epoch: generation and hash rate. Every solution is
//! checked on the CPU.
//!
//! `cargo run --release -p miner --example gpu_bench -- --epoch 0 --seconds 20 --kernel shuffle`

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use ethash::{B256, Epoch, LightCache, U256, boundary, meets_boundary};
use miner::gpu::{GpuOptions, GpuSearcher, GpuWork, KernelRequest, list_adapters};

/// Measures an adapter.
#[derive(Parser)]
struct Args {
    /// Index of the adapter. The list of adapters is printed.
    #[arg(long, default_value_t = 0)]
    adapter: usize,
    /// Epoch whose dataset is generated.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Number of items of an artificial dataset, instead of that of the epoch. A small one fits in
    /// the caches of a processor.
    #[arg(long)]
    items: Option<u64>,
    /// Length of the search in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Search kernel, as for `miner`, but not auto.
    #[arg(long, default_value = "lane:64")]
    kernel: KernelRequest,
    /// Difficulty of the work. Its solutions are checked.
    #[arg(long, default_value_t = 100_000)]
    difficulty: u64,
    /// Target time of the batches in flight, in milliseconds.
    #[arg(long, default_value_t = 100)]
    target_ms: u64,
    /// Largest number of items in a page.
    #[arg(long)]
    page_items: Option<u32>,
    /// Keep wgpu's own checks in the kernels.
    #[arg(long)]
    runtime_checks: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    for adapter in list_adapters() {
        println!("{adapter:?}");
    }
    let start = Instant::now();
    let epoch = Epoch::ethash(args.epoch);
    let cache = Arc::new(match args.items {
        None => LightCache::build(epoch)?,
        Some(items) => {
            LightCache::with_sizes(epoch.seed_hash(), ethash::cache_bytes(args.epoch)?, items * 128)?
        }
    });
    println!("light cache: {:.2?}, {} rows", start.elapsed(), cache.rows());

    let options = args.kernel.apply(GpuOptions {
        target_batch: Duration::from_millis(args.target_ms),
        max_page_items: args.page_items,
        runtime_checks: args.runtime_checks,
        ..GpuOptions::default()
    });
    let mut searcher = GpuSearcher::new(args.adapter, options)?;
    let start = Instant::now();
    let (mut shown, mut generated) = (start, start);
    searcher.set_epoch(&cache, &mut |progress| {
        if shown.elapsed() > Duration::from_secs(20) {
            shown = Instant::now();
            println!(
                "  {} of {} items, {:.0?}",
                progress.items_done,
                progress.items_total,
                start.elapsed()
            );
        }
        generated = Instant::now();
        ControlFlow::Continue(())
    })?;
    println!("search kernel and checks: {:.2?}", generated.elapsed());
    let (items, elapsed) = (cache.dataset_items(), generated - start);
    println!(
        "dataset: {items} items in {} pages, {elapsed:.2?}, {:.0} items/s, {:.3} s/GiB",
        searcher.dataset_pages(),
        f64::from(items) / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * (1u64 << 30) as f64 / cache.dataset_bytes() as f64,
    );
    search(&mut searcher, &cache, &args)
}

fn search(searcher: &mut GpuSearcher, cache: &LightCache, args: &Args) -> Result<(), Box<dyn Error>> {
    let work = GpuWork {
        id: 0,
        header_hash: B256::repeat_byte(0x42),
        boundary: boundary(&U256::from(args.difficulty)),
        start_nonce: 0xffff_0000,
        nonces: u64::MAX,
    };
    searcher.set_work(work);
    // The size of the batches settles first.
    let warm = Instant::now();
    while warm.elapsed() < Duration::from_secs(2) {
        searcher.next_batch()?;
    }
    let start = Instant::now();
    let (mut hashes, mut batches, mut good, mut bad) = (0u64, 0u32, 0u32, 0u32);
    while start.elapsed() < Duration::from_secs(args.seconds) {
        let report = searcher.next_batch()?;
        hashes += u64::from(report.count);
        batches += 1;
        for hit in report.hits {
            let hash = cache.hash(&work.header_hash, hit.pow_nonce);
            if hash.mix_hash == hit.mix_hash && meets_boundary(&hash.final_hash, &work.boundary) {
                good += 1;
            } else {
                bad += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = hashes as f64 / seconds;
    println!(
        "search: {:.2} kH/s over {seconds:.1} s, {:.2} GB/s of dataset, {batches} batches of {:.0} ms; \
         {good} solutions good, {bad} bad, {:.1} expected",
        rate / 1e3,
        rate * 8192.0 / 1e9,
        seconds * 1e3 / f64::from(batches),
        hashes as f64 / args.difficulty as f64,
    );
    let ceilings = searcher.measure_ceilings(Duration::from_secs(2))?;
    println!(
        "memory: {ceilings:?}; the search has {:.3} of the random reads",
        rate * 8192.0 / ceilings.random_read_bytes_per_second.unwrap_or(f64::NAN)
    );
    Ok(())
}
