//! The journal: local transactions in a file, so that they wait again after a restart.
//!
//! The file is their stored forms, one after the other. One is appended before its hash is
//! given to whoever sent it, by one write and without a sync: it survives the end of the
//! process however that comes, and what the system had not yet written when the machine lost
//! its power does not. Now and then the whole file is written anew with what still waits,
//! under another name until it is on the disk: it is there whole, the old or the new one.
//!
//! Knows the file. What of it may come into the pool is for the pool to say.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::{Transaction, TxRules};

use crate::stream::ListStream;

/// The largest transaction that is read back, in bytes; larger ones never were in a pool.
const RECORD_BYTES_MAX: usize = 1 << 20;
/// How far a journal may grow beyond twice its size when it was last written anew.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Writes a journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Brings a file's name to the disk.
    sync_name: fn(&Path) -> Result<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Open since the first rotation, until a write fails.
    file: Option<File>,
    bytes: u64,
    rotated_bytes: u64,
    /// A failure was told; the next one is told after a success.
    told: bool,
}

impl Journal {
    /// A journal at `path`. Nothing is written before the first [`Self::rotate`].
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            sync_name: store::sync_name,
            state: Mutex::default(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a transaction. A failure is logged.
    pub(super) fn append(&self, transaction: &Transaction) {
        let record = transaction.encode();
        let mut state = self.state.lock();
        let State {
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
        // Half a record would hide all that follow: it must go, or nothing may follow.
        let mended = file
            .set_len(*bytes)
            .and_then(|()| file.seek(SeekFrom::Start(*bytes)));
        if mended.is_err() {
            state.file = None;
        }
        if !std::mem::replace(&mut state.told, true) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "local transactions are not written down: they may not survive a restart");
        }
    }

    /// Whether it should be written anew before its time: it grew too long, or failed.
    pub fn wants_rotation(&self) -> bool {
        let state = self.state.lock();
        state.told || state.bytes > 2 * state.rotated_bytes + GROWTH_BYTES_MAX
    }

    /// Writes the journal anew with what `locals` gives, and goes on after that. A transaction
    /// that is appended meanwhile waits: `locals` is called when nothing can be appended, so
    /// what it does not have comes after it. Gives how many were written.
    ///
    /// # Errors
    /// The system's words; then the old file stays as it was, and is gone on with.
    pub fn rotate(&self, locals: impl FnOnce() -> Vec<Arc<Transaction>>) -> Result<usize> {
        let mut state = self.state.lock();
        let written = self.write_anew(&locals());
        // Until the next success, rotation is tried whenever somebody looks.
        state.told = written.is_err();
        let (file, bytes, count) = written?;
        *state = State {
            file: Some(file),
            bytes,
            rotated_bytes: bytes,
            told: false,
        };
        Ok(count)
    }

    fn write_anew(&self, transactions: &[Arc<Transaction>]) -> Result<(File, u64, usize)> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        // A file of that name is what a crash left.
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
        // From here on the new file is the journal, whatever becomes of its name.
        if let Err(error) = (self.sync_name)(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the new journal of local transactions may be lost with the power");
        }
        Ok((file, bytes, transactions.len()))
    }
}

/// A new file that no other user may read: who sends what is nobody's business before it is.
fn create_private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Reads a journal.
#[derive(Debug)]
pub struct JournalReader {
    lists: ListStream<BufReader<File>>,
    rules: TxRules,
    bytes: u64,
    good: u64,
    unreadable: usize,
    done: bool,
}

impl JournalReader {
    /// Opens the journal at `path`; `None` where there is none.
    ///
    /// # Errors
    /// The system's words.
    pub fn open(path: &Path, rules: TxRules) -> Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Ok(Some(Self {
            bytes: file.metadata()?.len(),
            lists: ListStream::new(BufReader::new(file)),
            rules,
            good: 0,
            unreadable: 0,
            done: false,
        }))
    }

    /// How many records so far are no transactions of this chain's form.
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Once everything was read: how many bytes at the end are no whole record.
    pub fn lost_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.good)
    }
}

impl Iterator for JournalReader {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        while !self.done {
            // After something that is no record nobody knows where the next one begins.
            let Ok(Some(record)) = self.lists.next_list(RECORD_BYTES_MAX) else {
                self.done = true;
                break;
            };
            self.good += record.len() as u64;
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

    /// Nonces read, records that are no transactions, bytes lost.
    fn read(path: &Path) -> (Vec<u64>, usize, u64) {
        let mut reader = JournalReader::open(path, TxRules::Moac).unwrap().unwrap();
        let nonces = reader.by_ref().map(|transaction| transaction.tx_nonce).collect();
        (nonces, reader.unreadable(), reader.lost_bytes())
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        assert!(JournalReader::open(&path, TxRules::Moac).unwrap().is_none());
        // What a crash left behind is nobody's.
        std::fs::write(folder.path().join("j.new"), b"left").unwrap();
        let journal = Journal::new(path.clone());
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
    fn a_new_journal_is_gone_on_with_where_its_name_cannot_be_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let journal = Journal {
            sync_name: |_| Err(std::io::Error::other("as asked")),
            ..Journal::new(path.clone())
        };
        for nonce in [0, 10] {
            assert_eq!(journal.rotate(|| vec![transaction(nonce)]).unwrap(), 1);
            journal.append(&transaction(nonce + 1));
            assert_eq!(read(&path), (vec![nonce, nonce + 1], 0, 0));
            assert!(!journal.wants_rotation());
        }
    }

    #[test]
    fn every_cut_keeps_what_is_whole() {
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
            // Either the frame is whole, and the third is found; or what is lost is told.
            assert!(
                nonces.last() == Some(&2) || lost > 0 || unreadable > 0,
                "byte {at}: {nonces:?}"
            );
        }
        std::fs::write(&path, [&records[0][..], &[0xc1, 0x01], &records[2]].concat()).unwrap();
        assert_eq!(read(&path), (vec![0, 2], 1, 0));
    }

    #[test]
    fn a_journal_that_cannot_be_written_says_so_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no").join("j");
        let journal = Journal::new(path.clone());
        assert!(journal.rotate(Vec::new).is_err());
        journal.append(&transaction(0));
        assert!(journal.wants_rotation());
        std::fs::create_dir(folder.path().join("no")).unwrap();
        assert_eq!(journal.rotate(|| vec![transaction(0)]).unwrap(), 1);
        assert!(!journal.wants_rotation());
        assert_eq!(read(&path), (vec![0], 0, 0));
    }
}
