//! Questions to DappBase, and the calls of it that an SCS sends (docs/microchain-contracts.md, 5).
//!
//! Knows its functions. Whether a call is due is decided in [`crate::engine`].

use std::ops::Range;

use chain::View;
use chain::application::PlainAction;
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::query_limit::QueryLimit;
use primitives::{Address, B256, Bytes, Transaction, U256, keccak256};
use store::StoreError;

use crate::abi::{AbiError, CallData, ResultReader};
use crate::contract::Deposit;
use crate::error::ReadError;
use crate::records::{DappEntry, ExchangeRecord};

/// Gas of a question that reads a list. Nobody pays it; it bounds the time.
const QUESTION_GAS: u64 = 2_000_000_000;
/// The first of the three slots with the lists of withdrawals (users, tokens, times): in our
/// DappBase, and in the published one.
const WITHDRAWAL_SLOTS: [u64; 2] = [6, 1];
/// The withdrawals of all users among which those of one user are searched for: each costs a read
/// of the storage.
pub(crate) const SEARCHED_MAX: u64 = 100_000;
const GET_WITHDRAWALS: &str = "getRedeemMapping(address,uint256)";
const POST_FLUSH: &str = "postFlush(uint256,address[],uint256[],uint256[])";
const UPDATE_NODE_LIST: &str = "updateNodeList(address[])";

/// Reads of DappBase on one state.
pub(crate) struct DappBaseCalls<'a> {
    view: &'a View,
    address: Address,
}

impl<'a> DappBaseCalls<'a> {
    pub(crate) const fn new(view: &'a View, address: Address) -> Self {
        Self { view, address }
    }

    /// Calls a function on the state after block `number`. `None` if there is no DappBase.
    fn ask(&self, function: &'static str, data: CallData, number: u64) -> Result<Option<Bytes>, ReadError> {
        if self.view.code(&self.address, number)?.is_empty() {
            return Ok(None);
        }
        let request = CallRequest {
            to: Some(self.address),
            gas: Some(QUESTION_GAS),
            input: data.after(function_selector(function)),
            ..Default::default()
        };
        let limit = QueryLimit::new(TIMEOUT_DEFAULT);
        match self.view.call(StateAt::Block(number), &request, limit)? {
            CallOutcome::Success { output, .. } => Ok(Some(output)),
            other => Err(ReadError::Failed {
                function,
                got: Box::new(other),
            }),
        }
    }

    /// As [`Self::ask`], and reads the result.
    fn read<T: Default>(
        &self,
        function: &'static str,
        data: CallData,
        number: u64,
        read: impl FnOnce(ResultReader<'_>) -> Result<T, AbiError>,
    ) -> Result<T, ReadError> {
        let Some(answer) = self.ask(function, data, number)? else {
            return Ok(T::default());
        };
        read(ResultReader::new(&answer)).map_err(|error| ReadError::Answer { function, error })
    }

    /// The number of deposits that are credited.
    pub(crate) fn enter_position(&self, number: u64) -> Result<u64, ReadError> {
        self.read("enterPos()", CallData::default(), number, |mut answer| {
            answer.small()
        })
    }

    /// The list of SCSs.
    pub(crate) fn node_list(&self, number: u64) -> Result<Vec<Address>, ReadError> {
        let empty = CallData::default();
        self.read("getCurNodeList()", empty, number, |mut answer| answer.addresses())
    }

    /// Whether an account is a Dapp that may be called.
    pub(crate) fn is_enabled(&self, dapp: &Address, number: u64) -> Result<bool, ReadError> {
        let data = CallData::default().address(*dapp);
        let state = self.read("getDappState(address)", data, number, |mut answer| answer.small())?;
        Ok(state == 1)
    }

    /// Whether everybody may create contracts.
    pub(crate) fn anyone_deploys(&self, number: u64) -> Result<bool, ReadError> {
        let data = CallData::default();
        let switch = self.read("allDeploySwitch()", data, number, |mut answer| answer.small())?;
        Ok(switch != 0)
    }

    /// The newest withdrawals from position `from` on, at most `max`, oldest first: of one user or
    /// of all. With the number of all of them. Of one user those among the last [`SEARCHED_MAX`] of
    /// all users are found.
    ///
    /// DappBase itself takes long for a long list, so its storage is read if it has one of the
    /// known layouts.
    pub(crate) fn newest_withdrawals(
        &self,
        user: Option<&Address>,
        from: u64,
        max: u64,
        number: u64,
    ) -> Result<(Vec<ExchangeRecord>, u64), ReadError> {
        let Some(lists) = self.withdrawal_lists(number)? else {
            let mut all = self.asked_withdrawals(user, from, number)?;
            let count = all.len() as u64;
            // No more than there are.
            all.drain(..count.saturating_sub(max) as usize);
            return Ok((all, count));
        };
        let Some(user) = user else {
            let first = lists.len.saturating_sub(max).max(from);
            let newest = lists.entries(self, first..lists.len, number)?;
            return Ok((newest, lists.len.saturating_sub(from)));
        };
        let (mut newest, mut count) = (Vec::new(), 0);
        let first = lists.len.saturating_sub(SEARCHED_MAX).max(from);
        for position in (first..lists.len).rev() {
            if lists.user(self, position, number)? != *user {
                continue;
            }
            count += 1;
            if count <= max {
                newest.push(lists.entry(self, position, number)?);
            }
        }
        newest.reverse();
        Ok((newest, count))
    }

    /// The withdrawals of all users from position `from` on, at most `max`. Only these are read.
    pub(crate) fn withdrawal_page(
        &self,
        from: u64,
        max: usize,
        number: u64,
    ) -> Result<Vec<ExchangeRecord>, ReadError> {
        if let Some(lists) = self.withdrawal_lists(number)? {
            let end = lists.len.min(from.saturating_add(max as u64));
            return lists.entries(self, from..end, number);
        }
        let mut all = self.asked_withdrawals(None, from, number)?;
        all.truncate(max);
        Ok(all)
    }

    /// The lists of withdrawals in the storage; `None` if the layout is none of the known ones.
    /// DappBase's own answer for the last withdrawal must agree.
    fn withdrawal_lists(&self, number: u64) -> Result<Option<WithdrawalLists>, ReadError> {
        for first in WITHDRAWAL_SLOTS {
            let length = |slot| self.view.slot(&self.address, &U256::from(slot), number);
            let len = length(first)?;
            if length(first + 1)? != len || length(first + 2)? != len {
                continue;
            }
            let Ok(len) = u64::try_from(len) else { continue };
            let lists = WithdrawalLists { first, len };
            let last = len.saturating_sub(1);
            let told = match self.asked_withdrawals(None, last, number) {
                Ok(told) => told,
                Err(ReadError::Store(error)) => return Err(error.into()),
                Err(_) => continue,
            };
            if lists.entries(self, last..len, number)? == told {
                return Ok(Some(lists));
            }
        }
        Ok(None)
    }

    /// The withdrawals from position `from` on, as DappBase answers.
    pub(crate) fn asked_withdrawals(
        &self,
        user: Option<&Address>,
        from: u64,
        number: u64,
    ) -> Result<Vec<ExchangeRecord>, ReadError> {
        let data = CallData::default()
            .address(user.copied().unwrap_or_default())
            .small(from);
        self.read(GET_WITHDRAWALS, data, number, |mut answer| {
            let (users, tokens, times) = (answer.addresses()?, answer.numbers()?, answer.smalls()?);
            let named = users.into_iter().map(|one| user.copied().unwrap_or(one));
            let all = named.zip(tokens).zip(times);
            Ok(all
                .map(|((user, tokens), time)| ExchangeRecord { user, tokens, time })
                .collect())
        })
    }

    /// The deposits that a user was credited.
    pub(crate) fn credited(&self, user: &Address, number: u64) -> Result<Vec<ExchangeRecord>, ReadError> {
        let data = CallData::default().address(*user);
        self.read("getEnterRecords(address)", data, number, |mut answer| {
            let (tokens, times) = (answer.numbers()?, answer.smalls()?);
            let all = tokens.into_iter().zip(times);
            Ok(all
                .map(|(tokens, time)| ExchangeRecord {
                    user: *user,
                    tokens,
                    time,
                })
                .collect())
        })
    }

    /// The registered Dapps.
    pub(crate) fn dapps(&self, number: u64) -> Result<Vec<DappEntry>, ReadError> {
        self.read("getDappList()", CallData::default(), number, |mut answer| {
            let mut list = answer.tail()?;
            let count = list.count()?;
            let mut entries = list.rest();
            let entry = |_| {
                let mut entry = entries.tail()?;
                Ok(DappEntry {
                    address: entry.address()?,
                    owner: entry.address()?,
                    abi: String::from_utf8_lossy(&entry.bytes()?).into_owned(),
                    state: entry.small()?,
                })
            };
            (0..count).map(entry).collect()
        })
    }
}

/// The lists of withdrawals in DappBase's storage.
struct WithdrawalLists {
    /// The slot with the length of the first list.
    first: u64,
    len: u64,
}

impl WithdrawalLists {
    fn element(
        &self,
        list: u64,
        position: u64,
        of: &DappBaseCalls<'_>,
        number: u64,
    ) -> Result<U256, StoreError> {
        let head = keccak256(B256::from(U256::from(self.first + list)));
        let slot = U256::from_be_bytes(head.0).wrapping_add(U256::from(position));
        of.view.slot(&of.address, &slot, number)
    }

    fn user(&self, of: &DappBaseCalls<'_>, position: u64, number: u64) -> Result<Address, StoreError> {
        let word = B256::from(self.element(0, position, of, number)?);
        Ok(Address::from_slice(&word[12..]))
    }

    fn entries(
        &self,
        of: &DappBaseCalls<'_>,
        mut positions: Range<u64>,
        number: u64,
    ) -> Result<Vec<ExchangeRecord>, ReadError> {
        Ok(positions.try_fold(Vec::new(), |mut all, position| {
            all.push(self.entry(of, position, number)?);
            Ok::<_, StoreError>(all)
        })?)
    }

    fn entry(
        &self,
        of: &DappBaseCalls<'_>,
        position: u64,
        number: u64,
    ) -> Result<ExchangeRecord, StoreError> {
        let time = self.element(2, position, of, number)?;
        Ok(ExchangeRecord {
            user: self.user(of, position, number)?,
            tokens: self.element(1, position, of, number)?,
            time: u64::try_from(time).unwrap_or(u64::MAX),
        })
    }
}

/// A vote for deposits in a block: a call of `postFlush`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreditVote {
    /// The position of the first deposit.
    pub(crate) position: u64,
    /// Users and tokens.
    pub(crate) entries: Vec<(Address, U256)>,
}

impl CreditVote {
    /// The vote that a transaction is; `None` if it is none, or if it cannot be read. As in the
    /// contract, only the last twenty bytes of an address count.
    pub(crate) fn of(transaction: &Transaction, dapp_base: &Address) -> Option<Self> {
        let action = PlainAction::of(transaction)?;
        // A transfer has no data, so this is a call, flagged or a wallet's.
        let is_call = action.to == Some(*dapp_base);
        let (selector, arguments) = action.data.split_first_chunk()?;
        if !is_call || *selector != function_selector(POST_FLUSH) {
            return None;
        }
        let mut reader = ResultReader::new(arguments);
        let position = reader.small().ok()?;
        let (users, tokens) = (reader.words().ok()?, reader.numbers().ok()?);
        let users = users.into_iter().map(|word| Address::from_slice(&word[12..]));
        Some(Self {
            position,
            entries: users.zip(tokens).collect(),
        })
    }
}

/// Whether a transaction is one that members send to DappBase: a vote for deposits or for a list of
/// members.
pub(crate) fn is_member_message(transaction: &Transaction, dapp_base: &Address) -> bool {
    // A transfer has no data, so this is a call, flagged or a wallet's.
    PlainAction::of(transaction).is_some_and(|action| {
        let selector = action.data.first_chunk();
        let is_message = |function| selector == Some(&function_selector(function));
        action.to == Some(*dapp_base) && (is_message(POST_FLUSH) || is_message(UPDATE_NODE_LIST))
    })
}

/// Calldata of `postFlush`: a vote for the deposits from `position` on.
pub(crate) fn post_flush(position: u64, deposits: &[Deposit]) -> Bytes {
    CallData::default()
        .small(position)
        .addresses(deposits.iter().map(|one| one.user))
        .numbers(deposits.iter().map(|one| one.tokens))
        .numbers(deposits.iter().map(|one| U256::from(one.bought)))
        .after(function_selector(POST_FLUSH))
}

/// Calldata of `updateNodeList`.
pub(crate) fn update_node_list(members: &[Address]) -> Bytes {
    CallData::default()
        .addresses(members.iter().copied())
        .after(function_selector(UPDATE_NODE_LIST))
}

/// The first four bytes of the hash of a function's signature.
fn function_selector(signature: &str) -> [u8; 4] {
    let hash = keccak256(signature);
    [hash[0], hash[1], hash[2], hash[3]]
}
