//! Deposits and withdrawals (docs/interface.md, 2.12).
//!
//! A list is answered a page at a time, the newest entry first. In front of the k entries of a page
//! stand k nulls, as in the answers of the public SCS, whose clients skip them. An empty page is
//! null.

use primitives::{Address, U256};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::served;
use crate::error::RpcResult;
use crate::micro_chains::{Exchange, ExchangeEntry, ScsNode};
use crate::table::Method;
use crate::types::{Count, Data, Integer, Quantity};
use crate::wire_type::{Described, WireType};

/// Most entries of a page.
const PAGE_LEN_MAX: u64 = 1000;
/// Entries of a page if the caller names no number.
const PAGE_LEN_DEFAULT: u64 = 10;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<ScsNode>> {
    vec![
        Method::heavy(
            "scs_getExchangeByAddress",
            [
                "microchain",
                "account",
                "depositIndex",
                "depositCount",
                "depositingIndex",
                "depositingCount",
                "withdrawIndex",
                "withdrawCount",
                "withdrawingIndex",
                "withdrawingCount",
            ],
            by_address,
        )
        .summary(
            "Returns deposits and withdrawals of an account, finished and waiting ones, the newest \
             first.",
        ),
        Method::heavy(
            "scs_getExchangeInfo",
            [
                "microchain",
                "depositingIndex",
                "depositingCount",
                "withdrawingIndex",
                "withdrawingCount",
            ],
            info,
        )
        .summary("Returns the deposits and withdrawals of all accounts that wait, the newest first."),
    ]
}

/// Which part of a list is wanted.
#[derive(Clone, Copy, Debug)]
struct Page {
    index: u64,
    len: u64,
}

impl Page {
    fn new(index: Option<Count>, len: Option<Count>) -> Self {
        Self {
            index: index.map_or(0, |index| index.0),
            len: len.map_or(PAGE_LEN_DEFAULT, |len| len.0).min(PAGE_LEN_MAX),
        }
    }

    /// The entries that are enough for the page, counted from the newest one.
    const fn newest(self) -> u64 {
        self.index.saturating_add(self.len)
    }

    fn of(self, list: &[ExchangeEntry]) -> Vec<ExchangeEntry> {
        let skipped = usize::try_from(self.index).unwrap_or(usize::MAX);
        let newest_first = list.iter().rev().skip(skipped);
        // At most PAGE_LEN_MAX.
        newest_first.take(self.len as usize).copied().collect()
    }
}

/// A page with the names of its members.
#[derive(Debug)]
struct Records {
    entries: Vec<ExchangeEntry>,
    /// The names of amount and time.
    names: [&'static str; 2],
    /// Whether each entry says whose it is.
    with_user: bool,
}

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.entries.is_empty() {
            return serializer.serialize_none();
        }
        let nulls = self.entries.iter().map(|_| None);
        let entries = self.entries.iter().map(|entry| Some(Record { entry, of: self }));
        serializer.collect_seq(nulls.chain(entries))
    }
}

struct Record<'a> {
    entry: &'a ExchangeEntry,
    of: &'a Records,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.of.with_user {
            map.serialize_entry("address", &Data(self.entry.user))?;
        }
        map.serialize_entry(self.of.names[0], &Quantity::<U256>(self.entry.amount))?;
        map.serialize_entry(self.of.names[1], &Quantity(self.entry.time))?;
        map.end()
    }
}

/// The answer of `scs_getExchangeByAddress`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AccountExchange {
    deposit_record_count: Integer,
    deposit_records: Records,
    depositing_record_count: Integer,
    depositing_records: Records,
    withdraw_record_count: Integer,
    withdraw_records: Records,
    withdrawing_record_count: Integer,
    withdrawing_records: Records,
    #[serde(rename = "microchain")]
    chain: Data<Address>,
    #[serde(rename = "sender")]
    account: Data<Address>,
}

impl Described for AccountExchange {
    const TYPE: WireType = WireType::Named("AccountExchange");
}

/// The answer of `scs_getExchangeInfo`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct WaitingExchange {
    depositing_record_count: Integer,
    depositing_records: Records,
    withdrawing_record_count: Integer,
    withdrawing_records: Records,
    #[serde(rename = "microchain")]
    chain: Data<Address>,
    #[serde(rename = "scsid")]
    id: Data<Address>,
}

impl Described for WaitingExchange {
    const TYPE: WireType = WireType::Named("WaitingExchange");
}

const fn count(list: &[ExchangeEntry]) -> Integer {
    Integer(list.len() as u64)
}

fn exchange_of(
    scs: &ScsNode,
    chain: &Address,
    user: Option<Address>,
    withdrawing: Page,
) -> RpcResult<Exchange> {
    match served(scs, chain) {
        Some(chain) => chain.exchange(user, withdrawing.newest()),
        None => Ok(Exchange::default()),
    }
}

/// The parameters of `scs_getExchangeByAddress`.
type AccountPages = (
    Address,
    Address,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
);

/// `scs_getExchangeByAddress`.
fn by_address(scs: &ScsNode, params: AccountPages) -> RpcResult<AccountExchange> {
    let (chain, account, a, b, c, d, e, f, g, h) = params;
    let withdrawing = Page::new(g, h);
    let exchange = exchange_of(scs, &chain, Some(account), withdrawing)?;
    let page = |list: &[ExchangeEntry], page: Page, names| Records {
        entries: page.of(list),
        names,
        with_user: false,
    };
    Ok(AccountExchange {
        deposit_record_count: count(&exchange.deposits),
        deposit_records: page(&exchange.deposits, Page::new(a, b), ["DepositAmt", "Deposittime"]),
        depositing_record_count: count(&exchange.depositing),
        depositing_records: page(&exchange.depositing, Page::new(c, d), DEPOSITING),
        withdraw_record_count: count(&exchange.withdrawals),
        withdraw_records: page(
            &exchange.withdrawals,
            Page::new(e, f),
            ["WithdrawAmt", "Withdrawtime"],
        ),
        withdrawing_record_count: Integer(exchange.withdrawing_count),
        withdrawing_records: page(&exchange.withdrawing, withdrawing, WITHDRAWING),
        chain: Data(chain),
        account: Data(account),
    })
}

const DEPOSITING: [&str; 2] = ["DepositingAmt", "Depositingtime"];
const WITHDRAWING: [&str; 2] = ["WithdrawingAmt", "Withdrawingtime"];

/// The parameters of `scs_getExchangeInfo`.
type WaitingPages = (
    Address,
    Option<Count>,
    Option<Count>,
    Option<Count>,
    Option<Count>,
);

/// `scs_getExchangeInfo`.
fn info(scs: &ScsNode, (chain, a, b, c, d): WaitingPages) -> RpcResult<WaitingExchange> {
    let withdrawing = Page::new(c, d);
    let exchange = exchange_of(scs, &chain, None, withdrawing)?;
    let page = |list: &[ExchangeEntry], page: Page, names| Records {
        entries: page.of(list),
        names,
        with_user: true,
    };
    Ok(WaitingExchange {
        depositing_record_count: count(&exchange.depositing),
        depositing_records: page(&exchange.depositing, Page::new(a, b), DEPOSITING),
        withdrawing_record_count: Integer(exchange.withdrawing_count),
        withdrawing_records: page(&exchange.withdrawing, withdrawing, WITHDRAWING),
        chain: Data(chain),
        id: Data(scs.0.id()),
    })
}
