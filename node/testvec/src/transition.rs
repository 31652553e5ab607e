//! `vnode testvec t8n`: executes transactions on a state, as geth's `evm t8n`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;

use chain::ChainSpec;
use chain::evm::execute::{Executed, Executor, TransactionError};
use chain::rules::body::{sender, transactions_root};
use chain::rules::difficulty::{DifficultyInput, difficulty as next};
use chain::rules::payment::BlockPayment;
use chain::spec::Rule;
use chain::state::BlockState;
use chain::trace::{StreamOptions, stream_transaction};
use chain::trie::ordered_root;
use primitives::rlp::RlpItem;
use primitives::{
    Address, B256, Header, Log, ReceiptOutcome, Transaction, TxForm, U256, keccak256, uncles_hash,
};
use serde_json::{Map, Value, json};
use store::{AccountKey, StateReads, Store, StoreError, TableId};

use super::error::{TestVectorError, ToolError};
use super::fields::{accounts, bytes, fixed, hash_text, hex_text, number, uint, uint64, wrong};
use super::forks::spec_of_fork;
use super::places::{Outputs, ToolInputs, file_error, json_error};
use super::state::{base_fee, header, store_with};
use super::steps::StepLines;
use super::transactions::{TransactionInput, from_json, from_rlp};
use crate::options::TransitionOptions;

/// A transaction that was executed.
struct Included {
    transaction: Transaction,
    sender: Address,
    gas_used: u64,
    success: bool,
}

/// A block that was executed.
struct Transition {
    executed: Executed,
    included: Vec<Included>,
    rejected: Vec<Value>,
    state_root: B256,
}

/// Runs the command.
pub(super) fn run(options: &TransitionOptions) -> Result<(), ToolError> {
    let mut spec = spec_of_fork(&options.fork).map_err(ToolError::Configuration)?;
    if let Some(id) = options.chain_id {
        spec.chain_id = id;
    }
    let mut inputs = ToolInputs::default();
    let alloc = inputs.read(&options.alloc, &["alloc"])?;
    let mut env = inputs.read(&options.env, &["env"])?;
    let txs = inputs.read(&options.txs, &["txsRlp", "txs"])?;
    set_difficulty(&spec, &mut env).map_err(ToolError::Configuration)?;
    let of_env = |error| json_error(&options.env, error);
    let base_fee = base_fee(&spec, &env).map_err(ToolError::Configuration)?;
    let block = header(&spec, &env).map_err(of_env)?;
    let payment = payment(options.reward, &env).map_err(of_env)?;
    let of_alloc = |error| json_error(&options.alloc, error);
    let pre = accounts(&with_defaults(alloc)).map_err(of_alloc)?;
    let transactions = match &txs {
        Value::String(rlp) => from_rlp(&spec, rlp).map_err(|error| ToolError::Rlp {
            place: options.txs.clone(),
            error,
        })?,
        list => from_json(&spec, list).map_err(|error| json_error(&options.txs, error))?,
    };
    let mut outputs = Outputs::new(options.basedir.as_deref())?;
    let failed = |error: StoreError| ToolError::Execution(TestVectorError::refused(error));
    // Block 0 has the state before.
    let number = block.number.max(1);
    let (store, root) = store_with(&pre, |tables| {
        for (number, hash) in env["blockHashes"].as_object().into_iter().flatten() {
            let number =
                self::number(&Value::from(number.as_str())).and_then(|number| u64::try_from(number).ok());
            if let (Some(number), Ok(hash)) = (number, bytes(hash)) {
                tables.put(TableId::NumberToHash, &number.to_be_bytes(), &hash)?;
            }
        }
        Ok(())
    })
    .map_err(failed)?;
    let snapshot = store.snapshot().map_err(failed)?;
    let mut state = BlockState::new(&*snapshot, number - 1, root);
    let mut done = execute(
        (&spec, &block, base_fee),
        &mut state,
        (&transactions, payment),
        (options, &outputs),
    )?;
    let update = state.update().map_err(|error| failed(error.0))?;
    done.state_root = update.root;
    store
        .batch()
        .and_then(|batch| {
            batch.write::<_, StoreError>(|tables| update.write(tables, number))?;
            batch.commit()
        })
        .map_err(failed)?;
    let post = post_alloc(&store, number).map_err(failed)?;
    let list: Vec<Transaction> = done.included.iter().map(|one| one.transaction.clone()).collect();
    let mut result = result(&spec, &block, &done, &list);
    if spec.rules_at(0).has(Rule::Eip1559) {
        result["currentBaseFee"] = format!("{base_fee:#x}").into();
    }
    outputs.put(&options.to_alloc, "alloc", post)?;
    outputs.put(&options.to_result, "result", result)?;
    let items = list.iter().map(|transaction| {
        let raw = transaction.encode_raw();
        if transaction.is_typed() {
            RlpItem::Bytes(raw)
        } else {
            RlpItem::decode_exact(&raw).unwrap_or(RlpItem::Bytes(raw))
        }
    });
    let body = RlpItem::List(items.collect()).encode();
    outputs.put(&options.to_body, "body", hex_text(body).into())?;
    outputs.finish();
    Ok(())
}

fn execute(
    (spec, block, base_fee): (&ChainSpec, &Header, u64),
    state: &mut BlockState<'_>,
    (transactions, payment): (&[TransactionInput], Option<BlockPayment>),
    (options, outputs): (&TransitionOptions, &Outputs),
) -> Result<Transition, ToolError> {
    let mut executor = Executor::new(spec, block, state);
    executor.set_base_fee(base_fee);
    executor
        .begin()
        .map_err(|error| ToolError::Execution(TestVectorError::refused(error)))?;
    let (mut included, mut rejected) = (Vec::new(), Vec::new());
    for (index, transaction) in transactions.iter().enumerate() {
        let run = match transaction {
            Err(error) => Err(error.to_string()),
            Ok(transaction) => sender(spec, block.number, transaction)
                .map(|from| (transaction.clone(), from))
                .map_err(|error| error.to_string()),
        };
        let run = match run {
            Err(reason) => Err(reason),
            Ok((transaction, from)) if options.trace => {
                let name = format!("trace-{}-{}.jsonl", included.len(), transaction.hash());
                let path = outputs.path(&name);
                let file = File::create(&path).map_err(|error| file_error(&path, error))?;
                let mut lines = StepLines::new(BufWriter::new(file));
                let parts = StreamOptions {
                    stack: !options.trace_nostack,
                    memory: options.trace_memory || !options.trace_nomemory,
                    return_data: options.trace_returndata || !options.trace_noreturndata,
                };
                let ran = stream_transaction(&mut executor, &transaction, from, parts, &mut lines);
                lines.finish().map_err(|error| file_error(&path, error))?;
                if ran.is_err() {
                    std::fs::remove_file(&path).map_err(|error| file_error(&path, error))?;
                }
                ran.map_err(|error| reason(&error, from))
                    .map(|outcome| (transaction, from, outcome))
            }
            Ok((transaction, from)) => executor
                .transaction(&transaction, from)
                .map_err(|error| reason(&error, from))
                .map(|outcome| (transaction, from, outcome)),
        };
        match run {
            Ok((transaction, sender, outcome)) => included.push(Included {
                transaction,
                sender,
                gas_used: outcome.gas_used,
                success: outcome.success,
            }),
            Err(reason) => rejected.push(json!({ "index": index, "error": reason })),
        }
    }
    let executed = executor
        .finish_with(payment)
        .map_err(|error| ToolError::Execution(TestVectorError::refused(error)))?;
    Ok(Transition {
        executed,
        included,
        rejected,
        state_root: B256::ZERO,
    })
}

/// The reason of a refusal, as geth words those that programs look for.
fn reason(error: &TransactionError, sender: Address) -> String {
    match error {
        TransactionError::NonceTooLow { got, expected } => {
            format!("nonce too low: address {sender}, tx: {got} state: {expected}")
        }
        TransactionError::NonceTooHigh { got, expected } => {
            format!("nonce too high: address {sender}, tx: {got} state: {expected}")
        }
        TransactionError::Funds { balance, cost } => {
            format!("insufficient funds for gas * price + value: address {sender} have {balance} want {cost}")
        }
        TransactionError::IntrinsicGas { got, expected } => {
            format!("intrinsic gas too low: have {got}, want {expected}")
        }
        TransactionError::BlockGas { .. } => format!("gas limit reached: {error}"),
        other => other.to_string(),
    }
}

/// Accounts may leave out what they do not have.
fn with_defaults(mut alloc: Value) -> Value {
    for account in alloc.as_object_mut().into_iter().flat_map(Map::values_mut) {
        for (member, default) in [("balance", "0x0"), ("nonce", "0x0"), ("code", "0x")] {
            if account.is_object() && account[member].is_null() {
                account[member] = default.into();
            }
        }
    }
    alloc
}

/// Adds the difficulty that follows from the parent, if none is given.
fn set_difficulty(spec: &ChainSpec, env: &mut Value) -> Result<(), TestVectorError> {
    if !env["currentDifficulty"].is_null() || !env.is_object() {
        return Ok(());
    }
    if spec.rules_at(0).has(Rule::Eip4399) {
        env["currentDifficulty"] = "0x0".into();
        return Ok(());
    }
    let no_uncles = hash_text(uncles_hash(&[]));
    let input = DifficultyInput {
        number: uint64(env, "currentNumber")?,
        timestamp: uint64(env, "currentTimestamp")?,
        parent_timestamp: uint64(env, "parentTimestamp")?,
        parent_difficulty: uint(env, "parentDifficulty")?,
        parent_uncles: env["parentUncleHash"]
            .as_str()
            .is_some_and(|hash| hash != no_uncles && hash != hash_text(B256::ZERO)),
    };
    if input.timestamp <= input.parent_timestamp {
        return Err(wrong(
            "currentTimestamp",
            input.timestamp,
            format!("more than parentTimestamp, {}", input.parent_timestamp),
        ));
    }
    env["currentDifficulty"] = format!("{:#x}", next(spec, &input)).into();
    Ok(())
}

/// The rewards: `reward` for the block, and for each of the `ommers` with the distance `delta` that
/// many eighths less; the miner gets a 32nd for each. No distance is refused, as in geth.
fn payment(reward: i64, env: &Value) -> Result<Option<BlockPayment>, TestVectorError> {
    let Ok(reward) = u64::try_from(reward) else {
        return Ok(None);
    };
    let reward = U256::from(reward);
    let mut payment = BlockPayment {
        miner: reward,
        uncles: Vec::new(),
    };
    for uncle in env["ommers"].as_array().into_iter().flatten() {
        let distance = uint64(uncle, "delta")?;
        let eighths = 8u64
            .checked_sub(distance)
            .ok_or_else(|| wrong("delta", distance, "at most 8"))?;
        let address = Address::from(fixed::<20>(uncle, "address")?);
        payment.miner += reward / U256::from(32);
        payment
            .uncles
            .push((address, reward * U256::from(eighths) / U256::from(8)));
    }
    Ok(Some(payment))
}

/// The accounts after block `number`.
fn post_alloc(store: &Store, number: u64) -> Result<Value, StoreError> {
    let snapshot = store.snapshot()?;
    let mut all = Map::new();
    snapshot.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
        let mut account = json!({ "balance": format!("{:#x}", found.account.balance) });
        let code = snapshot.code(&found.account.code_hash)?;
        if !code.is_empty() {
            account["code"] = hex_text(&code).into();
        }
        if found.account.tx_nonce != 0 {
            account["nonce"] = format!("{:#x}", found.account.tx_nonce).into();
        }
        let mut storage = BTreeMap::new();
        snapshot.walk_slots::<StoreError>(&found.storage(), &B256::ZERO, number, |slot| {
            storage.insert(slot.name(), hash_text(slot.value.into()));
            Ok(())
        })?;
        if !storage.is_empty() {
            account["storage"] = json!(storage);
        }
        all.insert(found.name(), account);
        Ok(())
    })?;
    Ok(Value::Object(all))
}

fn result(spec: &ChainSpec, block: &Header, done: &Transition, list: &[Transaction]) -> Value {
    let receipts = &done.executed.receipts;
    let logs: Vec<&Log> = receipts.iter().flat_map(|receipt| &receipt.logs).collect();
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<_, Log>(&logs, &mut rlp);
    let form = spec.receipt_form();
    let mut log_index = 0;
    let shown = done
        .included
        .iter()
        .zip(receipts)
        .enumerate()
        .map(|(index, (one, receipt))| {
            let index = format!("{index:#x}");
            let hash = hash_text(one.transaction.hash());
            let logs: Vec<Value> = receipt
                .logs
                .iter()
                .map(|log| {
                    log_index += 1;
                    json!({
                        "address": hex_text(log.address),
                        "topics": log.topics.iter().map(|topic| hash_text(*topic)).collect::<Vec<_>>(),
                        "data": hex_text(&log.data),
                        "blockNumber": format!("{:#x}", block.number),
                        "transactionHash": hash,
                        "transactionIndex": index,
                        "blockHash": hash_text(B256::ZERO),
                        "logIndex": format!("{:#x}", log_index - 1),
                        "removed": false,
                    })
                })
                .collect();
            let created = match one.transaction.to {
                None => Transaction::created_address(&one.sender, one.transaction.tx_nonce),
                Some(_) => Address::ZERO,
            };
            let root = match receipt.outcome {
                ReceiptOutcome::Root(root) => hash_text(root),
                ReceiptOutcome::Status(_) => "0x".to_owned(),
            };
            let mut shown = json!({
                "root": root,
                "status": if one.success { "0x1" } else { "0x0" },
                "cumulativeGasUsed": format!("{:#x}", receipt.cumulative_gas_used),
                "logsBloom": hex_text(receipt.logs_bloom),
                "logs": if logs.is_empty() { Value::Null } else { logs.into() },
                "transactionHash": hash,
                "contractAddress": hex_text(created),
                "gasUsed": format!("{:#x}", one.gas_used),
                "blockHash": hash_text(B256::ZERO),
                "transactionIndex": index,
            });
            if one.transaction.form == TxForm::AccessList {
                shown["type"] = "0x1".into();
            }
            shown
        });
    let mut result = json!({
        "stateRoot": hash_text(done.state_root),
        "txRoot": hash_text(transactions_root(list)),
        "receiptsRoot": hash_text(ordered_root(receipts.iter().map(|receipt| receipt.encode(form)))),
        "logsHash": hash_text(keccak256(&rlp)),
        "logsBloom": hex_text(done.executed.logs_bloom),
        "receipts": shown.collect::<Value>(),
        "currentDifficulty": format!("{:#x}", block.difficulty),
        "gasUsed": format!("{:#x}", done.executed.gas_used),
    });
    if !done.rejected.is_empty() {
        result["rejected"] = done.rejected.clone().into();
    }
    result
}
