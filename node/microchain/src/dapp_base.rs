//! Questions to DappBase, and the calls of it that an SCS sends (docs/microchain-contracts.md, 5).
//!
//! Knows its functions. Whether a call is due is decided in [`crate::engine`].

use chain::View;
use chain::application::{FLAG_CALL, PlainAction};
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::query_limit::QueryLimit;
use primitives::{Address, Bytes, Transaction, U256, keccak256};

use crate::abi::{AbiError, CallData, ResultReader};
use crate::contract::Deposit;
use crate::error::ReadError;
use crate::records::{DappEntry, ExchangeRecord};

/// Gas of a question that reads a list. Nobody pays it; it bounds the time.
const QUESTION_GAS: u64 = 2_000_000_000;
const POST_FLUSH: &str = "postFlush(uint256,address[],uint256[],uint256[])";

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

    /// The withdrawals from position `from` on, of one user or of all. None if there are fewer.
    pub(crate) fn withdrawals(
        &self,
        user: Option<&Address>,
        from: u64,
        number: u64,
    ) -> Result<Vec<ExchangeRecord>, ReadError> {
        let function = "getRedeemMapping(address,uint256)";
        let data = CallData::default()
            .address(user.copied().unwrap_or_default())
            .small(from);
        self.read(function, data, number, |mut answer| {
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
        let is_call = transaction.sharding_flag == FLAG_CALL && action.to == Some(*dapp_base);
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
        .after(function_selector("updateNodeList(address[])"))
}

/// The first four bytes of the hash of a function's signature.
fn function_selector(signature: &str) -> [u8; 4] {
    let hash = keccak256(signature);
    [hash[0], hash[1], hash[2], hash[3]]
}
