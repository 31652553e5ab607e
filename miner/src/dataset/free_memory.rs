//! How much memory of this machine could be taken without driving other programs out.
//!
//! Systems promise more memory than there is, so asking for it shows nothing.

use std::time::{Duration, Instant};

/// What is left to everyone else, in bytes.
const LEFT_FREE: u64 = 256 << 20;
/// How long memory that is about to be given back is waited for in silence: a dataset goes when the last searcher
/// has seen that it is of yesterday.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Memory that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryShortage {
    /// Bytes that there should be, those included that are left to others.
    pub(crate) needed: u64,
    /// Bytes that there are.
    pub(crate) available: u64,
}

/// The memory of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeMemory {
    /// Bytes that could be taken now, where the system tells.
    pub(crate) available: fn() -> Option<u64>,
    pub(crate) patience: Duration,
}

impl Default for FreeMemory {
    fn default() -> Self {
        Self {
            available,
            patience: PATIENCE,
        }
    }
}

impl FreeMemory {
    /// What is missing for `bytes`. Where the system does not tell, nothing is.
    pub(crate) fn lack(&self, bytes: u64) -> Option<MemoryShortage> {
        (self.available)().and_then(|available| lack(bytes, available))
    }

    /// Whether `bytes` can be taken. Where the system does not tell, they cannot.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        (self.available)().is_some_and(|available| lack(bytes, available).is_none())
    }

    /// Waits for room for `bytes`, and calls `tell` once when it takes longer than it should. False once they are
    /// no longer `wanted`.
    pub(crate) fn wait(
        &self,
        bytes: u64,
        wanted: impl Fn() -> bool,
        tell: impl FnOnce(MemoryShortage),
    ) -> bool {
        let start = Instant::now();
        let mut tell = Some(tell);
        while let Some(lack) = self.lack(bytes) {
            if !wanted() {
                return false;
            }
            if start.elapsed() >= self.patience
                && let Some(tell) = tell.take()
            {
                tell(lack);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

/// What is missing for `bytes`.
fn lack(bytes: u64, available: u64) -> Option<MemoryShortage> {
    let needed = bytes.saturating_add(LEFT_FREE);
    (available < needed).then_some(MemoryShortage { needed, available })
}

/// Bytes that programs could take now; known on Linux alone.
fn available() -> Option<u64> {
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
    fn the_figure_of_the_system_is_read() {
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
    fn what_is_missing_is_told_and_what_comes_back_is_waited_for() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static LOOKS: AtomicU64 = AtomicU64::new(0);

        let room = |available, patience| FreeMemory { available, patience };
        let never = room(|| Some(1000), Duration::ZERO);
        let lack = MemoryShortage {
            needed: 744 + LEFT_FREE,
            available: 1000,
        };
        assert_eq!(never.lack(744), Some(lack));
        assert!(!never.has(744));
        let mut told = None;
        assert!(!never.wait(744, || false, |_| panic!("nobody waits for it")));
        let mut looks = 0..2;
        let wanted = std::cell::RefCell::new(&mut looks);
        assert!(!never.wait(
            744,
            || wanted.borrow_mut().next().is_some(),
            |lack| told = Some(lack)
        ));
        assert_eq!(told, Some(lack));
        let unknown = room(|| None, Duration::ZERO);
        assert!(unknown.wait(u64::MAX, || true, |_| {}), "nobody can tell");
        assert!(!unknown.has(1));
        // At the third look it is there.
        let later = room(
            || Some(LEFT_FREE + LOOKS.fetch_add(1, Ordering::Relaxed)),
            Duration::from_secs(20),
        );
        assert!(later.wait(2, || true, |_| panic!("it came in time")));
    }
}
