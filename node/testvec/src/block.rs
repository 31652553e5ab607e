//! Imports blocks on a given block 0, with the importer of the node.

use std::sync::Arc;

use chain::ChainSpec;
use chain::genesis::{ensure_genesis, genesis_header};
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use chain::spec::{Genesis, Rule};
use ethash::LightCaches;
use primitives::{B256, Block, Header};
use serde_json::{Value, json};
use store::Store;

use super::error::TestVectorError;
use super::fields::{accounts, array, bytes, data, hash_text, member, text, wrong};
use super::forks::spec_of_fork;

/// The chain after the blocks.
#[derive(Clone, Debug)]
pub struct BlockOutcome {
    /// Hash of the head block.
    pub head: B256,
    /// State root of the head block.
    pub state_root: B256,
    /// For each block, why it was refused; `None` if it was imported.
    pub refused: Vec<Option<String>>,
}

pub(super) fn answer(caches: &LightCaches, request: &Value) -> Result<Value, TestVectorError> {
    let outcome = run_blocks(caches, request)?;
    Ok(json!({ "head": hash_text(outcome.head), "stateRoot": hash_text(outcome.state_root) }))
}

/// Imports the blocks of a request, which has the members `fork`, `seal`, `pre`, `genesis` and
/// `blocks`.
///
/// # Errors
/// [`TestVectorError`] for an invalid request, for an unsupported fork, and if the state `pre` does
/// not give the block 0 in `genesis`.
pub fn run_blocks(caches: &LightCaches, request: &Value) -> Result<BlockOutcome, TestVectorError> {
    let fork = text(request, "fork")?;
    let spec = spec_of_fork(fork)?;
    if spec.rules_at(0).has(Rule::Eip1559) {
        return Err(wrong(
            "fork",
            fork,
            "one whose headers have 15 fields, without a base fee",
        ));
    }
    let seals = match text(request, "seal")? {
        "Ethash" => SealCheck::Ethash(caches.clone()),
        "NoProof" => SealCheck::Off,
        other => return Err(wrong("seal", other, "Ethash or NoProof")),
    };
    let spec = Arc::new(with_genesis(spec, request)?);
    let blocks = array(request, "blocks")?;
    let store = Store::in_memory().map_err(TestVectorError::refused)?;
    ensure_genesis(&store, &spec).map_err(TestVectorError::refused)?;
    let importer = Importer::new(store.clone(), spec.clone(), seals);
    let import = |rlp: &Value| -> Result<(), TestVectorError> {
        let block = Block::decode(&bytes(rlp)?, spec.tx_rules()).map_err(TestVectorError::refused)?;
        importer
            .import(&block, None)
            .map(|_| ())
            .map_err(TestVectorError::refused)
    };
    let refused = blocks
        .iter()
        .map(|rlp| import(rlp).err().map(|error| error.to_string()))
        .collect();
    let view = chain::View::new(&store, spec).map_err(TestVectorError::refused)?;
    let state_root = view.head().header.state_root;
    Ok(BlockOutcome {
        head: view.head_hash(),
        state_root,
        refused,
    })
}

/// Adds the block 0 of the request to `spec`. Its state `pre` must give the header in `genesis`.
fn with_genesis(mut spec: ChainSpec, request: &Value) -> Result<ChainSpec, TestVectorError> {
    let expected = Block::decode(&data(request, "genesis")?, spec.tx_rules())
        .map_err(|error| TestVectorError::refused(error).in_member("genesis"))?
        .header;
    spec.genesis = Genesis {
        difficulty: expected.difficulty,
        gas_limit: expected.gas_limit,
        gas_used: expected.gas_used,
        timestamp: expected.timestamp,
        extra_data: expected.extra_data.clone(),
        beneficiary: expected.beneficiary,
        mix_hash: expected.mix_hash,
        parent_hash: expected.parent_hash,
        pow_nonce: expected.pow_nonce,
        alloc: accounts(member(request, "pre")?)?,
        state_root: None,
    };
    let got = genesis_header(&spec);
    if got.hash() == expected.hash() {
        Ok(spec)
    } else {
        let described = |header: &Header| format!("{} with state root {}", header.hash(), header.state_root);
        Err(wrong(
            "genesis",
            format!("{} from pre", described(&got)),
            described(&expected),
        ))
    }
}
