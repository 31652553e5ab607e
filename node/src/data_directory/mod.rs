//! Opens a data directory and finds out which network its chain belongs to.
//!
//! A directory with a chain has a record of its network. Options may name the same network; options
//! that contradict the record are refused. In an empty directory the chain of the network that the
//! options name is started. The accounts of block 0 are read for that only: a record has their
//! root, and the hash of the genesis file it was made from.

mod dev_network;
mod unchecked_seals;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::ChainSpec;
use chain::era1::{Era1Archive, Era1FileError};
use chain::genesis::record::{RecordError, SpecRecord};
use chain::genesis::{
    GenesisError, check_genesis, classic_with_accounts, genesis_header, initialise, read_record,
    same_header_fields,
};
use primitives::B256;
use store::{
    AncientReads, ArchiveSlot, BlockReads, Snapshot, Source, Store, StoreError, StoreOptions, TableId,
    UpgradeProgress, meta_key,
};

use self::dev_network::{check_dev_options, dev_network};
use self::unchecked_seals::check_seals_option;
use crate::options::{Network, OptionsError, VnodeOptions};
use crate::progress::{CommandProgress, ProgressUnits};

/// Longest genesis file that is read, in bytes.
const GENESIS_BYTES_MAX: u64 = 256 << 20;

/// An error of a data directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirectoryError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The directory has no chain, and no option names a network that could be started.
    #[error(
        "no chain in {}: `vnode init FILE` starts the network that a genesis file describes, --dev starts the development network, --network classic or mordor a public one", path.display()
    )]
    NoChain {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has a chain without a record of its network, and no known network fits.
    #[error(
        "the chain in {} has block 0 {got} and no record of its network: give its genesis file with --genesis FILE", path.display()
    )]
    UnknownNetwork {
        /// The directory.
        path: PathBuf,
        /// Hash of block 0 in the directory.
        got: B256,
    },
    /// An option names another network than that of the directory.
    #[error(
        "{option}: got block 0 {got}, expected {expected}, because {} was initialised with the network {name}: leave the option out, or choose another --datadir", path.display()
    )]
    OtherNetwork {
        /// The option.
        option: Box<str>,
        /// Hash of block 0 of the option's network.
        got: B256,
        /// The directory.
        path: Box<Path>,
        /// Name of the directory's network.
        name: Box<str>,
        /// Hash of block 0 in the directory.
        expected: B256,
    },
    /// An option names a network with the same block 0 as the directory's, but with other rules.
    #[error(
        "{option} has other rules from block {first} on than {}, which was initialised with the network {name}: leave the option out, or change the rules with `vnode init`", path.display()
    )]
    OtherRules {
        /// The option.
        option: String,
        /// The first block for which the rules differ.
        first: u64,
        /// The directory.
        path: PathBuf,
        /// Name of the directory's network.
        name: String,
    },
    /// An option of the development network differs from the one that the directory has.
    #[error(
        "{option} differs from the development network in {}, which keeps what it began with: leave the option out, or choose another --datadir", path.display()
    )]
    OtherDev {
        /// The option.
        option: &'static str,
        /// The directory.
        path: PathBuf,
    },
    /// The seals of the directory's blocks were not checked, and now they would be.
    #[error(
        "{} was used with --fakepow, so its blocks may have wrong seals: give --fakepow again, or choose another --datadir", path.display()
    )]
    SealsUnchecked {
        /// The directory.
        path: PathBuf,
    },
    /// A genesis file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A genesis file is too long.
    #[error("{}: got more than {GENESIS_BYTES_MAX} bytes, expected a genesis file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A genesis file is invalid.
    #[error("{}: {error}", path.display())]
    GenesisFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: RecordError,
    },
    /// The directory cannot be created, or its real path cannot be found.
    #[error("cannot create the data directory {}: {source}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Block 0 does not fit the network, or the record of the network cannot be used.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The folder with the old blocks cannot be used.
    #[error("--ancient {}: {error}", error.path.display())]
    Ancient {
        /// The fault, with the file.
        error: Box<Era1FileError>,
    },
    /// The directory has no copy of its old blocks.
    #[error("{} has no copy of its old blocks: give the folder of its Era1 files with --ancient FOLDER", path.display())]
    NoAncient {
        /// The directory.
        path: PathBuf,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The purpose for which a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPurpose {
    /// To extend the chain. In an empty directory a chain is started.
    Run,
    /// To read an existing chain.
    Read,
    /// To look for faults in an existing chain. The record of its network may be damaged, too.
    Check,
}

/// An open data directory.
#[derive(Debug)]
pub struct DataDirectory {
    /// The path.
    pub path: PathBuf,
    /// The open store.
    pub store: Store,
    /// The network of the chain in it.
    pub spec: Arc<ChainSpec>,
    /// The chain is that of the development network.
    pub dev: bool,
}

/// A network that the options name.
pub(crate) struct RequestedNetwork {
    /// The option as written, for errors.
    pub(crate) option: String,
    /// The record that `vnode init` writes. `None` if the accounts of block 0 are missing, as for
    /// `--network main` without a genesis file.
    pub(crate) record: Option<SpecRecord>,
    pub(crate) spec: ChainSpec,
}

/// The network of a chain, with the record that the directory keeps of it.
struct ChainNetwork {
    record: SpecRecord,
    spec: ChainSpec,
}

impl DataDirectory {
    /// Opens the directory that the options name, and starts a chain if `purpose` allows it.
    pub fn open(options: &VnodeOptions, purpose: OpenPurpose) -> Result<Self, DataDirectoryError> {
        let path = options.data_directory()?;
        let mut requested = None;
        if !path.join(store::FILE_NAME).exists() {
            requested = requested_network(options)?;
            // If no chain can be started, this fails before any file is created.
            check_network_to_start(requested.as_ref(), purpose, &path)?;
        }
        let archive = ArchiveSlot::default();
        let (path, store) = open_store_beside(options, &path, &archive)?;
        let view = store.snapshot()?;
        if requested.is_none() && !is_recorded_file(&view, options)? {
            requested = requested_network(options)?;
        }
        let mut network = match network_of_chain(&view, purpose, requested.as_ref(), &path)? {
            Some(network) => {
                if purpose == OpenPurpose::Run {
                    write_short_record(&store, &view, &network.record)?;
                }
                network
            }
            None => {
                check_network_to_start(requested.as_ref(), purpose, &path)?;
                start_network(&store, requested, &path)?
            }
        };
        drop(view);
        check_dev_options(options, &network, &path)?;
        if purpose == OpenPurpose::Run {
            check_seals_option(options, &store, &network, &path)?;
        }
        if let Some(id) = options.networkid {
            network.spec.network_id = id;
        }
        let spec = Arc::new(network.spec);
        open_archive(options, &spec, &store, &path, &archive)?;
        Ok(Self {
            path,
            store,
            dev: is_dev(&network.record),
            spec,
        })
    }
}

/// Opens the folder of `--ancient`, if it is given, and puts it beside the files of the store.
fn open_archive(
    options: &VnodeOptions,
    spec: &Arc<ChainSpec>,
    store: &Store,
    path: &Path,
    slot: &ArchiveSlot,
) -> Result<(), DataDirectoryError> {
    let Some(folder) = &options.ancient else {
        if store.snapshot()?.needs_archive()? {
            return Err(DataDirectoryError::NoAncient {
                path: path.to_owned(),
            });
        }
        return Ok(());
    };
    let archive = Era1Archive::open(folder, spec.clone()).map_err(|error| DataDirectoryError::Ancient {
        error: Box::new(error),
    })?;
    tracing::info!(blocks = archive.blocks(), folder = %folder.display(), "old blocks are served from Era1 files");
    slot.set(Arc::new(archive));
    Ok(())
}

/// Whether this is the record of the development network.
fn is_dev(record: &SpecRecord) -> bool {
    record.network_name() == Some(Network::Dev.name())
}

/// Whether the genesis file that the options name is the one that the record was made from. Then
/// the options name the network of the record, and the file need not be understood.
fn is_recorded_file(view: &Snapshot, options: &VnodeOptions) -> Result<bool, DataDirectoryError> {
    let Some(file) = &options.genesis else {
        return Ok(false);
    };
    let network = options.network()?.map(Network::name);
    let Ok(Some(record)) = read_record(view) else {
        return Ok(false);
    };
    let fits = network.is_none() || network == record.network_name();
    Ok(fits && record.is_of_file(read_text(file)?.as_bytes()))
}

/// Writes the record of the network into a directory that has none, or that has one with the
/// accounts of block 0.
fn write_short_record(store: &Store, view: &Snapshot, record: &SpecRecord) -> Result<(), DataDirectoryError> {
    let genesis = view.canonical_hash(0)?;
    let header = genesis.map(|hash| view.header(0, &hash)).transpose()?.flatten();
    let Some(header) = header else { return Ok(()) };
    let short = record.clone().without_accounts(Some(header.header.state_root));
    let row = short
        .and_then(|record| record.encode())
        .map_err(GenesisError::from)?;
    if view.get(TableId::Meta, meta_key::SPEC)?.as_ref() == Some(&row) {
        return Ok(());
    }
    let batch = store.batch()?;
    batch.write(|tables| tables.put(TableId::Meta, meta_key::SPEC, &row))?;
    Ok(batch.commit()?)
}

/// Opens the database in the data directory `path`. Creates both if they do not exist.
///
/// Returns the real path of the directory, too.
pub(crate) fn open_store(
    options: &VnodeOptions,
    path: &Path,
) -> Result<(PathBuf, Store), DataDirectoryError> {
    open_store_beside(options, path, &ArchiveSlot::default())
}

/// As [`open_store`], with the place of an archive of old blocks.
fn open_store_beside(
    options: &VnodeOptions,
    path: &Path,
    archive: &ArchiveSlot,
) -> Result<(PathBuf, Store), DataDirectoryError> {
    let failed = |source| DataDirectoryError::Create {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    let cache_bytes = options.cache << 20;
    let store_options = StoreOptions {
        cache_bytes,
        archive: archive.clone(),
        ..StoreOptions::default()
    };
    let mut shown: Option<CommandProgress> = None;
    let store = chain::upgrade::open_store(&path, &store_options, &mut |progress| {
        let UpgradeProgress { what, done, total } = progress;
        let shown = shown.get_or_insert_with(|| {
            tracing::info!(
                "the data directory is of an earlier version: rewriting its state (docs/failures.md)"
            );
            CommandProgress::new(options, what, ProgressUnits::Items, total)
        });
        shown.set_phase(what, total);
        shown.update(done, || format!("rewriting {what}: {done} of {total}"));
    })?;
    Ok((path, store))
}

/// Checks that the chain of the requested network can be started in an empty directory.
///
/// # Errors
/// [`DataDirectoryError::NoChain`] if `purpose` needs an existing chain, or no complete network is
/// requested.
fn check_network_to_start(
    requested: Option<&RequestedNetwork>,
    purpose: OpenPurpose,
    path: &Path,
) -> Result<(), DataDirectoryError> {
    let no_chain = || DataDirectoryError::NoChain {
        path: path.to_owned(),
    };
    let requested = requested.filter(|_| purpose == OpenPurpose::Run);
    let RequestedNetwork { record, spec, .. } = requested.ok_or_else(no_chain)?;
    check_genesis(spec)?;
    record.as_ref().map(|_| ()).ok_or_else(no_chain)
}

/// Starts the chain of the requested network in an empty store.
fn start_network(
    store: &Store,
    requested: Option<RequestedNetwork>,
    path: &Path,
) -> Result<ChainNetwork, DataDirectoryError> {
    let no_chain = || DataDirectoryError::NoChain {
        path: path.to_owned(),
    };
    let RequestedNetwork { record, mut spec, .. } = requested.ok_or_else(no_chain)?;
    let record = record.ok_or_else(no_chain)?;
    let initialised = initialise(store, &spec, &record)?;
    spec.genesis_hash = Some(initialised.hash);
    if !is_dev(&record) {
        // The store has the accounts. Those of the development network are shown at every start.
        spec.genesis.alloc.clear();
        spec.genesis.state_root = Some(initialised.state_root);
    }
    Ok(ChainNetwork { record, spec })
}

/// The network of the chain in the directory, compared with the requested one. `None` if the
/// directory has no chain.
fn network_of_chain(
    view: &Snapshot,
    purpose: OpenPurpose,
    requested: Option<&RequestedNetwork>,
    path: &Path,
) -> Result<Option<ChainNetwork>, DataDirectoryError> {
    let genesis = view.canonical_hash(0);
    let record = read_record(view);
    let (genesis, record) = if purpose == OpenPurpose::Check {
        // The check itself reports damaged rows.
        (genesis.unwrap_or_default(), record.unwrap_or_default())
    } else {
        (genesis?, record?)
    };
    let Some(got) = genesis else {
        return match record {
            Some(record) if purpose == OpenPurpose::Check => Ok(Some(recorded_network(record)?)),
            _ => Ok(None),
        };
    };
    let network = match record {
        Some(record) => Some(recorded_network(record)?),
        None => network_with_genesis(requested, got)?,
    };
    let mut network = network.ok_or_else(|| DataDirectoryError::UnknownNetwork {
        path: path.to_owned(),
        got,
    })?;
    if is_dev(&network.record) {
        // The record has only the name, and another version may have another block 0 for that
        // name.
        network.spec.genesis_hash = Some(genesis_header(&network.spec).hash());
    }
    if purpose != OpenPurpose::Check {
        let expected = network.spec.genesis_hash.unwrap_or(got);
        if expected != got {
            let name = network.spec.name;
            return Err(GenesisError::Mismatch { got, expected, name }.into());
        }
        // Other records need no comparison: they were written in the commit that wrote block 0.
        network.spec.genesis_hash = Some(got);
    }
    if let Some(requested) = requested {
        check_request(requested, &network, got, path)?;
    }
    Ok(Some(network))
}

/// The network that a record describes.
fn recorded_network(record: SpecRecord) -> Result<ChainNetwork, DataDirectoryError> {
    let spec = record.spec().map_err(GenesisError::from)?.spec;
    Ok(ChainNetwork { record, spec })
}

/// The network whose block 0 has the hash `genesis`: the requested one or a built-in one.
fn network_with_genesis(
    requested: Option<&RequestedNetwork>,
    genesis: B256,
) -> Result<Option<ChainNetwork>, DataDirectoryError> {
    if let Some(RequestedNetwork {
        record: Some(record),
        spec,
        ..
    }) = requested
        && genesis_hash(spec) == genesis
    {
        let (record, spec) = (record.clone(), spec.clone());
        return Ok(Some(ChainNetwork { record, spec }));
    }
    for spec in [
        ChainSpec::dev(),
        ChainSpec::main(),
        ChainSpec::test(),
        ChainSpec::classic(),
        ChainSpec::mordor(),
    ] {
        if genesis_hash(&spec) == genesis {
            return Ok(Some(recorded_network(SpecRecord::built_in(&spec.name))?));
        }
    }
    Ok(None)
}

/// Refuses a requested network whose block 0 or rules differ from those of the directory.
fn check_request(
    requested: &RequestedNetwork,
    ChainNetwork { record, spec }: &ChainNetwork,
    expected: B256,
    path: &Path,
) -> Result<(), DataDirectoryError> {
    let got = genesis_hash(&requested.spec);
    if got != expected {
        return Err(DataDirectoryError::OtherNetwork {
            option: requested.option.as_str().into(),
            got,
            path: path.into(),
            name: spec.name.as_str().into(),
            expected,
        });
    }
    if is_dev(record) && requested.record.as_ref().is_some_and(is_dev) {
        // The rules of a development network are those of its record, whatever this program gives
        // to new ones.
        return Ok(());
    }
    match requested.spec.differs_from(spec) {
        None => Ok(()),
        Some(first) => Err(DataDirectoryError::OtherRules {
            option: requested.option.clone(),
            first,
            path: path.to_owned(),
            name: spec.name.clone(),
        }),
    }
}

/// Hash of block 0 of a network.
fn genesis_hash(spec: &ChainSpec) -> B256 {
    spec.genesis_hash.unwrap_or_else(|| genesis_header(spec).hash())
}

/// The network that the options name, if any.
fn requested_network(options: &VnodeOptions) -> Result<Option<RequestedNetwork>, DataDirectoryError> {
    match (options.network()?, &options.genesis) {
        (None, None) => Ok(None),
        (Some(Network::Dev), None) => dev_network(options).map(Some),
        (Some(network), None) => Ok(Some(built_in_network(network))),
        (network, Some(file)) => read_genesis(network, file).map(Some),
    }
}

/// A built-in network. The records of those whose block 0 is built in are complete.
fn built_in_network(network: Network) -> RequestedNetwork {
    let name = network.name();
    let spec = match network {
        Network::Main => ChainSpec::main(),
        Network::Test => ChainSpec::test(),
        Network::Dev => ChainSpec::dev(),
        Network::Classic => classic_with_accounts(),
        Network::Mordor => ChainSpec::mordor(),
    };
    let record = match network {
        Network::Main | Network::Test => None,
        Network::Dev => Some(SpecRecord::dev()),
        Network::Classic | Network::Mordor => Some(SpecRecord::built_in(name)),
    };
    RequestedNetwork {
        option: format!("--network {name}"),
        record,
        spec,
    }
}

/// Reads the genesis file at `path`: of the built-in `network`, or of a network of its own.
///
/// A warning in the log names each key that is not understood.
pub(crate) fn read_genesis(
    network: Option<Network>,
    path: &Path,
) -> Result<RequestedNetwork, DataDirectoryError> {
    let genesis_file = read_text(path)?;
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    let record = match network {
        Some(network) => SpecRecord::network(network.name(), genesis_file),
        None => SpecRecord::file(&stem.to_string_lossy(), genesis_file),
    };
    let failed = |error| DataDirectoryError::GenesisFile {
        path: path.to_owned(),
        error,
    };
    let file = record.spec().map_err(failed)?;
    // The spec has the accounts, of which there may be a million.
    let record = record.without_accounts(None).map_err(failed)?;
    for key in &file.ignored_keys {
        tracing::warn!(key, file = %path.display(), "unknown key ignored");
    }
    let (record, spec) = match network {
        None => match public_network_of(&file.spec, path) {
            Some(public) => {
                let record = record.of_network(&public.name);
                let spec = ChainSpec {
                    genesis: file.spec.genesis,
                    ..public
                };
                (record, spec)
            }
            None => (record, file.spec),
        },
        Some(_) => (record, file.spec),
    };
    Ok(RequestedNetwork {
        option: format!("--genesis {}", path.display()),
        record: Some(record),
        spec,
    })
}

/// The public network that has the block 0 and the rules of `spec`, which was read from `path`.
///
/// Warns if the block 0 is that of a public network and the rules are not.
fn public_network_of(spec: &ChainSpec, path: &Path) -> Option<ChainSpec> {
    let publics = [
        ChainSpec::main(),
        ChainSpec::test(),
        ChainSpec::classic(),
        ChainSpec::mordor(),
    ];
    // The hash needs the root of all accounts, the other fields tell most networks apart.
    let like = |public: &ChainSpec| same_header_fields(&public.genesis, &spec.genesis);
    let mut like = publics.into_iter().filter(like).peekable();
    like.peek()?;
    let hash = genesis_header(spec).hash();
    for public in like {
        if public.genesis_hash != Some(hash) {
            continue;
        }
        // The public network's own genesis file does not say its later chain ids.
        let mut spec = spec.clone();
        if spec.chain_id_changes.is_empty() {
            spec.chain_id_changes.clone_from(&public.chain_id_changes);
        }
        match spec.differs_from(&public) {
            None => return Some(public),
            Some(first) => tracing::warn!(
                file = %path.display(),
                "block 0 is that of the network {}, but the rules differ from block {first} on; the rules of the file are used",
                public.name
            ),
        }
    }
    None
}

fn read_text(path: &Path) -> Result<String, DataDirectoryError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(GENESIS_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(read) if read as u64 > GENESIS_BYTES_MAX => Err(DataDirectoryError::TooLong {
            path: path.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(source) => Err(DataDirectoryError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
