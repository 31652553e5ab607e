//! Block 0: it is made from a spec, written once, and compared at each later start.

mod accounts;
mod classic_accounts;
mod config;
pub mod file;
mod file_accounts;
mod file_fields;
mod file_rules;
pub mod record;

use primitives::{B256, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header};
use store::{BlockBody, BlockReads, HeaderRecord, Source, Store, StoreError, TableId, meta_key};

pub(crate) use accounts::write as write_accounts;
pub use config::chain_config;

use crate::genesis::record::{RecordError, SpecRecord};
use crate::spec::{ChainSpec, Genesis};

/// Ethereum Classic with the accounts of its block 0. Only the start of a chain needs them, so
/// [`ChainSpec::classic`] has none.
pub fn classic_with_accounts() -> ChainSpec {
    let mut spec = ChainSpec::classic();
    spec.genesis.alloc = classic_accounts::accounts();
    spec
}

/// The reason why a store cannot be used for a chain.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The store holds another chain.
    #[error(
        "block 0 of the data directory: got {got}, expected {expected} of the spec `{name}`: choose another --datadir"
    )]
    Mismatch {
        /// Hash of block 0 in the store.
        got: B256,
        /// Hash of the spec's block 0.
        expected: B256,
        /// The spec's name.
        name: String,
    },
    /// The accounts of the network's block 0 are not built in, so a genesis file is needed.
    #[error(
        "the accounts of the network {name}'s block 0 are not built in: initialise the data directory with its genesis file (`vnode init FILE`), which must give block 0 the hash {expected}"
    )]
    NoAllocation {
        /// The network's name.
        name: String,
        /// Hash of the network's block 0.
        expected: B256,
    },
    /// The genesis file names a state root that is not that of its accounts.
    #[error("state root of the accounts of block 0 of {name}: got {got}, expected {expected}")]
    StateRoot {
        /// The spec's name.
        name: String,
        /// State root of the accounts.
        got: B256,
        /// The state root that the file names.
        expected: B256,
    },
    /// The genesis file gives another block 0 than the network has.
    #[error("block 0 of the network {name}: got {got}, expected {expected}")]
    WrongNetwork {
        /// The network's name.
        name: String,
        /// Hash of the given block 0.
        got: B256,
        /// Hash of the network's block 0.
        expected: B256,
    },
    /// Block 0 is the same, but rules of blocks that the chain has already would change.
    #[error(
        "the data directory has this block 0 with other rules from block {first} on, and its head is block {head}: choose another --datadir"
    )]
    RulesOfPastBlocksDiffer {
        /// The first block whose rules differ.
        first: u64,
        /// The number of the head.
        head: u64,
    },
    /// The record of the store's spec cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The block 0 that [`initialise`] has written or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// Hash of block 0.
    pub hash: B256,
    /// State root of block 0.
    pub state_root: B256,
    /// Whether block 0 was written by this call.
    pub fresh: bool,
}

/// Writes block 0 of `spec` if the store is empty; otherwise checks that the store has this block
/// 0. Returns its hash.
///
/// # Errors
/// [`GenesisError`] if the store holds another chain or fails.
pub fn ensure_genesis(store: &Store, spec: &ChainSpec) -> Result<B256, GenesisError> {
    let stored = store.snapshot()?.canonical_hash(0)?;
    // If the spec gives the hash, block 0 need not be built for the comparison.
    if let (Some(got), Some(expected)) = (stored, spec.genesis_hash) {
        return compare(got, expected, spec);
    }
    match stored {
        Some(got) => compare(got, genesis_header(spec).hash(), spec),
        None => Ok(write(store, spec, None)?.hash()),
    }
}

/// Initialises a store for the network that `record` describes; `spec` is the record's spec.
///
/// An empty store gets block 0 and the record. A store in use must have the same block 0; its
/// record is replaced, and so its rules may change, but only those of blocks above the head. The
/// stored record has the rules and the state root of block 0, but not its accounts.
///
/// # Errors
/// [`GenesisError`] if block 0 is not that of the network, or if the store holds another chain or
/// fails. Then nothing was changed.
pub fn initialise(store: &Store, spec: &ChainSpec, record: &SpecRecord) -> Result<Initialised, GenesisError> {
    let snapshot = store.snapshot()?;
    let stored = snapshot.canonical_hash(0)?;
    let header = if let Some(got) = stored {
        check_genesis(spec)?;
        let header = genesis_header(spec);
        compare(got, header.hash(), spec)?;
        let row = short_row(record, header.state_root)?;
        let head = snapshot.head()?.map_or(0, |(number, _)| number);
        if let Some(present) = read_record(&snapshot)? {
            let differs = present.spec()?.spec.differs_from(spec);
            if let Some(first) = differs.filter(|first| *first <= head && head > 0) {
                return Err(GenesisError::RulesOfPastBlocksDiffer { first, head });
            }
        }
        let batch = store.batch()?;
        batch.write(|tables| tables.put(TableId::Meta, meta_key::SPEC, &row))?;
        batch.commit()?;
        header
    } else {
        write(store, spec, Some(record))?
    };
    Ok(Initialised {
        hash: header.hash(),
        state_root: header.state_root,
        fresh: stored.is_none(),
    })
}

/// Compares block 0 with the hash and the state root that `spec` gives for it, if any.
///
/// # Errors
/// [`GenesisError`] if the hash differs, or the accounts are missing or are not those of the state
/// root.
pub fn check_genesis(spec: &ChainSpec) -> Result<(), GenesisError> {
    if spec.genesis_hash.is_none() && spec.genesis.state_root.is_none() {
        return Ok(());
    }
    compare_with_spec(spec, accounts::state_root(&spec.genesis)).map(drop)
}

/// The header of block 0 whose accounts have the root `got`, compared as [`check_genesis`] does.
fn compare_with_spec(spec: &ChainSpec, got: B256) -> Result<Header, GenesisError> {
    let genesis = &spec.genesis;
    let expected = genesis.state_root.unwrap_or(got);
    let header = header(genesis, expected);
    check_expected(spec, header.hash())?;
    if got == expected {
        return Ok(header);
    }
    let name = spec.name.clone();
    Err(GenesisError::StateRoot { name, got, expected })
}

/// The stored form of a record, without the accounts.
fn short_row(record: &SpecRecord, state_root: B256) -> Result<Vec<u8>, RecordError> {
    record.clone().without_accounts(Some(state_root))?.encode()
}

/// The record of the store's spec; `None` if there is none.
///
/// # Errors
/// [`GenesisError`] if the store fails or the record cannot be decoded.
pub fn read_record(source: &impl Source) -> Result<Option<SpecRecord>, GenesisError> {
    let row = source.get(TableId::Meta, meta_key::SPEC)?;
    Ok(row.as_deref().map(SpecRecord::decode).transpose()?)
}

fn compare(got: B256, expected: B256, spec: &ChainSpec) -> Result<B256, GenesisError> {
    if got == expected {
        return Ok(got);
    }
    Err(GenesisError::Mismatch {
        got,
        expected,
        name: spec.name.clone(),
    })
}

/// Compares the hash of a block 0 with the one that the spec gives, if it gives one.
fn check_expected(spec: &ChainSpec, got: B256) -> Result<(), GenesisError> {
    let name = || spec.name.clone();
    match spec.genesis_hash {
        Some(expected) if got != expected && spec.genesis.alloc.is_empty() => {
            Err(GenesisError::NoAllocation {
                name: name(),
                expected,
            })
        }
        Some(expected) if got != expected => Err(GenesisError::WrongNetwork {
            name: name(),
            got,
            expected,
        }),
        _ => Ok(()),
    }
}

/// Writes block 0, and the record of its spec if there is one, in one transaction. Returns the
/// header. If it is not that of the spec, nothing is written.
fn write(store: &Store, spec: &ChainSpec, record: Option<&SpecRecord>) -> Result<Header, GenesisError> {
    let batch = store.batch()?;
    let header = batch.write(|tables| {
        let header = compare_with_spec(spec, accounts::write(tables, &spec.genesis)?)?;
        let hash = header.hash();
        let total_difficulty = header.difficulty;
        let block = HeaderRecord {
            header: header.clone(),
            total_difficulty,
            executed: true,
        };
        tables.put_block(&hash, &block, &BlockBody::default())?;
        tables.put_receipts(0, &hash, &[])?;
        tables.put_canonical(0, &hash, &[], &[])?;
        if let Some(record) = record {
            tables.put(
                TableId::Meta,
                meta_key::SPEC,
                &short_row(record, header.state_root)?,
            )?;
        }
        tables.put(TableId::Meta, meta_key::GENESIS, hash.as_slice())?;
        Ok::<_, GenesisError>(header)
    })?;
    batch.commit()?;
    Ok(header)
}

/// The header of block 0 of `spec`. Without a state root in the spec, the root of all accounts is
/// computed.
pub fn genesis_header(spec: &ChainSpec) -> Header {
    let genesis = &spec.genesis;
    let state_root = genesis
        .state_root
        .unwrap_or_else(|| accounts::state_root(genesis));
    header(genesis, state_root)
}

/// Whether the headers of two blocks 0 have the same fields, but for the state root.
pub fn same_header_fields(one: &Genesis, other: &Genesis) -> bool {
    header(one, EMPTY_ROOT) == header(other, EMPTY_ROOT)
}

fn header(genesis: &Genesis, state_root: B256) -> Header {
    Header {
        parent_hash: genesis.parent_hash,
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: genesis.beneficiary,
        state_root,
        transactions_root: EMPTY_ROOT,
        receipts_root: EMPTY_ROOT,
        logs_bloom: Default::default(),
        difficulty: genesis.difficulty,
        number: 0,
        gas_limit: genesis.gas_limit,
        gas_used: genesis.gas_used,
        timestamp: genesis.timestamp,
        extra_data: genesis.extra_data.clone(),
        mix_hash: genesis.mix_hash,
        pow_nonce: genesis.pow_nonce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_0_is_written_once_and_compared_later() {
        let store = Store::in_memory().unwrap();
        let spec = ChainSpec::dev();
        let hash = ensure_genesis(&store, &spec).unwrap();
        assert_eq!(ensure_genesis(&store, &spec).unwrap(), hash);
        assert_eq!(genesis_header(&spec).hash(), hash);
        let mut other = spec;
        other.genesis.timestamp = 1;
        let error = ensure_genesis(&store, &other).unwrap_err();
        assert!(
            matches!(error, GenesisError::Mismatch { got, .. } if got == hash),
            "{error}"
        );
    }

    const FILE: &str = r#"{"config": {"chainId": 7, "homesteadBlock": 0}, "difficulty": 9, "gasLimit": 5000,
        "alloc": {"0000000000000000000000000000000000000001": {"balance": "1"}}}"#;

    fn init(store: &Store, text: &str) -> Result<Initialised, GenesisError> {
        let record = SpecRecord::file("mine", text);
        initialise(store, &record.spec()?.spec, &record)
    }

    #[test]
    fn a_store_is_initialised_once() {
        let store = Store::in_memory().unwrap();
        assert_eq!(read_record(&store.snapshot().unwrap()).unwrap(), None);
        let first = init(&store, FILE).unwrap();
        assert!(first.fresh);
        let second = init(&store, FILE).unwrap();
        assert_eq!(
            second,
            Initialised {
                fresh: false,
                ..first
            }
        );
        let spec = ChainSpec::from_genesis_file("mine", FILE).unwrap().spec;
        assert_eq!(ensure_genesis(&store, &spec).unwrap(), first.hash);
        let error = init(&store, &FILE.replace('9', "10")).unwrap_err();
        assert!(
            matches!(error, GenesisError::Mismatch { got, .. } if got == first.hash),
            "{error}"
        );
        let stored = read_record(&store.snapshot().unwrap()).unwrap().unwrap();
        // The record has the same rules and the same block 0, without the accounts.
        let stored_spec = stored.spec().unwrap().spec;
        assert_eq!(stored_spec.differs_from(&spec), None);
        assert!(stored_spec.genesis.alloc.is_empty());
        assert_eq!(genesis_header(&stored_spec).hash(), first.hash);
        assert_eq!(ensure_genesis(&store, &stored_spec).unwrap(), first.hash);
        assert!(stored.is_of_file(FILE.as_bytes()));
        assert!(!stored.is_of_file(FILE.replace('9', "8").as_bytes()));
        // The stored spec does not start another store.
        let error = ensure_genesis(&Store::in_memory().unwrap(), &stored_spec).unwrap_err();
        assert!(
            matches!(error, GenesisError::StateRoot { got: EMPTY_ROOT, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_state_root_in_a_file_must_be_that_of_its_accounts() {
        let store = Store::in_memory().unwrap();
        let root = init(&store, FILE).unwrap().state_root;
        let with_root =
            |root: B256| FILE.replace("\"alloc\"", &format!("\"stateRoot\": \"{root}\", \"alloc\""));
        assert!(!init(&store, &with_root(root)).unwrap().fresh);
        let other = Store::in_memory().unwrap();
        let error = init(&other, &with_root(B256::repeat_byte(5))).unwrap_err();
        assert!(
            matches!(error, GenesisError::StateRoot { got, .. } if got == root),
            "{error}"
        );
        assert_eq!(other.snapshot().unwrap().head().unwrap(), None);
    }

    #[test]
    fn rules_can_change_only_above_the_head() {
        let store = Store::in_memory().unwrap();
        init(&store, FILE).unwrap();
        let later = FILE.replace(
            "\"homesteadBlock\": 0",
            "\"homesteadBlock\": 0, \"eip150Block\": 5",
        );
        init(&store, &later).unwrap();
        let record = read_record(&store.snapshot().unwrap()).unwrap().unwrap();
        assert!(record.is_of_file(later.as_bytes()));
        let batch = store.batch().unwrap();
        let to_block = |number| {
            batch
                .write(|tables| tables.put_canonical(number, &B256::repeat_byte(1), &[], &[]))
                .unwrap();
        };
        to_block(5);
        batch.commit().unwrap();
        let error = init(&store, FILE).unwrap_err();
        assert!(
            matches!(error, GenesisError::RulesOfPastBlocksDiffer { first: 5, head: 5 }),
            "{error}"
        );
        init(
            &store,
            &later.replace("}, \"diff", ", \"eip155Block\": 6}, \"diff"),
        )
        .unwrap();
    }

    #[test]
    fn published_state_roots_give_the_published_hashes() {
        let text = include_str!("../../../../tests/vectors/transactions.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let check = |name: &str, genesis: &Genesis, built_in: Option<B256>| {
            let of = |field: &str| -> B256 {
                let text = vectors["genesis"][name][field].as_str().unwrap();
                text.parse().unwrap()
            };
            let hash = header(genesis, of("stateRoot")).hash();
            assert_eq!(hash, of("hash"), "{name}");
            assert!(built_in.is_none_or(|built_in| built_in == hash), "{name}");
        };
        let (main, test) = (ChainSpec::main(), ChainSpec::test());
        check("mainnet", &main.genesis, main.genesis_hash);
        check("testnet", &test.genesis, test.genesis_hash);
        // The development network of the public network's node has the test network's header
        // fields.
        check("dev", &test.genesis, None);
    }

    #[test]
    fn public_networks_need_a_genesis_file() {
        let store = Store::in_memory().unwrap();
        let error = ensure_genesis(&store, &ChainSpec::main()).unwrap_err();
        assert!(
            matches!(&error, GenesisError::NoAllocation { name, .. } if name == "main"),
            "{error}"
        );
        let mut wrong = ChainSpec::test();
        wrong.genesis.alloc = ChainSpec::dev().genesis.alloc;
        let error = ensure_genesis(&store, &wrong).unwrap_err();
        assert!(
            matches!(&error, GenesisError::WrongNetwork { name, .. } if name == "test"),
            "{error}"
        );
        assert_eq!(store.snapshot().unwrap().head().unwrap(), None);
    }
}
