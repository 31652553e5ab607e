//! The `mc` module: blocks, transactions, logs, state, accounts, calls, mining.
//!
//! One file for each topic, with its rows. `lookup.rs` is shared: it finds blocks and states.

mod accounts;
mod blocks;
mod calls;
mod filters;
mod logs;
mod lookup;
mod mining;
mod prepare;
mod price;
mod request;
mod state;
mod status;
mod subscriptions;
mod transactions;

pub(in crate::methods) use accounts::{send_signed, sign_message};
pub(in crate::methods) use lookup::FoundBlock;
pub(in crate::methods) use mining::total_hashrate;
pub(in crate::methods) use request::{TransactionRequest, Word};

use crate::node::Node;
use crate::table::Method;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let topics = [
        status::methods(),
        blocks::methods(),
        transactions::methods(),
        logs::methods(),
        state::methods(),
        accounts::methods(),
        prepare::methods(),
        calls::methods(),
        mining::methods(),
        filters::methods(),
        subscriptions::methods(),
    ];
    topics.into_iter().flatten().collect()
}
