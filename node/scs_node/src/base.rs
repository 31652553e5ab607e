//! Reads a chain base through the unary calls of a VNODE.
//!
//! A reading concludes nothing from notices or from earlier reads. When a reading is needed is
//! decided in `refresh`.

use futures_util::future::{try_join, try_join_all};
use microchain::abi::{AbiError, CallData, ResultReader};
use microchain::branch::BASE_GAS_LIMIT_ASSUMED;
use microchain::contract::{
    ContractRole, ContractStatus, Deposit, DepositList, MEMBERS_MAX, PROPOSAL_PENDING, Proposal, Rewards,
};
use microchain::{ContractState, codes};
use primitives::{Address, B256, Bytes, U256, keccak256};
use scs_service::client::ContractSummary;

use crate::admission::PoolReading;
use crate::exchange::ExchangeRate;
use crate::proven::BaseReadError;
use crate::source::{BaseSource, VnodeSource};

/// The price of gas that calls are first sent with, in sha.
pub(crate) const GAS_PRICE_FIRST: u64 = 18_000_000_000;
/// The highest price of gas at which a chain base takes proposals and votes, in sha.
pub(crate) const GAS_PRICE_MAX: u64 = 20_000_000_000;

/// The place whose turn is first after the last flush.
const SLOT_FIRST_PLACE: u64 = 0x09;
/// The block of the last flush.
const SLOT_LAST_FLUSH: u64 = 0x0d;
/// The flag that says who may register.
const SLOT_REGISTRATION: u64 = 0x15;
/// The performance of a backup that is up to date.
const BACKUP_PERFORMANCE: U256 = U256::from_limbs([5, 0, 0, 0]);

/// The reason why a chain base cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    /// The VNODE does not answer, or is not believed.
    #[error(transparent)]
    Source(#[from] BaseReadError),
    /// The address has no contract.
    #[error("no contract at {0}")]
    NoContract(Address),
    /// The contract answers with other bytes than a chain base.
    #[error("{function}: {error}")]
    Answer {
        function: &'static str,
        /// The fault.
        error: AbiError,
    },
    /// A list of the contract has a length that it cannot have.
    #[error("{list}: got {got} entries, expected {expected}")]
    Length {
        list: &'static str,
        /// The length of the list.
        got: u64,
        /// Lengths that it may have.
        expected: String,
    },
}

/// A chain base as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseReading {
    /// The state for the engine.
    pub state: ContractState,
    pub owner: Address,
    /// All tokens, in units of 10^-18.
    pub supply: U256,
    /// The bond that a member has at stake, in sha.
    pub penalty_bond: U256,
    /// The least withdrawal of the MicroChain, in units of 10^-18.
    pub withdrawal_min: U256,
    /// The pool of SCSs that the bond is locked in.
    pub pool: Address,
    /// The [`codes::code_hash`] of the chain base.
    pub code: B256,
}

/// The facts that tell whether a contract has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContractMark {
    /// The root of its storage.
    pub storage_root: B256,
    /// The hash of its code, as the VNODE tells it. After a reorganization another contract can
    /// have the address.
    pub code_hash: B256,
}

impl ContractMark {
    const fn of(contract: &ContractSummary) -> Self {
        Self {
            storage_root: contract.storage_root,
            code_hash: contract.code_hash,
        }
    }
}

/// The first four bytes of the hash of a signature.
fn selector(signature: &str) -> [u8; 4] {
    let hash = keccak256(signature);
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The question to a chain base at a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadWish {
    /// The number of the base block that the VNODE has told last.
    pub head: u64,
    /// The first deposit that the engine wants; `None` if it wants none yet.
    pub deposits_from: Option<u64>,
    /// The VNODE's payee.
    pub via: Address,
}

/// Reads chain bases.
#[derive(Clone, Debug)]
pub(crate) struct BaseReader<S = VnodeSource> {
    pub(crate) source: S,
    pub(crate) id: Address,
}

/// The answer of `getVnodeInfo`.
struct VnodeInfo {
    pool: Address,
    members: Vec<u64>,
    rewards: Vec<U256>,
    proposal_expiration: u64,
    penalty_bond: U256,
    status: u64,
    owner: Address,
    supply: U256,
    redeems: Vec<u64>,
    node_list: Vec<Address>,
    joining: Vec<Address>,
}

impl<S: BaseSource> BaseReader<S> {
    /// Reads for the SCS `id`.
    pub(crate) const fn new(source: S, id: Address) -> Self {
        Self { source, id }
    }

    /// Reads all that the engine needs. Returns it with the mark after the other reads.
    ///
    /// # Errors
    /// [`BaseError`] if the VNODE does not answer, or the contract is no chain base.
    pub(crate) async fn read(
        &self,
        chain: Address,
        wish: ReadWish,
    ) -> Result<(BaseReading, ContractMark), BaseError> {
        let numbers = [
            "nodeCount()",
            "flushInRound()",
            "totalOperation()",
            "contractNeedFund()",
            "nodeToReleaseCount()",
        ];
        let numbers = try_join_all(numbers.map(|function| self.number(chain, function)));
        let proposals = try_join(self.proposal(chain, 1), self.proposal(chain, 2));
        let role_and_deposits = try_join(self.role(chain), self.deposits(chain, wish.deposits_from));
        let one = try_join(try_join(self.info(chain), self.exchange_rate(chain)), numbers);
        let two = try_join(proposals, role_and_deposits);
        let (((info, rate), numbers), ((mut current, approved), (role, deposits))) =
            try_join(one, two).await?;
        let busy = if awaits_action(&current) {
            let others = current.members.iter().filter(|member| **member != self.id);
            let busy = self.busy(others.take(MEMBERS_MAX)).await?;
            // Read after the pool, so that what has left the pool is seen in the proposal.
            current = self.proposal(chain, 1).await?;
            busy
        } else {
            Vec::new()
        };
        let count = info.count(numbers[0])?;
        let members = info.node_list[..count].to_vec();
        let booked = members.iter().map(|member| self.booked_gas(chain, *member));
        let ready = self.ready(chain, &info.joining);
        let (booked, ready) = try_join(try_join_all(booked), ready).await?;
        let branch = self.source.branch().await?;
        let ([first_place, last_flush, registration], contract) = self.slots(chain).await?;
        let small = |number: U256| u64::try_from(number).unwrap_or(u64::MAX);
        let last_flush = (last_flush != U256::MAX).then_some(last_flush);
        let turns = turns(
            last_flush,
            numbers[1],
            info.proposal_expiration,
            small(first_place),
            count as u64,
        );
        let state = ContractState {
            base_block: wish.head,
            base_gas_limit: branch
                .as_ref()
                .map_or(BASE_GAS_LIMIT_ASSUMED, |branch| branch.gas_limit),
            branch,
            gas_price: U256::from(GAS_PRICE_MAX),
            role,
            status: match info.status {
                0 => ContractStatus::Open,
                1 => ContractStatus::Closing,
                _ => ContractStatus::Closed,
            },
            members_min: info.members[0],
            members,
            joining: info.joining,
            ready,
            registration: small(registration),
            // `close()` on a base chain that is younger than a round goes back below zero.
            last_flush: last_flush.map(|block| u64::try_from(block).unwrap_or(0)),
            releasing: small(numbers[4]),
            rewards: Rewards {
                block: info.rewards[0],
                transaction: info.rewards[1],
                via: info.rewards[2],
            },
            proposal_expiration: info.proposal_expiration,
            turns,
            redeem_position: info.redeems[0],
            upload_max: info.redeems[1],
            payout_max: info.redeems[2],
            redemptions_max: info.redeems[3],
            current,
            approved,
            total_operation: numbers[2],
            need_fund: numbers[3],
            booked_gas: booked
                .into_iter()
                .fold(U256::ZERO, |sum, gas| sum.saturating_add(gas)),
            deposits,
            via: wish.via,
            busy,
        };
        let reading = BaseReading {
            state,
            owner: info.owner,
            supply: info.supply,
            withdrawal_min: rate.withdrawal_min(info.supply),
            penalty_bond: info.penalty_bond,
            pool: info.pool,
            code: codes::code_hash(&contract.code),
        };
        Ok((reading, ContractMark::of(&contract)))
    }

    /// Calls a function and reads its answer.
    async fn call<T>(
        &self,
        chain: Address,
        function: &'static str,
        arguments: CallData,
        read: impl FnOnce(&mut ResultReader<'_>) -> Result<T, AbiError>,
    ) -> Result<T, BaseError> {
        let input = arguments.after(selector(function));
        let output = self.source.call_contract(chain, input).await?;
        read(&mut ResultReader::new(&output)).map_err(|error| BaseError::Answer { function, error })
    }

    async fn number(&self, chain: Address, function: &'static str) -> Result<U256, BaseError> {
        self.call(chain, function, CallData::default(), |reader| reader.number())
            .await
    }

    /// The exchange of coins, or of an ERC-20 token.
    async fn exchange_rate(&self, chain: Address) -> Result<ExchangeRate, BaseError> {
        match self.number(chain, "priceOneGInMOAC()").await {
            Ok(price) => return Ok(ExchangeRate::Coins(price)),
            Err(BaseError::Answer { .. }) => {}
            Err(error) => return Err(error),
        }
        let rate = self.number(chain, "ERCRate()");
        let (rate, decimals) = try_join(rate, self.number(chain, "ERCDecimals()")).await?;
        Ok(ExchangeRate::Tokens { rate, decimals })
    }

    async fn booked_gas(&self, chain: Address, member: Address) -> Result<U256, BaseError> {
        let arguments = CallData::default().address(member);
        self.call(chain, "currentRefundGas(address)", arguments, |reader| {
            reader.number()
        })
        .await
    }

    /// The backups that have said that they are up to date.
    async fn ready(&self, chain: Address, backups: &[Address]) -> Result<Vec<Address>, BaseError> {
        let performances = backups.iter().take(MEMBERS_MAX).map(|backup| async move {
            let arguments = CallData::default().address(*backup);
            let function = "nodePerformance(address)";
            let performance = self.call(chain, function, arguments, |reader| reader.number());
            Ok::<_, BaseError>((performance.await? == BACKUP_PERFORMANCE).then_some(*backup))
        });
        Ok(try_join_all(performances).await?.into_iter().flatten().collect())
    }

    /// The members among `members` that have transactions in the VNODE's pool.
    async fn busy(&self, members: impl Iterator<Item = &Address>) -> Result<Vec<Address>, BaseError> {
        let nonces = members.map(|member| async move {
            let with_pool = self.source.nonce_with_pool(*member).await?;
            let at_head = self.source.contract_info(*member, &[]).await?;
            let at_head = at_head.map_or(0, |account| account.tx_nonce);
            Ok::<_, BaseError>((with_pool > at_head).then_some(*member))
        });
        Ok(try_join_all(nonces).await?.into_iter().flatten().collect())
    }

    /// The contract's answers about this SCS.
    pub(crate) async fn role(&self, chain: Address) -> Result<ContractRole, BaseError> {
        let arguments = CallData::default().address(self.id);
        let role = self.call(chain, "getSCSRole(address)", arguments, |reader| reader.small());
        Ok(ContractRole::from_number(role.await?))
    }

    async fn info(&self, chain: Address) -> Result<VnodeInfo, BaseError> {
        let info = self.call(chain, "getVnodeInfo()", CallData::default(), |reader| {
            let mut info = reader.tail()?;
            let pool = info.address()?;
            let members = info.smalls()?;
            let rewards = info.numbers()?;
            let proposal_expiration = info.small()?;
            info.address()?;
            Ok(VnodeInfo {
                pool,
                members,
                rewards,
                proposal_expiration,
                penalty_bond: info.number()?,
                status: info.small()?,
                owner: info.address()?,
                supply: info.number()?,
                redeems: info.smalls()?,
                node_list: info.addresses()?,
                joining: info.addresses()?,
            })
        });
        let info = info.await?;
        let length = |list, got: usize, expected: usize| {
            if got >= expected {
                return Ok(());
            }
            let expected = expected.to_string();
            let got = got as u64;
            Err(BaseError::Length { list, got, expected })
        };
        length("getVnodeInfo: members", info.members.len(), 2)?;
        length("getVnodeInfo: rewards", info.rewards.len(), 3)?;
        length("getVnodeInfo: redeems", info.redeems.len(), 4)?;
        Ok(info)
    }

    /// The proposal in progress (1) or the last flush (2), with its uploaded list.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub(crate) async fn proposal(&self, chain: Address, which: u64) -> Result<Proposal, BaseError> {
        let arguments = CallData::default().number(U256::from(which));
        self.call(chain, "getProposal(uint256)", arguments, |reader| {
            let mut fields = reader.tail()?;
            // A member may propose any number. One that is too large must not end the readings.
            let proposed_by = fields.address()?;
            let last_approved = fields.word()?;
            let hash = fields.word()?;
            let (start, end) = (fields.saturated()?, fields.saturated()?);
            let distribution = fields.numbers()?;
            let (flag, starting_block) = (fields.saturated()?, fields.saturated()?);
            let voters = fields.saturated_list()?;
            fields.number()?;
            Ok(Proposal {
                proposed_by,
                last_approved,
                hash,
                start,
                end,
                distribution,
                flag,
                starting_block,
                voters,
                bad_actors: fields.saturated_list()?,
                via: fields.address()?,
                redemptions_left: fields.saturated()?,
                users: fields.addresses()?,
                tokens: fields.numbers()?,
                members: fields.addresses()?,
                distribute_flag: fields.saturated()?,
                agree: fields.addresses()?,
            })
        })
        .await
    }

    async fn deposits(&self, chain: Address, from: Option<u64>) -> Result<Option<DepositList>, BaseError> {
        let Some(from) = from else {
            return Ok(None);
        };
        let function = "getEnteringAmount(address,uint256)";
        let (entries, parameters) = self.entering(chain, Address::ZERO, from).await?;
        if parameters.len() < 2 {
            return Err(BaseError::Length {
                list: function,
                got: parameters.len() as u64,
                expected: "2".to_owned(),
            });
        }
        Ok(Some(DepositList {
            from,
            entries,
            batch_max: parameters[0],
            cycle: parameters[1],
        }))
    }

    /// The deposits of `user`, or with the zero address of all, from the position `from` on, and
    /// two numbers of the contract.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub(crate) async fn entering(
        &self,
        chain: Address,
        user: Address,
        from: u64,
    ) -> Result<(Vec<Deposit>, Vec<u64>), BaseError> {
        let arguments = CallData::default().address(user).number(U256::from(from));
        self.call(chain, "getEnteringAmount(address,uint256)", arguments, |reader| {
            let (users, tokens, times) = (reader.addresses()?, reader.numbers()?, reader.smalls()?);
            let parameters = reader.smalls()?;
            let entries = users.into_iter().zip(tokens).zip(times);
            let entries = entries.map(|((of, tokens), bought)| Deposit {
                user: if of.is_zero() { user } else { of },
                tokens,
                bought,
            });
            Ok((entries.collect(), parameters))
        })
        .await
    }

    /// The payments to `user`: amounts and times, the oldest first.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub(crate) async fn redeemed(
        &self,
        chain: Address,
        user: Address,
    ) -> Result<Vec<(U256, u64)>, BaseError> {
        let arguments = CallData::default().address(user);
        self.call(chain, "getRedeemRecords(address)", arguments, |reader| {
            let mut records = reader.tail()?;
            let (amounts, times) = (records.numbers()?, records.smalls()?);
            Ok(amounts.into_iter().zip(times).collect())
        })
        .await
    }

    /// A pool of SCSs, and the bond of this SCS in it.
    pub(crate) async fn pool(&self, pool: Address) -> Result<PoolReading, BaseError> {
        let scs = || CallData::default().address(self.id);
        let contract = self.source.contract_info(pool, &[]).await?;
        let contract = contract.ok_or(BaseError::NoContract(pool))?;
        let bond = self.call(pool, "scsList(address)", scs(), |reader| {
            reader.address()?;
            reader.number()
        });
        let locked = self.call(pool, "scsApprovalList(address)", scs(), |reader| reader.number());
        let (bond, locked) = try_join(bond, locked).await?;
        Ok(PoolReading {
            code: codes::code_hash(&contract.code),
            bond,
            locked,
        })
    }

    /// The facts that tell whether the contract has changed.
    pub(crate) async fn mark(&self, chain: Address) -> Result<ContractMark, BaseError> {
        let contract = self.source.contract_info(chain, &[]).await?;
        Ok(ContractMark::of(&contract.ok_or(BaseError::NoContract(chain))?))
    }

    /// Slots that no function tells, and the contract.
    async fn slots(&self, chain: Address) -> Result<([U256; 3], ContractSummary), BaseError> {
        let wanted = [SLOT_FIRST_PLACE, SLOT_LAST_FLUSH, SLOT_REGISTRATION];
        let contract = self.source.contract_info(chain, &wanted.map(U256::from)).await?;
        let contract = contract.ok_or(BaseError::NoContract(chain))?;
        let value = |slot: u64| {
            contract
                .storage
                .get(&U256::from(slot))
                .copied()
                .unwrap_or_default()
        };
        Ok((wanted.map(value), contract))
    }
}

impl VnodeInfo {
    /// The number of members, which the list must have.
    fn count(&self, count: U256) -> Result<usize, BaseError> {
        let max = self.node_list.len().min(MEMBERS_MAX);
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= max)
            .ok_or_else(|| BaseError::Length {
                list: "nodeCount",
                got: u64::try_from(count).unwrap_or(u64::MAX),
                expected: format!("at most {max}"),
            })
    }
}

/// Whether a proposal has the votes that it needs. While it does, the next call depends on whose
/// transactions wait in the VNODE's pool.
pub(crate) const fn awaits_action(proposal: &Proposal) -> bool {
    proposal.flag == PROPOSAL_PENDING && 2 * proposal.voters.len() > proposal.members.len()
}

/// The first base block of the turn of each place (docs/microchain-contracts.md, 4.3).
fn turns(last_flush: Option<U256>, round: U256, expiration: u64, first: u64, count: u64) -> Vec<u64> {
    let Some(last_flush) = last_flush else {
        return Vec::new();
    };
    // All wraps as in the contract: `close()` may have set the last flush below zero, and the first
    // place may be beyond the members that are left.
    let begin = last_flush.wrapping_add(round);
    let turn_blocks = U256::from(expiration).wrapping_mul(U256::from(2));
    let turn = |place: u64| {
        let places = if place >= first { place } else { place + count };
        let before = U256::from(places).wrapping_sub(U256::from(first));
        let turn = begin.wrapping_add(before.wrapping_mul(turn_blocks));
        u64::try_from(turn).unwrap_or(u64::MAX)
    };
    (0..count).map(turn).collect()
}

/// The call by which an SCS joins: as a member, or as a backup.
pub(crate) fn join_call(is_backup: bool, beneficiary: Address, v: u8, r: U256, s: U256) -> Bytes {
    let signature = if is_backup {
        "registerAsBackup(address,uint8,bytes32,bytes32)"
    } else {
        "registerAsSCS(address,uint8,bytes32,bytes32)"
    };
    CallData::default()
        .address(beneficiary)
        .number(U256::from(v))
        .number(r)
        .number(s)
        .after(selector(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_each_other_from_the_first_place_on() {
        let number = U256::from::<u64>;
        let after = |last, first| turns(Some(last), number(40), 24, first, 3);
        assert_eq!(after(number(100), 0), [140, 188, 236]);
        assert_eq!(after(number(100), 2), [188, 236, 140]);
        assert!(turns(None, number(40), 24, 0, 3).is_empty());
        // `close()` in block 35 makes the first turn begin there.
        assert_eq!(after(number(35).wrapping_sub(number(40)), 0), [35, 83, 131]);
        // Members have left, and the first place is beyond the others.
        assert_eq!(turns(Some(number(100)), number(40), 24, 10, 9)[..2], [92, 140]);
        // Nothing overflows, whatever the contract says.
        assert_eq!(
            turns(Some(U256::MAX >> 1), U256::MAX >> 1, u64::MAX, 9, 2),
            [u64::MAX; 2]
        );
    }

    #[test]
    fn selectors_are_the_public_ones() {
        assert_eq!(selector("getSCSRole(address)"), [0x50, 0x85, 0x9f, 0xd9]);
        assert_eq!(selector("getVnodeInfo()"), [0x3c, 0x1f, 0x16, 0xaa]);
        assert_eq!(selector("getProposal(uint256)"), [0xc7, 0xf7, 0x58, 0xa8]);
        assert_eq!(selector("nodePerformance(address)"), [0xa9, 0x55, 0x5e, 0x6c]);
        let join = join_call(false, Address::ZERO, 27, U256::ZERO, U256::ZERO);
        assert_eq!(join[..4], [0x99, 0xd5, 0x3d, 0x43]);
        let join = join_call(true, Address::ZERO, 27, U256::ZERO, U256::ZERO);
        assert_eq!(join[..4], [0x9a, 0x91, 0x13, 0x93]);
    }
}
