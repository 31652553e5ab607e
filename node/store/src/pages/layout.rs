//! The offsets of pages and their checksums in the file. Arithmetic only.
//!
//! "Logical" lengths and offsets are those that redb sees; "physical" ones are those in the file.

use std::io;

/// Bytes of a page, redb's and ours.
pub(super) const PAGE: u64 = 4096;
/// Bytes of a checksum.
pub(super) const CHECKSUM: usize = 4;
/// Pages in a group: as many as have room for their checksums in one page.
pub(super) const GROUP: u64 = PAGE / CHECKSUM as u64;
/// Pages before the first group: the file header, two copies of the first page, one unused.
pub(super) const FRONT: u64 = 4;

/// Checksum of page `number`: CRC-32 of the number (8 bytes, little-endian) and the page.
pub(super) fn checksum(number: u64, page: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(page);
    hasher.finalize()
}

/// Physical offset of the group of page `number`. The group begins with its page of checksums.
pub(super) const fn group_start(number: u64) -> u64 {
    (FRONT + number / GROUP * (GROUP + 1)) * PAGE
}

/// Physical offset of page `number`.
pub(super) const fn page_start(number: u64) -> u64 {
    group_start(number) + (1 + number % GROUP) * PAGE
}

/// Physical offset of the checksum of page `number`.
pub(super) const fn checksum_start(number: u64) -> u64 {
    group_start(number) + number % GROUP * CHECKSUM as u64
}

/// Physical length of a file with the logical length `len`.
pub(super) const fn physical_len(len: u64) -> u64 {
    match len / PAGE {
        0 => FRONT * PAGE,
        pages => page_start(pages - 1) + PAGE,
    }
}

/// Logical length of a file with the physical length `len`.
pub(super) const fn logical_len(len: u64) -> u64 {
    let pages = (len / PAGE).saturating_sub(FRONT);
    let in_last_group = (pages % (GROUP + 1)).saturating_sub(1);
    (pages / (GROUP + 1) * GROUP + in_last_group) * PAGE
}

/// Splits `len` bytes at the logical `offset` into runs of pages that are adjacent in the file.
/// Each run is the number of its first page and its length in bytes.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `offset` or `len` is not a multiple of [`PAGE`].
pub(super) fn runs(offset: u64, len: usize) -> io::Result<impl Iterator<Item = (u64, usize)>> {
    if !offset.is_multiple_of(PAGE) || !(len as u64).is_multiple_of(PAGE) {
        let what = format!("got {len} bytes at offset {offset}, expected multiples of {PAGE}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let (mut next, end) = (offset / PAGE, offset / PAGE + len as u64 / PAGE);
    Ok(std::iter::from_fn(move || {
        let first = next;
        next = end.min((first / GROUP + 1) * GROUP);
        let bytes = usize::try_from((next - first) * PAGE).ok()?;
        (bytes > 0).then_some((first, bytes))
    }))
}
