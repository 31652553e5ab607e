//! Executes one transaction on a given state, with the executor of the node.

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::spec::{GenesisAccounts, Rule};
use chain::state::BlockState;
use chain::trace::{StepSink, StreamOptions, stream_transaction};
use primitives::{
    AccessListEntry, Address, B256, EMPTY_ROOT, Header, Log, SecretKey, TxForm, TxRules, UnsignedTransaction,
    keccak256,
};
use serde_json::{Value, json};
use store::{Snapshot, Store, StoreError, TableId, Tables};

use super::error::TestVectorError;
use super::fields::{
    accounts, data, fixed, hash_text, member, number, optional_address, text, uint, uint64, wrong,
};
use super::forks::spec_of_fork;

/// The state after the transaction.
#[derive(Clone, Debug)]
pub struct StateOutcome {
    /// The state root.
    pub state_root: B256,
    /// Keccak-256 of the RLP list of the logs.
    pub logs_hash: B256,
    /// The reason for which the transaction was refused; `None` if it was executed.
    pub refused: Option<String>,
}

pub(super) fn answer(request: &Value) -> Result<Value, TestVectorError> {
    let outcome = run_state(request)?;
    let mut answer = json!({
        "stateRoot": hash_text(outcome.state_root),
        "logsHash": hash_text(outcome.logs_hash),
    });
    if let Some(reason) = outcome.refused {
        answer["error"] = json!(reason);
    }
    Ok(answer)
}

/// Executes the transaction of a request, which has the members `fork`, `env`, `pre` and `tx`.
///
/// # Errors
/// [`TestVectorError`] for an invalid request or an unsupported fork.
pub fn run_state(request: &Value) -> Result<StateOutcome, TestVectorError> {
    run_state_with(request, None)
}

/// The steps that are wanted, and the place for them.
pub(super) type VectorSteps<'w> = Option<(StreamOptions, &'w mut dyn StepSink)>;

/// As [`run_state`], with the steps of the transaction.
pub(super) fn run_state_with(
    request: &Value,
    steps: VectorSteps<'_>,
) -> Result<StateOutcome, TestVectorError> {
    let fork = text(request, "fork")?;
    let spec = spec_of_fork(fork)?;
    let env = member(request, "env")?;
    let base_fee = base_fee(&spec, env).map_err(|error| error.in_object("env"))?;
    let env = header(&spec, env).map_err(|error| error.in_object("env"))?;
    let pre = accounts(member(request, "pre")?)?;
    let (store, root) = store_with(&pre, |tables| {
        // By convention of the vectors, BLOCKHASH is the hash of the block number as decimal text.
        for number in env.number.saturating_sub(256)..env.number {
            let hash = keccak256(number.to_string());
            tables.put(TableId::NumberToHash, &number.to_be_bytes(), hash.as_slice())?;
        }
        Ok(())
    })
    .map_err(TestVectorError::refused)?;
    let snapshot = store.snapshot().map_err(TestVectorError::refused)?;
    run(
        (&spec, steps),
        &snapshot,
        (&env, base_fee),
        root,
        member(request, "tx"),
    )
}

/// A store in memory that has the accounts `pre` after block 0 and what `write` adds; and the state
/// root.
pub(super) fn store_with(
    pre: &GenesisAccounts,
    write: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>,
) -> Result<(Store, B256), StoreError> {
    let store = Store::in_memory()?;
    let batch = store.batch()?;
    let root = batch.write(|tables| {
        let mut state = BlockState::new(&*tables, 0, EMPTY_ROOT);
        for (address, account) in pre {
            state.set_account(*address, account)?;
        }
        let update = state.update().map_err(|error| error.0)?;
        let root = update.root;
        update.write(tables, 0)?;
        write(tables)?;
        Ok::<_, StoreError>(root)
    })?;
    batch.commit()?;
    Ok((store, root))
}

fn run(
    (spec, steps): (&ChainSpec, VectorSteps<'_>),
    snapshot: &Snapshot,
    (env, base_fee): (&Header, u64),
    root: B256,
    tx: Result<&Value, TestVectorError>,
) -> Result<StateOutcome, TestVectorError> {
    let mut state = BlockState::new(snapshot, env.number.saturating_sub(1), root);
    let mut executor = Executor::new(spec, env, &mut state);
    executor.set_base_fee(base_fee);
    let refused = match transaction(spec, tx?) {
        Ok((transaction, sender)) => match steps {
            None => executor.transaction(&transaction, sender),
            Some((parts, lines)) => stream_transaction(&mut executor, &transaction, sender, parts, lines),
        }
        .err()
        .map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let executed = executor.finish_unpaid().map_err(TestVectorError::refused)?;
    let state_root = state.root().map_err(TestVectorError::refused)?;
    let logs: Vec<&Log> = executed
        .receipts
        .iter()
        .flat_map(|receipt| &receipt.logs)
        .collect();
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<_, Log>(&logs, &mut rlp);
    Ok(StateOutcome {
        state_root,
        logs_hash: keccak256(&rlp),
        refused,
    })
}

/// The base fee of the block; 0 under rules without one.
pub(super) fn base_fee(spec: &ChainSpec, env: &Value) -> Result<u64, TestVectorError> {
    if spec.rules_at(0).has(Rule::Eip1559) {
        uint64(env, "currentBaseFee")
    } else {
        Ok(0)
    }
}

/// The header that the members of `env` describe.
pub(super) fn header(spec: &ChainSpec, env: &Value) -> Result<Header, TestVectorError> {
    // A random value is in the place of the mix hash.
    let mix_hash = if spec.rules_at(0).has(Rule::Eip4399) {
        B256::from(uint(env, "currentRandom")?)
    } else {
        B256::ZERO
    };
    Ok(Header {
        mix_hash,
        beneficiary: Address::from(fixed::<20>(env, "currentCoinbase")?),
        difficulty: uint(env, "currentDifficulty")?,
        gas_limit: uint64(env, "currentGasLimit")?,
        number: uint64(env, "currentNumber")?,
        timestamp: uint64(env, "currentTimestamp")?,
        ..Default::default()
    })
}

/// The access list of a transaction; `None` if it has none and so has no type.
pub(super) fn access_list(tx: &Value) -> Result<Option<Vec<AccessListEntry>>, TestVectorError> {
    let Some(list) = tx.get("accessList").filter(|list| !list.is_null()) else {
        return Ok(None);
    };
    let slot = |value: &Value| number(value).map(B256::from);
    let entry = |value: &Value| -> Result<AccessListEntry, TestVectorError> {
        let keys = member(value, "storageKeys")?;
        let slots = keys.as_array().and_then(|keys| keys.iter().map(slot).collect());
        Ok(AccessListEntry {
            address: Address::from(fixed::<20>(value, "address")?),
            slots: slots.ok_or_else(|| wrong("storageKeys", keys, "an array of numbers"))?,
        })
    };
    let list = list
        .as_array()
        .ok_or_else(|| TestVectorError::value(list, "an array"))?;
    list.iter().map(entry).collect::<Result<_, _>>().map(Some)
}

fn transaction(spec: &ChainSpec, tx: &Value) -> Result<(primitives::Transaction, Address), TestVectorError> {
    for key in ["maxFeePerGas", "maxFeePerBlobGas"] {
        if tx.get(key).is_some_and(|value| !value.is_null()) {
            return Err(wrong(
                key,
                "one",
                "none: there are no transactions of type 2 or 3",
            ));
        }
    }
    let access_list = access_list(tx).map_err(|error| error.in_member("accessList"))?;
    let is_typed = access_list.is_some();
    let unsigned = UnsignedTransaction {
        tx_nonce: uint64(tx, "nonce")?,
        gas_price: uint(tx, "gasPrice")?,
        gas: uint64(tx, "gasLimit")?,
        to: optional_address(tx, "to")?,
        value: uint(tx, "value")?,
        input: data(tx, "data")?.into(),
        access_list: access_list.unwrap_or_default(),
        ..Default::default()
    };
    let key = SecretKey::from_bytes(&data(tx, "secretKey")?).map_err(TestVectorError::refused)?;
    let transaction = match spec.tx_rules() {
        _ if is_typed => unsigned.sign(&key, spec.chain_id, TxForm::AccessList),
        TxRules::Ethereum => unsigned.sign_unprotected(&key),
        TxRules::Moac => unsigned.sign(&key, spec.chain_id, TxForm::Native),
    };
    Ok((transaction, key.address()))
}
