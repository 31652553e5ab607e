//! The `txpool` module (interface 4.8): what waits to be mined, by account and nonce.
//!
//! Accounts are written with their checksum, nonces in decimal digits, as on the public network.

use std::collections::BTreeMap;
use std::sync::Arc;

use primitives::{Address, Transaction};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::error::RpcResult;
use crate::json::Json;
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::TransactionObject;
use crate::table::Method;
use crate::types::Quantity;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("txpool_content", |node, params| {
            params.parse::<()>()?;
            show(node, Form::Whole)
        })
        .says("-> Pool", "All transactions that wait, by account and nonce."),
        Method::blocking("txpool_inspect", |node, params| {
            params.parse::<()>()?;
            show(node, Form::Summary)
        })
        .says(
            "-> PoolSummary",
            "All transactions that wait, by account and nonce, a line each.",
        ),
        Method::blocking("txpool_status", |node, params| {
            params.parse::<()>()?;
            Json::write(&status(node))
        })
        .says(
            "-> PoolStatus",
            "How many transactions can be mined, and how many wait for others.",
        ),
    ]
}

/// The answer of `txpool_status`.
#[derive(Serialize)]
struct Status {
    pending: Quantity<usize>,
    queued: Quantity<usize>,
}

fn status(node: &Node) -> Status {
    let (pending, queued) = node.chain.pool().counts();
    Status {
        pending: Quantity(pending),
        queued: Quantity(queued),
    }
}

/// How a transaction is shown.
#[derive(Clone, Copy)]
enum Form {
    Whole,
    Summary,
}

type Accounts = BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>;

/// The answer of `txpool_content` and `txpool_inspect`, written from the pool's own content.
#[derive(Serialize)]
struct Content<'a> {
    pending: Part<'a>,
    queued: Part<'a>,
}

fn show(node: &Node, form: Form) -> RpcResult<Json> {
    let content = node.chain.pool().content();
    let shown = Content {
        pending: Part(&content.pending, form),
        queued: Part(&content.queued, form),
    };
    // As text a full pool is longer by far than any answer.
    Json::write_within(&shown, node.settings.response_len_max)
}

struct Part<'a>(&'a Accounts, Form);

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(accounts, form) = *self;
        serializer.collect_map(accounts.iter().map(|(sender, transactions)| {
            let of_account = OfAccount {
                sender: *sender,
                transactions,
                form,
            };
            (sender.to_checksum(None), of_account)
        }))
    }
}

struct OfAccount<'a> {
    sender: Address,
    transactions: &'a BTreeMap<u64, Arc<Transaction>>,
    form: Form,
}

impl Serialize for OfAccount<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.transactions.len()))?;
        for (tx_nonce, transaction) in self.transactions {
            // A map's keys are strings: the number becomes one in decimal digits.
            match self.form {
                Form::Whole => {
                    let object = TransactionObject::new(transaction, self.sender, None, Dialect::Native);
                    map.serialize_entry(tx_nonce, &object)?;
                }
                Form::Summary => map.serialize_entry(tx_nonce, &summary(transaction))?,
            }
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
