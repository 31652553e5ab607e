//! The `txpool` module (docs/interface.md, 4.8): the transactions of the pool, by account and
//! nonce.
//!
//! Accounts are written with their checksum and nonces in decimal digits, as on the public network.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::pool::PoolContent;
use primitives::{Address, Transaction};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::error::RpcResult;
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::TransactionObject;
use crate::table::Method;
use crate::types::Quantity;
use crate::wire_type::{Described, WireType};

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("txpool_content", [], content)
            .summary("Returns all transactions in the pool, by account and nonce."),
        Method::blocking("txpool_contentFrom", ["address"], content_from)
            .summary("Returns the transactions of an account in the pool, by nonce."),
        Method::blocking("txpool_inspect", [], inspect).summary(
            "Returns all transactions in the pool, by account and nonce, as one line of text \
             each.",
        ),
        Method::blocking("txpool_status", [], status)
            .summary("Returns the number of pending transactions and the number of queued transactions."),
    ]
}

/// The answer of `txpool_status`.
#[derive(Serialize)]
struct PoolStatus {
    pending: Quantity<usize>,
    queued: Quantity<usize>,
}

impl Described for PoolStatus {
    const TYPE: WireType = WireType::Named("PoolStatus");
}

/// `txpool_status`.
fn status(node: &Node) -> RpcResult<PoolStatus> {
    let (pending, queued) = match &node.application {
        Some(application) => {
            let content = application.content();
            let count = |part: &PooledTransactions| part.values().map(BTreeMap::len).sum();
            (count(&content.pending), count(&content.queued))
        }
        None => node.chain.pool().counts(),
    };
    Ok(PoolStatus {
        pending: Quantity(pending),
        queued: Quantity(queued),
    })
}

/// Transactions of the pool, by sender and nonce.
type PooledTransactions = BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>;

/// The answer of `txpool_content`.
#[derive(Serialize)]
pub(crate) struct TxpoolContent<'a> {
    pending: WholeTransactions<'a>,
    queued: WholeTransactions<'a>,
}

impl Described for TxpoolContent<'_> {
    const TYPE: WireType = WireType::Named("Pool");
}

impl<'a> TxpoolContent<'a> {
    /// Shows the transactions of a pool.
    pub(crate) const fn new(content: &'a PoolContent) -> Self {
        Self {
            pending: WholeTransactions(&content.pending),
            queued: WholeTransactions(&content.queued),
        }
    }
}

/// `txpool_content`.
fn content(node: &Node) -> RpcResult<JsonOf<TxpoolContent<'static>>> {
    let content = node.pool_content()?;
    JsonOf::write(&TxpoolContent::new(&content))
}

/// The answer of `txpool_contentFrom`.
#[derive(Serialize)]
struct AccountContent<'a> {
    pending: OfAccount<'a>,
    queued: OfAccount<'a>,
}

impl Described for AccountContent<'_> {
    const TYPE: WireType = WireType::Named("AccountPool");
}

/// The transactions of one account, by nonce.
struct OfAccount<'a> {
    address: Address,
    transactions: Option<&'a BTreeMap<u64, Arc<Transaction>>>,
}

impl Serialize for OfAccount<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let transactions = self.transactions.into_iter().flatten();
        serializer.collect_map(transactions.map(|(nonce, transaction)| {
            let object = TransactionObject::new(transaction, self.address, None, NameStyle::Native);
            (nonce.to_string(), object)
        }))
    }
}

/// `txpool_contentFrom`.
fn content_from(node: &Node, (address,): (Address,)) -> RpcResult<JsonOf<AccountContent<'static>>> {
    let content = node.pool_content()?;
    JsonOf::write(&AccountContent {
        pending: OfAccount {
            address,
            transactions: content.pending.get(&address),
        },
        queued: OfAccount {
            address,
            transactions: content.queued.get(&address),
        },
    })
}

/// The answer of `txpool_inspect`.
#[derive(Serialize)]
struct PoolSummary<'a> {
    pending: TransactionSummaries<'a>,
    queued: TransactionSummaries<'a>,
}

impl Described for PoolSummary<'_> {
    const TYPE: WireType = WireType::Named("PoolSummary");
}

/// `txpool_inspect`.
fn inspect(node: &Node) -> RpcResult<JsonOf<PoolSummary<'static>>> {
    let content = node.pool_content()?;
    let object = PoolSummary {
        pending: TransactionSummaries(&content.pending),
        queued: TransactionSummaries(&content.queued),
    };
    JsonOf::write(&object)
}

/// Each transaction as an object.
struct WholeTransactions<'a>(&'a PooledTransactions);

impl Serialize for WholeTransactions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_pool(self.0, serializer, |sender, transaction| {
            TransactionObject::new(transaction, sender, None, NameStyle::Native)
        })
    }
}

/// Each transaction as a line of text.
struct TransactionSummaries<'a>(&'a PooledTransactions);

impl Serialize for TransactionSummaries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_pool(self.0, serializer, |_, transaction| summary(transaction))
    }
}

/// Writes a map of accounts, each a map of nonces, each with what `show` makes of the transaction.
fn serialize_pool<'a, S, F, T>(
    pool: &'a PooledTransactions,
    serializer: S,
    show: F,
) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    F: Fn(Address, &'a Transaction) -> T,
    T: Serialize,
{
    serializer.collect_map(pool.iter().map(|(sender, transactions)| {
        let account = AccountTransactions {
            sender: *sender,
            transactions,
            show: &show,
        };
        (sender.to_checksum(None), account)
    }))
}

/// The transactions of one account.
struct AccountTransactions<'a, 'f, F> {
    sender: Address,
    transactions: &'a BTreeMap<u64, Arc<Transaction>>,
    show: &'f F,
}

impl<'a, F, T> Serialize for AccountTransactions<'a, '_, F>
where
    F: Fn(Address, &'a Transaction) -> T,
    T: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.transactions.len()))?;
        for (tx_nonce, transaction) in self.transactions {
            // The keys of a JSON object are strings: the serializer writes the nonce in decimal
            // digits.
            map.serialize_entry(tx_nonce, &(self.show)(self.sender, transaction))?;
        }
        map.end()
    }
}

fn summary(transaction: &Transaction) -> String {
    let to = transaction.to.map_or_else(
        || "contract creation".to_owned(),
        |address| address.to_checksum(None),
    );
    format!(
        "{to}: {} sha + {} × {} gas",
        transaction.value, transaction.gas, transaction.gas_price
    )
}
