//! Measures one kernel on one graphics adapter, for work on the kernels: artificial datasets,
//! several pages, batches of other lengths. The kernel is compared with the CPU before it is
//! measured.

use std::time::Duration;

use bench::Failure;
use clap::Args;
use engine::DeviceChoice;
use engine::gpu::{GpuOptions, KernelRequest, list_adapters};
use miner::bench::{self as measured, BenchConfig, BenchDevices};

/// Measures one kernel on one graphics adapter.
#[derive(Args)]
pub(crate) struct CardArgs {
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
    /// Search kernel, as for `miner`.
    #[arg(long, default_value = "lane:64")]
    kernel: KernelRequest,
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

/// Measures and prints the figures.
pub(crate) fn run(args: &CardArgs) -> Result<(), Failure> {
    for adapter in list_adapters() {
        println!("{adapter:?}");
    }
    let report = measured::run(
        &BenchConfig {
            devices: BenchDevices::Selected(DeviceChoice::List {
                cpu: false,
                adapters: vec![args.adapter],
            }),
            epoch: args.epoch,
            items: args.items,
            time: Duration::from_secs(args.seconds),
            threads: 1,
            light_only: false,
            kernel: args.kernel,
            gpu: GpuOptions {
                target_batch: Duration::from_millis(args.target_ms),
                max_page_items: args.page_items,
                runtime_checks: args.runtime_checks,
                ..GpuOptions::default()
            },
        },
        &mut |_| {},
    )?;
    println!("{report}");
    Ok(())
}
