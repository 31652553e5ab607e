//! Finds who took part in a block: senders, ends of calls, receivers of tokens, miners.

use std::collections::{BTreeMap, BTreeSet};

use chain::View;
use chain::trace::{FlatCalls, TraceError, TraceRequest};
use chain::view::StoredBlock;
use primitives::{Address, B256, b256};
use store::StoreError;

/// Topic 0 of `Transfer(address,address,uint256)`, which tokens of ERC-20 and ERC-721 log.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// Leading zero bytes of an address in a topic.
const TOPIC_PADDING: usize = 12;

/// The parts that an account had in a transaction, or in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(pub(crate) u8);

impl Roles {
    /// The account sent the transaction, or the transaction names it.
    pub const END: Self = Self(1);
    /// The account is one end of a call of the transaction.
    pub const CALL: Self = Self(2);
    /// The account was created as a contract.
    pub const CREATED: Self = Self(4);
    /// The account sent or received tokens.
    pub const TOKENS: Self = Self(8);
    /// The block paid the account. Such a role is of the block, not of a transaction.
    pub const PAID: Self = Self(16);

    /// These roles and those of `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of the roles of `other` is among these.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The participants of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTouches {
    /// The roles by account and index of the transaction; without an index those in the block.
    pub roles: BTreeMap<(Address, Option<u32>), Roles>,
    /// The accounts that tokens came to, each with the token's contract.
    pub tokens: BTreeSet<(Address, Address)>,
    /// The calls could not be traced within the limits, so accounts may be missing.
    pub is_partial: bool,
}

impl BlockTouches {
    fn add(&mut self, address: Address, index: Option<u32>, roles: Roles) {
        let all = self.roles.entry((address, index)).or_default();
        *all = all.or(roles);
    }
}

/// The participants of a canonical block, whose transactions are run again within `request`.
///
/// # Errors
/// [`TraceError`] if the block's state is not there or the store fails. A block whose trace is too
/// long is no error, but partial.
pub(crate) fn of_block(
    view: &View,
    block: &StoredBlock,
    request: &TraceRequest,
) -> Result<BlockTouches, TraceError> {
    let mut touches = BlockTouches::default();
    let header = &block.record.header;
    if header.number == 0 {
        return Ok(touches);
    }
    touches.add(header.beneficiary, None, Roles::PAID);
    for uncle in &block.body.uncles {
        touches.add(uncle.beneficiary, None, Roles::PAID);
    }
    let sent = block.body.transactions.iter().zip(&block.body.senders);
    for (index, (transaction, sender)) in (0..).zip(sent) {
        touches.add(*sender, Some(index), Roles::END);
        if let Some(to) = transaction.to {
            touches.add(to, Some(index), Roles::END);
        }
    }
    match view.call_trees(block, request) {
        Ok(trees) => {
            for (index, top) in &trees {
                let index = u32::try_from(*index).ok();
                for call in FlatCalls::of(top) {
                    let (from, to) = call.ends();
                    touches.add(from, index, Roles::CALL);
                    let Some(to) = to else { continue };
                    let creates = matches!(call.frame.kind, "CREATE" | "CREATE2");
                    let created = creates && call.frame.error.is_none();
                    touches.add(to, index, Roles::CALL);
                    if created {
                        touches.add(to, index, Roles::CREATED);
                    }
                }
            }
        }
        Err(TraceError::TooLarge { .. } | TraceError::Stopped(_) | TraceError::NoMemory) => {
            touches.is_partial = true;
        }
        Err(error) => return Err(error),
    }
    add_tokens(view, block, &mut touches)?;
    Ok(touches)
}

/// Adds who sent and received tokens.
fn add_tokens(view: &View, block: &StoredBlock, touches: &mut BlockTouches) -> Result<(), StoreError> {
    let id = chain::import::BlockId {
        number: block.record.header.number,
        hash: block.hash,
    };
    let receipts = view.receipts(&id)?.unwrap_or_default();
    for (index, receipt) in (0..).zip(&receipts) {
        for log in &receipt.logs {
            let [kind, from, to, ..] = log.topics.as_slice() else {
                continue;
            };
            if *kind != TRANSFER {
                continue;
            }
            for (topic, receives) in [(from, false), (to, true)] {
                let Some(address) = address_of(topic) else {
                    continue;
                };
                touches.add(address, Some(index), Roles::TOKENS);
                if receives {
                    touches.tokens.insert((address, log.address));
                }
            }
        }
    }
    Ok(())
}

/// The address in a topic. None for the zero address, which stands for "from nobody".
fn address_of(topic: &B256) -> Option<Address> {
    let (padding, address) = topic.split_at(TOPIC_PADDING);
    let address = Address::from_slice(address);
    (padding.iter().all(|byte| *byte == 0) && !address.is_zero()).then_some(address)
}
