//! How much memory of this machine could be taken without driving other programs out.
//!
//! Systems promise more memory than there is, so asking for it shows nothing.

/// What is left to everyone else, in bytes.
const LEFT_FREE: u64 = 256 << 20;

/// What there is, where `bytes` cannot be taken; `None` where they can, or the system does not tell.
pub(crate) fn too_little_for(bytes: u64) -> Option<u64> {
    available().filter(|available| *available < bytes.saturating_add(LEFT_FREE))
}

/// Whether `bytes` can be taken. Where the system does not tell, they cannot.
pub(crate) fn has_room_for(bytes: u64) -> bool {
    available().is_some_and(|available| available >= bytes.saturating_add(LEFT_FREE))
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
        assert!(!has_room_for(u64::MAX));
        assert_eq!(too_little_for(u64::MAX).is_some(), available().is_some());
    }
}
