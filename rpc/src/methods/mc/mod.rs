//! The `mc` module: blocks, transactions, logs, state, accounts, calls, mining.
//!
//! One file for each topic, with its rows. `lookup.rs` is shared: it finds blocks and states.

mod access_list;
mod accounts;
mod blocks;
mod calls;
mod config;
mod fees;
mod filters;
mod logs;
mod lookup;
mod mining;
mod overrides;
mod prepare;
mod price;
mod proof;
mod request;
mod rewards;
mod state;
mod status;
mod subscriptions;
mod transactions;
mod typed_data;

pub(in crate::methods) use accounts::{MessageLabel, send_signed, sign_message, sign_unlocked};
pub(in crate::methods) use calls::call_request;
pub(in crate::methods) use lookup::{FoundBlock, at_state, call_error, stored_number, with_state};
pub(in crate::methods) use mining::total_hashrate;
pub(in crate::methods) use overrides::{BlockOverrides, StateOverrides};
pub(in crate::methods) use price::gas_price as suggested_price;
pub(in crate::methods) use request::{CallObject, TransactionRequest, Word};
pub(in crate::methods) use rewards::total_fees;
pub(in crate::methods) use transactions::{raw_by_hash, receipt_object};
pub use typed_data::typed_data_digest;

use crate::node::Node;
use crate::table::Method;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let topics = [
        status::methods(),
        config::methods(),
        blocks::methods(),
        transactions::methods(),
        logs::methods(),
        state::methods(),
        proof::methods(),
        fees::methods(),
        accounts::methods(),
        typed_data::methods(),
        prepare::methods(),
        calls::methods(),
        access_list::methods(),
        mining::methods(),
        rewards::methods(),
        filters::methods(),
        subscriptions::methods(),
    ];
    topics.into_iter().flatten().collect()
}
