//! The blocks of several files, one file after the other. The first byte of each file says whether
//! it has RLP blocks or is an Era1 file.
//!
//! Knows the forms of files, and no file system: its caller opens the files.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::era1::{Era1Reader, FIRST_BYTE};
use crate::stream::{BlockSource, BlockStream, BlockStreamError, RawBlock};

/// Length of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// The content of a file.
pub type FileInput = Box<dyn Read + Send>;

/// Opens a file.
pub type OpenFile = Box<dyn Fn(&Path) -> std::io::Result<FileInput> + Send>;

/// The files from which blocks were read, each with the number of its first block.
#[derive(Clone, Debug, Default)]
pub struct ReadFiles(Arc<Mutex<Vec<(u64, PathBuf)>>>);

impl ReadFiles {
    /// The last file that was begun whose first block is not above `number`.
    pub fn with_block(&self, number: u64) -> Option<PathBuf> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.iter().rev().find(|(first, _)| *first <= number);
        found.map(|(_, path)| path.clone())
    }

    /// The file that was begun last.
    pub fn last(&self) -> Option<PathBuf> {
        self.with_block(u64::MAX)
    }

    fn begin(&self, path: &Path) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.push((u64::MAX, path.to_owned()));
    }

    fn first_block(&self, number: u64) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, _)) = files.last_mut() {
            *first = number.min(*first);
        }
    }
}

/// A source of the blocks of several files.
pub struct BlockFiles {
    waiting: VecDeque<PathBuf>,
    open: OpenFile,
    current: Option<Box<dyn BlockSource>>,
    /// Bytes of the files before the current one.
    before: u64,
    read: ReadFiles,
}

impl BlockFiles {
    /// The blocks of the files at `paths`, each of which is opened when its turn comes. `before` is
    /// the number of bytes that count as read.
    pub fn new(paths: Vec<PathBuf>, before: u64, open: OpenFile) -> Self {
        Self {
            waiting: paths.into(),
            open,
            current: None,
            before,
            read: ReadFiles::default(),
        }
    }

    /// The files that were read. The result follows the reading.
    pub fn read_files(&self) -> ReadFiles {
        self.read.clone()
    }

    fn open_file(&self, path: PathBuf) -> Result<Box<dyn BlockSource>, BlockStreamError> {
        self.read.begin(&path);
        let failed = |source| BlockStreamError::Read { offset: 0, source };
        let input = (self.open)(&path).map_err(failed)?;
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
        let first = input.fill_buf().map_err(failed)?.first().copied();
        let is_named = path.extension().is_some_and(|extension| extension == "era1");
        let is_era1 = match first {
            Some(FIRST_BYTE) => true,
            Some(0xc0..) => false,
            _ => is_named,
        };
        Ok(if is_era1 {
            Box::new(Era1Reader::new(input, path))
        } else {
            Box::new(BlockStream::new(input))
        })
    }
}

impl BlockSource for BlockFiles {
    fn next_block(&mut self) -> Result<Option<RawBlock>, BlockStreamError> {
        loop {
            let source = match &mut self.current {
                Some(source) => source,
                None => match self.waiting.pop_front() {
                    Some(path) => self.current.insert(self.open_file(path)?),
                    None => return Ok(None),
                },
            };
            if let Some(block) = source.next_block()? {
                self.read.first_block(block.header.number);
                return Ok(Some(block));
            }
            self.before += source.offset();
            self.current = None;
        }
    }

    fn offset(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |source| source.offset())
    }

    fn has_more(&mut self) -> bool {
        self.current.as_mut().is_none_or(|source| source.has_more())
    }
}
