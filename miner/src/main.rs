//! The command `miner`: which devices there are and what they do.
//!
//! Options and output only; what they mean is the library's business. Figures go to standard output, all
//! else to standard error.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use miner::bench::{self, BenchConfig, BenchDevices};
use tracing_subscriber::EnvFilter;

/// How long a hash rate is measured unless told otherwise.
const BENCH_SECONDS: f64 = 10.0;

/// Ethash nonce search on CPUs and graphics adapters.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the devices and their numbers.
    Devices,
    /// Measure light cache, dataset and hash rate.
    Bench(BenchOptions),
}

#[derive(Debug, Args)]
struct BenchOptions {
    /// auto, cpu, gpu, gpu:N or all; all takes software adapters too.
    #[arg(long, default_value = "auto")]
    device: BenchDevices,
    /// The epoch whose cache and dataset are used.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Seconds for each hash rate.
    #[arg(long, default_value_t = BENCH_SECONDS, value_parser = seconds)]
    seconds: f64,
    /// Threads of the CPU; all it has unless given.
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Leave out the full dataset.
    #[arg(long)]
    light: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a time that can be measured.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("got {text}, expected seconds from 0 to 86400")),
    }
}

fn main() -> ExitCode {
    miner::gpu::quiet_drivers();
    // This program's own news, and of the libraries' only what is wrong.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,miner=info"));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .init();
    let output = match Options::parse().command {
        Command::Devices => Ok(devices()),
        Command::Bench(options) => run_bench(options),
    };
    let (text, code) = match output {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A reader that has gone, as in `miner devices | head -1`, is no error worth a word.
    let _ = writeln!(std::io::stdout(), "{text}");
    code
}

fn devices() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = vec![format!("cpu      {threads} threads")];
    for adapter in miner::gpu::list_adapters() {
        let kind = if adapter.software { ", software" } else { "" };
        let miner::gpu::AdapterInfo {
            index,
            name,
            backend,
            driver,
            ..
        } = adapter;
        lines.push(format!("gpu:{index:<4} {name} ({backend}, {driver}{kind})"));
    }
    lines.join("\n")
}

fn run_bench(options: BenchOptions) -> Result<String, bench::BenchError> {
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let report = bench::run(&BenchConfig {
        devices: options.device,
        epoch: options.epoch,
        time: Duration::from_secs_f64(options.seconds),
        threads,
        light_only: options.light,
    })?;
    Ok(if options.json {
        report.to_json().to_string()
    } else {
        report.to_string()
    })
}
