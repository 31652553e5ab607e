//! The data directory of an SCS: a folder for each MicroChain, the chain bases that are followed
//! without one, those with which the SCS has registered, and votes that may have to be withdrawn.
//!
//! A folder has the store of the chain and a file with what the chain is, so that an SCS can serve
//! it before it has reached a VNODE.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use microchain::MicroChainSetup;
use primitives::{Address, Bytes, Header, U256};
use serde::{Deserialize, Serialize};

use crate::checkpoint::HeaderOrigin;

/// The file that says what a MicroChain is.
const SETUP_FILE: &str = "setup.json";
const STORE_FOLDER: &str = "chain";
/// The file in the folder of a MicroChain where this SCS has no work any more.
const OVER_FILE: &str = "over";
/// The file with chain bases that are followed.
const FOLLOWED_FILE: &str = "followed.json";
/// The file with the chain bases with which the SCS has registered.
const REGISTERED_FILE: &str = "registered.json";
/// The file with the transactions of votes.
const VOTES_FILE: &str = "votes.json";
/// The file with the oldest checked header of the base chain.
const BASE_HEADER_FILE: &str = "base-header.json";
/// Most bytes of a file that is read here.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The reason why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is not what was written.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A MicroChain was made with another period.
    #[error("{}: got --period {got}, expected {expected}: a MicroChain keeps the period that it was made with", path.display())]
    Period {
        /// The folder of the MicroChain.
        path: PathBuf,
        /// The period of the options.
        got: u64,
        /// The period of the MicroChain.
        expected: u64,
    },
}

/// The content of [`SETUP_FILE`].
#[derive(Serialize, Deserialize)]
struct SetupFile {
    address: String,
    owner: String,
    /// Decimal digits.
    supply: String,
    period_secs: u64,
    chain_id: u64,
    /// Decimal digits. The first release did not write it.
    withdrawal_min: Option<String>,
}

/// The file with the oldest checked header of the base chain.
#[derive(Serialize, Deserialize)]
struct BaseHeaderFile {
    /// Number and hash, for readers of the file.
    number: u64,
    hash: String,
    /// The RLP in hex.
    header: String,
    /// The checkpoint from which the header was reached.
    checkpoint: Option<String>,
    /// Whether seals were checked on the way.
    seals: bool,
    /// The network id of the rules.
    network: u64,
}

/// The transaction of a vote that may have to be withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptVote {
    pub tx_nonce: u64,
    /// The chain base.
    pub chain: String,
    /// The place of this SCS.
    pub place: u64,
    /// The proposal.
    pub hash: String,
    pub gas: u64,
    pub gas_price: u64,
    /// The base block at which it was sent last.
    pub sent_at: u64,
    /// Whether a transaction without effect takes its place.
    pub is_withdrawn: bool,
}

/// The MicroChains of a data directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundChains {
    /// By address.
    pub setups: Vec<MicroChainSetup>,
    /// MicroChains whose file does not say everything. Their chain bases say the rest.
    pub unfinished: Vec<Address>,
}

/// The data directory.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Opens the directory, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be made.
    pub(crate) fn open(root: &Path) -> Result<Self, FolderError> {
        std::fs::create_dir_all(root).map_err(io_error(root))?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The MicroChains that have a folder.
    ///
    /// # Errors
    /// [`FolderError`] if a folder cannot be read, or has another period.
    pub(crate) fn chains(&self, period_secs: u64) -> Result<FoundChains, FolderError> {
        let mut found = FoundChains::default();
        let entries = std::fs::read_dir(&self.root).map_err(io_error(&self.root))?;
        for entry in entries {
            let folder = entry.map_err(io_error(&self.root))?.path();
            let path = folder.join(SETUP_FILE);
            if !path.is_file() {
                continue;
            }
            let file: SetupFile = read_json(&path)?;
            if file.period_secs != period_secs {
                return Err(FolderError::Period {
                    path: folder,
                    got: period_secs,
                    expected: file.period_secs,
                });
            }
            let Some(withdrawal_min) = &file.withdrawal_min else {
                found.unfinished.push(parse(&path, &file.address)?);
                continue;
            };
            found.setups.push(MicroChainSetup {
                address: parse(&path, &file.address)?,
                owner: parse(&path, &file.owner)?,
                supply: parse::<U256>(&path, &file.supply)?,
                period_secs,
                chain_id: file.chain_id,
                withdrawal_min: parse::<U256>(&path, withdrawal_min)?,
            });
        }
        found.setups.sort_by_key(|setup| setup.address);
        Ok(found)
    }

    /// Makes the folder of a MicroChain. Returns the folder of its store.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be written.
    pub(crate) fn make(&self, setup: &MicroChainSetup) -> Result<PathBuf, FolderError> {
        let folder = self.folder(&setup.address);
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let path = folder.join(SETUP_FILE);
        if !path.is_file() || read_json::<SetupFile>(&path)?.withdrawal_min.is_none() {
            write_json(
                &path,
                &SetupFile {
                    address: setup.address.to_string(),
                    owner: setup.owner.to_string(),
                    supply: setup.supply.to_string(),
                    period_secs: setup.period_secs,
                    chain_id: setup.chain_id,
                    withdrawal_min: Some(setup.withdrawal_min.to_string()),
                },
                Durability::Synced,
            )?;
        }
        Ok(self.store(&setup.address))
    }

    /// Whether a MicroChain has a folder.
    pub(crate) fn has(&self, chain: &Address) -> bool {
        self.folder(chain).join(SETUP_FILE).is_file()
    }

    /// Whether this SCS had no work in a MicroChain when [`Self::set_over`] was called last.
    pub(crate) fn is_over(&self, chain: &Address) -> bool {
        self.folder(chain).join(OVER_FILE).is_file()
    }

    /// Remembers whether this SCS has work in a MicroChain. A folder that does not exist is not
    /// made.
    ///
    /// # Errors
    /// [`FolderError`] if the folder cannot be written.
    pub(crate) fn set_over(&self, chain: &Address, is_over: bool) -> Result<(), FolderError> {
        let path = self.folder(chain).join(OVER_FILE);
        let done = match is_over {
            true => std::fs::write(&path, ""),
            false => std::fs::remove_file(&path),
        };
        match done {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(&path)(error)),
            _ => Ok(()),
        }
    }

    /// The folder of a MicroChain's store.
    pub(crate) fn store(&self, chain: &Address) -> PathBuf {
        self.folder(chain).join(STORE_FOLDER)
    }

    /// The folder of a MicroChain.
    pub(crate) fn folder(&self, chain: &Address) -> PathBuf {
        self.root.join(format!("{chain:#x}"))
    }

    /// The chain bases that were followed when [`Self::keep_followed`] was called last; none if the
    /// file is damaged.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be read.
    pub(crate) fn followed(&self) -> Result<BTreeSet<Address>, FolderError> {
        match self.addresses(FOLLOWED_FILE) {
            Ok(addresses) => Ok(addresses.into_iter().collect()),
            // The file is not synced, so a loss of power can damage it. Notices, and the list of
            // registrations, bring back what matters.
            Err(error @ FolderError::Content { .. }) => {
                tracing::warn!(%error, "the list of chain bases that were followed is lost");
                Ok(BTreeSet::new())
            }
            Err(error) => Err(error),
        }
    }

    /// The oldest checked header of the base chain, if it was reached from the same checkpoint, by
    /// the same rules, and with seals if they are to be checked.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be read.
    pub(crate) fn base_header(&self, origin: &HeaderOrigin) -> Result<Option<Header>, FolderError> {
        let path = self.root.join(BASE_HEADER_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let file: BaseHeaderFile = read_json(&path)?;
        let is_other = file.checkpoint != origin.checkpoint.map(|checkpoint| checkpoint.to_string())
            || file.network != origin.network;
        if is_other || (origin.seals && !file.seals) {
            tracing::info!(
                path = %path.display(),
                "the kept header was reached by other checks: the base chain is checked from the begin"
            );
            return Ok(None);
        }
        let rlp: Bytes = parse(&path, &file.header)?;
        let content = |reason| FolderError::Content {
            path: path.clone(),
            reason,
        };
        let header = Header::decode(&rlp).map_err(|error| content(error.to_string()))?;
        let hash = header.hash();
        if hash.to_string() != file.hash {
            return Err(content(format!(
                "got a header with the hash {hash}, expected {}",
                file.hash
            )));
        }
        Ok(Some(header))
    }

    /// Remembers the oldest checked header of the base chain.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be written.
    pub(crate) fn keep_base_header(&self, header: &Header, origin: &HeaderOrigin) -> Result<(), FolderError> {
        let file = BaseHeaderFile {
            number: header.number,
            hash: header.hash().to_string(),
            header: Bytes::from(header.encode()).to_string(),
            checkpoint: origin.checkpoint.map(|checkpoint| checkpoint.to_string()),
            seals: origin.seals,
            network: origin.network,
        };
        write_json(&self.root.join(BASE_HEADER_FILE), &file, Durability::Synced)
    }

    /// The addresses in a file; none if it does not exist.
    fn addresses(&self, file: &str) -> Result<Vec<Address>, FolderError> {
        let path = self.root.join(file);
        if !path.is_file() {
            return Ok(Vec::new());
        }
        let texts: Vec<String> = read_json(&path)?;
        texts.iter().map(|text| parse(&path, text)).collect()
    }

    fn keep_addresses<'a>(
        &self,
        file: &str,
        addresses: impl IntoIterator<Item = &'a Address>,
        durability: Durability,
    ) -> Result<(), FolderError> {
        let texts: Vec<_> = addresses.into_iter().map(Address::to_string).collect();
        write_json(&self.root.join(file), &texts, durability)
    }

    /// Remembers chain bases that have no folder. Strangers can change this list often, so it is
    /// not synced.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be written.
    pub(crate) fn keep_followed(&self, chains: &BTreeSet<Address>) -> Result<(), FolderError> {
        self.keep_addresses(FOLLOWED_FILE, chains, Durability::Cached)
    }

    /// The chain bases with which the SCS has registered, oldest first.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be read.
    pub(crate) fn registered(&self) -> Result<Vec<Address>, FolderError> {
        self.addresses(REGISTERED_FILE)
    }

    /// Remembers the chain bases with which the SCS has registered.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be written.
    pub(crate) fn keep_registered(&self, chains: &[Address]) -> Result<(), FolderError> {
        self.keep_addresses(REGISTERED_FILE, chains, Durability::Synced)
    }

    /// The transactions of votes that were written last.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be read.
    pub(crate) fn votes(&self) -> Result<Vec<KeptVote>, FolderError> {
        let path = self.root.join(VOTES_FILE);
        if path.is_file() {
            read_json(&path)
        } else {
            Ok(Vec::new())
        }
    }

    /// Remembers the transactions of votes.
    ///
    /// # Errors
    /// [`FolderError`] if the file cannot be written.
    pub(crate) fn keep_votes(&self, votes: &[KeptVote]) -> Result<(), FolderError> {
        write_json(&self.root.join(VOTES_FILE), &votes, Durability::Synced)
    }
}

/// Reads a value of a file.
fn parse<T: FromStr>(path: &Path, text: &str) -> Result<T, FolderError> {
    text.parse().map_err(|_| FolderError::Content {
        path: path.to_owned(),
        reason: format!("got {text:?}, expected {}", std::any::type_name::<T>()),
    })
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    move |source| FolderError::Io {
        path: path.to_owned(),
        source,
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, FolderError> {
    let content = |reason: String| FolderError::Content {
        path: path.to_owned(),
        reason,
    };
    let len = std::fs::metadata(path).map_err(io_error(path))?.len();
    if len > FILE_LEN_MAX {
        return Err(content(format!(
            "got {len} bytes, expected at most {FILE_LEN_MAX}"
        )));
    }
    let text = std::fs::read(path).map_err(io_error(path))?;
    serde_json::from_slice(&text).map_err(|error| content(error.to_string()))
}

/// Whether a file must be on the disk when it has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    Synced,
    /// The system writes it when it likes.
    Cached,
}

/// Writes a file whole or, unless the power fails, not at all.
fn write_json<T: Serialize>(path: &Path, value: &T, durability: Durability) -> Result<(), FolderError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        if durability == Durability::Synced {
            file.as_file().sync_all()?;
        }
        file.persist(path)?;
        Ok(())
    };
    written().map_err(io_error(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(byte: u8) -> MicroChainSetup {
        MicroChainSetup {
            address: Address::repeat_byte(byte),
            owner: Address::repeat_byte(9),
            supply: U256::MAX,
            period_secs: 10,
            chain_id: 100,
            withdrawal_min: U256::from(5),
        }
    }

    #[test]
    fn folders_are_found_again() {
        let home = tempfile::tempdir().expect("a folder");
        let folders = Folders::open(&home.path().join("data")).expect("writable");
        assert_eq!(folders.chains(10).expect("readable"), FoundChains::default());
        for byte in [2, 1] {
            folders.make(&setup(byte)).expect("writable");
        }
        let found = || folders.chains(10).expect("readable");
        assert_eq!(found().setups, [setup(1), setup(2)]);
        // The file of the first release.
        let path = folders.folder(&setup(1).address).join(SETUP_FILE);
        let mut file: SetupFile = read_json(&path).expect("readable");
        file.withdrawal_min = None;
        write_json(&path, &file, Durability::Synced).expect("writable");
        assert_eq!(
            (found().setups.len(), found().unfinished),
            (1, vec![setup(1).address])
        );
        assert!(folders.has(&setup(1).address) && !folders.has(&Address::ZERO));
        folders.make(&setup(1)).expect("writable");
        assert_eq!(found().setups, [setup(1), setup(2)]);
        for (byte, is_over) in [(1, true), (1, false), (1, false), (2, true), (3, true)] {
            folders
                .set_over(&Address::repeat_byte(byte), is_over)
                .expect("writable");
        }
        let over = [1, 2, 3].map(|byte| folders.is_over(&Address::repeat_byte(byte)));
        assert_eq!(over, [false, true, false], "the third one has no folder");
        let error = folders.chains(5).expect_err("another period").to_string();
        assert!(error.contains("got --period 5, expected 10"), "{error}");
        let followed = BTreeSet::from([Address::repeat_byte(3)]);
        assert!(folders.followed().expect("readable").is_empty());
        folders.keep_followed(&followed).expect("writable");
        assert_eq!(folders.followed().expect("readable"), followed);
        let registered = [5, 4].map(Address::repeat_byte);
        assert!(folders.registered().expect("readable").is_empty());
        folders.keep_registered(&registered).expect("writable");
        assert_eq!(
            folders.registered().expect("readable"),
            registered,
            "in their order"
        );
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let home = tempfile::tempdir().expect("a folder");
        let folders = Folders::open(home.path()).expect("writable");
        for file in [FOLLOWED_FILE, REGISTERED_FILE] {
            std::fs::write(home.path().join(file), "[1").expect("writable");
        }
        let error = folders.registered().expect_err("damaged").to_string();
        assert!(error.contains(REGISTERED_FILE), "{error}");
        assert!(folders.followed().expect("it can be lost").is_empty());
    }
}
