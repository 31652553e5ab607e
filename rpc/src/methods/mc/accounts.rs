//! Accounts of the node, signing, sending (interface 4.4, 4.5).

use chain::chain::SubmitError;
use chain::pool::{Origin, PoolError};
use keystore::AccountError;
use primitives::{
    Address, B256, SecretKey, Transaction, TxForm, TxRules, U256, UnsignedTransaction, signed_message_digest,
};

use super::price::gas_price;
use super::request::TransactionRequest;
use super::state::next_nonce;
use crate::error::{RpcError, RpcResult, failure};
use crate::modules::Dialect;
use crate::node::Node;
use crate::table::{Method, reply};
use crate::types::Data;

/// Gas of a transaction that names none.
const GAS_DEFAULT: u64 = 90_000;
/// The highest sharding flag there is: an application chain's contract.
const SHARDING_FLAG_MAX: u64 = 3;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_accounts", |node, params| {
            reply(params.parse().map(|()| accounts(node)))
        })
        .says("-> DATA20[]", "The accounts of this node."),
        Method::blocking("mc_sign", |node, params| {
            reply(params.parse().and_then(|given| sign(node, given)))
        })
        .says(
            "address: DATA20, message: DATA -> DATA65",
            "The signature of an unlocked account under a message: r, s and V of 27 or 28.",
        ),
        Method::blocking("mc_sendTransaction", |node, params| {
            reply(params.parse().and_then(|(request,)| send(node, request)))
        })
        .says(
            "transaction: TransactionRequest -> DATA32",
            "Signs a transaction of an unlocked account and sends it; gives its hash.",
        ),
        Method::blocking("mc_sendRawTransaction", |node, params| {
            reply(
                params
                    .parse()
                    .and_then(|(raw,)| send_raw(node, raw, params.dialect())),
            )
        })
        .says(
            "transaction: DATA -> DATA32",
            "Sends a signed transaction of twelve or nine fields; gives its hash.",
        ),
    ]
}

/// `mc_accounts`: in the order they were added.
fn accounts(node: &Node) -> Vec<Data<Address>> {
    node.accounts.addresses().into_iter().map(Data).collect()
}

/// `mc_sign`: r, s and V (27 or 28) over the chain's own message prefix, the length and the message.
fn sign(node: &Node, (address, message): (Address, Data)) -> RpcResult<Data<[u8; 65]>> {
    let signature = node
        .accounts
        .with_key(&address, |key| sign_message(key, &message.0));
    signature.map_err(locked)
}

/// The signature of a message.
pub(in crate::methods) fn sign_message(key: &SecretKey, message: &[u8]) -> Data<[u8; 65]> {
    Data(key.sign(&signed_message_digest(message)).to_rsv())
}

/// `mc_sendTransaction`: fills in what is missing, signs, and puts it into the pool.
fn send(node: &Node, request: TransactionRequest) -> RpcResult<Data<B256>> {
    // A copy of the key, which wipes itself: it must not be taken away between nonce and signature.
    send_signed(node, request, |from| {
        node.accounts.with_key(from, SecretKey::clone).map_err(locked)
    })
}

/// Fills in what is missing, signs with the key that `key` gives for the sender, and puts it into
/// the pool. Whether there is a key is asked before a nonce is chosen.
pub(in crate::methods) fn send_signed(
    node: &Node,
    request: TransactionRequest,
    key: impl FnOnce(&Address) -> RpcResult<SecretKey>,
) -> RpcResult<Data<B256>> {
    check_sharding(node, &request)?;
    let key = key(&request.from)?;
    let price = gas_price_of(node, &request)?;
    let _one_at_a_time = node.sending.lock();
    let unsigned = fill(node, request, price)?;
    submit_own(node, &unsigned, &key)
}

/// The price that the sender names, or the suggested one.
pub(super) fn gas_price_of(node: &Node, request: &TransactionRequest) -> RpcResult<U256> {
    request.gas_price.map_or_else(|| gas_price(node), Ok)
}

/// The transaction with what its sender left out: gas, and the next nonce.
///
/// # Errors
/// −32000 for a transaction of another chain, and where the chain cannot be read.
pub(super) fn fill(
    node: &Node,
    request: TransactionRequest,
    gas_price: U256,
) -> RpcResult<UnsignedTransaction> {
    check_chain(node, request.chain_id)?;
    let tx_nonce = match request.tx_nonce {
        Some(given) => given,
        None => next_nonce(node, &request.from)?,
    };
    Ok(UnsignedTransaction {
        tx_nonce,
        gas_price,
        gas: request.gas.unwrap_or(GAS_DEFAULT),
        to: request.to,
        value: request.value,
        input: request.input,
        sharding_flag: request.sharding_flag,
        via: request.via,
        ..Default::default()
    })
}

/// Refuses what names another chain than the node's.
pub(super) fn check_chain(node: &Node, chain_id: Option<u64>) -> RpcResult<()> {
    let want = node.chain.spec().chain_id;
    match chain_id {
        Some(got) if got != want => Err(RpcError::refused(format!(
            "chainId does not match node's: got {got}, want {want}"
        ))),
        _ => Ok(()),
    }
}

/// The form that transactions made here have.
pub(super) fn form(node: &Node) -> TxForm {
    match node.chain.spec().tx_rules() {
        TxRules::Moac => TxForm::Native,
        TxRules::Ethereum => TxForm::Ethereum,
    }
}

/// What is for an application chain must name this node as its proxy, and goes to the service for
/// servers of application chains: never into pool or block.
fn check_sharding(node: &Node, request: &TransactionRequest) -> RpcResult<()> {
    match (request.sharding_flag, request.via) {
        (0, _) => Ok(()),
        (1..=SHARDING_FLAG_MAX, None) => Err(RpcError::refused("Empty via with shardingFlag set")),
        (flag @ 1..=SHARDING_FLAG_MAX, via) if is_own_proxy(node, via) => Err(no_service(flag)),
        (1..=SHARDING_FLAG_MAX, Some(_)) => Err(RpcError::refused(
            "Mismatch address between VIA and VNODE PROXY when shardingFlag set",
        )),
        _ => Err(RpcError::refused("shardingFlag error")),
    }
}

/// Whether `via` names this node.
fn is_own_proxy(node: &Node, via: Option<Address>) -> bool {
    via.is_some() && via == node.settings.vnode.beneficial_address
}

/// There is nobody here yet who takes transactions of application chains.
fn no_service(flag: u64) -> RpcError {
    RpcError::refused(format!(
        "shardingFlag {flag}: no service for servers of application chains runs on this node"
    ))
}

/// `mc_sendRawTransaction`: twelve fields, or nine.
fn send_raw(node: &Node, raw: Data, dialect: Dialect) -> RpcResult<Data<B256>> {
    let transaction = Transaction::decode_raw(&raw.0, node.chain.spec().tx_rules())
        .map_err(|error| RpcError::refused(error.to_string()))?;
    match transaction.sharding_flag {
        0 => submit(node, transaction, dialect),
        flag @ 1..=SHARDING_FLAG_MAX if is_own_proxy(node, transaction.via) => Err(no_service(flag)),
        1..=SHARDING_FLAG_MAX => Err(RpcError::refused("via error")),
        _ => Err(RpcError::refused("shardingFlag error")),
    }
}

/// Signs a transaction made here and puts it into the pool.
pub(super) fn submit_own(
    node: &Node,
    unsigned: &UnsignedTransaction,
    key: &SecretKey,
) -> RpcResult<Data<B256>> {
    let signed = unsigned.sign(key, node.chain.spec().chain_id, form(node));
    // Its form has one hash, whoever asks.
    submit(node, signed, Dialect::Native)
}

/// Puts a transaction into the pool and gives its hash: that of its stored form. Clients of the
/// compatible library compare the answer with the hash they computed, so under its names a
/// nine-field transaction has that one, in the error that it is known already too.
fn submit(node: &Node, transaction: Transaction, dialect: Dialect) -> RpcResult<Data<B256>> {
    let theirs = match dialect {
        Dialect::Native => None,
        Dialect::Ethereum => transaction.ethereum_hash(),
    };
    let shown = |stored| theirs.unwrap_or(stored);
    match node.chain.submit_transaction(transaction, Origin::Local) {
        Ok(stored) => Ok(Data(shown(stored))),
        Err(SubmitError::Store(error)) => Err(failure(error)),
        Err(SubmitError::Pool(PoolError::Known(stored))) => {
            Err(RpcError::refused(PoolError::Known(shown(stored)).to_string()))
        }
        Err(error) => Err(RpcError::refused(error.to_string())),
    }
}

/// Why an account does not sign.
pub(super) fn locked(error: AccountError) -> RpcError {
    RpcError::refused(error.to_string())
}
