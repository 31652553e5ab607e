//! The file under the database: pages with checksums, and a first page in two copies.
//!
//! redb writes checksums but does not look at them when it reads, so a flipped byte in a key or
//! a branch would make rows vanish without a word. Here every page carries a checksum that each
//! read compares. A page that differs is handed up as bytes that are no page, and told to
//! [`crate::guard`]: the read that met it fails, others go on.
//!
//! Layout, in pages of 4096 bytes: the file's name and form; two copies of redb's first page;
//! one unused; then groups of a page of checksums and the 1024 pages they are of. The first page
//! is the only one that redb overwrites in place: the copies are written in turn, so that one of
//! them is whole at any moment. A checksum is the CRC-32 of the page's number and its bytes.
//! A page that no commit refers to may have a wrong one after a crash; nobody reads it.
//!
//! Knows redb's demands on a backend; knows nothing of what it stores.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guard::note_damage;
use crate::medium::Medium;

/// Bytes of a page, redb's and ours.
const PAGE: u64 = 4096;
/// Pages of a group beside its page of checksums: as many as that has room for.
const GROUP: u64 = PAGE / SUM as u64;
/// Bytes of a checksum.
const SUM: usize = 4;
/// Pages before the first group.
const FRONT: u64 = 4;
/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"vnodedb\n";
/// The form described above.
const FORM: u32 = 1;
/// The first bytes of a database without pages of ours, as schema version 1 had it.
const PLAIN_MAGIC: &[u8; 4] = b"redb";
/// Bytes of redb's first page that are kept; it writes 320, and nothing beyond them.
const HEADER_BYTES: usize = 1024;
/// Bytes before those in a copy: sequence, length, checksum.
const COPY_FRONT: usize = 20;

/// What is at a path instead of a database.
#[derive(Debug)]
pub(crate) enum NotPages {
    /// Nothing that this program wrote, or that can be told to be; in words.
    Other(String),
    /// A database of schema version 1, which had no checksums.
    Plain,
    /// It ends before its content does.
    Cut {
        /// Bytes there are.
        got: u64,
        /// Bytes there must be.
        expected: u64,
    },
    /// It cannot be read.
    Io(io::Error),
}

impl From<io::Error> for NotPages {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// redb's first page, and where its present copy lies.
#[derive(Debug)]
struct Header {
    bytes: [u8; HEADER_BYTES],
    /// Counts the writes; the copy with the higher number is the present one.
    sequence: u64,
    /// Which copy that is.
    copy: u64,
    /// The present copy is safe on the medium, so the next write goes to the other.
    synced: bool,
}

/// A medium as redb sees it.
#[derive(Debug)]
pub(crate) struct Pages {
    medium: Arc<dyn Medium>,
    /// Bytes that redb sees.
    len: AtomicU64,
    header: Mutex<Header>,
}

impl Pages {
    /// Begins a database on an empty medium.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn create(medium: Arc<dyn Medium>) -> io::Result<Self> {
        let mut front = [0; 16];
        front[..8].copy_from_slice(MAGIC);
        front[8..12].copy_from_slice(&FORM.to_le_bytes());
        let sum = crc32fast::hash(&front[..12]);
        front[12..].copy_from_slice(&sum.to_le_bytes());
        medium.set_len(FRONT * PAGE)?;
        medium.write(0, &front)?;
        Ok(Self {
            medium,
            len: AtomicU64::new(0),
            header: Mutex::new(Header {
                bytes: [0; HEADER_BYTES],
                sequence: 0,
                copy: 0,
                synced: true,
            }),
        })
    }

    /// Opens a database.
    ///
    /// # Errors
    /// [`NotPages`] when there is none, or not all of it.
    pub(crate) fn open(medium: Arc<dyn Medium>) -> Result<Self, NotPages> {
        let got = medium.len()?;
        if got == 0 {
            return Err(NotPages::Other("the file is empty".to_owned()));
        }
        check_front(&*medium, got)?;
        if got < FRONT * PAGE {
            return Err(NotPages::Cut {
                got,
                expected: FRONT * PAGE,
            });
        }
        // What a killed process wrote last may still be on its way; of two copies that both are,
        // none would be safe.
        medium.sync()?;
        let copies = [read_copy(&*medium, 0)?, read_copy(&*medium, 1)?];
        let present = copies.into_iter().flatten().max_by_key(|copy| copy.0.sequence);
        let (header, len) =
            present.ok_or_else(|| NotPages::Other("both copies of the first page are damaged".to_owned()))?;
        let expected = physical_len(len);
        if got < expected {
            return Err(NotPages::Cut { got, expected });
        }
        Ok(Self {
            medium,
            len: AtomicU64::new(logical_len(got)),
            header: Mutex::new(header),
        })
    }

    fn header(&self) -> MutexGuard<'_, Header> {
        // Each change of it is whole before anything can panic.
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the first page to the copy whose turn it is, with `len` as the length to come.
    fn write_header(&self, header: &mut Header, len: u64) -> io::Result<()> {
        if header.synced {
            header.copy ^= 1;
            header.synced = false;
        }
        header.sequence += 1;
        let mut copy = [0; COPY_FRONT + HEADER_BYTES];
        copy[..8].copy_from_slice(&header.sequence.to_le_bytes());
        copy[8..16].copy_from_slice(&len.to_le_bytes());
        copy[COPY_FRONT..].copy_from_slice(&header.bytes);
        let sum = copy_sum(&copy);
        copy[16..COPY_FRONT].copy_from_slice(&sum.to_le_bytes());
        self.medium.write((1 + header.copy) * PAGE, &copy)
    }
}

/// Compares the file's name and form.
fn check_front(medium: &dyn Medium, got: u64) -> Result<(), NotPages> {
    let mut front = [0; 16];
    let there = front.len().min(usize::try_from(got).unwrap_or(usize::MAX));
    medium.read(0, &mut front[..there])?;
    if front.starts_with(PLAIN_MAGIC) {
        return Err(NotPages::Plain);
    }
    let [form, sum] = [8, 12].map(|at| u32::from_le_bytes(std::array::from_fn(|byte| front[at + byte])));
    if !front.starts_with(MAGIC) || sum != crc32fast::hash(&front[..12]) {
        let bytes: String = front[..there].iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(NotPages::Other(format!("the file begins with {bytes}")));
    }
    if form != FORM {
        return Err(NotPages::Other(format!("its form is {form}, want {FORM}")));
    }
    Ok(())
}

/// A copy of the first page with the length it asks for; `None` where it is not whole.
fn read_copy(medium: &dyn Medium, copy: u64) -> io::Result<Option<(Header, u64)>> {
    let mut bytes = [0; COPY_FRONT + HEADER_BYTES];
    medium.read((1 + copy) * PAGE, &mut bytes)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let (sequence, len) = (number(0), number(8));
    let sum = u32::from_le_bytes(std::array::from_fn(|byte| bytes[16 + byte]));
    if sequence == 0 || sum != copy_sum(&bytes) || !len.is_multiple_of(PAGE) {
        return Ok(None);
    }
    let header = Header {
        bytes: std::array::from_fn(|at| bytes[COPY_FRONT + at]),
        sequence,
        copy,
        synced: true,
    };
    Ok(Some((header, len)))
}

/// Checksum of a copy of the first page.
fn copy_sum(copy: &[u8; COPY_FRONT + HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&copy[..16]);
    hasher.update(&copy[COPY_FRONT..]);
    hasher.finalize()
}

/// Checksum of page `number`.
fn page_sum(number: u64, page: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(page);
    hasher.finalize()
}

/// Where the group of page `number` begins: with its checksums.
fn group_start(number: u64) -> u64 {
    (FRONT + number / GROUP * (GROUP + 1)) * PAGE
}

/// Where page `number` lies.
fn page_start(number: u64) -> u64 {
    group_start(number) + (1 + number % GROUP) * PAGE
}

/// Where the checksum of page `number` lies.
fn sum_start(number: u64) -> u64 {
    group_start(number) + number % GROUP * SUM as u64
}

/// Bytes of the file that holds `len` bytes for redb.
fn physical_len(len: u64) -> u64 {
    match len / PAGE {
        0 => FRONT * PAGE,
        pages => page_start(pages - 1) + PAGE,
    }
}

/// Bytes for redb in a file of `len` bytes.
fn logical_len(len: u64) -> u64 {
    let pages = (len / PAGE).saturating_sub(FRONT);
    let rest = (pages % (GROUP + 1)).saturating_sub(1);
    (pages / (GROUP + 1) * GROUP + rest) * PAGE
}

/// Cuts whole pages from `offset` on into runs that lie together: number of the first page, bytes.
fn runs(offset: u64, len: usize) -> io::Result<impl Iterator<Item = (u64, usize)>> {
    if !offset.is_multiple_of(PAGE) || !(len as u64).is_multiple_of(PAGE) {
        let what = format!("{len} bytes at {offset} are no whole pages of {PAGE}");
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

/// What is handed up in place of a damaged page: no page of redb begins like this.
const NO_PAGE: u8 = 0xff;

impl redb::StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset == 0 && out.len() <= HEADER_BYTES {
            out.copy_from_slice(&self.header().bytes[..out.len()]);
            return Ok(());
        }
        let mut sums = Vec::new();
        let mut damaged = None;
        let mut rest = &mut *out;
        for (first, bytes) in runs(offset, rest.len())? {
            let (pages, after) = rest.split_at_mut(bytes);
            rest = after;
            sums.resize(bytes / PAGE as usize * SUM, 0);
            let read = self
                .medium
                .read(page_start(first), pages)
                .and_then(|()| self.medium.read(sum_start(first), &mut sums));
            match read {
                Ok(()) => {}
                // Damage like any other, no failure of the medium.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    damaged = damaged.or(Some(first));
                    continue;
                }
                Err(error) => return Err(error),
            }
            let pages = pages.chunks_exact(PAGE as usize).zip(sums.chunks_exact(SUM));
            for (number, (page, sum)) in (first..).zip(pages) {
                if sum != page_sum(number, page).to_le_bytes() {
                    damaged = damaged.or(Some(number));
                }
            }
        }
        if let Some(page) = damaged {
            note_damage(page);
            out.fill(NO_PAGE);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(PAGE) {
            let what = format!("a length of {len} bytes is none of whole pages of {PAGE}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if len < self.len.load(Ordering::Acquire) {
            // A cut file is told from a shortened one by what the first page asks for.
            let mut header = self.header();
            self.write_header(&mut header, len)?;
            self.medium.sync()?;
            header.synced = true;
        }
        self.medium.set_len(physical_len(len))?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut header = self.header();
        self.medium.sync()?;
        header.synced = true;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 && data.len() <= HEADER_BYTES {
            let mut header = self.header();
            header.bytes[..data.len()].copy_from_slice(data);
            return self.write_header(&mut header, self.len.load(Ordering::Acquire));
        }
        let mut rest = data;
        for (first, bytes) in runs(offset, data.len())? {
            let (pages, after) = rest.split_at(bytes);
            rest = after;
            let sums: Vec<u8> = (first..)
                .zip(pages.chunks_exact(PAGE as usize))
                .flat_map(|(number, page)| page_sum(number, page).to_le_bytes())
                .collect();
            self.medium.write(page_start(first), pages)?;
            self.medium.write(sum_start(first), &sums)?;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.medium.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::StorageBackend;

    use super::*;
    use crate::guard::{Fall, guarded};

    /// Bytes in memory.
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
            let there = bytes.get(offset..offset + out.len());
            out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
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

    /// Pages 1 to `count` written, page 0 as a header.
    fn filled(count: u64) -> Arc<Ram> {
        let ram = Arc::new(Ram::default());
        let pages = Pages::create(ram.clone()).unwrap();
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
    fn lengths_and_places_fit_each_other() {
        for pages in [0, 1, 2, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP, 3 * GROUP + 7] {
            assert_eq!(
                logical_len(physical_len(pages * PAGE)),
                pages * PAGE,
                "{pages} pages"
            );
        }
        let mut ends: Vec<u64> = (0..3 * GROUP).map(page_start).collect();
        ends.extend((0..3).map(|group| group_start(group * GROUP)));
        ends.sort_unstable();
        assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == PAGE));
        assert_eq!(ends[0], FRONT * PAGE);
        let cut: Vec<_> = runs((GROUP - 1) * PAGE, (GROUP as usize + 2) * PAGE as usize)
            .unwrap()
            .collect();
        let bytes = |pages: u64| (pages * PAGE) as usize;
        assert_eq!(
            cut,
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
        let pages = Pages::open(filled(count)).unwrap();
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
        // Shortened and lengthened, the rest stays.
        pages.set_len(10 * PAGE).unwrap();
        pages.set_len(40 * PAGE).unwrap();
        let pages = Pages::open(pages.medium).unwrap();
        let mut out = page(0);
        pages.read(9 * PAGE, &mut out).unwrap();
        assert!(out == page(9));
    }

    #[test]
    fn every_flipped_byte_of_a_page_or_its_checksum_is_noticed() {
        let ram = filled(3);
        let pages = Pages::open(ram.clone()).unwrap();
        let read = |number: u64| {
            guarded(|| {
                let mut out = page(0);
                pages.read(number * PAGE, &mut out).unwrap();
                out
            })
        };
        let places = (page_start(2)..page_start(3)).chain(sum_start(2)..sum_start(3));
        for at in places {
            ram.flip(at);
            assert_eq!(read(2), Err(Fall::Damaged { page: 2 }), "byte {at}");
            assert!(read(1) == Ok(page(1)) && read(3) == Ok(page(3)));
            ram.flip(at);
        }
        assert!(read(2) == Ok(page(2)));
        // A page of another place is no page of this one.
        let other = page(1);
        ram.write(page_start(2), &other).unwrap();
        let sum = page_sum(1, &other).to_le_bytes();
        ram.write(sum_start(2), &sum).unwrap();
        assert_eq!(read(2), Err(Fall::Damaged { page: 2 }));
        // And one that is not there any more.
        let beyond = guarded(|| pages.read(7 * PAGE, &mut page(0)).unwrap());
        assert_eq!(beyond, Err(Fall::Damaged { page: 7 }));
    }

    #[test]
    fn one_copy_of_the_first_page_is_enough() {
        for (copy, expected) in [(0, b"header one"), (1, b"header two")] {
            for at in 0..(COPY_FRONT + HEADER_BYTES) as u64 {
                let ram = filled(1);
                // The first write of a fresh file went to copy 1, the second to copy 0.
                ram.flip((1 + copy) * PAGE + at);
                let pages = Pages::open(ram).unwrap();
                let mut head = [0; 10];
                pages.read(0, &mut head).unwrap();
                assert_eq!(&head, expected, "copy {copy}, byte {at}");
            }
        }
        let ram = filled(1);
        ram.flip(PAGE + 30);
        ram.flip(2 * PAGE + 30);
        assert!(matches!(Pages::open(ram), Err(NotPages::Other(_))));
    }

    #[test]
    fn the_present_copy_is_left_alone_until_the_other_is_safe() {
        let ram = filled(1);
        let pages = Pages::open(ram.clone()).unwrap();
        pages.write(0, b"header 333").unwrap();
        pages.write(0, b"header 444").unwrap();
        // Both went to the same copy, which may now be torn: the other has the last safe one.
        let torn = pages.header().copy;
        ram.flip((1 + torn) * PAGE + 25);
        let mut head = [0; 10];
        Pages::open(ram).unwrap().read(0, &mut head).unwrap();
        assert_eq!(&head, b"header two");
    }

    #[test]
    fn other_files_are_told() {
        let check = |bytes: &[u8], expected: &str| {
            let ram = Arc::new(Ram(Mutex::new(bytes.to_vec())));
            let error = Pages::open(ram).map(drop).unwrap_err();
            assert!(format!("{error:?}").contains(expected), "{error:?}");
        };
        check(b"", "empty");
        check(b"x", "begins with 78");
        check(b"redb\x1a\x0a", "Plain");
        check(&[0x5a; 20_000], "begins with 5a5a");
        let whole = filled(GROUP + 3).0.lock().unwrap().clone();
        for at in 0..16 {
            let mut other = whole.clone();
            other[at] ^= 1;
            check(&other, "begins with");
        }
        for cut in [16, 5000, FRONT * PAGE, 100 * PAGE + 1, whole.len() as u64 - 1] {
            check(&whole[..cut as usize], "Cut");
        }
    }
}
