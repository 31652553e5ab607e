//! The file under redb: every page has a checksum, and the first page has two copies.
//!
//! redb writes checksums but does not compare them when it reads. A flipped byte in a key or in a
//! branch of the tree would make rows vanish without an error. So this layer adds a checksum to
//! every page and compares it at every read. If a page is damaged, redb gets bytes that are not a
//! page, and [`crate::guard`] is told. So the read that met the page fails, and other reads go on.
//!
//! The file, in pages of 4096 bytes: the file header; two copies of redb's first page
//! ([`first_page`]); one unused page; then groups of one page of checksums and its 1024 pages
//! ([`layout`]). The file header is: name (8), form (4), CRC-32 of these (4), numbers
//! little-endian.
//!
//! After a crash, a page that no commit refers to may have a wrong checksum. Nobody reads such a
//! page.
//!
//! Knows what redb demands of a backend; knows nothing of what redb stores.

mod first_page;
mod layout;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use metrics::{Counter, counter};

use crate::guard::note_damage;
use crate::medium::Medium;
use first_page::{FIRST_PAGE_BYTES, FirstPage};
use layout::{CHECKSUM, FRONT, PAGE, checksum, checksum_start, logical_len, page_start, physical_len, runs};

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"vnodedb\n";
/// The form of the file that is described above.
const FORM: u32 = 1;
/// Bytes of the file header.
const FILE_HEADER: usize = 16;
/// The first bytes of a file of schema version 1, which redb wrote without this layer.
const REDB_MAGIC: &[u8; 4] = b"redb";
/// The first byte of the page that redb gets in place of a damaged one. No page of redb begins with
/// it.
const NOT_A_PAGE: u8 = 0xff;

/// The reason why a medium cannot be opened as a database.
#[derive(Debug)]
pub(crate) enum PageFileError {
    /// The content is something else, or too damaged to tell; in words.
    NotADatabase(String),
    /// A database of schema version 1, which has no checksums.
    WithoutChecksums,
    /// The file ends too early.
    Truncated {
        /// The length of the file, in bytes.
        got: u64,
        /// The length that it should have at least, in bytes.
        expected: u64,
    },
    /// The medium cannot be read.
    Io(io::Error),
}

impl From<io::Error> for PageFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A medium as redb sees it: without checksums and copies.
#[derive(Debug)]
pub(crate) struct ChecksummedPages {
    medium: Arc<dyn Medium>,
    /// Logical length in bytes.
    len: AtomicU64,
    /// Bytes of pages that were written so far, without the first page.
    written: Arc<AtomicU64>,
    first_page: Mutex<FirstPage>,
    meters: PageMeters,
}

/// Counts for whoever records metrics through the `metrics` crate.
struct PageMeters {
    read: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
}

impl PageMeters {
    fn new() -> Self {
        Self {
            read: counter!("vnode_store_reads_total"),
            read_bytes: counter!("vnode_store_read_bytes_total"),
            written_bytes: counter!("vnode_store_written_bytes_total"),
        }
    }
}

impl fmt::Debug for PageMeters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageMeters")
    }
}

impl ChecksummedPages {
    /// Starts a new database on an empty medium.
    ///
    /// # Errors
    /// The errors of the medium.
    pub(crate) fn create(medium: Arc<dyn Medium>) -> io::Result<Self> {
        let mut header = [0; FILE_HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&FORM.to_le_bytes());
        let sum = crc32fast::hash(&header[..12]);
        header[12..].copy_from_slice(&sum.to_le_bytes());
        medium.set_len(FRONT * PAGE)?;
        medium.write(0, &header)?;
        Ok(Self {
            medium,
            len: AtomicU64::new(0),
            written: Arc::default(),
            first_page: Mutex::new(FirstPage::new()),
            meters: PageMeters::new(),
        })
    }

    /// Opens the database on `medium`.
    ///
    /// # Errors
    /// [`PageFileError`] when the medium does not hold a complete database.
    pub(crate) fn open(medium: Arc<dyn Medium>) -> Result<Self, PageFileError> {
        let got = medium.len()?;
        if got == 0 {
            return Err(PageFileError::NotADatabase("the file is empty".to_owned()));
        }
        check_file_header(&*medium, got)?;
        if got < FRONT * PAGE {
            return Err(PageFileError::Truncated {
                got,
                expected: FRONT * PAGE,
            });
        }
        let (mut first_page, len) = FirstPage::read(&*medium)?.ok_or_else(|| {
            PageFileError::NotADatabase("both copies of the first page are damaged".to_owned())
        })?;
        let expected = physical_len(len);
        if got < expected {
            return Err(PageFileError::Truncated { got, expected });
        }
        first_page.make_safe(&*medium, len)?;
        Ok(Self {
            medium,
            len: AtomicU64::new(logical_len(got)),
            written: Arc::default(),
            first_page: Mutex::new(first_page),
            meters: PageMeters::new(),
        })
    }

    /// The counter of the bytes of pages that were written, without the first page.
    pub(crate) fn written_bytes(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    fn first_page(&self) -> MutexGuard<'_, FirstPage> {
        // A poisoned lock is fine: no change of the first page can panic half-way.
        self.first_page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a run of pages into `out`. Returns the number of the first damaged page, if any.
    fn read_run(&self, first: u64, out: &mut [u8]) -> io::Result<Option<u64>> {
        self.meters.read.increment(1);
        self.meters.read_bytes.increment(out.len() as u64);
        let mut sums = vec![0; out.len() / PAGE as usize * CHECKSUM];
        let read = self
            .medium
            .read(page_start(first), out)
            .and_then(|()| self.medium.read(checksum_start(first), &mut sums));
        match read {
            Ok(()) => {}
            // A page beyond the end of the file is a damaged page, not a failure of the medium.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(first)),
            Err(error) => return Err(error),
        }
        let pages = out.chunks_exact(PAGE as usize).zip(sums.chunks_exact(CHECKSUM));
        let damaged = (first..)
            .zip(pages)
            .find(|(number, (page, sum))| *sum != checksum(*number, page).to_le_bytes());
        Ok(damaged.map(|(number, _)| number))
    }
}

/// Compares the name and the form of the file. `got` is its length in bytes.
fn check_file_header(medium: &dyn Medium, got: u64) -> Result<(), PageFileError> {
    let mut header = [0; FILE_HEADER];
    let len = header.len().min(usize::try_from(got).unwrap_or(usize::MAX));
    medium.read(0, &mut header[..len])?;
    if header.starts_with(REDB_MAGIC) {
        return Err(PageFileError::WithoutChecksums);
    }
    let [form, sum] = [8, 12].map(|at| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte])));
    if !header.starts_with(MAGIC) || sum != crc32fast::hash(&header[..12]) {
        let bytes: String = header[..len].iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(PageFileError::NotADatabase(format!(
            "the file begins with {bytes}"
        )));
    }
    if form != FORM {
        return Err(PageFileError::NotADatabase(format!(
            "form of the file: got {form}, expected {FORM}"
        )));
    }
    Ok(())
}

impl redb::StorageBackend for ChecksummedPages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset == 0 && out.len() <= FIRST_PAGE_BYTES {
            out.copy_from_slice(&self.first_page().bytes[..out.len()]);
            return Ok(());
        }
        let mut damaged = None;
        let mut rest = &mut *out;
        for (first, bytes) in runs(offset, rest.len())? {
            let (run, after) = rest.split_at_mut(bytes);
            rest = after;
            damaged = damaged.or(self.read_run(first, run)?);
        }
        if let Some(page) = damaged {
            note_damage(page);
            out.fill(NOT_A_PAGE);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(PAGE) {
            let what = format!("length: got {len} bytes, expected a multiple of {PAGE}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if len < self.len.load(Ordering::Acquire) {
            // The new length is stored first. At the next opening, a file that is shorter than the
            // stored length counts as truncated.
            let mut first_page = self.first_page();
            first_page.write(&*self.medium, len)?;
            first_page.sync(&*self.medium)?;
        }
        self.medium.set_len(physical_len(len))?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.first_page().sync(&*self.medium)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 && data.len() <= FIRST_PAGE_BYTES {
            let mut first_page = self.first_page();
            first_page.bytes[..data.len()].copy_from_slice(data);
            return first_page.write(&*self.medium, self.len.load(Ordering::Acquire));
        }
        let mut rest = data;
        for (first, bytes) in runs(offset, data.len())? {
            let (run, after) = rest.split_at(bytes);
            rest = after;
            let sums: Vec<u8> = (first..)
                .zip(run.chunks_exact(PAGE as usize))
                .flat_map(|(number, page)| checksum(number, page).to_le_bytes())
                .collect();
            self.written.fetch_add(bytes as u64, Ordering::AcqRel);
            self.meters.written_bytes.increment(bytes as u64);
            self.medium.write(page_start(first), run)?;
            self.medium.write(checksum_start(first), &sums)?;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.medium.close();
        Ok(())
    }
}
