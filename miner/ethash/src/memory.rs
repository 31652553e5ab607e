//! Asks the system for large pages under large tables.
//!
//! Cache and dataset are read at random, so with small pages most reads also miss the table of addresses.
//! Only a hint: where the system has no such pages nothing changes but the speed.

/// Asks that the memory of `region` be backed by huge pages; best before it is first written.
///
/// Does nothing outside Linux.
pub fn advise_huge_pages<T>(region: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 2 << 20;
        let start = region.as_mut_ptr() as usize;
        let end = start + size_of_val(region);
        let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first < last {
            // SAFETY: the range lies within `region`, whose contents this advice does not change. A refusal
            // is of no consequence, so the result is not looked at.
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
    fn contents_survive_the_advice() {
        let mut region: Vec<u32> = (0..3 << 20).collect();
        advise_huge_pages(&mut region);
        advise_huge_pages(&mut region[..7]);
        advise_huge_pages::<u32>(&mut []);
        assert!(region.iter().copied().eq(0..3 << 20));
    }
}
