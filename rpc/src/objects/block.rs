//! The block object, also for uncles and for the pending block, and the header object. Source:
//! docs/interface.md, 2.2.

use primitives::{Address, B256, Block, Bloom, Header, U256};
use serde::{Serialize, Serializer};

use super::transaction::shown_hash;
use super::{TransactionObject, TransactionPlace};
use crate::modules::NameStyle;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A block as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockObject<'a> {
    number: Option<Quantity>,
    hash: Option<Data<B256>>,
    parent_hash: Data<B256>,
    nonce: Option<Data<[u8; 8]>>,
    mix_hash: Data<B256>,
    #[serde(rename = "sha3Uncles")]
    uncles_hash: Data<B256>,
    logs_bloom: Option<Data<&'a Bloom>>,
    transactions_root: Data<B256>,
    state_root: Data<B256>,
    receipts_root: Data<B256>,
    miner: Data<Address>,
    difficulty: Quantity<U256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_difficulty: Option<Quantity<U256>>,
    extra_data: Data<&'a [u8]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Quantity<usize>>,
    gas_limit: Quantity,
    gas_used: Quantity,
    timestamp: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<BlockTransactions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncles: Option<Vec<Data<B256>>>,
}

/// The facts that a block object needs in addition to the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFacts {
    /// The block's hash. `None` for the pending block.
    pub hash: Option<B256>,
    /// The total difficulty of the chain up to and with this block.
    pub total_difficulty: U256,
    /// Whether the number is shown even for the pending block, whose number is null in the
    /// interface (`--rpc.pendingnumber`).
    pub numbered: bool,
}

impl Described for BlockObject<'_> {
    const TYPE: WireType = WireType::Named("Block");
}

impl<'a> BlockObject<'a> {
    /// Shows `block`. `senders` are the senders of its transactions, in order. The transactions are
    /// shown as objects if `full`, and as hashes otherwise. An uncle is shown as a block without
    /// transactions and uncles.
    pub(crate) fn new(
        block: &'a Block,
        senders: &'a [Address],
        facts: BlockFacts,
        full: bool,
        name_style: NameStyle,
    ) -> Self {
        let hash = facts.hash;
        Self {
            size: Some(Quantity(block.size())),
            transactions: Some(BlockTransactions {
                block,
                senders,
                hashes: None,
                hash,
                full,
                name_style,
            }),
            uncles: Some(block.uncles.iter().map(|uncle| Data(uncle.hash())).collect()),
            ..Self::header(&block.header, facts)
        }
    }

    /// The same block with hashes of its transactions that are known already. They must fit the
    /// name style.
    pub(crate) const fn hashed(mut self, hashes: &'a [B256]) -> Self {
        if let Some(transactions) = &mut self.transactions {
            transactions.hashes = Some(hashes);
        }
        self
    }

    /// The members of a header alone.
    fn header(header: &'a Header, facts: BlockFacts) -> Self {
        let BlockFacts {
            hash,
            total_difficulty,
            numbered,
        } = facts;
        Self {
            number: (hash.is_some() || numbered).then_some(Quantity(header.number)),
            hash: hash.map(Data),
            parent_hash: Data(header.parent_hash),
            nonce: hash.map(|_| Data(header.pow_nonce.to_be_bytes())),
            mix_hash: Data(header.mix_hash),
            uncles_hash: Data(header.uncles_hash),
            logs_bloom: hash.map(|_| Data(&header.logs_bloom)),
            transactions_root: Data(header.transactions_root),
            state_root: Data(header.state_root),
            receipts_root: Data(header.receipts_root),
            miner: Data(header.beneficiary),
            difficulty: Quantity(header.difficulty),
            total_difficulty: Some(Quantity(total_difficulty)),
            extra_data: Data(&header.extra_data),
            size: None,
            gas_limit: Quantity(header.gas_limit),
            gas_used: Quantity(header.gas_used),
            timestamp: Quantity(header.timestamp),
            transactions: None,
            uncles: None,
        }
    }

    /// Shows a new head for subscriptions: a header without total difficulty.
    pub(crate) fn new_head(header: &'a Header, hash: B256) -> Self {
        let facts = BlockFacts {
            hash: Some(hash),
            total_difficulty: U256::ZERO,
            numbered: true,
        };
        Self {
            total_difficulty: None,
            ..Self::header(header, facts)
        }
    }
}

/// A header as JSON: a block object without size, transactions and uncles.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct HeaderObject<'a>(BlockObject<'a>);

impl<'a> HeaderObject<'a> {
    /// Shows `header`.
    pub(crate) fn new(header: &'a Header, facts: BlockFacts) -> Self {
        Self(BlockObject::header(header, facts))
    }
}

impl Described for HeaderObject<'_> {
    const TYPE: WireType = WireType::Named("Header");
}

/// The transactions of a block. They are written one by one.
#[derive(Clone, Debug)]
struct BlockTransactions<'a> {
    block: &'a Block,
    senders: &'a [Address],
    /// The hashes of the transactions in the name style, if they are known already.
    hashes: Option<&'a [B256]>,
    hash: Option<B256>,
    full: bool,
    name_style: NameStyle,
}

impl Serialize for BlockTransactions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let transactions = &self.block.transactions;
        let hash = |index: usize, transaction| match self.hashes {
            Some(hashes) if index < hashes.len() => hashes[index],
            _ => shown_hash(transaction, self.name_style),
        };
        if !self.full {
            let hashes = transactions.iter().enumerate();
            return serializer.collect_seq(hashes.map(|(index, transaction)| Data(hash(index, transaction))));
        }
        let place = |index| {
            self.hash.map(|block_hash| TransactionPlace {
                block_hash,
                block_number: self.block.header.number,
                index,
            })
        };
        let objects = transactions.iter().zip(self.senders).enumerate();
        serializer.collect_seq(objects.map(|(index, (transaction, sender))| {
            let hash = hash(index, transaction);
            TransactionObject::hashed(transaction, hash, *sender, place(index), self.name_style)
        }))
    }
}
