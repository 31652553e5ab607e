//! Asks the system for large pages under large tables.
//!
//! Cache and dataset are read at random, so with small pages most reads also miss the table of
//! addresses. Only a hint: where the system has no such pages nothing changes but the speed.

use core::ops::{Deref, DerefMut};

use bytemuck::Pod;

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Memory the size of a huge page, where one begins.
#[derive(Clone, Copy)]
#[repr(C, align(2097152))]
struct Block([u8; HUGE_PAGE]);

// SAFETY: bytes alone, any of which is valid.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: bytes alone, as many as the alignment, so without padding.
unsafe impl Pod for Block {}

/// A table of fixed length that fills huge pages from their beginning.
///
/// An ordinary allocation begins anywhere, and what it has of its first and last huge page lies in
/// small ones: a quarter of 16 MiB.
pub(crate) struct HugeTable<T> {
    blocks: Vec<Block>,
    length: usize,
    of: core::marker::PhantomData<T>,
}

impl<T: Pod> HugeTable<T> {
    /// `length` zeros; `None` when there is no memory for them.
    pub(crate) fn zeroed(length: usize) -> Option<Self> {
        const { assert!(HUGE_PAGE.is_multiple_of(size_of::<T>())) };
        let count = length.checked_mul(size_of::<T>())?.div_ceil(HUGE_PAGE);
        let mut blocks: Vec<Block> = Vec::new();
        blocks.try_reserve_exact(count).ok()?;
        advise_huge_pages(blocks.spare_capacity_mut());
        // SAFETY: there is room for `count` blocks, which are valid once they are zero.
        unsafe {
            blocks.as_mut_ptr().write_bytes(0, count);
            blocks.set_len(count);
        }
        Some(Self {
            blocks,
            length,
            of: core::marker::PhantomData,
        })
    }
}

impl<T: Pod> Deref for HugeTable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }
}

impl<T: Pod> DerefMut for HugeTable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

/// Asks that the memory of `region` be backed by huge pages; best before it is first written.
///
/// Does nothing outside Linux.
pub fn advise_huge_pages<T>(region: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        let start = region.as_mut_ptr() as usize;
        let end = start + size_of_val(region);
        let (first, last) = (start.next_multiple_of(HUGE_PAGE), end / HUGE_PAGE * HUGE_PAGE);
        if first < last {
            // SAFETY: the range lies within `region`, whose contents this advice does not change. A
            // refusal is of no consequence, so the result is not looked at.
            unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = region;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_zero_and_fill_huge_pages() {
        for length in [0, 1, HUGE_PAGE / 4, HUGE_PAGE / 4 + 1] {
            let mut table = HugeTable::<u32>::zeroed(length).expect("some MiB");
            assert_eq!(table.len(), length);
            assert!(table.iter().all(|word| *word == 0));
            assert_eq!(table.as_ptr() as usize % HUGE_PAGE, 0);
            table.fill(7);
            assert!(table.iter().all(|word| *word == 7));
        }
        assert!(HugeTable::<u32>::zeroed(usize::MAX).is_none());
        assert!(HugeTable::<u32>::zeroed(usize::MAX / 8).is_none());
    }

    #[test]
    fn contents_survive_the_advice() {
        let mut region: Vec<u32> = (0..3 << 20).collect();
        advise_huge_pages(&mut region);
        advise_huge_pages(&mut region[..7]);
        advise_huge_pages::<u32>(&mut []);
        assert!(region.iter().copied().eq(0..3 << 20));
    }
}
