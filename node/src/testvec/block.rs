//! Imports blocks on a given block 0, with the importer of the node.

use std::sync::Arc;

use chain::ChainSpec;
use chain::genesis::{ensure_genesis, genesis_header};
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use chain::spec::{Genesis, Rule};
use ethash::LightCaches;
use primitives::{B256, Block};
use serde_json::{Value, json};
use store::Store;

use super::fields::{accounts, bytes, data, hash_text, member, text};
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

pub(super) fn answer(caches: &LightCaches, request: &Value) -> Result<Value, String> {
    let outcome = run_blocks(caches, request)?;
    Ok(json!({ "head": hash_text(outcome.head), "stateRoot": hash_text(outcome.state_root) }))
}

/// Imports the blocks of a request, which has the members `fork`, `seal`, `pre`, `genesis` and
/// `blocks`.
///
/// # Errors
/// A text for an invalid request, for an unsupported fork, and if the state `pre` does not give the
/// block 0 in `genesis`.
pub fn run_blocks(caches: &LightCaches, request: &Value) -> Result<BlockOutcome, String> {
    let fork = text(request, "fork")?;
    let spec = spec_of_fork(fork)?;
    if spec.rules_at(0).has(Rule::Eip1559) {
        return Err(format!(
            "fork: got {fork}, expected one whose headers have 15 fields, without a base fee"
        ));
    }
    let seals = match text(request, "seal")? {
        "Ethash" => SealCheck::Ethash(caches.clone()),
        "NoProof" => SealCheck::Off,
        other => return Err(format!("seal: got {other}, expected Ethash or NoProof")),
    };
    let spec = Arc::new(with_genesis(spec, request)?);
    let blocks = member(request, "blocks")?
        .as_array()
        .ok_or("blocks: expected an array")?;
    let store = Store::in_memory().map_err(|error| error.to_string())?;
    ensure_genesis(&store, &spec).map_err(|error| error.to_string())?;
    let importer = Importer::new(store.clone(), spec.clone(), seals);
    let import = |rlp: &Value| -> Result<(), String> {
        let block = Block::decode(&bytes(rlp)?, spec.tx_rules()).map_err(|error| error.to_string())?;
        importer
            .import(&block, None)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let refused = blocks.iter().map(|rlp| import(rlp).err()).collect();
    let view = chain::View::new(&store, spec).map_err(|error| error.to_string())?;
    let state_root = view.head().header.state_root;
    Ok(BlockOutcome {
        head: view.head_hash(),
        state_root,
        refused,
    })
}

/// Adds the block 0 of the request to `spec`. Its state `pre` must give the header in `genesis`.
fn with_genesis(mut spec: ChainSpec, request: &Value) -> Result<ChainSpec, String> {
    let expected = Block::decode(&data(request, "genesis")?, spec.tx_rules())
        .map_err(|error| format!("genesis: {error}"))?
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
        Err(format!(
            "genesis: got {} with state root {} from pre, expected {} with state root {}",
            got.hash(),
            got.state_root,
            expected.hash(),
            expected.state_root
        ))
    }
}
