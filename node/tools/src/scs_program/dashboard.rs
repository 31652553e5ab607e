//! The dashboard of an SCS, served at `--dashboard`: its money for gas, its MicroChains, and an
//! explorer for each of them.
//!
//! The page and its server are those of a node. This module collects the figures.
//!
//! | path | content |
//! |---|---|
//! | `/chain/ADDRESS` | the page, whose explorer is that of this MicroChain |
//! | `/chain/ADDRESS/explorer/…` | what the explorer of a node has at `/explorer/…` |

use std::sync::Arc;
use std::time::Instant;

use daemon::ClientId;
use daemon::status::{PageFuture, StatusPage};
use engine::dashboard::{DashboardSource, index_page};
use node::dashboard::ChainExplorer;
use primitives::{Address, U256};
use rpc::{MicroChains, WalletChains};
use scs_node::{ChainFigures, GAS_MONEY_LOW, ServedChains, is_gas_money_low};
use serde_json::{Value, json};

use super::methods_of;

/// The answer for a MicroChain that is not there.
const PATHS: &str = "paths: /chain/ADDRESS of a MicroChain of this SCS\n";

/// Collects the figures of an SCS.
pub(super) struct ScsFigures {
    started: Instant,
    served: Arc<ServedChains>,
    chains: WalletChains,
}

impl ScsFigures {
    /// The figures of `served`. The explorer has limits of its own, beside those of JSON-RPC.
    pub(super) fn new(served: Arc<ServedChains>) -> Self {
        let (_, chains) = methods_of(Arc::clone(&served), &ChainExplorer::modules());
        Self {
            started: Instant::now(),
            served,
            chains,
        }
    }
}

/// An amount in its smallest unit, as text: numbers of JavaScript are too small.
fn amount(value: U256) -> String {
    value.to_string()
}

fn chain_json(figures: &ChainFigures) -> Value {
    json!({
        "address": format!("{:#x}", figures.chain),
        "head": figures.head,
        "head_time_s": figures.head_time,
        "members": figures.members,
        "member": figures.is_member,
        "last_flush": figures.last_flush,
        "votes": figures.votes,
        "waiting": figures.waiting,
        "escrow": figures.escrow.map(amount),
        "operation": amount(figures.operation),
        "issued": amount(figures.issued),
    })
}

/// The account of the SCS. `balance` is `None` before it was read.
fn account_json(id: Address, balance: Option<U256>) -> Value {
    json!({
        "id": id.to_string(),
        "balance": balance.map(amount),
        "balance_min": amount(U256::from(GAS_MONEY_LOW)),
        "balance_low": balance.is_some_and(is_gas_money_low),
    })
}

impl DashboardSource for ScsFigures {
    fn status(&self) -> Value {
        let mut figures = self.served.figures();
        figures.sort_unstable_by_key(|one| one.chain);
        let mut scs = account_json(self.served.id(), self.served.balance());
        scs["connected"] = self.served.is_connected().into();
        scs["base_refusal"] = self.served.base_refusal().into();
        scs["base_head"] = self.served.base_head().into();
        scs["chains"] = figures.iter().map(chain_json).collect();
        json!({
            "program": "scs",
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.started.elapsed().as_secs(),
            "scs": scs,
        })
    }

    fn rates(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn other_page<'a>(&'a self, path: &'a str, client: ClientId) -> Option<PageFuture<'a>> {
        let path = path.strip_prefix("/chain/")?;
        let (address, query) = path.split_at(path.find('/').unwrap_or(path.len()));
        Some(Box::pin(async move {
            let Some(dispatcher) = self.chains.dispatcher(address) else {
                return StatusPage::not_found(PATHS);
            };
            if query.is_empty() {
                return index_page();
            }
            match ChainExplorer::new(dispatcher).page(query, client) {
                Some(page) => page.await,
                None => StatusPage::not_found(PATHS),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_money_is_told_once_it_was_read() {
        let is_low = |balance: Option<u64>| {
            account_json(Address::ZERO, balance.map(U256::from))["balance_low"].clone()
        };
        assert_eq!(is_low(None), json!(false));
        assert_eq!(is_low(Some(GAS_MONEY_LOW)), json!(false));
        assert_eq!(is_low(Some(GAS_MONEY_LOW - 1)), json!(true));
    }
}
