//! Block 0: made from a spec, written once, compared ever after.

use crate::spec::{ChainSpec, Genesis};
use crate::state::{BlockState, StateUpdate};
use primitives::{B256, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header};
use store::{BlockBody, BlockReads, HeaderRecord, Store, StoreError, TableId, meta_key};

/// Why a store cannot serve a chain.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The store holds another chain.
    #[error(
        "the data directory holds a chain with genesis {got}, the spec `{name}` has {expected}: choose another --datadir"
    )]
    Mismatch {
        /// Block 0 in the store.
        got: B256,
        /// Block 0 of the spec.
        expected: B256,
        /// The spec's name.
        name: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes block 0 of `spec` into an empty store, or checks that a store in use has it.
/// Returns its hash.
///
/// # Errors
/// [`GenesisError`] when the store holds another chain or fails.
pub fn ensure_genesis(store: &Store, spec: &ChainSpec) -> Result<B256, GenesisError> {
    let (header, update) = build(spec)?;
    let expected = header.hash();
    match store.snapshot()?.canonical_hash(0)? {
        Some(got) if got == expected => return Ok(expected),
        Some(got) => {
            return Err(GenesisError::Mismatch {
                got,
                expected,
                name: spec.name.clone(),
            });
        }
        None => {}
    }
    let batch = store.batch()?;
    batch.write(|tables| {
        update.write(tables, 0)?;
        let total_difficulty = header.difficulty;
        let record = HeaderRecord {
            header,
            total_difficulty,
            executed: true,
        };
        tables.put_block(&expected, &record, &BlockBody::default())?;
        tables.put_executed(&expected, &record, &[])?;
        tables.put_canonical(0, &expected, &[])?;
        tables.put(TableId::Meta, meta_key::GENESIS, expected.as_slice())
    })?;
    batch.commit()?;
    Ok(expected)
}

/// The header of block 0 of `spec`.
///
/// # Errors
/// [`StoreError`] only if the store in memory, in which the state is made, fails.
pub fn genesis_header(spec: &ChainSpec) -> Result<Header, StoreError> {
    Ok(build(spec)?.0)
}

fn build(spec: &ChainSpec) -> Result<(Header, StateUpdate), StoreError> {
    let scratch = Store::in_memory()?;
    scratch.batch()?.write(|tables| {
        let mut state = BlockState::new(&*tables, 0, EMPTY_ROOT);
        for (address, account) in &spec.genesis.alloc {
            state.set_account(*address, account)?;
        }
        let update = state.update().map_err(|error| error.0)?;
        Ok((header(&spec.genesis, update.root), update))
    })
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
    fn written_once_and_compared_after() {
        let store = Store::in_memory().unwrap();
        let spec = ChainSpec::dev();
        let hash = ensure_genesis(&store, &spec).unwrap();
        assert_eq!(ensure_genesis(&store, &spec).unwrap(), hash);
        assert_eq!(genesis_header(&spec).unwrap().hash(), hash);
        let mut other = spec.clone();
        other.genesis.timestamp = 1;
        let error = ensure_genesis(&store, &other).unwrap_err();
        assert!(
            matches!(error, GenesisError::Mismatch { got, .. } if got == hash),
            "{error}"
        );
    }
}
