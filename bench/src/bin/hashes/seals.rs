//! Measures checks of seals on the processor and on a graphics adapter, as a node does them while
//! headers come in bulk.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::Failure;
use clap::Args;
use engine::gpu::{GpuOptions, GpuSearcher};
use ethash::{B256, Epoch, LightCache, Seal, seed512, verify_seals};

/// Headers of a part that a peer sends.
const PEER_PART: usize = 192;

/// Measures checks of seals on the processor and on one graphics adapter.
#[derive(Args)]
pub(crate) struct SealArgs {
    /// Index of the adapter, as `miner devices` shows it.
    #[arg(long, default_value_t = 0)]
    adapter: usize,
    /// Epochs, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0,200,385,429")]
    epochs: Vec<u32>,
    /// Number of items of an artificial dataset, instead of that of the epoch. For software
    /// adapters.
    #[arg(long)]
    items: Option<u64>,
    /// Time for each rate, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Processor threads.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, |threads| threads.get()))]
    threads: usize,
}

/// Measures and prints a table in Markdown.
pub(crate) fn run(args: &SealArgs) -> Result<(), Failure> {
    let mut searcher = GpuSearcher::new(args.adapter, GpuOptions::default())?;
    let (time, threads) = (Duration::from_secs(args.seconds), args.threads.max(1));
    println!("{:?}; {threads} threads\n", searcher.adapter());
    println!(
        "| epoch | processor, seals/s | dataset, s | card, {PEER_PART} at once, seals/s | \
         card, 30,000 at once, seals/s | the card is worth it from (blocks left) |\n|---|---|---|---|---|---|"
    );
    for epoch in &args.epochs {
        let cache = Arc::new(match args.items {
            None => LightCache::build(Epoch::ethash(*epoch))?,
            Some(items) => {
                let epoch = Epoch::ethash(*epoch);
                LightCache::with_sizes(epoch.seed_hash(), 1 << 20, items * ethash::ITEM_BYTES as u64)?
            }
        });
        let processor = processor_rate(&cache, threads, time);
        let start = Instant::now();
        searcher.set_epoch(&cache, &mut |_| ControlFlow::Continue(()))?;
        let dataset = start.elapsed().as_secs_f64();
        let mut rates = [0.0; 2];
        for (rate, count) in rates.iter_mut().zip([PEER_PART, 30_000]) {
            let seeds: Vec<_> = (0..count as u64)
                .map(|nonce| seed512(&B256::repeat_byte(0x5a), nonce))
                .collect();
            // The first call compiles the kernel and allocates; it is also compared.
            let mixes = searcher.mix_hashes(&seeds)?;
            let expected = cache.hash(&B256::repeat_byte(0x5a), 100).mix_hash;
            if mixes[100] != expected {
                return Err(format!("mix hash: got {}, expected {expected}", mixes[100]).into());
            }
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < time {
                done += searcher.mix_hashes(&seeds)?.len();
            }
            *rate = done as f64 / start.elapsed().as_secs_f64();
        }
        let [part, whole] = rates;
        let bound = 2.0 * processor * dataset;
        println!("| {epoch} | {processor:.0} | {dataset:.2} | {part:.0} | {whole:.0} | {bound:.0} |");
    }
    Ok(())
}

/// Seals a second on `threads` threads, each with parts as a node gives them.
pub(crate) fn processor_rate(cache: &LightCache, threads: usize, time: Duration) -> f64 {
    let header_hash = B256::repeat_byte(0x5a);
    // The boundary lets all pass, so each is hashed in full.
    let seals: Vec<_> = (0..ethash::LIGHT_IN_FLIGHT as u64)
        .map(|pow_nonce| Seal {
            header_hash,
            pow_nonce,
            mix_hash: B256::ZERO,
            boundary: B256::repeat_byte(0xff),
        })
        .collect();
    let start = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let work = || {
            let mut done = 0;
            while start.elapsed() < time {
                done += verify_seals(cache, &seals).len();
            }
            done
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}
