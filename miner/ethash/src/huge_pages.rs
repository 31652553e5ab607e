//! Asks the operating system to back large tables with huge pages.
//!
//! Light cache and dataset are read at random. With small pages most reads also miss the
//! processor's address cache (the TLB). The request is only a hint: without huge pages everything
//! works, but slower.

use core::ops::{Deref, DerefMut};

use bytemuck::Pod;

/// Bytes in a huge page of x86-64 and AArch64 Linux.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory of the size and alignment of one huge page.
#[derive(Clone, Copy)]
#[repr(C, align(2097152))]
struct HugePage([u8; HUGE_PAGE_BYTES]);

// SAFETY: the type contains only bytes, and every byte value, zero too, is a valid `u8`.
unsafe impl bytemuck::Zeroable for HugePage {}
// SAFETY: the type contains only bytes, of which every value is valid. Its size equals its
// alignment, so there is no padding. It is `Copy`, `'static` and `repr(C)`.
unsafe impl Pod for HugePage {}

/// A table of fixed length that begins at a huge page boundary.
///
/// An ordinary allocation begins at any address. Its parts of the first and the last huge page
/// would then lie in small pages, which is a quarter of a table of 16 MiB.
pub(crate) struct HugeTable<T> {
    pages: Vec<HugePage>,
    length: usize,
    element: core::marker::PhantomData<T>,
}

impl<T: Pod> HugeTable<T> {
    /// A table of `length` zeros; `None` if there is not enough memory.
    pub(crate) fn zeroed(length: usize) -> Option<Self> {
        const { assert!(HUGE_PAGE_BYTES.is_multiple_of(size_of::<T>())) };
        let count = length.checked_mul(size_of::<T>())?.div_ceil(HUGE_PAGE_BYTES);
        let mut pages: Vec<HugePage> = Vec::new();
        pages.try_reserve_exact(count).ok()?;
        advise_huge_pages(pages.spare_capacity_mut());
        // SAFETY: the vector has reserved memory for `count` pages, and all of it is set to zero,
        // which is a valid `HugePage`, before the length says so.
        unsafe {
            pages.as_mut_ptr().write_bytes(0, count);
            pages.set_len(count);
        }
        Some(Self {
            pages,
            length,
            element: core::marker::PhantomData,
        })
    }
}

impl<T: Pod> Deref for HugeTable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.pages)[..self.length]
    }
}

impl<T: Pod> DerefMut for HugeTable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.pages)[..self.length]
    }
}

/// Asks the system to back the memory of `region` with huge pages.
///
/// Has most effect before the memory is first written. Does nothing on systems other than Linux.
pub fn advise_huge_pages<T>(region: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        let start = region.as_mut_ptr() as usize;
        let end = start + size_of_val(region);
        let (first, last) = (
            start.next_multiple_of(HUGE_PAGE_BYTES),
            end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES,
        );
        if first < last {
            // SAFETY: the range lies within `region`, which is borrowed for the whole call, and
            // this advice does not change the contents of memory. If the system refuses, nothing is
            // lost, so the result is ignored.
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
        for length in [0, 1, HUGE_PAGE_BYTES / 4, HUGE_PAGE_BYTES / 4 + 1] {
            let mut table = HugeTable::<u32>::zeroed(length).expect("some MiB");
            assert_eq!(table.len(), length);
            assert!(table.iter().all(|word| *word == 0));
            assert_eq!(table.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
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
