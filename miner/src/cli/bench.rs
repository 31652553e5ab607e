//! `bench`: figures as text, as JSON, and as a chart.

use std::path::Path;
use std::time::Duration;

use miner::MinerError;
use miner::bench::{self, BenchConfig, BenchError};

use super::exit::Exit;
use super::options::BenchOptions;

/// Measures; gives the text for standard output.
pub(crate) fn run(options: &BenchOptions) -> Result<String, Exit> {
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let report = bench::run(&BenchConfig {
        devices: options.device.clone(),
        epoch: options.epoch,
        time: Duration::from_secs_f64(options.seconds),
        threads,
        light_only: options.light,
        kernel: options.kernel.0,
    })
    .map_err(|error| {
        eprintln!("error: {error}");
        match error {
            BenchError::Device(MinerError::NoAdapter { .. }) => Exit::NoDevice,
            _ => Exit::Usage,
        }
    })?;
    let chart = report.to_chart();
    if let Some(path) = &options.plot {
        write(path, &chart.to_svg()).map_err(|error| {
            eprintln!("error: {}: {error}", path.display());
            Exit::Usage
        })?;
    }
    Ok(if options.json {
        report.to_json().to_string()
    } else if chart.groups.is_empty() {
        report.to_string()
    } else {
        format!("{report}\n\n{}", chart.to_text())
    })
}

fn write(path: &Path, svg: &str) -> std::io::Result<()> {
    std::fs::write(path, svg)
}
