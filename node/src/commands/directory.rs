//! Opens a data directory and finds out which network it is of.
//!
//! A directory in use says so itself; options may say the same, and are refused where they
//! contradict it. An empty one is made one of the network that the options name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::ChainSpec;
use chain::genesis::record::{RecordError, SpecRecord};
use chain::genesis::{GenesisError, checked_genesis_header, genesis_header, initialise, read_record};
use primitives::B256;
use store::{BlockReads, Snapshot, Store, StoreError, StoreOptions, TableId, meta_key};

use crate::options::{Network, OptionsError, VnodeOptions, network_name};

/// The largest genesis file that is read, in bytes.
const GENESIS_BYTES_MAX: u64 = 256 << 20;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is nothing, and nothing says what it should be.
    #[error(
        "no chain in {}: `vnode init FILE` makes one of the network that a genesis file describes, --dev starts the development network", path.display()
    )]
    NoNetwork {
        /// The directory.
        path: PathBuf,
    },
    /// There is a chain, and nothing says of which network.
    #[error(
        "the chain in {} has block 0 {got} and does not say of which network: give its --genesis FILE", path.display()
    )]
    Nameless {
        /// The directory.
        path: PathBuf,
        /// Hash of its block 0.
        got: B256,
    },
    /// An option asks for another network than the directory's.
    #[error(
        "{asked} has block 0 {got}, {} was initialised with the network {name} and has {expected}: leave the option out, or choose another --datadir", path.display()
    )]
    Contradiction {
        /// The option.
        asked: Box<str>,
        /// Block 0 of the option.
        got: B256,
        /// The directory.
        path: Box<Path>,
        /// The directory's network.
        name: Box<str>,
        /// Block 0 of the directory.
        expected: B256,
    },
    /// An option asks for other rules than the directory's.
    #[error(
        "{asked} has other rules from block {first} on than {}, which was initialised with the network {name}: leave the option out, or change the rules with `vnode init`", path.display()
    )]
    OtherRules {
        /// The option.
        asked: String,
        /// The first block with other rules.
        first: u64,
        /// The directory.
        path: PathBuf,
        /// The directory's network.
        name: String,
    },
    /// A genesis file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A genesis file is too long.
    #[error("{}: got more than {GENESIS_BYTES_MAX} bytes, expected a genesis file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A genesis file cannot be understood.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: RecordError,
    },
    /// The directory cannot be made or found.
    #[error("cannot make the data directory {}: {source}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// Block 0 is not the network's, or what is said of it cannot be used.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To go on with its chain; one is begun where there is none.
    Run,
    /// To read a chain that must be there.
    Read,
    /// To look for faults in a chain, which may be in what says of which network it is.
    Check,
}

/// An open data directory.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) store: Store,
    pub(crate) spec: Arc<ChainSpec>,
    /// It is the development network's.
    pub(crate) dev: bool,
}

/// A network that options ask for.
pub(super) struct Asked {
    /// The option, for errors.
    pub(super) option: String,
    /// What a directory would be initialised with; `None` where the accounts are missing.
    pub(super) record: Option<SpecRecord>,
    pub(super) spec: ChainSpec,
}

impl Directory {
    /// Opens the directory of the options.
    pub(crate) fn open(options: &VnodeOptions, purpose: Purpose) -> Result<Self, DirectoryError> {
        let asked = asked(options)?;
        let path = options.data_directory()?;
        if !path.join(store::FILE_NAME).exists() {
            // Nothing is made before it is clear what.
            beginning(asked.as_ref(), purpose, &path)?;
        }
        let (path, store) = open_store(options, &path)?;
        let view = store.snapshot()?;
        let (mut spec, dev) = match known(&view, purpose, asked.as_ref(), &path)? {
            Some((record, spec)) => {
                if purpose == Purpose::Run && read_record(&view)?.is_none() {
                    note(&store, &record)?;
                }
                (spec, record == SpecRecord::dev())
            }
            None => {
                let (record, spec) = beginning(asked.as_ref(), purpose, &path)?;
                let begun = initialise(&store, spec, record)?;
                let mut spec = spec.clone();
                spec.genesis_hash = Some(begun.hash);
                (spec, *record == SpecRecord::dev())
            }
        };
        drop(view);
        if let Some(id) = options.networkid {
            spec.network_id = id;
        }
        Ok(Self {
            path,
            store,
            spec: Arc::new(spec),
            dev,
        })
    }
}

/// Writes of which network a directory is that did not say so.
fn note(store: &Store, record: &SpecRecord) -> Result<(), DirectoryError> {
    let row = record.encode().map_err(GenesisError::from)?;
    let batch = store.batch()?;
    batch.write(|tables| tables.put(TableId::Meta, meta_key::SPEC, &row))?;
    Ok(batch.commit()?)
}

/// Opens the database of a data directory, making both where they lack.
pub(super) fn open_store(options: &VnodeOptions, path: &Path) -> Result<(PathBuf, Store), DirectoryError> {
    let failed = |source| DirectoryError::Make {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    let cache_bytes = options.cache << 20;
    let store = Store::open(&path, &StoreOptions { cache_bytes })?;
    Ok((path, store))
}

/// What a chain is begun with, if one may be.
fn beginning<'a>(
    asked: Option<&'a Asked>,
    purpose: Purpose,
    path: &Path,
) -> Result<(&'a SpecRecord, &'a ChainSpec), DirectoryError> {
    let nothing = || DirectoryError::NoNetwork {
        path: path.to_owned(),
    };
    if purpose != Purpose::Run {
        return Err(nothing());
    }
    let Asked { record, spec, .. } = asked.ok_or_else(nothing)?;
    checked_genesis_header(spec)?;
    Ok((record.as_ref().ok_or_else(nothing)?, spec))
}

/// What a directory with a chain is of; `None` for one without. Compared with what is asked for.
fn known(
    view: &Snapshot,
    purpose: Purpose,
    asked: Option<&Asked>,
    path: &Path,
) -> Result<Option<(SpecRecord, ChainSpec)>, DirectoryError> {
    let genesis = view.canonical_hash(0);
    let record = read_record(view);
    let (genesis, record) = if purpose == Purpose::Check {
        // Rows that are at fault are told by the check itself.
        (genesis.unwrap_or_default(), record.unwrap_or_default())
    } else {
        (genesis?, record?)
    };
    let Some(got) = genesis else {
        return match record {
            Some(record) if purpose == Purpose::Check => {
                let spec = record.spec().map_err(GenesisError::from)?.spec;
                Ok(Some((record, spec)))
            }
            _ => Ok(None),
        };
    };
    let (record, mut spec) = match record {
        Some(record) => {
            let spec = record.spec().map_err(GenesisError::from)?.spec;
            (record, spec)
        }
        None => nameless(asked, got)?.ok_or_else(|| DirectoryError::Nameless {
            path: path.to_owned(),
            got,
        })?,
    };
    if record == SpecRecord::dev() {
        // The record has the name alone: another version's network of that name may have another block 0.
        spec.genesis_hash = Some(genesis_header(&spec)?.hash());
    }
    let expected = spec.genesis_hash.unwrap_or(got);
    if expected != got && purpose != Purpose::Check {
        let name = spec.name;
        return Err(GenesisError::Mismatch { got, expected, name }.into());
    }
    if purpose != Purpose::Check {
        // The rest of the record lies beside block 0 since the same commit.
        spec.genesis_hash = Some(got);
    }
    if let Some(asked) = asked {
        compare(asked, &spec, got, path)?;
    }
    Ok(Some((record, spec)))
}

/// A network that fits a chain whose directory does not say of which it is.
fn nameless(asked: Option<&Asked>, got: B256) -> Result<Option<(SpecRecord, ChainSpec)>, DirectoryError> {
    if let Some(Asked {
        record: Some(record),
        spec,
        ..
    }) = asked
        && hash_of(spec)? == got
    {
        return Ok(Some((record.clone(), spec.clone())));
    }
    for spec in [ChainSpec::dev(), ChainSpec::main(), ChainSpec::test()] {
        if hash_of(&spec)? == got {
            let record = SpecRecord::Network {
                name: spec.name.clone(),
                genesis_file: None,
            };
            return Ok(Some((record, spec)));
        }
    }
    Ok(None)
}

fn compare(asked: &Asked, spec: &ChainSpec, expected: B256, path: &Path) -> Result<(), DirectoryError> {
    let got = hash_of(&asked.spec)?;
    if got != expected {
        return Err(DirectoryError::Contradiction {
            asked: asked.option.as_str().into(),
            got,
            path: path.into(),
            name: spec.name.as_str().into(),
            expected,
        });
    }
    let (path, name) = (path.to_owned(), spec.name.clone());
    match asked.spec.differs_from(spec) {
        None => Ok(()),
        Some(first) => Err(DirectoryError::OtherRules {
            asked: asked.option.clone(),
            first,
            path,
            name,
        }),
    }
}

/// Hash of the block 0 that a network has.
fn hash_of(spec: &ChainSpec) -> Result<B256, StoreError> {
    match spec.genesis_hash {
        Some(hash) => Ok(hash),
        None => Ok(genesis_header(spec)?.hash()),
    }
}

/// The network that the options ask for, if they ask for one.
fn asked(options: &VnodeOptions) -> Result<Option<Asked>, DirectoryError> {
    let network = options.network()?;
    let built_in = |network| {
        ChainSpec::built_in(network_name(network)).expect("each name on the command line is a network's")
    };
    match (network, &options.genesis) {
        (None, None) => Ok(None),
        (Some(network), None) => Ok(Some(Asked {
            option: format!("--network {}", network_name(network)),
            record: (network == Network::Dev).then(SpecRecord::dev),
            spec: built_in(network),
        })),
        (network, Some(file)) => read_genesis(network, file).map(Some),
    }
}

/// Reads a genesis file, of a network or of its own. Keys that it does not understand are named in the log.
pub(super) fn read_genesis(network: Option<Network>, path: &Path) -> Result<Asked, DirectoryError> {
    let genesis_file = read_text(path)?;
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    let mut record = match network {
        Some(network) => SpecRecord::Network {
            name: network_name(network).to_owned(),
            genesis_file: Some(genesis_file.clone()),
        },
        None => SpecRecord::File {
            name: stem.to_string_lossy().into_owned(),
            genesis_file: genesis_file.clone(),
        },
    };
    let file = record.spec().map_err(|error| DirectoryError::File {
        path: path.to_owned(),
        error,
    })?;
    for key in &file.ignored_keys {
        tracing::warn!(key, file = %path.display(), "unknown key ignored");
    }
    let mut spec = file.spec;
    if network.is_none() {
        let hash = genesis_header(&spec)?.hash();
        for public in [ChainSpec::main(), ChainSpec::test()] {
            if public.genesis_hash != Some(hash) {
                continue;
            }
            if let Some(first) = spec.differs_from(&public) {
                tracing::warn!(
                    file = %path.display(),
                    "block 0 is that of the network {}, but the rules differ from block {first} on; the file's rules are used",
                    public.name
                );
                continue;
            }
            record = SpecRecord::Network {
                name: public.name.clone(),
                genesis_file: Some(genesis_file.clone()),
            };
            spec = ChainSpec {
                genesis: spec.genesis,
                ..public
            };
            break;
        }
    }
    Ok(Asked {
        option: format!("--genesis {}", path.display()),
        record: Some(record),
        spec,
    })
}

fn read_text(path: &Path) -> Result<String, DirectoryError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(GENESIS_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(read) if read as u64 > GENESIS_BYTES_MAX => Err(DirectoryError::TooLong {
            path: path.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(source) => Err(DirectoryError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
