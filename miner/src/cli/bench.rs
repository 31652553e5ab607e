//! `bench`: figures as text, as JSON, and as a chart.

use std::path::Path;
use std::time::Duration;

use miner::MinerError;
use miner::bench::{self, BenchConfig, BenchError, Report};
use miner::display::{Bar, Chart};

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
    })
    .map_err(|error| {
        eprintln!("error: {error}");
        match error {
            BenchError::Device(MinerError::NoAdapter { .. }) => Exit::NoDevice,
            _ => Exit::Usage,
        }
    })?;
    let chart = chart(&report);
    if let Some(path) = &options.plot {
        write(path, &chart.to_svg()).map_err(|error| {
            eprintln!("error: {}: {error}", path.display());
            Exit::Usage
        })?;
    }
    Ok(if options.json {
        report.to_json().to_string()
    } else if chart.bars.is_empty() {
        report.to_string()
    } else {
        format!("{report}\n\n{}", chart.to_text())
    })
}

fn write(path: &Path, svg: &str) -> std::io::Result<()> {
    std::fs::write(path, svg)
}

/// The hash rates that were measured.
fn chart(report: &Report) -> Chart {
    let mut bars = Vec::new();
    for figures in &report.devices {
        let threads = figures
            .threads
            .map_or_else(String::new, |threads| format!(", {threads} threads"));
        let mut bar = |what: &str, rate: Option<f64>| {
            if let Some(rate) = rate {
                bars.push(Bar {
                    label: format!("{}{threads}{what}", figures.device),
                    rate,
                });
            }
        };
        bar("", figures.full_hashrate);
        bar(", light cache", figures.light_hashrate);
    }
    Chart {
        title: format!("Hash rate, epoch {}", report.epoch),
        bars,
    }
}
