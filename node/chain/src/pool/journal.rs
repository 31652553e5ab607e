//! The journal: a file with the local transactions, so that they are in the pool again after a
//! restart.
//!
//! The file contains the stored forms of the transactions, one after the other. A transaction is
//! appended by one write before its hash is returned to the sender. There is no sync, so it
//! survives any end of the process, but perhaps not a loss of power.
//!
//! From time to time the file is rewritten with the transactions that still wait. This is done in
//! a second file which replaces the first one when it is complete on the disk. So there is always
//! a complete journal, the old or the new one.
//!
//! This module knows the file only. The pool decides which transactions it accepts.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Error, ErrorKind, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use primitives::{Transaction, TxRules};

use crate::stream::RlpListStream;

/// The largest transaction that is read, in bytes. The pool never has larger ones.
const RECORD_BYTES_MAX: usize = 1 << 20;
/// The journal is rewritten when it is longer than twice its length after the last rewriting, plus
/// this many bytes.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Writes the journal.
#[derive(Debug)]
pub struct TxJournal {
    path: PathBuf,
    /// Syncs the name of a file to the disk.
    sync_name: fn(&Path) -> Result<()>,
    state: Mutex<JournalState>,
}

#[derive(Debug, Default)]
struct JournalState {
    /// The open file, from the first rotation on until a write fails.
    file: Option<File>,
    /// Length of the file.
    bytes: u64,
    /// Length of the file after the last rotation.
    rotated_bytes: u64,
    /// Whether a failure was logged since the last success. Further failures are not logged.
    failed: bool,
    /// Whether the file has transactions that were not read. It is renamed before it is rewritten.
    is_unread: bool,
}

impl TxJournal {
    /// Makes a journal at `path`. Nothing is written before the first [`Self::rotate`].
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            sync_name: store::sync_name,
            state: Mutex::default(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a transaction. A failure is logged.
    pub(super) fn append(&self, transaction: &Transaction) {
        let record = transaction.encode();
        let mut state = self.state.lock();
        let JournalState {
            file: Some(file),
            bytes,
            ..
        } = &mut *state
        else {
            return;
        };
        let Err(error) = file.write_all(&record) else {
            *bytes += record.len() as u64;
            return;
        };
        // Records after a partial one could not be read, so the partial one is removed. If that
        // fails, nothing more is appended.
        let repaired = file
            .set_len(*bytes)
            .and_then(|()| file.seek(SeekFrom::Start(*bytes)));
        if repaired.is_err() {
            state.file = None;
        }
        if !std::mem::replace(&mut state.failed, true) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "local transactions cannot be written to the journal: they may not survive a restart");
        }
    }

    /// Renames the file.
    fn set_aside(&self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".unread-{}", now.as_millis()));
        let aside = self.path.with_file_name(name);
        match std::fs::rename(&self.path, &aside) {
            Ok(()) => tracing::warn!(aside = %aside.display(), "the old journal is kept under this name"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let text = format!("the old journal cannot be renamed, so it stays: {error}");
                return Err(Error::new(error.kind(), text));
            }
        }
        Ok(())
    }

    /// Notes that the file was not read as a whole: a rotation renames it and does not replace it.
    pub(crate) fn mark_unread(&self) {
        let mut state = self.state.lock();
        (state.is_unread, state.failed) = (true, true);
    }

    /// Whether the journal should be rewritten before its regular time, because it has grown too
    /// long or a write has failed.
    pub(crate) fn wants_rotation(&self) -> bool {
        let state = self.state.lock();
        state.failed || state.bytes > 2 * state.rotated_bytes + GROWTH_BYTES_MAX
    }

    /// Rewrites the journal with the transactions that `locals` returns. Returns their number.
    ///
    /// `locals` is called while nothing can be appended. So a transaction that it does not return
    /// yet is appended afterwards and is not lost.
    ///
    /// # Errors
    /// The system's error. Then the old file stays as it was and remains in use.
    pub fn rotate(&self, locals: impl FnOnce() -> Vec<Arc<Transaction>>) -> Result<usize> {
        let mut state = self.state.lock();
        if state.is_unread {
            self.set_aside()?;
            state.is_unread = false;
        }
        let written = self.rewrite(&locals());
        // After a failure `wants_rotation` is true until a rotation succeeds.
        state.failed = written.is_err();
        let (file, bytes, count) = written?;
        *state = JournalState {
            file: Some(file),
            bytes,
            rotated_bytes: bytes,
            failed: false,
            is_unread: false,
        };
        Ok(count)
    }

    fn rewrite(&self, transactions: &[Arc<Transaction>]) -> Result<(File, u64, usize)> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        // A crash may have left a file with this name.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = BufWriter::new(create_private(&new)?);
        let mut bytes = 0;
        for transaction in transactions {
            let record = transaction.encode();
            file.write_all(&record)?;
            bytes += record.len() as u64;
        }
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        // From here on the new file is the journal, even if its name cannot be synced.
        if let Err(error) = (self.sync_name)(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the new journal of local transactions may be lost if the machine loses power");
        }
        Ok((file, bytes, transactions.len()))
    }
}

/// Creates a file that no other user of the system can read: transactions are private until they
/// are sent to the network.
fn create_private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Reads the transactions of a journal.
#[derive(Debug)]
pub struct TxJournalReader {
    lists: RlpListStream<BufReader<File>>,
    rules: TxRules,
    /// Length of the file.
    bytes: u64,
    /// Length of the complete records so far.
    complete_bytes: u64,
    unreadable: usize,
    done: bool,
}

impl TxJournalReader {
    /// Opens the journal at `path`. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path, rules: TxRules) -> Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Ok(Some(Self {
            bytes: file.metadata()?.len(),
            lists: RlpListStream::new(BufReader::new(file)),
            rules,
            complete_bytes: 0,
            unreadable: 0,
            done: false,
        }))
    }

    /// The number of records so far that are not transactions of this chain.
    pub const fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// The number of bytes at the end of the file that are not a complete record. To be called
    /// after the last transaction was read.
    pub(crate) const fn lost_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.complete_bytes)
    }
}

impl Iterator for TxJournalReader {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        while !self.done {
            // After bytes that are not a record it is not known where the next record begins.
            let Ok(Some(record)) = self.lists.next_list(RECORD_BYTES_MAX) else {
                self.done = true;
                break;
            };
            self.complete_bytes += record.len() as u64;
            match Transaction::decode_stored(&record, self.rules) {
                Ok(transaction) => return Some(transaction),
                Err(_) => self.unreadable += 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, SecretKey, TxForm, U256, UnsignedTransaction};

    use super::*;

    fn transaction(tx_nonce: u64) -> Arc<Transaction> {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(7),
            gas: 1000,
            to: Some(Address::repeat_byte(1)),
            input: vec![tx_nonce as u8; 40].into(),
            ..Default::default()
        };
        let key = SecretKey::from_bytes(&[1; 32]).unwrap();
        Arc::new(unsigned.sign(&key, 100, TxForm::Native))
    }

    /// The nonces of the transactions read, the number of unreadable records, the bytes lost.
    fn read(path: &Path) -> (Vec<u64>, usize, u64) {
        let mut reader = TxJournalReader::open(path, TxRules::Moac).unwrap().unwrap();
        let nonces = reader.by_ref().map(|transaction| transaction.tx_nonce).collect();
        (nonces, reader.unreadable(), reader.lost_bytes())
    }

    #[test]
    fn written_transactions_are_read_again_and_the_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        assert!(TxJournalReader::open(&path, TxRules::Moac).unwrap().is_none());
        // A file that a crash left behind is ignored.
        std::fs::write(folder.path().join("j.new"), b"left").unwrap();
        let journal = TxJournal::new(path.clone());
        journal.append(&transaction(9));
        assert!(!path.exists(), "nothing is written before the first rotation");
        assert_eq!(journal.rotate(|| vec![transaction(0)]).unwrap(), 1);
        journal.append(&transaction(1));
        journal.append(&transaction(2));
        assert_eq!(read(&path), (vec![0, 1, 2], 0, 0));
        assert_eq!(journal.rotate(|| vec![transaction(2)]).unwrap(), 1);
        journal.append(&transaction(3));
        assert_eq!(read(&path), (vec![2, 3], 0, 0));
        assert!(!folder.path().join("j.new").exists() && !journal.wants_rotation());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_new_journal_is_used_even_if_its_name_cannot_be_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let journal = TxJournal {
            sync_name: |_| Err(std::io::Error::other("of the test")),
            ..TxJournal::new(path.clone())
        };
        for nonce in [0, 10] {
            assert_eq!(journal.rotate(|| vec![transaction(nonce)]).unwrap(), 1);
            journal.append(&transaction(nonce + 1));
            assert_eq!(read(&path), (vec![nonce, nonce + 1], 0, 0));
            assert!(!journal.wants_rotation());
        }
    }

    #[test]
    fn a_journal_that_could_not_be_renamed_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        // The other name of the second one is too long for the system.
        for (name, is_renamed) in [("j".to_owned(), true), ("j".repeat(240), false)] {
            let journal = TxJournal::new(folder.path().join(name));
            std::fs::write(journal.path(), b"unread").unwrap();
            journal.mark_unread();
            assert_eq!(journal.rotate(Vec::new).is_ok(), is_renamed);
            journal.append(&transaction(0));
            let kept = std::fs::read(journal.path()).unwrap();
            assert_eq!(
                (kept == b"unread", journal.wants_rotation()),
                (!is_renamed, !is_renamed)
            );
        }
        let mut names = std::fs::read_dir(folder.path()).unwrap();
        assert!(names.any(|entry| {
            let path = entry.unwrap().path();
            path.to_string_lossy().contains("/j.unread-") && std::fs::read(path).unwrap() == b"unread"
        }));
    }

    #[test]
    fn a_truncated_journal_gives_its_complete_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let records: Vec<_> = (0..3).map(|nonce| transaction(nonce).encode()).collect();
        let whole = records.concat();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut end, mut expected) = (0, Vec::new());
            for (nonce, record) in (0..).zip(&records) {
                if end + record.len() <= cut {
                    end += record.len();
                    expected.push(nonce);
                }
            }
            assert_eq!(read(&path), (expected, 0, (cut - end) as u64), "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_byte_costs_one_record_or_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let records: Vec<_> = (0..3).map(|nonce| transaction(nonce).encode()).collect();
        let whole = records.concat();
        let second = records[0].len()..records[0].len() + records[1].len();
        for at in second {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            std::fs::write(&path, &damaged).unwrap();
            let (nonces, unreadable, lost) = read(&path);
            assert_eq!(nonces[0], 0, "byte {at}");
            // Either the length of the record is right and the third is found, or the loss is
            // reported.
            assert!(
                nonces.last() == Some(&2) || lost > 0 || unreadable > 0,
                "byte {at}: {nonces:?}"
            );
        }
        std::fs::write(&path, [&records[0][..], &[0xc1, 0x01], &records[2]].concat()).unwrap();
        assert_eq!(read(&path), (vec![0, 2], 1, 0));
    }

    #[test]
    fn a_journal_that_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no").join("j");
        let journal = TxJournal::new(path.clone());
        assert!(journal.rotate(Vec::new).is_err());
        journal.append(&transaction(0));
        assert!(journal.wants_rotation());
        std::fs::create_dir(folder.path().join("no")).unwrap();
        assert_eq!(journal.rotate(|| vec![transaction(0)]).unwrap(), 1);
        assert!(!journal.wants_rotation());
        assert_eq!(read(&path), (vec![0], 0, 0));
    }
}
