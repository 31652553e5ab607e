//! The modules `evm`, `hardhat` and `anvil`: what contract developers change on the development
//! network. On every other network these methods are refused.
//!
//! A change of an account is a block of its own, so that every block can be executed again from the
//! block before. The block's number and the time move on by it.

mod state_file;
mod whole_network;

use std::time::Duration;

use chain::developer::DeveloperChange;
use chain::state::{AccountOverride, StorageOverride};
use primitives::{Address, Bytes, U256};

use super::mc::Word;
use crate::decode::{FromParam, ParamFields};
use crate::developer::{Developer, DeveloperError};
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, Data, Integer, ParamError, Quantity};
use crate::wire_type::WireType;

/// The most blocks of one call.
const BLOCKS_MAX: u64 = 1000;

/// The rows of these modules.
pub fn methods() -> Vec<Method<Node>> {
    let mut rows = vec![
        Method::heavy("evm_mine", ["options"], mine).summary(
            "Makes a block, or several. The options are a timestamp, or timestamp and number of blocks.",
        ),
        Method::blocking("evm_snapshot", [], snapshot)
            .summary("Remembers where the chain is. Returns the number to go back by."),
        Method::heavy("evm_revert", ["id"], revert)
            .summary("Goes back to a snapshot. It and all later ones are gone afterwards."),
        Method::blocking("evm_increaseTime", ["seconds"], increase_time)
            .summary("Moves the clock. Returns the seconds by which it is ahead."),
        Method::blocking("evm_setNextBlockTimestamp", ["timestamp"], set_next_timestamp)
            .summary("Sets the timestamp of the next block that is made."),
        Method::blocking("evm_setAutomine", ["on"], set_automine)
            .summary("Switches on or off that each transaction gets a block at once."),
        Method::blocking("evm_setIntervalMining", ["milliseconds"], set_interval)
            .summary("Makes a block each time the interval has passed. 0 makes none any more."),
    ];
    rows.extend(account_methods());
    rows.extend(whole_network::methods());
    rows.extend(state_file::methods());
    rows
}

/// Methods that Hardhat and anvil have by the same names.
fn account_methods() -> Vec<Method<Node>> {
    macro_rules! both {
        ($how:ident, $method:literal, $params:expr, $function:ident, $summary:literal) => {
            [
                Method::$how(concat!("hardhat_", $method), $params, $function).summary($summary),
                Method::$how(concat!("anvil_", $method), $params, $function).summary($summary),
            ]
        };
    }
    let pairs = [
        both!(
            heavy,
            "mine",
            ["blocks", "interval"],
            mine_many,
            "Makes blocks whose timestamps are an interval apart."
        ),
        both!(
            heavy,
            "setBalance",
            ["address", "balance"],
            set_balance,
            "Sets the balance of an account, in a block of its own."
        ),
        both!(
            heavy,
            "setCode",
            ["address", "code"],
            set_code,
            "Sets the code of an account, in a block of its own."
        ),
        both!(
            heavy,
            "setNonce",
            ["address", "nonce"],
            set_nonce,
            "Sets the nonce of an account, in a block of its own."
        ),
        both!(
            heavy,
            "setStorageAt",
            ["address", "position", "value"],
            set_storage,
            "Sets a storage slot, in a block of its own."
        ),
        both!(
            blocking,
            "impersonateAccount",
            ["address"],
            impersonate,
            "Lets an account send transactions without a key."
        ),
        both!(
            blocking,
            "stopImpersonatingAccount",
            ["address"],
            stop_impersonating,
            "Ends what impersonateAccount began."
        ),
        both!(
            inline,
            "getAutomine",
            [],
            automine,
            "Returns whether each transaction gets a block at once."
        ),
    ];
    let all = Method::blocking("anvil_autoImpersonateAccount", ["on"], impersonate_all)
        .summary("Switches on or off that every account sends transactions without a key.");
    pairs.into_iter().flatten().chain([all]).collect()
}

/// The switches of developers.
fn developer(node: &Node) -> RpcResult<&Developer> {
    node.developer
        .as_ref()
        .ok_or_else(|| RpcError::refused("only the development network (--dev) has this method"))
}

/// The parameter of `evm_mine`.
#[derive(Debug, Default, PartialEq, Eq)]
struct MineOptions {
    timestamp: Option<u64>,
    blocks: u64,
}

impl FromParam for MineOptions {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("COUNT"), WireType::Named("MineOptions")]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        if !json.starts_with('{') {
            let Count(timestamp) = Count::from_json(json)?;
            return Ok(Self {
                timestamp: (timestamp > 0).then_some(timestamp),
                blocks: 1,
            });
        }
        let fields = ParamFields::read(json)?;
        let timestamp: Option<Count> = fields.get("timestamp")?;
        let blocks: Option<Count> = fields.get("blocks")?;
        Ok(Self {
            timestamp: timestamp.map(|timestamp| timestamp.0),
            blocks: blocks.map_or(1, |blocks| blocks.0),
        })
    }

    fn absent() -> Option<Self> {
        Some(Self {
            timestamp: None,
            blocks: 1,
        })
    }
}

fn check_blocks(blocks: u64) -> RpcResult<()> {
    if blocks > BLOCKS_MAX {
        return Err(RpcError::invalid_argument(
            0,
            format_args!("got {blocks} blocks, expected at most {BLOCKS_MAX}"),
        ));
    }
    Ok(())
}

/// `evm_mine`: the timestamp is that of the first block.
fn mine(node: &Node, (options,): (MineOptions,)) -> RpcResult<&'static str> {
    check_blocks(options.blocks)?;
    let developer = developer(node)?;
    for index in 0..options.blocks {
        let timestamp = options.timestamp.filter(|_| index == 0);
        developer.mine(timestamp).map_err(DeveloperError::into_rpc)?;
    }
    Ok("0x0")
}

/// `hardhat_mine`: without an interval the blocks are as far apart as the clock says, and at least
/// a second.
fn mine_many(node: &Node, (blocks, interval): (Option<Count>, Option<Count>)) -> RpcResult<bool> {
    let blocks = blocks.map_or(1, |blocks| blocks.0);
    check_blocks(blocks)?;
    let developer = developer(node)?;
    for index in 0..blocks {
        let timestamp = match interval {
            Some(Count(interval)) if index > 0 => {
                let head = node.view()?.head().header.timestamp;
                Some(head.saturating_add(interval.max(1)))
            }
            _ => None,
        };
        developer.mine(timestamp).map_err(DeveloperError::into_rpc)?;
    }
    Ok(true)
}

/// `evm_snapshot`.
fn snapshot(node: &Node) -> RpcResult<Quantity> {
    developer(node)?
        .snapshot()
        .map(Quantity)
        .map_err(DeveloperError::into_rpc)
}

/// `evm_revert`: false if there is no such snapshot.
fn revert(node: &Node, (Count(id),): (Count,)) -> RpcResult<bool> {
    let result = developer(node)?.revert(id);
    // Blocks may be deleted after an error of the store, too.
    node.blocks.clear();
    result.map_err(DeveloperError::into_rpc)
}

/// `evm_increaseTime`.
fn increase_time(node: &Node, (Count(seconds),): (Count,)) -> RpcResult<Integer> {
    let ahead = developer(node)?.increase_time(seconds);
    Ok(Integer(u64::try_from(ahead).unwrap_or(0)))
}

/// `evm_setNextBlockTimestamp`: returns the timestamp.
fn set_next_timestamp(node: &Node, (Count(timestamp),): (Count,)) -> RpcResult<Integer> {
    let set = developer(node)?.set_next_timestamp(timestamp);
    set.map_err(DeveloperError::into_rpc)?;
    Ok(Integer(timestamp))
}

/// `evm_setAutomine`.
fn set_automine(node: &Node, (on,): (bool,)) -> RpcResult<bool> {
    developer(node)?.set_automine(on);
    Ok(true)
}

/// `hardhat_getAutomine`.
fn automine(node: &Node) -> RpcResult<bool> {
    Ok(developer(node)?.automine())
}

/// `evm_setIntervalMining`.
fn set_interval(node: &Node, (Count(milliseconds),): (Count,)) -> RpcResult<bool> {
    let set = developer(node)?.set_interval(Duration::from_millis(milliseconds));
    set.map_err(DeveloperError::into_rpc)?;
    Ok(true)
}

fn change(node: &Node, address: Address, values: AccountOverride) -> RpcResult<bool> {
    let made = developer(node)?.change(DeveloperChange { address, values });
    made.map_err(DeveloperError::into_rpc)?;
    Ok(true)
}

/// `hardhat_setBalance`.
fn set_balance(node: &Node, (address, Quantity(balance)): (Address, Quantity<U256>)) -> RpcResult<bool> {
    let values = AccountOverride {
        balance: Some(balance),
        ..AccountOverride::default()
    };
    change(node, address, values)
}

/// `hardhat_setCode`.
fn set_code(node: &Node, (address, Data(code)): (Address, Data)) -> RpcResult<bool> {
    let values = AccountOverride {
        code: Some(Bytes::from(code)),
        ..AccountOverride::default()
    };
    change(node, address, values)
}

/// `hardhat_setNonce`.
fn set_nonce(node: &Node, (address, Count(tx_nonce)): (Address, Count)) -> RpcResult<bool> {
    let values = AccountOverride {
        tx_nonce: Some(tx_nonce),
        ..AccountOverride::default()
    };
    change(node, address, values)
}

/// `hardhat_setStorageAt`.
fn set_storage(node: &Node, (address, slot, value): (Address, Word, Word)) -> RpcResult<bool> {
    let values = AccountOverride {
        storage: StorageOverride::Change(vec![(slot.0, value.0)]),
        ..AccountOverride::default()
    };
    change(node, address, values)
}

/// `hardhat_impersonateAccount`.
fn impersonate(node: &Node, (address,): (Address,)) -> RpcResult<bool> {
    let set = developer(node)?.set_impersonated(address, true);
    set.map(|()| true).map_err(DeveloperError::into_rpc)
}

/// `hardhat_stopImpersonatingAccount`.
fn stop_impersonating(node: &Node, (address,): (Address,)) -> RpcResult<bool> {
    let set = developer(node)?.set_impersonated(address, false);
    set.map(|()| true).map_err(DeveloperError::into_rpc)
}

/// `anvil_autoImpersonateAccount`.
fn impersonate_all(node: &Node, (on,): (bool,)) -> RpcResult<bool> {
    developer(node)?.set_impersonates_all(on);
    Ok(true)
}
