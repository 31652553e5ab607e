//! Tells the memory that this machine has for a dataset, without pushing other programs out.
//!
//! An attempt to allocate would not tell: systems grant more memory than they have.

use std::time::{Duration, Instant};

/// Memory that is left to other programs, in bytes.
const RESERVE_BYTES: u64 = 256 << 20;
/// The time for which a wait for memory is silent. The dataset of the last epoch is freed only
/// after every searcher has noticed the new epoch, so a short wait is normal.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two checks while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// There is less free memory than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryShortage {
    /// Bytes needed, including the reserve for other programs.
    pub(crate) needed: u64,
    /// Bytes available.
    pub(crate) available: u64,
}

/// The free memory of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeMemory {
    /// Returns the bytes that programs could take now, or `None` if the system does not tell.
    pub(crate) available: fn() -> Option<u64>,
    pub(crate) patience: Duration,
}

impl Default for FreeMemory {
    fn default() -> Self {
        Self {
            available: available_bytes,
            patience: PATIENCE,
        }
    }
}

impl FreeMemory {
    /// Returns the shortage if there is too little memory for `bytes`. If the system does not tell,
    /// there is no shortage.
    pub(crate) fn shortage(&self, bytes: u64) -> Option<MemoryShortage> {
        (self.available)().and_then(|available| shortage(bytes, available))
    }

    /// Returns the shortage if there is too little memory for a light cache of `bytes`. A light
    /// cache is small beside a dataset, so nothing is kept back for other programs.
    pub(crate) fn cache_shortage(&self, bytes: u64) -> Option<MemoryShortage> {
        let available = (self.available)()?;
        (available < bytes).then_some(MemoryShortage {
            needed: bytes,
            available,
        })
    }

    /// Whether there is certainly enough memory for `bytes`. If the system does not tell, the
    /// answer is no.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        (self.available)().is_some_and(|available| shortage(bytes, available).is_none())
    }

    /// Waits until there is enough memory for `bytes`. Returns false when `is_needed` returns
    /// false.
    ///
    /// If the wait takes longer than usual, `report` is called once.
    pub(crate) fn wait(
        &self,
        bytes: u64,
        is_needed: impl Fn() -> bool,
        report: impl FnOnce(MemoryShortage),
    ) -> bool {
        let start = Instant::now();
        let mut report = Some(report);
        while let Some(shortage) = self.shortage(bytes) {
            if !is_needed() {
                return false;
            }
            if start.elapsed() >= self.patience
                && let Some(report) = report.take()
            {
                report(shortage);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

fn shortage(bytes: u64, available: u64) -> Option<MemoryShortage> {
    let needed = bytes.saturating_add(RESERVE_BYTES);
    (available < needed).then_some(MemoryShortage { needed, available })
}

/// Returns the bytes that programs could take now. Only Linux tells.
fn available_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_the_system_is_parsed() {
        let text = "MemTotal:       24737024 kB\nMemAvailable:   23068672 kB\nBuffers: 1 kB\n";
        assert_eq!(parse(text), Some(23_068_672 * 1024));
        for bad in [
            "",
            "MemTotal: 1 kB",
            "MemAvailable: x kB",
            "MemAvailable: 5",
            "MemAvailable: -1 kB",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(!FreeMemory::default().has(u64::MAX));
    }

    #[test]
    fn a_shortage_is_reported_and_free_memory_is_waited_for() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static LOOKS: AtomicU64 = AtomicU64::new(0);

        let memory = |available, patience| FreeMemory { available, patience };
        let never = memory(|| Some(1000), Duration::ZERO);
        let shortage = MemoryShortage {
            needed: 744 + RESERVE_BYTES,
            available: 1000,
        };
        assert_eq!(never.shortage(744), Some(shortage));
        assert!(!never.has(744));
        let mut reported = None;
        assert!(!never.wait(744, || false, |_| panic!("nobody waits for this memory")));
        let mut looks = 0..2;
        let is_needed = std::cell::RefCell::new(&mut looks);
        assert!(!never.wait(
            744,
            || is_needed.borrow_mut().next().is_some(),
            |shortage| reported = Some(shortage)
        ));
        assert_eq!(reported, Some(shortage));
        let unknown = memory(|| None, Duration::ZERO);
        assert!(
            unknown.wait(u64::MAX, || true, |_| {}),
            "the system does not tell"
        );
        assert!(!unknown.has(1));
        // The third look finds enough memory.
        let later = memory(
            || Some(RESERVE_BYTES + LOOKS.fetch_add(1, Ordering::Relaxed)),
            Duration::from_secs(20),
        );
        assert!(later.wait(2, || true, |_| panic!("the memory came in time")));
    }
}
