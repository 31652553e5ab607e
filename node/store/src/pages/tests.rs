//! Lengths and positions, damaged bytes, the two copies of the first page, other files.

use redb::StorageBackend;

use super::first_page::{COPY_BYTES, copy_start};
use super::layout::*;
use super::*;
use crate::guard::{CallFailure, guarded};

/// A medium in memory.
#[derive(Debug, Default)]
struct Ram(Mutex<Vec<u8>>);

impl Ram {
    fn flip(&self, at: u64) {
        self.0.lock().unwrap()[at as usize] ^= 0x10;
    }
}

impl Medium for Ram {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let offset = offset as usize;
        let source = bytes.get(offset..offset + out.len());
        out.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn page(mark: u8) -> Vec<u8> {
    (0..PAGE).map(|at| (at as u8).wrapping_mul(mark)).collect()
}

/// A medium with `count` + 1 pages. Page 0 was written twice, first as "header one", then as
/// "header two".
fn filled(count: u64) -> Arc<Ram> {
    let ram = Arc::new(Ram::default());
    let pages = ChecksummedPages::create(ram.clone()).unwrap();
    pages.set_len((count + 1) * PAGE).unwrap();
    for number in 1..=count {
        pages.write(number * PAGE, &page(number as u8)).unwrap();
    }
    pages.write(0, b"header one").unwrap();
    pages.sync_data().unwrap();
    pages.write(0, b"header two").unwrap();
    pages.sync_data().unwrap();
    ram
}

#[test]
fn lengths_and_positions_agree() {
    for pages in [0, 1, 2, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP, 3 * GROUP + 7] {
        assert_eq!(
            logical_len(physical_len(pages * PAGE)),
            pages * PAGE,
            "{pages} pages"
        );
    }
    let mut starts: Vec<u64> = (0..3 * GROUP).map(page_start).collect();
    starts.extend((0..3).map(|group| group_start(group * GROUP)));
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == PAGE));
    assert_eq!(starts[0], FRONT * PAGE);
    let found: Vec<_> = runs((GROUP - 1) * PAGE, (GROUP as usize + 2) * PAGE as usize)
        .unwrap()
        .collect();
    let bytes = |pages: u64| (pages * PAGE) as usize;
    assert_eq!(
        found,
        [
            (GROUP - 1, bytes(1)),
            (GROUP, bytes(GROUP)),
            (2 * GROUP, bytes(1))
        ]
    );
    assert!(runs(5, PAGE as usize).is_err() && runs(PAGE, 5).is_err());
}

#[test]
fn pages_come_back_over_groups_and_reopening() {
    let count = GROUP + 20;
    let pages = ChecksummedPages::open(filled(count)).unwrap();
    assert_eq!(StorageBackend::len(&pages).unwrap(), (count + 1) * PAGE);
    let mut head = [0; 10];
    pages.read(0, &mut head).unwrap();
    assert_eq!(&head, b"header two");
    let mut out = vec![0; 30 * PAGE as usize];
    pages.read((GROUP - 10) * PAGE, &mut out).unwrap();
    let expected: Vec<u8> = (GROUP - 10..GROUP + 20)
        .flat_map(|number| page(number as u8))
        .collect();
    assert!(out == expected);
    // After shortening and lengthening, the pages below the cut are unchanged.
    pages.set_len(10 * PAGE).unwrap();
    pages.set_len(40 * PAGE).unwrap();
    let pages = ChecksummedPages::open(pages.medium).unwrap();
    let mut out = page(0);
    pages.read(9 * PAGE, &mut out).unwrap();
    assert!(out == page(9));
}

#[test]
fn every_flipped_byte_of_a_page_or_its_checksum_is_noticed() {
    let ram = filled(3);
    let pages = ChecksummedPages::open(ram.clone()).unwrap();
    let read = |number: u64| {
        guarded(|| {
            let mut out = page(0);
            pages.read(number * PAGE, &mut out).unwrap();
            out
        })
    };
    let positions = (page_start(2)..page_start(3)).chain(checksum_start(2)..checksum_start(3));
    for at in positions {
        ram.flip(at);
        assert_eq!(read(2), Err(CallFailure::Damaged { page: 2 }), "byte {at}");
        assert!(read(1) == Ok(page(1)) && read(3) == Ok(page(3)));
        ram.flip(at);
    }
    assert!(read(2) == Ok(page(2)));
    // A page copied from another position is damage, even with its own checksum.
    let other = page(1);
    ram.write(page_start(2), &other).unwrap();
    let sum = checksum(1, &other).to_le_bytes();
    ram.write(checksum_start(2), &sum).unwrap();
    assert_eq!(read(2), Err(CallFailure::Damaged { page: 2 }));
    // So is a page beyond the end of the file.
    let beyond = guarded(|| pages.read(7 * PAGE, &mut page(0)).unwrap());
    assert_eq!(beyond, Err(CallFailure::Damaged { page: 7 }));
}

#[test]
fn one_copy_of_the_first_page_is_enough() {
    for (copy, expected) in [(0, b"header one"), (1, b"header two")] {
        for at in 0..COPY_BYTES as u64 {
            let ram = filled(1);
            // In a new file the first write goes to copy 1 and the second to copy 0.
            ram.flip(copy_start(copy) + at);
            let pages = ChecksummedPages::open(ram).unwrap();
            let mut head = [0; 10];
            pages.read(0, &mut head).unwrap();
            assert_eq!(&head, expected, "copy {copy}, byte {at}");
        }
    }
    let ram = filled(1);
    ram.flip(copy_start(0) + 30);
    ram.flip(copy_start(1) + 30);
    assert!(matches!(
        ChecksummedPages::open(ram),
        Err(PageFileError::NotADatabase(_))
    ));
}

#[test]
fn the_synced_copy_is_not_overwritten_before_the_other_is_synced() {
    let ram = filled(1);
    let pages = ChecksummedPages::open(ram.clone()).unwrap();
    pages.write(0, b"header 333").unwrap();
    pages.write(0, b"header 444").unwrap();
    // Both writes went to the same copy, which may be torn after a crash. The other copy has the
    // last synced page.
    let torn = pages.first_page().copy;
    ram.flip(copy_start(torn) + 25);
    let mut head = [0; 10];
    ChecksummedPages::open(ram).unwrap().read(0, &mut head).unwrap();
    assert_eq!(&head, b"header two");
}

#[test]
fn other_files_are_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let ram = Arc::new(Ram(Mutex::new(bytes.to_vec())));
        let error = ChecksummedPages::open(ram).map(drop).unwrap_err();
        assert!(format!("{error:?}").contains(expected), "{error:?}");
    };
    check(b"", "empty");
    check(b"x", "begins with 78");
    check(b"redb\x1a\x0a", "WithoutChecksums");
    check(&[0x5a; 20_000], "begins with 5a5a");
    let whole = filled(GROUP + 3).0.lock().unwrap().clone();
    for at in 0..16 {
        let mut other = whole.clone();
        other[at] ^= 1;
        check(&other, "begins with");
    }
    for cut in [16, 5000, FRONT * PAGE, 100 * PAGE + 1, whole.len() as u64 - 1] {
        check(&whole[..cut as usize], "Truncated");
    }
}
