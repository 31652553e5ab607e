//! Transactions made and not sent, and those of this node that wait: for wallets that look before
//! they send, or change their mind after.

use primitives::{SecretKey, Transaction, U256};
use serde::Serialize;

use super::accounts::{fill, form, gas_price_of, locked, submit_own};
use super::request::TransactionRequest;
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::TransactionObject;
use crate::table::{Method, reply};
use crate::types::{Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_signTransaction", |node, params| {
            let (request,) = params.parse()?;
            sign(node, request, params.dialect())
        })
        .says(
            "transaction: TransactionRequest -> SignedTransaction",
            "Signs a transaction of an unlocked account and does not send it.",
        ),
        Method::blocking("mc_fillTransaction", |node, params| {
            let (request,) = params.parse()?;
            filled(node, request, params.dialect())
        })
        .says(
            "transaction: TransactionRequest -> SignedTransaction",
            "The transaction that would be sent, without a signature.",
        ),
        Method::blocking("mc_resend", |node, params| {
            reply(params.parse().and_then(|given| resend(node, given)))
        })
        .says(
            "transaction: TransactionRequest, gasPrice?: QUANTITY, gas?: QUANTITY -> DATA32",
            "Sends a waiting transaction again, with another price or gas.",
        ),
        Method::blocking("mc_pendingTransactions", |node, params| {
            params.parse::<()>()?;
            pending(node, params.dialect())
        })
        .says(
            "-> Transaction[]",
            "The transactions of this node's accounts that wait for a block.",
        ),
    ]
}

/// A transaction with its bytes.
#[derive(Serialize)]
struct Prepared<'a> {
    raw: Data,
    tx: TransactionObject<'a>,
}

fn show(transaction: &Transaction, request: &TransactionRequest, dialect: Dialect) -> RpcResult<Json> {
    Json::write(&Prepared {
        raw: Data(transaction.encode_raw()),
        tx: TransactionObject::new(transaction, request.from, None, dialect),
    })
}

/// `mc_signTransaction`: the nonce is not reserved.
fn sign(node: &Node, request: TransactionRequest, dialect: Dialect) -> RpcResult<Json> {
    let key = node.accounts.with_key(&request.from, SecretKey::clone);
    let key = key.map_err(locked)?;
    let price = gas_price_of(node, &request)?;
    let unsigned = fill(node, request.clone(), price)?;
    let signed = unsigned.sign(&key, node.chain.spec().chain_id, form(node));
    show(&signed, &request, dialect)
}

/// `mc_fillTransaction`: needs no key.
fn filled(node: &Node, request: TransactionRequest, dialect: Dialect) -> RpcResult<Json> {
    let price = gas_price_of(node, &request)?;
    let unsigned = fill(node, request.clone(), price)?;
    show(&unsigned.with_form(form(node)), &request, dialect)
}

/// `mc_resend`: the same transaction must be waiting.
fn resend(
    node: &Node,
    (request, gas_price, gas): (TransactionRequest, Option<Quantity<U256>>, Option<Quantity>),
) -> RpcResult<Data<primitives::B256>> {
    let tx_nonce = request
        .tx_nonce
        .ok_or_else(|| RpcError::refused("missing transaction nonce in transaction spec"))?;
    let waits = |transaction: &Transaction| {
        transaction.to == request.to
            && transaction.value == request.value
            && transaction.input == request.input
    };
    let content = node.chain.pool().content();
    let of_sender = [&content.pending, &content.queued]
        .into_iter()
        .filter_map(|part| part.get(&request.from));
    let waiting = of_sender
        .filter_map(|transactions| transactions.get(&tx_nonce))
        .find(|transaction| waits(transaction));
    let Some(waiting) = waiting else {
        return Err(RpcError::refused(format!(
            "no such transaction of nonce {tx_nonce} waits"
        )));
    };
    let request = TransactionRequest {
        gas: Some(gas.map_or(waiting.gas, |gas| gas.0)),
        gas_price: Some(gas_price.map_or(waiting.gas_price, |price| price.0)),
        ..request
    };
    let key = node.accounts.with_key(&request.from, SecretKey::clone);
    let key = key.map_err(locked)?;
    let price = gas_price_of(node, &request)?;
    let unsigned = fill(node, request, price)?;
    submit_own(node, &unsigned, &key)
}

/// `mc_pendingTransactions`: by account, then by nonce.
fn pending(node: &Node, dialect: Dialect) -> RpcResult<Json> {
    let content = node.chain.pool().content();
    let own = node.accounts.addresses();
    let objects: Vec<_> = own
        .iter()
        .filter_map(|address| Some((address, content.pending.get(address)?)))
        .flat_map(|(address, transactions)| {
            let show = |transaction| TransactionObject::new(transaction, *address, None, dialect);
            transactions.values().map(move |transaction| show(transaction))
        })
        .collect();
    Json::write_within(&objects, node.settings.response_len_max)
}
