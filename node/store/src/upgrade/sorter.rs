//! Sorts the rows of a table in files: an external merge sort.
//!
//! Rows are collected in memory, sorted, and written as a *run*, a file with rows sorted by key.
//! The name of a run has the old key of the last row that was read for it, so that a later process
//! reads on behind it. A file gets its name when it is on the disk. Then the runs are merged.
//!
//! A row in a run is: the place of its table in the list of tables (1), length of the key (4),
//! length of the value (4), little-endian, key, value.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use primitives::hex;

use crate::medium::sync_name;
use crate::{StoreError, TableId};

/// Memory of a row beside its bytes, roughly.
const ROW_BYTES: usize = 64;

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
            for row in &rows {
                file.write_all(&[row.table as u8])?;
                for part in [&row.key, &row.value] {
                    let len = u32::try_from(part.len()).map_err(io::Error::other)?;
                    file.write_all(&len.to_le_bytes())?;
                }
                file.write_all(&row.key)?;
                file.write_all(&row.value)?;
            }
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
        let read = read_row(&mut run.file).map_err(|source| StoreError::medium(&run.path, source))?;
        match read {
            Some((table, key, value)) => self.first.push(Reverse((key, number, table, value))),
            None => {
                self.ended.insert(number);
            }
        }
        Ok(())
    }
}

fn read_row(file: &mut impl Read) -> io::Result<Option<RunRow>> {
    let mut table = [0];
    if file.read(&mut table)? == 0 {
        return Ok(None);
    }
    let table = usize::from(table[0]);
    if table >= TableId::ALL.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "table of a sorted row: got {table}, expected less than {}",
                TableId::ALL.len()
            ),
        ));
    }
    let mut lens = [[0; 4]; 2];
    for len in &mut lens {
        file.read_exact(len)?;
    }
    let [key, value] = lens.map(|len| u64::from(u32::from_le_bytes(len)));
    let mut part = |len: u64| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if file.by_ref().take(len).read_to_end(&mut bytes)? as u64 == len {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    };
    Ok(Some((table, part(key)?, part(value)?)))
}
