//! Bytes that a benchmark reads from the disk and writes to it, as the system counts them.

use crate::Failure;

/// Bytes that this process has had from the disk and given to it.
#[derive(Clone, Copy, Debug)]
pub struct DiskBytes {
    read: u64,
    /// Bytes of calls that write.
    given: u64,
    /// Bytes of pages of the page cache that became dirty.
    dirtied: u64,
}

impl DiskBytes {
    /// The bytes read since `before`.
    pub const fn read_since(&self, before: &Self) -> u64 {
        self.read - before.read
    }

    /// The most bytes that may have been written since `before`. A page that is given twice may
    /// become dirty once. New systems seem to count a whole folio, up to 2 MiB, as dirty for each
    /// page that is given. So the lower count holds.
    pub fn written_since(&self, before: &Self) -> u64 {
        (self.given - before.given).min(self.dirtied - before.dirtied)
    }
}

/// The bytes so far.
///
/// # Errors
/// If the system does not tell them.
pub fn disk_bytes() -> Result<DiskBytes, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let field = |name: &str| -> Result<u64, Failure> {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(value
            .ok_or_else(|| format!("no {name} in /proc/self/io"))?
            .parse()?)
    };
    Ok(DiskBytes {
        read: field("read_bytes: ")?,
        given: field("wchar: ")?,
        dirtied: field("write_bytes: ")?,
    })
}
