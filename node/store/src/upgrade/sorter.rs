//! Sorts the rows of a table in files: an external merge sort.
//!
//! Rows are collected in memory, sorted, and written as a *run*, a file with rows sorted by key.
//! The name of a run has the old key of the last row that was read for it, so that a later process
//! reads on behind it. A file gets its name when it is on the disk. Then the runs are merged.
//!
//! A row in a run is: the place of its table in the list of tables (1), length of the key (4),
//! length of the value (4), key, value, CRC-32 of the run up to here (4), numbers little-endian.
//! Behind the last row are 0xff (1) and the CRC-32 of all rows (4). So no row of a damaged run is
//! used, and none is missed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use primitives::hex;

use crate::medium::sync_name;
use crate::{StoreError, TableId};

/// Memory of a row beside its bytes, roughly.
const ROW_BYTES: usize = 64;

/// Stands behind the last row of a run, in place of a table.
const END: u8 = 0xff;

/// A row with its new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortedRow {
    pub(super) table: TableId,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The rows of one old table, on their way to the new ones.
pub(super) struct Sorter {
    folder: PathBuf,
    /// The name of the old table.
    name: &'static str,
    runs: Vec<PathBuf>,
    /// The old key of the last row in the runs.
    last_read: Option<Vec<u8>>,
    /// Rows that are in no run yet.
    rows: Vec<SortedRow>,
    bytes: usize,
}

impl Sorter {
    /// Goes on with what an earlier process has left in the folder.
    pub(super) fn open(folder: &Path, name: &'static str) -> Result<Self, StoreError> {
        let failed = |source| StoreError::medium(folder, source);
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?.file_name();
            let run = entry.to_str().and_then(|file| {
                let (number, last) = file
                    .strip_prefix(name)?
                    .strip_prefix('-')?
                    .strip_suffix(".run")?
                    .split_once('-')?;
                Some((number.parse::<u32>().ok()?, hex::decode(last).ok()?))
            });
            if let Some((number, last)) = run {
                runs.push((number, last, folder.join(entry)));
            }
        }
        runs.sort_unstable();
        Ok(Self {
            last_read: runs.last().map(|(_, last, _)| last.clone()),
            runs: runs.into_iter().map(|(_, _, path)| path).collect(),
            folder: folder.to_owned(),
            name,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// The old key of the last row in the runs. The rows behind it are to be added.
    pub(super) fn last_read(&self) -> Option<&[u8]> {
        self.last_read.as_deref()
    }

    /// Adds a row, which was under `old_key`. Old keys ascend.
    pub(super) fn add(&mut self, old_key: &[u8], row: SortedRow, run_bytes: usize) -> Result<(), StoreError> {
        self.bytes += row.key.len() + row.value.len() + ROW_BYTES;
        self.rows.push(row);
        self.last_read = Some(old_key.to_vec());
        if self.bytes >= run_bytes {
            self.write_run()?;
        }
        Ok(())
    }

    /// All rows were added.
    pub(super) fn complete(&mut self) -> Result<(), StoreError> {
        if !self.rows.is_empty() {
            self.write_run()?;
        }
        self.mark("sorted")
    }

    /// Whether all rows are in runs.
    pub(super) fn is_complete(&self) -> bool {
        self.marker("sorted").exists()
    }

    /// Whether all rows are in the new tables.
    pub(super) fn is_written(&self) -> bool {
        self.marker("written").exists()
    }

    /// All rows are in the new tables. Removes the runs.
    pub(super) fn end(self) -> Result<(), StoreError> {
        self.mark("written")?;
        for run in &self.runs {
            std::fs::remove_file(run).map_err(|source| StoreError::medium(run, source))?;
        }
        Ok(())
    }

    /// Bytes of the runs.
    pub(super) fn run_bytes(&self) -> Result<u64, StoreError> {
        let len = |run: &PathBuf| {
            let metadata = std::fs::metadata(run);
            Ok(metadata.map_err(|source| StoreError::medium(run, source))?.len())
        };
        self.runs.iter().map(len).sum()
    }

    fn marker(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.name))
    }

    fn mark(&self, what: &str) -> Result<(), StoreError> {
        let path = self.marker(what);
        File::create(&path)
            .and_then(|file| file.sync_all())
            .and_then(|()| sync_name(&path))
            .map_err(|source| StoreError::medium(&path, source))
    }

    fn write_run(&mut self) -> Result<(), StoreError> {
        let mut rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let last = hex::encode(self.last_read.as_deref().unwrap_or_default());
        let name = format!("{}-{:06}-{last}.run", self.name, self.runs.len());
        let path = self.folder.join(name);
        let temporary = self.folder.join("unfinished");
        let write = || -> io::Result<()> {
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&temporary)?);
            let mut sum = Hasher::new();
            for row in &rows {
                let len = |part: &[u8]| u32::try_from(part.len()).map_err(io::Error::other);
                let lens = [len(&row.key)?, len(&row.value)?].map(u32::to_le_bytes);
                let parts: [&[u8]; 4] = [&[row.table as u8], lens.as_flattened(), &row.key, &row.value];
                for part in parts {
                    sum.update(part);
                    file.write_all(part)?;
                }
                file.write_all(&sum.clone().finalize().to_le_bytes())?;
            }
            file.write_all(&[END])?;
            file.write_all(&sum.finalize().to_le_bytes())?;
            file.into_inner()?.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            sync_name(&path)
        };
        write().map_err(|source| StoreError::medium(&path, source))?;
        self.runs.push(path);
        Ok(())
    }

    /// All rows of the runs, sorted by key.
    pub(super) fn merge(&self) -> Result<Merged, StoreError> {
        let mut merged = Merged {
            runs: Vec::new(),
            first: BinaryHeap::new(),
            ended: BTreeSet::new(),
        };
        for path in &self.runs {
            let file = File::open(path).map_err(|source| StoreError::medium(path, source))?;
            merged.runs.push(Run {
                path: path.clone(),
                file: BufReader::with_capacity(1 << 18, file),
                sum: Hasher::new(),
            });
            merged.read(merged.runs.len() - 1)?;
        }
        Ok(merged)
    }
}

/// Key, number of the run, place of the table, value.
type FirstRow = (Vec<u8>, usize, usize, Vec<u8>);
/// Place of the table, key, value.
type RunRow = (usize, Vec<u8>, Vec<u8>);

struct Run {
    path: PathBuf,
    file: BufReader<File>,
    /// The checksum of the rows so far.
    sum: Hasher,
}

/// The rows of several runs, sorted by key.
pub(super) struct Merged {
    runs: Vec<Run>,
    /// The first row of each run that was not taken: key, run, table, value.
    first: BinaryHeap<Reverse<FirstRow>>,
    ended: BTreeSet<usize>,
}

impl Merged {
    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<SortedRow>, StoreError> {
        let Some(Reverse((key, run, table, value))) = self.first.pop() else {
            return Ok(None);
        };
        self.read(run)?;
        Ok(Some(SortedRow {
            table: TableId::ALL[table],
            key,
            value,
        }))
    }

    /// Reads the next row of a run.
    fn read(&mut self, number: usize) -> Result<(), StoreError> {
        if self.ended.contains(&number) {
            return Ok(());
        }
        let run = &mut self.runs[number];
        let read = run.next().map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                StoreError::damaged_run(&run.path, source.to_string())
            }
            _ => StoreError::medium(&run.path, source),
        })?;
        match read {
            Some((table, key, value)) => self.first.push(Reverse((key, number, table, value))),
            None => {
                self.ended.insert(number);
            }
        }
        Ok(())
    }
}

impl Run {
    /// The next row; `None` at the end.
    fn next(&mut self) -> io::Result<Option<RunRow>> {
        let [table] = self.array()?;
        if table == END {
            self.check_sum()?;
            return Ok(None);
        }
        let lens: [u8; 8] = self.array()?;
        self.sum.update(&[table]);
        self.sum.update(&lens);
        let [key, value] = [&lens[..4], &lens[4..]].map(|len| {
            let len = len.iter().rev();
            len.fold(0, |len, byte| len << 8 | u64::from(*byte))
        });
        let (key, value) = (self.bytes(key)?, self.bytes(value)?);
        self.check_sum()?;
        let table = usize::from(table);
        if table >= TableId::ALL.len() {
            let tables = TableId::ALL.len();
            return Err(damage(format!(
                "table of a sorted row: got {table}, expected less than {tables}"
            )));
        }
        Ok(Some((table, key, value)))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn bytes(&mut self, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let got = (&mut self.file).take(len).read_to_end(&mut bytes)? as u64;
        if got < len {
            return Err(damage(format!(
                "part of a sorted row: got {got} bytes, expected {len}"
            )));
        }
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// Compares the checksum of the rows so far.
    fn check_sum(&mut self) -> io::Result<()> {
        let got = u32::from_le_bytes(self.array()?);
        let expected = self.sum.clone().finalize();
        if got == expected {
            return Ok(());
        }
        Err(damage(format!(
            "checksum: got {got:08x}, expected {expected:08x}"
        )))
    }
}

fn damage(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
