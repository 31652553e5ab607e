//! Money and state of an SCS, for its operator: balances that are read now and then, a warning when
//! the money for gas runs low, and figures for monitoring tools.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, gauge};
use primitives::{Address, ShaAmount, U256};
use scs_service::client::ScsClient;

use crate::served::ServedChains;

/// The time between two reads of the balances.
const READ_INTERVAL: Duration = Duration::from_secs(15);
/// With less than so many sha the SCS warns: 0.2 coins. A flush of 20 members costs all of them
/// together some 0.074 coins.
pub const GAS_MONEY_LOW: u64 = 200_000_000_000_000_000;
/// A warning that stays true is logged again after so many reads: an hour.
const READS_UNTIL_TOLD_AGAIN: u32 = 240;

/// Whether an account with this balance has too little money for gas.
pub fn is_gas_money_low(balance: U256) -> bool {
    balance < U256::from(GAS_MONEY_LOW)
}

/// Reads the balances of the SCS and of its chain bases now and then, until it is dropped.
pub(crate) async fn watch_balances(client: ScsClient, served: Arc<ServedChains>, id: Address) {
    let mut reads_since_told = None;
    loop {
        tokio::time::sleep(READ_INTERVAL).await;
        let Ok(account) = client.account_info(id).await else {
            // There is no connection. The log says so elsewhere.
            continue;
        };
        served.set_balance(account.balance);
        reads_since_told = match reads_since_told {
            _ if !is_gas_money_low(account.balance) => None,
            Some(reads) if reads < READS_UNTIL_TOLD_AGAIN => Some(reads + 1),
            _ => {
                let (balance, expected) = (ShaAmount(account.balance), ShaAmount(U256::from(GAS_MONEY_LOW)));
                tracing::warn!(
                    %id, %balance, %expected,
                    "the account of this SCS has little money for gas: without any it neither votes nor proposes"
                );
                Some(0)
            }
        };
        for chain in rpc::MicroChains::chains(&*served) {
            if let Ok(account) = client.account_info(chain).await {
                served.set_escrow(&chain, account.balance);
            }
        }
    }
}

/// Describes the figures. Called once, before the first [`record`].
pub fn describe() {
    describe_gauge!("scs_connected", "1 if the VNODE is connected.");
    describe_gauge!("scs_base_head_number", "Number of the head of the base chain.");
    describe_gauge!(
        "scs_base_refused",
        "1 if an answer of the VNODE about the base chain was refused in the last ten minutes."
    );
    describe_counter!(
        "scs_base_refusals_total",
        "Answers of the VNODE about the base chain that were refused."
    );
    counter!("scs_base_refusals_total").increment(0);
    describe_gauge!("scs_balance_coins", "Coins of the SCS for gas.");
    describe_gauge!(
        "scs_balance_low",
        "1 if there is little money for gas: less than 0.2 coins."
    );
    describe_gauge!("scs_chains", "MicroChains that the SCS serves.");
    describe_gauge!("scs_chain_head_number", "Number of the highest block.");
    describe_gauge!("scs_chain_head_age_seconds", "Time since the highest block.");
    describe_gauge!("scs_chain_members", "Members.");
    describe_gauge!("scs_chain_member", "1 if the SCS is a member.");
    describe_gauge!("scs_chain_last_flush", "Base block of the last flush.");
    describe_gauge!("scs_chain_votes", "Votes for the proposal in progress.");
    describe_gauge!("scs_chain_waiting", "Transactions that wait.");
    describe_gauge!(
        "scs_chain_escrow_coins",
        "Coins of the contract on the base chain."
    );
    describe_gauge!(
        "scs_chain_operation_coins",
        "Coins of the contract for rewards and gas of its members."
    );
    describe_gauge!("scs_chain_issued_tokens", "Tokens outside DappBase.");
    describe_counter!(
        "scs_flushes_total",
        "Flushes that the SCS has seen since its start."
    );
    counter!("scs_flushes_total").increment(0);
}

/// Coins or tokens of an amount in their smallest unit.
fn coins(amount: U256) -> f64 {
    f64::from(amount) / 1e18
}

/// Records the state of the SCS.
pub fn record(served: &ServedChains) {
    let flag = |is: bool| f64::from(u8::from(is));
    let now = chain::unix_now().as_secs();
    gauge!("scs_connected").set(flag(served.is_connected()));
    gauge!("scs_base_head_number").set(served.base_head() as f64);
    gauge!("scs_base_refused").set(flag(served.base_refusal().is_some()));
    if let Some(balance) = served.balance() {
        gauge!("scs_balance_coins").set(coins(balance));
        gauge!("scs_balance_low").set(flag(is_gas_money_low(balance)));
    }
    let figures = served.figures();
    gauge!("scs_chains").set(figures.len() as f64);
    for one in figures {
        let set = |name: &'static str, value: f64| {
            gauge!(name, "chain" => format!("{:#x}", one.chain)).set(value);
        };
        set("scs_chain_head_number", one.head as f64);
        set(
            "scs_chain_head_age_seconds",
            now.saturating_sub(one.head_time) as f64,
        );
        set("scs_chain_members", one.members as f64);
        set("scs_chain_member", flag(one.is_member));
        set("scs_chain_votes", one.votes as f64);
        set("scs_chain_waiting", one.waiting as f64);
        set("scs_chain_operation_coins", coins(one.operation));
        set("scs_chain_issued_tokens", coins(one.issued));
        if let Some(block) = one.last_flush {
            set("scs_chain_last_flush", block as f64);
        }
        if let Some(escrow) = one.escrow {
            set("scs_chain_escrow_coins", coins(escrow));
        }
    }
}

#[cfg(test)]
mod tests {
    /// The dashboard that is kept in the repository.
    const DASHBOARD: &str = include_str!("../../../packaging/grafana/scs.json");

    #[test]
    fn the_dashboard_asks_for_figures_that_exist() {
        let own = include_str!("watch.rs");
        let words = DASHBOARD.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names: Vec<_> = words.filter(|word| word.starts_with("scs_")).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(own.contains(&format!("\"{name}\"")), "no figure {name}");
        }
    }
}
