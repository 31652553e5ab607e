//! Transactions that are made but not sent, and the pending transactions of this node's accounts. A
//! wallet uses them to look at a transaction before it is sent, or to replace it afterwards.

use primitives::{B256, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use serde::Serialize;

use super::accounts::{
    account_error, check_fee, complete, gas_price_of, submit_own, wait_for_peer, with_gas,
};
use super::request::TransactionRequest;
use crate::budget::reserve_values;
use crate::error::{RpcError, RpcResult};
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::TransactionObject;
use crate::table::Method;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_signTransaction", ["transaction"], sign)
            .summary("Signs a transaction of an unlocked account and does not send it."),
        // The method may estimate gas, for anybody.
        Method::heavy("mc_fillTransaction", ["transaction"], fill)
            .summary("Returns the transaction that would be sent, without a signature."),
        Method::blocking("mc_resend", ["transaction", "gasPrice", "gas"], resend).summary(
            "Replaces a transaction in the pool by one with another gas price or gas limit. \
             Returns the hash of the new transaction.",
        ),
        Method::blocking("mc_pendingTransactions", [], own_pending)
            .summary("Returns the pending transactions of this node's accounts."),
    ]
}

/// A transaction with its bytes.
#[derive(Serialize)]
struct PreparedTransactionObject<'a> {
    raw: Data,
    tx: TransactionObject<'a>,
}

impl Described for PreparedTransactionObject<'_> {
    const TYPE: WireType = WireType::Named("SignedTransaction");
}

/// A transaction with its bytes, as JSON.
type PreparedJson = JsonOf<PreparedTransactionObject<'static>>;

fn show(
    transaction: &Transaction,
    request: &TransactionRequest,
    name_style: NameStyle,
) -> RpcResult<PreparedJson> {
    JsonOf::write(&PreparedTransactionObject {
        raw: Data(transaction.encode_raw()),
        tx: TransactionObject::new(transaction, request.from, None, name_style),
    })
}

/// The transaction that is shown, and its form. Under Ethereum's names it has nine fields, because
/// Ethereum's tools can read no others, unless it is for an application chain.
fn prepare(
    node: &Node,
    request: &TransactionRequest,
    name_style: NameStyle,
) -> RpcResult<(UnsignedTransaction, TxForm)> {
    let price = gas_price_of(node, request)?;
    let (unsigned, form) = complete(node, request.clone(), price)?;
    let is_for_base_chain = unsigned.sharding_flag == 0 && unsigned.via.is_none();
    let form = match (form, name_style) {
        (TxForm::Native, NameStyle::Ethereum) if is_for_base_chain => TxForm::Classic,
        _ => form,
    };
    Ok((unsigned, form))
}

/// `mc_signTransaction`: the nonce is not reserved for the transaction.
fn sign(node: &Node, (request,): (TransactionRequest,), name_style: NameStyle) -> RpcResult<PreparedJson> {
    let key = node.accounts.with_key(&request.from, SecretKey::clone);
    let key = key.map_err(account_error)?;
    let request = with_gas(node, request, name_style)?;
    let (unsigned, form) = prepare(node, &request, name_style)?;
    check_fee(node.settings.fee_caps.of(name_style), &unsigned)?;
    let signed = unsigned.sign(&key, node.chain.chain_id(), form);
    show(&signed, &request, name_style)
}

/// `mc_fillTransaction`: needs no key.
fn fill(node: &Node, (request,): (TransactionRequest,), name_style: NameStyle) -> RpcResult<PreparedJson> {
    let request = with_gas(node, request, name_style)?;
    let (unsigned, form) = prepare(node, &request, name_style)?;
    let chain_id = node.chain.chain_id();
    show(&unsigned.with_form(form, chain_id), &request, name_style)
}

/// `mc_resend`: a transaction with the same nonce and content must be in the pool.
fn resend(
    node: &Node,
    (request, gas_price, gas): (TransactionRequest, Option<Quantity<U256>>, Option<Quantity>),
    name_style: NameStyle,
) -> RpcResult<Data<B256>> {
    let tx_nonce = request
        .tx_nonce
        .ok_or_else(|| RpcError::refused("missing transaction nonce in transaction spec"))?;
    let is_same = |transaction: &Transaction| {
        transaction.to == request.to
            && transaction.value == request.value
            && transaction.input == request.input
    };
    let content = node.pool_content()?;
    let of_sender = [&content.pending, &content.queued]
        .into_iter()
        .filter_map(|part| part.get(&request.from));
    let pooled = of_sender
        .filter_map(|transactions| transactions.get(&tx_nonce))
        .find(|transaction| is_same(transaction));
    let Some(pooled) = pooled else {
        return Err(RpcError::refused(format!(
            "no such transaction of nonce {tx_nonce} is in the pool"
        )));
    };
    let request = TransactionRequest {
        gas: Some(gas.map_or(pooled.gas, |gas| gas.0)),
        gas_price: Some(gas_price.map_or(pooled.gas_price, |price| price.0)),
        access_list: pooled.is_typed().then(|| pooled.access_list.clone()),
        ..request
    };
    let key = node.accounts.with_key(&request.from, SecretKey::clone);
    let key = key.map_err(account_error)?;
    let price = gas_price_of(node, &request)?;
    let (unsigned, form) = complete(node, request, price)?;
    check_fee(node.settings.fee_caps.of(name_style), &unsigned)?;
    let hash = submit_own(node, (&unsigned, form), &key)?;
    wait_for_peer(node).map(|()| hash)
}

/// `mc_pendingTransactions`: by account, then by nonce.
fn own_pending(
    node: &Node,
    (): (),
    name_style: NameStyle,
) -> RpcResult<JsonOf<Vec<TransactionObject<'static>>>> {
    let content = node.chain.pool().content();
    let own = node.accounts.addresses();
    let own: Vec<_> = own
        .iter()
        .filter_map(|address| Some((address, content.pending.get(address)?)))
        .collect();
    let count: usize = own.iter().map(|(_, transactions)| transactions.len()).sum();
    reserve_values(count * size_of::<TransactionObject<'_>>())?;
    let objects: Vec<_> = own
        .into_iter()
        .flat_map(|(address, transactions)| {
            let show = |transaction| TransactionObject::new(transaction, *address, None, name_style);
            transactions.values().map(move |transaction| show(transaction))
        })
        .collect();
    JsonOf::write(&objects)
}
