//! The methods, one file per module, each with its rows.

pub mod admin;
pub mod chain3;
pub mod debug;
pub mod mc;
pub mod miner;
pub mod net;
pub mod personal;
pub mod txpool;
pub mod vnode;

use primitives::U256;
use serde_json::value::RawValue;

use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::Method;

/// Every row of a base-chain node.
pub fn all() -> Vec<Method<Node>> {
    let mut rows = chain3::methods();
    rows.extend(net::methods());
    rows.extend(mc::methods());
    rows.extend(admin::methods());
    rows.extend(txpool::methods());
    rows.extend(personal::methods());
    rows.extend(vnode::methods());
    rows.extend(miner::methods());
    rows.extend(debug::methods());
    rows
}

/// A plain JSON number, however large.
fn plain_number(value: U256) -> RpcResult<Box<RawValue>> {
    RawValue::from_string(value.to_string()).map_err(|_| RpcError::internal("decimal digits are no number"))
}
