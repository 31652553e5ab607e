//! What accounts have at a height: balance, nonce, code, storage (interface 4.4).
//!
//! The height is the last parameter, the highest block where there is none. A height above the
//! head has no state: −32000.

use primitives::{Address, B256, U256};

use super::lookup::at_state;
use super::request::Word;
use crate::error::RpcResult;
use crate::node::Node;
use crate::table::{Method, reply};
use crate::types::{BlockRef, Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_getBalance", |node, params| {
            reply(params.parse().and_then(|given| balance(node, given)))
        })
        .says(
            "address: DATA20, block?: BLOCKREF -> QUANTITY",
            "The balance of an account, in sha.",
        ),
        Method::reading("mc_getTransactionCount", |node, params| {
            reply(params.parse().and_then(|given| transaction_count(node, given)))
        })
        .says(
            "address: DATA20, block?: BLOCKREF -> QUANTITY",
            "How many transactions an account has sent: the nonce of its next one.",
        ),
        Method::reading("mc_getStorageAt", |node, params| {
            reply(params.parse().and_then(|given| storage_at(node, given)))
        })
        .says(
            "address: DATA20, position: WORD, block?: BLOCKREF -> DATA32",
            "The value at a storage position.",
        ),
        Method::reading("mc_getCode", |node, params| {
            reply(params.parse().and_then(|given| code(node, given)))
        })
        .says(
            "address: DATA20, block?: BLOCKREF -> DATA",
            "The code at an address.",
        ),
    ]
}

/// `mc_getBalance`: in sha.
fn balance(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Quantity<U256>> {
    let view = node.view()?;
    let standing = at_state(node, &view, at, |place| view.standing_in(place, &address))?;
    Ok(Quantity(standing.balance))
}

/// `mc_getTransactionCount`: the account's nonce; with `pending`, the nonce that its next
/// transaction should have.
fn transaction_count(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Quantity> {
    if at == BlockRef::Pending {
        return next_nonce(node, &address).map(Quantity);
    }
    let view = node.view()?;
    let standing = at_state(node, &view, at, |place| view.standing_in(place, &address))?;
    Ok(Quantity(standing.tx_nonce))
}

/// The nonce of the account's next transaction, those that wait in the pool counted.
pub(in crate::methods) fn next_nonce(node: &Node, address: &Address) -> RpcResult<u64> {
    // The pool is asked first: what it has may be mined by the time of the view, never the reverse.
    let waiting = node.chain.pool().next_nonce(address).unwrap_or_default();
    let view = node.view()?;
    let standing = at_state(node, &view, BlockRef::Latest, |place| {
        view.standing_in(place, address)
    })?;
    Ok(waiting.max(standing.tx_nonce))
}

/// `mc_getStorageAt`: the 32 bytes of a slot.
fn storage_at(node: &Node, (address, slot, at): (Address, Word, BlockRef)) -> RpcResult<Data<B256>> {
    let view = node.view()?;
    let value = at_state(node, &view, at, |place| view.slot_in(place, &address, &slot.0))?;
    Ok(Data(value.into()))
}

/// `mc_getCode`: empty where there is none.
fn code(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Data> {
    let view = node.view()?;
    at_state(node, &view, at, |place| view.code_in(place, &address)).map(Data)
}
