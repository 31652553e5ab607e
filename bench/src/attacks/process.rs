//! The use of memory and processors by a process, as Linux tells it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;

/// Time between two looks at the memory.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The time for which the load of the machine is measured.
const SPIN_TIME: Duration = Duration::from_millis(200);
/// More than this part of all processors is free on a machine that does nothing else.
const FREE_PART: f64 = 0.75;

/// The use of memory and processors by a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUse {
    /// Resident memory.
    pub memory_kib: u64,
    /// The most resident memory so far.
    pub peak_kib: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Processor time.
    pub processor: Duration,
}

impl ProcessUse {
    /// Reads what the process `pid` uses.
    ///
    /// # Errors
    /// If there is no such process, or it has ended.
    pub fn read(pid: u32) -> Result<Self, Failure> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |name: &str| -> Result<u64, Failure> {
            let line = status
                .lines()
                .find(|line| line.starts_with(name))
                .ok_or("no such line")?;
            Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name of the program may have spaces.
        let (_, fields) = stat.rsplit_once(')').ok_or("no such file")?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Self {
            memory_kib: kib("VmRSS")?,
            peak_kib: kib("VmHWM")?,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            processor: Duration::from_millis(ticks * 10),
        })
    }

    /// Prints the figures in a line that begins with `when`.
    pub fn print(&self, when: &str) {
        println!(
            "  {when:<8} {:>7.1} MiB, peak {:>7.1} MiB, {:>4} descriptors, processor {:>6.2} s",
            self.memory_kib as f64 / 1024.0,
            self.peak_kib as f64 / 1024.0,
            self.descriptors,
            self.processor.as_secs_f64()
        );
    }
}

/// Watches the memory of a process on a thread of its own.
#[derive(Debug)]
pub struct MemoryWatch {
    state: Arc<WatchState>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct WatchState {
    peak_kib: AtomicU64,
    has_died: AtomicBool,
    ends: AtomicBool,
}

impl MemoryWatch {
    /// Begins to watch the process `pid`.
    pub fn start(pid: u32) -> Self {
        let state = Arc::<WatchState>::default();
        let watched = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while !watched.ends.load(Ordering::Acquire) {
                match ProcessUse::read(pid) {
                    Ok(used) => drop(watched.peak_kib.fetch_max(used.memory_kib, Ordering::AcqRel)),
                    Err(_) => watched.has_died.store(true, Ordering::Release),
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
        });
        Self { state, thread }
    }

    /// Ends. Returns the most memory in KiB, and whether the process has ended.
    pub fn end(self) -> (u64, bool) {
        self.state.ends.store(true, Ordering::Release);
        // The thread does not panic.
        let _ = self.thread.join();
        let state = self.state;
        (
            state.peak_kib.load(Ordering::Acquire),
            state.has_died.load(Ordering::Acquire),
        )
    }
}

/// Returns the load of the machine by other programs: 1 if nearly all of its processors are free,
/// otherwise how many times as long as there a computation takes that all processors share.
pub fn machine_load() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = || {
        let begun = Instant::now();
        while begun.elapsed() < SPIN_TIME {
            std::hint::spin_loop();
        }
        // The first figure is the time on a processor, in nanoseconds.
        let figures = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let first = figures
            .split_whitespace()
            .next()
            .and_then(|first| first.parse().ok());
        first
            .map_or_else(|| begun.elapsed(), Duration::from_nanos)
            .as_secs_f64()
            / begun.elapsed().as_secs_f64()
    };
    let got: f64 = std::thread::scope(|scope| {
        let spinning: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
        // A thread that panics has got nothing.
        spinning
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .sum()
    });
    let part = got / threads as f64;
    if part > FREE_PART {
        1.0
    } else {
        1.0 / part.max(0.01)
    }
}
