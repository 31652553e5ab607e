//! The state of a chain base that an SCS reads, and the calls that it makes there
//! (docs/microchain-contracts.md, 4).
//!
//! [`ContractState`] is everything that the engine needs to know of the base chain, as it is after
//! one base block. [`BaseCall`] is a call that the engine asks for, with its calldata. Knows no
//! transport: who reads and who sends is the program around the engine.

use primitives::{Address, B256, Bytes, U256, keccak256};

use crate::abi::CallData;
use crate::branch::BaseBranch;

/// The most members of a MicroChain that the engine takes.
pub const MEMBERS_MAX: usize = 100;
/// `flag` of a proposal that is not decided.
pub const PROPOSAL_PENDING: u64 = 1;
/// `flag` of a proposal that is a flush.
pub(crate) const PROPOSAL_APPROVED: u64 = 3;

/// The role of an SCS in a MicroChain: the answer of `getSCSRole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ContractRole {
    /// 0, or a number that is unknown.
    #[default]
    None,
    /// 1: it takes part in consensus.
    Member,
    /// 2: it follows the chain.
    Monitor,
    /// 3: it follows the chain and joins at a flush.
    Backup,
    /// 4: it may register.
    Selectable,
}

impl ContractRole {
    /// The role with this number.
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Member,
            2 => Self::Monitor,
            3 => Self::Backup,
            4 => Self::Selectable,
            _ => Self::None,
        }
    }
}

/// `subchainstatus` of a chain base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ContractStatus {
    /// 0.
    #[default]
    Open,
    /// 1: it closes at the next flush.
    Closing,
    /// 2: the chain has ended.
    Closed,
}

/// The rewards of a chain base, in sha.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rewards {
    /// For each block.
    pub block: U256,
    /// For each transaction.
    pub transaction: U256,
    /// For the via, at each flush.
    pub via: U256,
}

/// A proposal, as `getProposal` answers it. All values zero if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The member that proposed.
    pub proposed_by: Address,
    /// The hash of the flush before.
    pub last_approved: B256,
    /// The hash that the proposal commits to; zero if there is no proposal.
    pub hash: B256,
    /// First block.
    pub start: u64,
    /// Last block.
    pub end: u64,
    /// The reward of each member, in sha.
    pub distribution: Vec<U256>,
    /// 0 none, 1 pending, 3 approved, 5 expired.
    pub flag: u64,
    /// The base block at which the proposer's turn began.
    pub starting_block: u64,
    /// Places of the members that voted, the proposer first.
    pub voters: Vec<u64>,
    /// Places of members that are reported.
    pub bad_actors: Vec<u64>,
    /// The address that gets the via reward.
    pub via: Address,
    /// Redemptions that are announced and not paid.
    pub redemptions_left: u64,
    /// The users that are paid out.
    pub users: Vec<Address>,
    /// Tokens of each.
    pub tokens: Vec<U256>,
    /// The members when it was proposed.
    pub members: Vec<Address>,
    /// 0 before the action, 1 after `requestProposalAction`, 2 when the rewards are paid.
    pub distribute_flag: u64,
    /// Members that agree to the redemptions.
    pub agree: Vec<Address>,
}

impl Proposal {
    /// Whether there is a proposal at all.
    pub fn exists(&self) -> bool {
        !self.hash.is_zero()
    }
}

/// A deposit that a user has bought on the base chain: an entry of `getEnteringAmount(0, from)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// The user who gets the tokens.
    pub user: Address,
    /// The amount of tokens.
    pub tokens: U256,
    /// The time of the base block in which it was bought, in unix seconds.
    pub bought: u64,
}

/// The deposits from a position on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DepositList {
    /// The position of the first entry.
    /// [`MemberEngine::deposits_from`](crate::MemberEngine::deposits_from) says from where the
    /// engine wants them.
    pub from: u64,
    /// All deposits from there on, oldest first.
    pub entries: Vec<Deposit>,
    /// The most deposits that one `postFlush` may have: `per_recharge_num`, 250.
    pub batch_max: u64,
    /// Every how many blocks deposits are credited: `recharge_cycle`, 6.
    pub cycle: u64,
}

/// A chain base as it is after one block of the base chain. All reads are of the same block, as far
/// as the VNODE allows; the engine does no harm if they are not.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContractState {
    /// Number of the base block.
    pub base_block: u64,
    /// Gas limit of the base block, or a guess if `branch` is `None`. The engine makes no call that
    /// needs more than three quarters.
    pub base_gas_limit: u64,
    /// The branch of the base chain; `None` if the VNODE does not tell it.
    pub branch: Option<BaseBranch>,
    /// Gas price for calls, in sha. The engine proposes only if the money covers it.
    pub gas_price: U256,
    /// The role of this SCS.
    pub role: ContractRole,
    /// Open, closing or closed.
    pub status: ContractStatus,
    /// `getVnodeInfo`: `members[0]`.
    pub members_min: u64,
    /// `nodeList`, cut to `nodeCount`.
    pub members: Vec<Address>,
    /// `nodesToJoin`.
    pub joining: Vec<Address>,
    /// The SCSs of `joining` that are up to date: the next action makes them members.
    pub ready: Vec<Address>,
    /// Storage slot 0x15: 0 nobody may register, 1 members, 2 backups.
    pub registration: u64,
    /// Storage slot 0x0d: the base block of the last flush; `None` for 2^256 − 1.
    pub last_flush: Option<u64>,
    /// The number of members that have asked for release: `nodeToReleaseCount`. 0 if it is not
    /// read.
    pub releasing: u64,
    /// Rewards of `getVnodeInfo`.
    pub rewards: Rewards,
    /// `proposalExpiration`, 24: half of the length of a turn in base blocks.
    pub proposal_expiration: u64,
    /// `getEstFlushBlock` of each place below `nodeCount`.
    pub turns: Vec<u64>,
    /// `getVnodeInfo`: `redeems[0]`, `dappRedeemPos`.
    pub redeem_position: u64,
    /// `redeems[1]`: entries of one upload, 160.
    pub upload_max: u64,
    /// `redeems[2]`: entries of one payout, 130 or 110.
    pub payout_max: u64,
    /// `redeems[3]`: entries of one flush, 500.
    pub redemptions_max: u64,
    /// `getProposal(1)`: in progress, maybe expired.
    pub current: Proposal,
    /// `getProposal(2)`: the last flush.
    pub approved: Proposal,
    /// `totalOperation`, in sha.
    pub total_operation: U256,
    /// `contractNeedFund`, in sha.
    pub need_fund: U256,
    /// The sum of `currentRefundGas` of all members, in sha.
    pub booked_gas: U256,
    /// Deposits from the wanted position on; `None` if no position was wanted.
    pub deposits: Option<DepositList>,
    /// The address that the VNODE named in the handshake; it gets the via reward.
    pub via: Address,
    /// Members with transactions that wait in the VNODE's pool. Read before `current`, and only
    /// while a proposal with enough votes is in progress; otherwise empty.
    pub busy: Vec<Address>,
}

impl ContractState {
    /// Whether the MicroChain has started (docs/microchain-contracts.md, 4.1).
    pub(crate) const fn has_started(&self) -> bool {
        let members = self.members.len() as u64;
        self.registration != 1 && members >= 1 && members >= self.members_min && self.last_flush.is_some()
    }

    /// The place of a member.
    pub fn place_of(&self, member: &Address) -> Option<u64> {
        let place = self.members.iter().position(|one| one == member)?;
        Some(place as u64)
    }

    /// The begin of a place's turn, if the base block `block` is in it.
    pub fn turn_at(&self, place: u64, block: u64) -> Option<u64> {
        let turn = *self.turns.get(usize::try_from(place).ok()?)?;
        let end = turn.saturating_add(self.turn_blocks());
        (turn..end).contains(&block).then_some(turn)
    }

    /// The base blocks of a turn.
    pub(crate) const fn turn_blocks(&self) -> u64 {
        self.proposal_expiration.saturating_mul(2)
    }

    /// The base blocks that it takes to act on a proposal, to pay its redemptions and to end it.
    pub(crate) fn action_blocks(&self, redemptions: u64) -> u64 {
        if redemptions == 0 {
            return CALL_BLOCKS;
        }
        let payouts = redemptions.div_ceil(self.payout_max.max(1));
        CALL_BLOCKS.saturating_mul(payouts.saturating_add(2))
    }

    /// The last base block in which the proposal in progress can be finished; `None` if there is
    /// none, or if it is decided.
    pub(crate) fn proposal_deadline(&self) -> Option<u64> {
        let pending = self.current.exists() && self.current.flag == PROPOSAL_PENDING;
        pending.then(|| self.current.starting_block.saturating_add(self.turn_blocks()))
    }

    /// The proposal in progress, if some of its redemptions are paid. They stay paid if it expires,
    /// so the chain must go on having them.
    pub(crate) fn half_paid(&self) -> Option<&Proposal> {
        let left = self.current.redemptions_left;
        let is_paid = self.current.distribute_flag == 1 && left < self.current.users.len() as u64;
        is_paid.then_some(&self.current)
    }

    /// The proposal in progress, if it can still be finished in the next base block.
    pub(crate) fn open_proposal(&self) -> Option<&Proposal> {
        let deadline = self.proposal_deadline()?;
        (self.base_block < deadline).then_some(&self.current)
    }
}

/// A call of the chain base that the engine asks for. The transaction is signed with the key of the
/// SCS and carries no value.
///
/// The engine asks again for a call that is not done after [`RETRY_BLOCKS`] base blocks. If the
/// transaction of an equal call is still not in a block then, it is to be replaced: the same nonce,
/// a price that is 10% higher. If it failed, a new one is to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BaseCall {
    /// `createProposal`.
    CreateProposal {
        /// The place of this SCS.
        place: u64,
        /// Hash of the last flush.
        last_approved: B256,
        /// Hash of the proposal.
        hash: B256,
        /// Hash of the last block. The chain base compares a bound proposal with its hash.
        block: B256,
        /// First block.
        start: u64,
        /// Last block.
        end: u64,
        /// Reward of each member, in sha.
        distribution: Vec<U256>,
        /// Places of reported members.
        bad_actors: Vec<u64>,
        /// The address that gets the via reward.
        via: Address,
        /// The number of redemptions that will be uploaded.
        redemptions: u64,
    },
    /// `UploadRedeemData`.
    UploadRedemptions {
        /// The users that are paid out.
        users: Vec<Address>,
        /// Tokens of each.
        tokens: Vec<U256>,
    },
    /// `voteOnProposal`.
    Vote {
        /// The place of this SCS.
        place: u64,
        /// The proposal.
        hash: B256,
        /// Whether it agrees to the redemptions.
        redeem: bool,
    },
    /// `requestProposalAction`.
    Act {
        /// The place of this SCS.
        place: u64,
        /// The proposal.
        hash: B256,
    },
    /// `requestEnterAndRedeemAction`.
    Redeem {
        /// The proposal.
        hash: B256,
        /// Redemptions that are left before the call; it tells one call from the next.
        left: u64,
    },
    /// `BackupUpToDate`.
    BackupUpToDate {
        /// The place in `nodesToJoin`.
        place: u64,
    },
}

/// After this many base blocks a call that has had no effect is asked for again, or the next member
/// does it.
pub const RETRY_BLOCKS: u64 = 6;

/// Base blocks for a call that depends on the one before: one until its effect is read, one until
/// the next call is in a block.
pub(crate) const CALL_BLOCKS: u64 = 2;

impl BaseCall {
    /// The calldata.
    pub fn data(&self) -> Bytes {
        let (signature, data) = match self {
            Self::CreateProposal {
                place,
                last_approved,
                hash,
                block,
                start,
                end,
                distribution,
                bad_actors,
                via,
                redemptions,
            } => (
                "createProposal(uint256,bytes32[],uint256[],uint256[],uint256[],address,uint256)",
                CallData::default()
                    .small(*place)
                    .words([*last_approved, *hash, *block])
                    .numbers([*start, *end].map(U256::from))
                    .numbers(distribution.iter().copied())
                    .numbers(bad_actors.iter().map(|place| U256::from(*place)))
                    .address(*via)
                    .small(*redemptions),
            ),
            Self::UploadRedemptions { users, tokens } => (
                "UploadRedeemData(address[],uint256[])",
                CallData::default()
                    .addresses(users.iter().copied())
                    .numbers(tokens.iter().copied()),
            ),
            Self::Vote { place, hash, redeem } => (
                "voteOnProposal(uint256,bytes32,bool)",
                CallData::default()
                    .small(*place)
                    .word(*hash)
                    .small(u64::from(*redeem)),
            ),
            Self::Act { place, hash } => (
                "requestProposalAction(uint256,bytes32)",
                CallData::default().small(*place).word(*hash),
            ),
            Self::Redeem { hash, .. } => (
                "requestEnterAndRedeemAction(bytes32)",
                CallData::default().word(*hash),
            ),
            Self::BackupUpToDate { place } => ("BackupUpToDate(uint256)", CallData::default().small(*place)),
        };
        let hash = keccak256(signature);
        data.after([hash[0], hash[1], hash[2], hash[3]])
    }
}
