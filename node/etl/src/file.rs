//! One file of a table: rows go in, and it gets its name when it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArrayType, FixedLenByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use primitives::B256;
use tempfile::NamedTempFile;

use crate::column::{ColumnCells, Values};
use crate::range::BlockRange;
use crate::table::{EtlTable, TableRows};

/// The ending of a file that is not complete.
pub(crate) const PART_ENDING: &str = ".part";
/// Changes when the columns of a table change.
const LAYOUT: &str = "1";
/// Rows wait in memory until they are of this size, in bytes. Then they are written as a row group.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// The facts in the metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// Hash of block 0.
    pub(crate) genesis: B256,
    pub(crate) range: BlockRange,
    /// Hash of the last block.
    pub(crate) last_hash: B256,
}

impl FileFacts {
    fn texts(&self) -> [(&'static str, String); 5] {
        [
            ("layout", LAYOUT.to_owned()),
            ("genesis_hash", self.genesis.to_string()),
            ("first_block", self.range.first.to_string()),
            ("last_block", self.range.last.to_string()),
            ("last_block_hash", self.last_hash.to_string()),
        ]
    }

    /// Reads what the file at `path` says. `None` if it is no complete file of this layout.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, std::io::Error> {
        let Ok(reader) = SerializedFileReader::new(File::open(path)?) else {
            return Ok(None);
        };
        let pairs = reader.metadata().file_metadata().key_value_metadata();
        let value = |name: &str| {
            let pair = pairs?.iter().find(|pair| pair.key == name)?;
            pair.value.as_deref()
        };
        let number = |name| value(name)?.parse::<u64>().ok();
        let hash = |name| value(name)?.parse::<B256>().ok();
        let facts = || {
            Some(Self {
                genesis: hash("genesis_hash")?,
                range: BlockRange {
                    first: number("first_block")?,
                    last: number("last_block")?,
                },
                last_hash: hash("last_block_hash")?,
            })
        };
        Ok(facts().filter(|_| value("layout") == Some(LAYOUT)))
    }
}

/// A file that is being written. If it is dropped before [`TableFile::finish`], no file is left.
pub(crate) struct TableFile {
    path: PathBuf,
    writer: SerializedFileWriter<NamedTempFile>,
    waiting: Vec<TableRows>,
    waiting_bytes: usize,
    rows: u64,
}

impl TableFile {
    /// Begins the file that will be at `path`. Its folder is made if it does not exist.
    pub(crate) fn create(path: &Path, table: EtlTable, facts: &FileFacts) -> Result<Self, ParquetError> {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".").suffix(PART_ENDING);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Less what the process does not give to others.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder)?;
        let pairs = facts.texts().into_iter();
        let pairs = pairs.map(|(key, value)| KeyValue::new(key.to_owned(), value));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(pairs.collect()))
            .set_created_by(concat!("vnode ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let schema = parse_message_type(&table.schema())?;
        Ok(Self {
            path: path.to_owned(),
            writer: SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?,
            waiting: Vec::new(),
            waiting_bytes: 0,
            rows: 0,
        })
    }

    /// Appends rows.
    pub(crate) fn append(&mut self, rows: TableRows) -> Result<(), ParquetError> {
        if rows.rows == 0 {
            return Ok(());
        }
        self.waiting_bytes += rows.bytes();
        self.rows += rows.rows as u64;
        self.waiting.push(rows);
        if self.waiting_bytes >= ROW_GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if waiting.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut index = 0;
        while let Some(mut column) = group.next_column()? {
            for rows in &waiting {
                write_cells(&mut column, &rows.columns[index])?;
            }
            column.close()?;
            index += 1;
        }
        group.close()?;
        Ok(())
    }

    /// Writes everything to the disk. After this the file has its name. Returns the number of rows
    /// and of bytes.
    pub(crate) fn finish(mut self) -> Result<(u64, u64), ParquetError> {
        self.write_group()?;
        let file = self.writer.into_inner()?;
        file.as_file().sync_all()?;
        let bytes = file.as_file().metadata()?.len();
        file.persist(&self.path).map_err(|error| error.error)?;
        store::sync_name(&self.path)?;
        Ok((self.rows, bytes))
    }
}

fn write_cells(column: &mut SerializedColumnWriter<'_>, cells: &ColumnCells) -> Result<(), ParquetError> {
    let definitions = (!cells.definitions.is_empty()).then_some(cells.definitions.as_slice());
    let repetitions = (!cells.repetitions.is_empty()).then_some(cells.repetitions.as_slice());
    match &cells.values {
        Values::Int(values) => column
            .typed::<Int64Type>()
            .write_batch(values, definitions, repetitions)?,
        Values::Text(values) => {
            column
                .typed::<ByteArrayType>()
                .write_batch(values, definitions, repetitions)?
        }
        Values::Decimal(values) => {
            column
                .typed::<FixedLenByteArrayType>()
                .write_batch(values, definitions, repetitions)?
        }
    };
    Ok(())
}
