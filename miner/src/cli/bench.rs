//! `miner bench`: measures devices, and shows the results as text, JSON or a chart.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use miner::MinerError;
use miner::bench::{self, BenchConfig, BenchError};

use super::exit::{CommandOutput, ExitReason};
use super::options::BenchOptions;

/// Runs the measurements.
pub(crate) fn run(options: &BenchOptions) -> Result<CommandOutput, ExitReason> {
    // Check this before measurements that take minutes.
    if let Some(path) = &options.plot {
        check_writable(path).map_err(|error| write_failed(path, &error))?;
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
            BenchError::Device(MinerError::NoAdapter { .. }) => ExitReason::NoDevice,
            _ => ExitReason::Usage,
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
    let plotted = match &options.plot {
        Some(path) => std::fs::write(path, chart.to_svg()).map_err(|error| write_failed(path, &error)),
        None => Ok(()),
    };
    let measured = if report.devices.iter().all(|device| device.error.is_some()) {
        ExitReason::NoDevice
    } else {
        ExitReason::Done
    };
    // The text is printed even if the chart could not be written.
    Ok(CommandOutput {
        text,
        exit: plotted.err().unwrap_or(measured),
    })
}

/// Checks that `path` can be written. An existing file is not changed.
fn check_writable(path: &Path) -> std::io::Result<()> {
    let is_new = !path.exists();
    File::options().append(true).create(true).open(path)?;
    if is_new {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Prints the error that `path` cannot be written.
fn write_failed(path: &Path, error: &std::io::Error) -> ExitReason {
    eprintln!("error: cannot write {}: {error}", path.display());
    ExitReason::Usage
}
