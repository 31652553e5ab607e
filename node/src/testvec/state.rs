//! Executes one transaction on a given state, with the executor of the node.

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::state::BlockState;
use primitives::{
    Address, B256, EMPTY_ROOT, Header, Log, SecretKey, TxForm, TxRules, UnsignedTransaction, keccak256,
};
use serde_json::{Value, json};
use store::{Store, TableId};

use super::fields::{accounts, data, fixed, hash_text, member, optional_address, text, uint, uint64};
use super::forks::spec_of_fork;

/// The state after the transaction.
#[derive(Clone, Debug)]
pub struct StateOutcome {
    /// The state root.
    pub state_root: B256,
    /// Keccak-256 of the RLP list of the logs.
    pub logs_hash: B256,
    /// Why the transaction was refused; `None` if it was executed.
    pub refused: Option<String>,
}

pub(super) fn answer(request: &Value) -> Result<Value, String> {
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
/// A text for an invalid request or an unsupported fork.
pub fn run_state(request: &Value) -> Result<StateOutcome, String> {
    let fork = text(request, "fork")?;
    let spec = spec_of_fork(fork)?;
    let env = header(member(request, "env")?).map_err(|error| format!("env.{error}"))?;
    let pre = accounts(member(request, "pre")?)?;
    let fail = |error: &dyn std::fmt::Display| error.to_string();
    let store = Store::in_memory().map_err(|error| fail(&error))?;
    let batch = store.batch().map_err(|error| fail(&error))?;
    batch
        .write(|tables| {
            let mut state = BlockState::new(&*tables, 0, EMPTY_ROOT);
            for (address, account) in &pre {
                state.set_account(*address, account)?;
            }
            let update = state.update().map_err(|error| error.0)?;
            let root = update.root;
            update.write(tables, 0)?;
            // By convention of the vectors, BLOCKHASH is the hash of the block number as decimal
            // text.
            for number in env.number.saturating_sub(256)..env.number {
                let hash = keccak256(number.to_string());
                tables.put(TableId::NumberToHash, &number.to_be_bytes(), hash.as_slice())?;
            }
            Ok(run(&spec, &*tables, &env, root, member(request, "tx")))
        })
        .map_err(|error: store::StoreError| error.to_string())?
}

fn run(
    spec: &ChainSpec,
    tables: &store::Tables<'_>,
    env: &Header,
    root: B256,
    tx: Result<&Value, String>,
) -> Result<StateOutcome, String> {
    let mut state = BlockState::new(tables, env.number.saturating_sub(1), root);
    let mut executor = Executor::new(spec, env, &mut state);
    let refused = match transaction(spec, tx?) {
        Ok((transaction, sender)) => executor
            .transaction(&transaction, sender)
            .err()
            .map(|error| error.to_string()),
        Err(reason) => Some(reason),
    };
    let executed = executor.finish_unpaid().map_err(|error| error.to_string())?;
    let state_root = state.root().map_err(|error| error.to_string())?;
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

fn header(env: &Value) -> Result<Header, String> {
    Ok(Header {
        beneficiary: Address::from(fixed::<20>(env, "currentCoinbase")?),
        difficulty: uint(env, "currentDifficulty")?,
        gas_limit: uint64(env, "currentGasLimit")?,
        number: uint64(env, "currentNumber")?,
        timestamp: uint64(env, "currentTimestamp")?,
        ..Default::default()
    })
}

fn transaction(spec: &ChainSpec, tx: &Value) -> Result<(primitives::Transaction, Address), String> {
    for key in ["accessList", "maxFeePerGas", "maxFeePerBlobGas"] {
        if tx.get(key).is_some_and(|value| !value.is_null()) {
            return Err(format!("{key}: these rules have no typed transactions"));
        }
    }
    let unsigned = UnsignedTransaction {
        tx_nonce: uint64(tx, "nonce")?,
        gas_price: uint(tx, "gasPrice")?,
        gas: uint64(tx, "gasLimit")?,
        to: optional_address(tx, "to")?,
        value: uint(tx, "value")?,
        input: data(tx, "data")?.into(),
        ..Default::default()
    };
    let key = SecretKey::from_bytes(&data(tx, "secretKey")?).map_err(|error| error.to_string())?;
    let transaction = match spec.tx_rules() {
        TxRules::Ethereum => unsigned.sign_unprotected(&key),
        TxRules::Moac => unsigned.sign(&key, spec.chain_id, TxForm::Native),
    };
    Ok((transaction, key.address()))
}
