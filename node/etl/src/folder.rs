//! The folder of an export: where its files are, and which of them are still to be written.
//!
//! A file is at `TABLE/start_block=FIRST/end_block=LAST/TABLE_FIRST_LAST.parquet`. The numbers have
//! at least eight digits. Engines that know partitions read the two numbers from the path.

use std::path::{Path, PathBuf};

use primitives::B256;

use crate::EtlError;
use crate::file::{FileFacts, PART_ENDING};
use crate::range::BlockRange;
use crate::source::TableSource;
use crate::table::EtlTable;

/// The path of the file with these rows.
pub(crate) fn path(directory: &Path, table: EtlTable, range: BlockRange) -> PathBuf {
    let BlockRange { first, last } = range;
    directory
        .join(table.name())
        .join(format!("start_block={first:08}"))
        .join(format!("end_block={last:08}"))
        .join(format!("{table}_{first:08}_{last:08}.parquet"))
}

/// A file that exists.
#[derive(Clone, Debug)]
struct ExistingFile {
    range: BlockRange,
    path: PathBuf,
    /// Whether it is complete, and its last block is still canonical.
    is_valid: bool,
}

/// The files of a range of blocks that are still to be written.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) range: BlockRange,
    /// The tables, and the files that the new one of a table replaces.
    pub(crate) tables: Vec<(EtlTable, Vec<PathBuf>)>,
}

/// Compares the folder with what is wanted. Removes what an interrupted export has left.
///
/// # Errors
/// [`EtlError`] if a file is of another chain, or has only some of the blocks of a wanted one.
pub(crate) fn missing(
    source: &dyn TableSource,
    genesis: B256,
    directory: &Path,
    tables: &[EtlTable],
    ranges: impl Iterator<Item = BlockRange>,
) -> Result<Vec<Missing>, EtlError> {
    let existing = tables
        .iter()
        .map(|table| existing(source, genesis, directory, *table));
    let existing = existing.collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for range in ranges {
        let mut missing = Missing {
            range,
            tables: Vec::new(),
        };
        for (table, files) in tables.iter().zip(&existing) {
            if let Some(replaced) = replaced_by(range, files)? {
                missing.tables.push((*table, replaced));
            }
        }
        if !missing.tables.is_empty() {
            all.push(missing);
        }
    }
    Ok(all)
}

/// The files that a new file with `range` replaces; `None` if its blocks are all in one file.
fn replaced_by(range: BlockRange, files: &[ExistingFile]) -> Result<Option<Vec<PathBuf>>, EtlError> {
    let overlapping = || files.iter().filter(|file| file.range.overlaps(&range));
    let whole = overlapping().find(|file| file.is_valid && file.range.contains(&range));
    if let Some(whole) = whole {
        // An export was interrupted before it removed what the new file replaces.
        for part in overlapping().filter(|part| part.path != whole.path && whole.range.contains(&part.range))
        {
            remove(&part.path)?;
        }
        return Ok(None);
    }
    let mut replaced = Vec::new();
    for file in overlapping() {
        if !range.contains(&file.range) {
            return Err(EtlError::Overlap {
                path: file.path.clone(),
                got: file.range,
                expected: range,
            });
        }
        if file.range != range {
            replaced.push(file.path.clone());
        }
    }
    Ok(Some(replaced))
}

/// Removes a file, and its folders if they are empty then.
pub(crate) fn remove(path: &Path) -> Result<(), EtlError> {
    std::fs::remove_file(path).map_err(|source| EtlError::folder(path, source))?;
    for folder in path.ancestors().skip(1).take(2) {
        // A folder with other files stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// The files of a table.
fn existing(
    source: &dyn TableSource,
    genesis: B256,
    directory: &Path,
    table: EtlTable,
) -> Result<Vec<ExistingFile>, EtlError> {
    let mut found = Vec::new();
    let top = directory.join(table.name());
    for (first, folder) in numbered(&top, "start_block=")? {
        for (last, folder) in numbered(&folder, "end_block=")? {
            let range = BlockRange { first, last };
            for file in entries(&folder)? {
                if file.to_string_lossy().ends_with(PART_ENDING) {
                    std::fs::remove_file(&file).map_err(|source| EtlError::folder(&file, source))?;
                } else if file == path(directory, table, range) {
                    let facts = FileFacts::read(&file).map_err(|source| EtlError::folder(&file, source))?;
                    let is_valid = match facts {
                        Some(facts) if facts.genesis != genesis => {
                            return Err(EtlError::OtherChain {
                                path: file,
                                got: facts.genesis,
                                expected: genesis,
                            });
                        }
                        Some(facts) => {
                            facts.range == range && source.canonical_hash(last)? == Some(facts.last_hash)
                        }
                        None => false,
                    };
                    found.push(ExistingFile {
                        range,
                        path: file,
                        is_valid,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The folders in `folder` whose names are `prefix` and a number.
fn numbered(folder: &Path, prefix: &str) -> Result<Vec<(u64, PathBuf)>, EtlError> {
    let numbered = entries(folder)?.into_iter().filter_map(|path| {
        let number = path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?;
        path.is_dir().then_some((number, path))
    });
    Ok(numbered.collect())
}

/// The entries of `folder`; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, EtlError> {
    let failed = |source| EtlError::folder(folder, source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(first: u64, last: u64, is_valid: bool) -> ExistingFile {
        let range = BlockRange { first, last };
        ExistingFile {
            range,
            path: path(Path::new("d"), EtlTable::Logs, range),
            is_valid,
        }
    }

    #[test]
    fn files_have_the_names_that_engines_know() {
        let range = BlockRange {
            first: 0,
            last: 9_999,
        };
        assert_eq!(
            path(Path::new("d"), EtlTable::Blocks, range),
            Path::new("d/blocks/start_block=00000000/end_block=00009999/blocks_00000000_00009999.parquet")
        );
    }

    #[test]
    fn a_file_replaces_those_that_it_contains() {
        let range = BlockRange { first: 10, last: 19 };
        let replaced = |files: &[ExistingFile]| replaced_by(range, files).map_err(|error| error.to_string());
        assert_eq!(replaced(&[]), Ok(Some(vec![])));
        assert_eq!(
            replaced(&[file(0, 9, true), file(20, 29, true)]),
            Ok(Some(vec![]))
        );
        // One that is there, and one with more.
        assert_eq!(replaced(&[file(10, 19, true)]), Ok(None));
        assert_eq!(replaced(&[file(0, 99, true)]), Ok(None));
        // One of another branch is written again under the same name.
        assert_eq!(replaced(&[file(10, 19, false)]), Ok(Some(vec![])));
        let parts = [file(10, 14, true), file(15, 16, false)];
        let paths: Vec<_> = parts.iter().map(|part| part.path.clone()).collect();
        assert_eq!(replaced(&parts), Ok(Some(paths)));
        let error = replaced(&[file(15, 24, true)]).expect_err("an overlap");
        assert!(error.ends_with("blocks: got 15 to 24, expected none beyond 10 to 19: export a range that contains both, or remove the file"), "{error}");
        assert!(replaced(&[file(0, 99, false)]).is_err());
    }
}
