//! `miner bench`: measures devices, and shows the results as text, JSON or a chart. With
//! `--thorough` the figures go to a folder.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use command_line::ExitReason;
use crossbeam_channel::RecvTimeoutError;
use daemon::StopSignal;
use engine::gpu::GpuOptions;
use engine::{DeviceChoice, MinerError};
use miner::bench::thorough::{
    self, BenchClock, BenchScale, PeerRate, SteadyNode, ThoroughConfig, ThoroughEnd, ThoroughError,
};
use miner::bench::{self, BenchConfig, BenchDevices, BenchError, BenchReport};

use super::CommandOutput;
use super::options::{BenchOptions, ScaleOption};

/// The default time for the measurement of a hashrate.
const BENCH_SECONDS: f64 = 10.0;
/// The default time for each figure of a thorough benchmark. There are many.
const FIGURE_SECONDS: f64 = 3.0;
/// Reports that wait to be printed.
const REPORTS_MAX: usize = 16;
/// Time between two checks whether a signal has come.
const SIGNAL_CHECK_EVERY: Duration = Duration::from_millis(100);

/// Runs the measurements.
pub(crate) fn run(options: &BenchOptions) -> Result<CommandOutput, ExitReason> {
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    if let Some(folder) = &options.thorough.report {
        let text = thorough::write_report(folder).map_err(|error| thorough_failed(&error))?;
        let exit = ExitReason::Done;
        return Ok(CommandOutput { text, exit });
    }
    if options.thorough.thorough {
        return run_thorough(options, threads);
    }
    // Check this before measurements that take minutes.
    if let Some(path) = &options.plot {
        check_writable(path).map_err(|error| write_failed(path, &error))?;
    }
    let report = measure(
        BenchConfig {
            devices: options.device.clone(),
            epoch: options.epoch,
            items: None,
            time: Duration::from_secs_f64(options.seconds.unwrap_or(BENCH_SECONDS)),
            threads,
            light_only: options.light,
            kernel: options.kernel,
            gpu: GpuOptions::default(),
        },
        options.json,
    )?;
    let chart = report.to_chart();
    let text = if options.json {
        report.to_json().to_string()
    } else if chart.groups.is_empty() {
        String::new()
    } else {
        format!("\n{}", chart.to_text())
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

/// Takes the figures, and prints each as it comes, unless the result is to be JSON. A signal to
/// stop ends the measurements; the figures so far remain.
fn measure(config: BenchConfig, json: bool) -> Result<BenchReport, ExitReason> {
    let stopped = stop_flag().map_err(|error| {
        eprintln!("error: cannot listen for signals: {error}");
        ExitReason::Failed
    })?;
    let (out, notes) = crossbeam_channel::bounded(REPORTS_MAX);
    // At a signal the thread is left behind, in the middle of a measurement.
    let measured = std::thread::Builder::new()
        .name("bench".into())
        .spawn(move || {
            bench::run(&config, &mut |report| {
                // Nobody listens after a signal.
                let _ = out.send(report.clone());
            })
        })
        .map_err(|error| {
            eprintln!("error: cannot start a thread: {error}");
            ExitReason::Failed
        })?;
    let (mut printed, mut last) = (PrintedFigures::default(), None);
    loop {
        match notes.recv_timeout(SIGNAL_CHECK_EVERY) {
            Ok(report) => {
                if !json {
                    printed.print_new(&report);
                }
                last = Some(report);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stopped.load(Ordering::Relaxed) {
            eprintln!("stopped: these are the figures so far");
            return last.map(without_unbegun).ok_or(ExitReason::Done);
        }
    }
    let result = measured
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    result.map_err(|error| {
        eprintln!("error: {error}");
        match error {
            BenchError::Device(MinerError::NoAdapter { .. }) => ExitReason::NoDevice,
            _ => ExitReason::Failed,
        }
    })
}

/// The report without a device that has no figures yet.
fn without_unbegun(mut report: BenchReport) -> BenchReport {
    report.devices.retain(|figures| !figures.device.is_empty());
    report
}

/// The lines that were printed.
#[derive(Default)]
struct PrintedFigures {
    head: bool,
    /// Of each device.
    devices: Vec<Vec<String>>,
}

impl PrintedFigures {
    fn print_new(&mut self, report: &BenchReport) {
        for line in self.new_lines(report) {
            // The reader may be gone. That is not an error.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    /// The lines of `report` that were not printed yet.
    fn new_lines(&mut self, report: &BenchReport) -> Vec<String> {
        let mut new = Vec::new();
        if !std::mem::replace(&mut self.head, true) {
            new.extend(report.to_string().lines().next().map(str::to_owned));
        }
        self.devices.resize(report.devices.len(), Vec::new());
        let begun = report.devices.iter().filter(|figures| !figures.device.is_empty());
        for (printed, figures) in self.devices.iter_mut().zip(begun) {
            let lines = figures.lines(report.dataset_bytes).into_iter();
            let lines: Vec<_> = lines.filter(|line| !printed.contains(line)).collect();
            printed.extend_from_slice(&lines);
            new.extend(lines);
        }
        new
    }
}

/// Takes the figures of a thorough benchmark.
fn run_thorough(options: &BenchOptions, threads: usize) -> Result<CommandOutput, ExitReason> {
    let wanted = &options.thorough;
    let peers = |rates: &[(String, f64)], published| -> Vec<_> {
        let rates = rates.iter().cloned();
        rates
            .map(|(name, mega)| PeerRate {
                name,
                hashrate: mega * 1e6,
                published,
            })
            .collect()
    };
    let config = ThoroughConfig {
        folder: wanted.out.clone().unwrap_or_default(),
        cards: match &options.device {
            BenchDevices::All | BenchDevices::Selected(DeviceChoice::Auto) => None,
            BenchDevices::Selected(choice) => Some(choice.clone()),
        },
        scale: wanted.scale.map(|scale| match scale {
            ScaleOption::Full => BenchScale::Full,
            ScaleOption::Small => BenchScale::Small,
        }),
        figure_time: Duration::from_secs_f64(options.seconds.unwrap_or(FIGURE_SECONDS)),
        threads,
        node: (wanted.vnode.clone().map(SteadyNode::Program))
            .or_else(|| wanted.node.clone().map(SteadyNode::Url)),
        steady_time: wanted.steady,
        only: wanted.only.clone(),
        peers: [peers(&wanted.peer, false), peers(&wanted.published, true)].concat(),
    };
    let stopped = stop_flag().map_err(|error| {
        eprintln!("error: cannot listen for signals: {error}");
        ExitReason::Failed
    })?;
    let clock = BenchClock::new(wanted.minutes, stopped);
    let end = thorough::run(&config, &clock).map_err(|error| thorough_failed(&error))?;
    let state = match end {
        ThoroughEnd::Complete => "complete",
        ThoroughEnd::TimeOver => "the time is over; the same command goes on",
        ThoroughEnd::Stopped => "stopped; the same command goes on",
    };
    let folder = config.folder.display();
    Ok(CommandOutput {
        text: format!("{state}\n{folder}/figures.jsonl, {folder}/report.md, {folder}/report.svg"),
        exit: ExitReason::Done,
    })
}

fn thorough_failed(error: &ThoroughError) -> ExitReason {
    eprintln!("error: {error}");
    match error {
        ThoroughError::Device(MinerError::NoAdapter { .. }) => ExitReason::NoDevice,
        _ => ExitReason::Failed,
    }
}

/// Returns a flag that the first signal to stop sets.
fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signal = runtime.block_on(async { StopSignal::listen() })?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(signal.wait());
            set.store(true, Ordering::Relaxed);
            // The runtime stays, so that the signal has no other effect either.
            runtime.block_on(std::future::pending::<()>());
        })?;
    Ok(flag)
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
    ExitReason::Failed
}

#[cfg(test)]
mod tests {
    use miner::bench::BenchFigures;

    use super::*;

    #[test]
    fn each_figure_is_printed_once() {
        let mut report = BenchReport {
            epoch: 0,
            cache_bytes: 1,
            dataset_bytes: 2,
            devices: Vec::new(),
        };
        let mut printed = PrintedFigures::default();
        assert_eq!(printed.new_lines(&report).len(), 1, "the head");
        report.devices.push(BenchFigures::default());
        assert!(printed.new_lines(&report).is_empty(), "the device has not begun");
        report.devices[0].device = "cpu".into();
        report.devices[0].hashrate = Some(1e6);
        assert_eq!(printed.new_lines(&report).len(), 2);
        report.devices[0].light_cache_seconds = Some(1.0);
        let new = printed.new_lines(&report);
        assert!(new.len() == 1 && new[0].contains("light cache"), "{new:?}");
        assert!(printed.new_lines(&report).is_empty());
    }
}
