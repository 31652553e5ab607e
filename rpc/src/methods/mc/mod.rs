//! The `mc` module: blocks, transactions, logs, state, accounts, calls, mining.
//!
//! One file per topic, each with its rows. What they share is in `lookup`.

mod accounts;
mod blocks;
mod calls;
mod logs;
mod lookup;
mod mining;
mod price;
mod request;
mod state;
mod status;
mod transactions;

pub(in crate::methods) use accounts::{send_signed, sign_message};
pub(in crate::methods) use request::TransactionRequest;

use crate::node::Node;
use crate::table::Method;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    [
        status::methods(),
        blocks::methods(),
        transactions::methods(),
        logs::methods(),
        state::methods(),
        accounts::methods(),
        calls::methods(),
        mining::methods(),
    ]
    .concat()
}
