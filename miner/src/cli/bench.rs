//! `bench`: figures as text, as JSON, and as a chart.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use miner::MinerError;
use miner::bench::{self, BenchConfig, BenchError};

use super::exit::Exit;
use super::options::BenchOptions;

/// Measures; gives the text for standard output and the exit code.
pub(crate) fn run(options: &BenchOptions) -> Result<(String, Exit), Exit> {
    // Before minutes are spent on figures that have nowhere to go.
    if let Some(path) = &options.plot {
        check_writable(path).map_err(|error| complain(path, &error))?;
    }
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
    let text = if options.json {
        report.to_json().to_string()
    } else if chart.groups.is_empty() {
        report.to_string()
    } else {
        format!("{report}\n\n{}", chart.to_text())
    };
    let drawn = match &options.plot {
        Some(path) => std::fs::write(path, chart.to_svg()).map_err(|error| complain(path, &error)),
        None => Ok(()),
    };
    let measured = if report.devices.iter().all(|device| device.error.is_some()) {
        Exit::NoDevice
    } else {
        Exit::Done
    };
    // What was measured is printed all the same.
    Ok((text, drawn.err().unwrap_or(measured)))
}

/// Whether `path` can be written; what is there stays as it is.
fn check_writable(path: &Path) -> std::io::Result<()> {
    let is_new = !path.exists();
    File::options().append(true).create(true).open(path)?;
    if is_new {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn complain(path: &Path, error: &std::io::Error) -> Exit {
    eprintln!("error: cannot write {}: {error}", path.display());
    Exit::Usage
}
