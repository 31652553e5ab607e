//! The state of accounts after a block: balance, nonce, code, storage (docs/interface.md, 4.4).
//!
//! The block is the last parameter, by default the highest block. A block above the head has no
//! state: −32000.

use primitives::{Address, B256, U256};

use super::lookup::at_state;
use super::request::Word;
use crate::error::RpcResult;
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Data, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_getBalance", ["address", "block"], balance)
            .summary("Returns the balance of an account, in sha."),
        Method::reading("mc_getTransactionCount", ["address", "block"], transaction_count).summary(
            "Returns the number of transactions that an account has sent. This is the nonce of \
             its next transaction.",
        ),
        Method::reading("mc_getStorageAt", ["address", "position", "block"], storage_at)
            .summary("Returns the value of a storage slot."),
        Method::reading("mc_getCode", ["address", "block"], code).summary("Returns the code at an address."),
    ]
}

/// `mc_getBalance`: in sha.
fn balance(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Quantity<U256>> {
    let view = node.view()?;
    let sender = at_state(node, &view, at, |place| view.sender_state(place, &address))?;
    Ok(Quantity(sender.balance))
}

/// `mc_getTransactionCount`: the account's nonce. For the block `pending` it is the nonce that the
/// account's next transaction should have.
fn transaction_count(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Quantity> {
    if at == BlockRef::Pending {
        return next_nonce(node, &address).map(Quantity);
    }
    let view = node.view()?;
    let sender = at_state(node, &view, at, |place| view.sender_state(place, &address))?;
    Ok(Quantity(sender.tx_nonce))
}

/// The nonce of the account's next transaction, after the transactions in the pool.
pub(in crate::methods) fn next_nonce(node: &Node, address: &Address) -> RpcResult<u64> {
    // The pool is read before the chain: a transaction can move from the pool into a block between
    // the two reads, but not back.
    let pooled = match &node.application {
        Some(application) => application.next_nonce(address),
        None => node.chain.pool().next_nonce(address),
    };
    let view = node.view()?;
    let sender = at_state(node, &view, BlockRef::Latest, |place| {
        view.sender_state(place, address)
    })?;
    Ok(pooled.unwrap_or_default().max(sender.tx_nonce))
}

/// `mc_getStorageAt`: the 32 bytes of a slot.
fn storage_at(node: &Node, (address, slot, at): (Address, Word, BlockRef)) -> RpcResult<Data<B256>> {
    let view = node.view()?;
    let value = at_state(node, &view, at, |place| view.slot_in(place, &address, &slot.0))?;
    Ok(Data(value.into()))
}

/// `mc_getCode`: empty if the account has no code.
fn code(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Data> {
    let view = node.view()?;
    at_state(node, &view, at, |place| view.code_in(place, &address)).map(Data)
}
