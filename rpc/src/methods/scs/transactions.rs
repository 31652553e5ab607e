//! Transactions and receipts of MicroChains. One object unites the fields of both, because the
//! public SCS answers both kinds of methods with either shape (docs/interface.md, 2.11).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use primitives::{Address, B256, U256};
use serde::Serialize;

use super::served;
use crate::decode::FromParam;
use crate::error::{RpcError, RpcResult};
use crate::micro_chains::{ScsNode, ServedTransaction};
use crate::table::Method;
use crate::types::{Count, Data, Integer, ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<ScsNode>> {
    let by_nonce = ["microchain", "account", "nonce"];
    vec![
        Method::blocking("scs_getReceiptByHash", ["microchain", "hash"], by_hash)
            .summary("Returns the receipt of a transaction, or null until it is in a block."),
        Method::blocking("scs_getReceiptByNonce", by_nonce, by_account).summary(
            "Returns the receipt of the transaction with this nonce, or null until it is in a block.",
        ),
        Method::blocking("scs_getTransactionByHash", ["microchain", "hash"], by_hash)
            .summary("Returns a transaction with its receipt, or null until it is in a block."),
        Method::blocking("scs_getTransactionByNonce", by_nonce, by_account).summary(
            "Returns the transaction with this nonce and its receipt, or null until it is in a block. A \
             hash in place of account and nonce is taken, too.",
        ),
    ]
}

/// A transaction with its receipt as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MicroTransactionObject {
    block_hash: Data<B256>,
    block_number: Quantity,
    contract_address: Option<Data<Address>>,
    failed: bool,
    from: Data<Address>,
    gas: Quantity,
    gas_price: Quantity<U256>,
    hash: Data<B256>,
    input: Data<primitives::Bytes>,
    logs: Vec<MicroLogObject>,
    logs_bloom: Data<primitives::Bloom>,
    nonce: Quantity,
    query_in_block: Integer,
    r: Quantity<U256>,
    /// The output of the call, in base64.
    result: String,
    s: Quantity<U256>,
    sharding_flag: Quantity,
    status: Quantity<u8>,
    syscnt: Quantity,
    to: Option<Data<Address>>,
    transaction_hash: Data<B256>,
    transaction_index: Quantity<usize>,
    v: Quantity<U256>,
    value: Quantity<U256>,
}

impl Described for MicroTransactionObject {
    const TYPE: WireType = WireType::Named("MicroChainReceipt");
}

/// A log as JSON. Numbers are plain, and the data are base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MicroLogObject {
    address: Data<Address>,
    block_hash: Data<B256>,
    block_number: Integer,
    data: String,
    log_index: Integer,
    removed: bool,
    topics: Vec<Data<B256>>,
    transaction_hash: Data<B256>,
    transaction_index: Integer,
}

impl From<ServedTransaction> for MicroTransactionObject {
    fn from(served: ServedTransaction) -> Self {
        let ServedTransaction {
            transaction, place, ..
        } = served;
        let hash = transaction.hash();
        let log = |(log, index): (primitives::Log, usize)| MicroLogObject {
            address: Data(log.address),
            block_hash: Data(place.block_hash),
            block_number: Integer(place.block_number),
            data: STANDARD.encode(&log.data),
            log_index: Integer(index as u64),
            removed: false,
            topics: log.topics.into_iter().map(Data).collect(),
            transaction_hash: Data(hash),
            transaction_index: Integer(place.index as u64),
        };
        Self {
            block_hash: Data(place.block_hash),
            block_number: Quantity(place.block_number),
            contract_address: served.created.map(Data),
            failed: !served.success,
            from: Data(served.sender),
            gas: Quantity(transaction.gas),
            gas_price: Quantity(transaction.gas_price),
            hash: Data(hash),
            input: Data(transaction.input),
            logs: served.logs.into_iter().zip(served.first_log..).map(log).collect(),
            logs_bloom: Data(served.logs_bloom),
            nonce: Quantity(transaction.tx_nonce),
            query_in_block: Integer(0),
            r: Quantity(transaction.r),
            result: STANDARD.encode(&served.output),
            s: Quantity(transaction.s),
            sharding_flag: Quantity(transaction.sharding_flag),
            status: Quantity(u8::from(served.success)),
            syscnt: Quantity(transaction.syscnt),
            to: transaction.to.map(Data),
            transaction_hash: Data(hash),
            transaction_index: Quantity(place.index),
            v: Quantity(transaction.v),
            value: Quantity(transaction.value),
        }
    }
}

/// `scs_getReceiptByHash` and `scs_getTransactionByHash`.
fn by_hash(scs: &ScsNode, (chain, hash): (Address, B256)) -> RpcResult<Option<MicroTransactionObject>> {
    let Some(chain) = served(scs, &chain) else {
        return Ok(None);
    };
    Ok(chain.transaction(&hash)?.map(Into::into))
}

/// An account, or the hash of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccountOrHash {
    Account(Address),
    Hash(B256),
}

impl FromParam for AccountOrHash {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("DATA20"), WireType::Named("DATA32")]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        match B256::from_json(json) {
            Ok(hash) => Ok(Self::Hash(hash)),
            Err(_) => Address::from_json(json).map(Self::Account),
        }
    }
}

/// `scs_getReceiptByNonce` and `scs_getTransactionByNonce`.
fn by_account(
    scs: &ScsNode,
    (chain, of, tx_nonce): (Address, AccountOrHash, Option<Count>),
) -> RpcResult<Option<MicroTransactionObject>> {
    let account = match (of, tx_nonce) {
        (AccountOrHash::Hash(hash), None) => return by_hash(scs, (chain, hash)),
        (AccountOrHash::Hash(_), Some(_)) => {
            return Err(RpcError::invalid_argument(
                1,
                "got a hash and a nonce, expected an account",
            ));
        }
        (AccountOrHash::Account(account), Some(Count(tx_nonce))) => (account, tx_nonce),
        (AccountOrHash::Account(_), None) => {
            return Err(RpcError::invalid_params("missing value for required argument 2"));
        }
    };
    let Some(chain) = served(scs, &chain) else {
        return Ok(None);
    };
    Ok(chain.transaction_of(&account.0, account.1)?.map(Into::into))
}
