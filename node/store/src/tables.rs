//! All redb tables of the node, each with its key order, its value and who writes it.
//!
//! Keys and values are byte strings; numbers in keys are big-endian, so keys sort by
//! number. What the bytes mean is in [`crate::blocks`], [`crate::state`], [`crate::notices`] and
//! [`crate::log_index`]; this file knows names and layouts alone.

use redb::TableDefinition;

/// The layout of the tables. Raised with every change that older code could misread;
/// a file with another number is refused.
pub const SCHEMA_VERSION: u32 = 2;

type Bytes = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Names of a few single values -> the value. Written by `init` and `import`.
const META: Bytes = TableDefinition::new("meta");
/// Block hash (32) -> block number (8). Every stored block, canonical or not. Written by `import`.
const HASH_TO_NUMBER: Bytes = TableDefinition::new("hash_to_number");
/// Block number (8) -> canonical block hash (32). Written by `import` and by reorganizations.
const NUMBER_TO_HASH: Bytes = TableDefinition::new("number_to_hash");
/// Block number (8), hash (32) -> total difficulty, executed flag, header. Written by `import`.
const BLOCK_TO_HEADER: Bytes = TableDefinition::new("block_to_header");
/// Block number (8), hash (32) -> senders, transactions, uncles. Written by `import`.
const BLOCK_TO_BODY: Bytes = TableDefinition::new("block_to_body");
/// Block number (8), hash (32) -> receipts without blooms. Only executed blocks. Written by `import`.
const BLOCK_TO_RECEIPTS: Bytes = TableDefinition::new("block_to_receipts");
/// Block number (8), hash (32) -> hash of key and rest, the notices of the block's transactions.
/// Only canonical blocks that left any. Written by `import` and by reorganizations.
const BLOCK_TO_NOTICES: Bytes = TableDefinition::new("block_to_notices");
/// Transaction hash (32) -> block number (8), index (4), canonical blocks only. A classic
/// transaction has a second row under its Ethereum hash. Written by `import` and by reorganizations.
const TRANSACTION_TO_POSITION: Bytes = TableDefinition::new("transaction_to_position");
/// Address (20), block number (8) -> the account as that block left it. Written by `import`.
const ACCOUNT_AT_BLOCK: Bytes = TableDefinition::new("account_at_block");
/// Address (20), incarnation (4), slot (32), block number (8) -> value as that block left it.
const STORAGE_AT_BLOCK: Bytes = TableDefinition::new("storage_at_block");
/// Block number (8) -> accounts and slots the canonical block changed. Drives reorganizations.
const BLOCK_TO_CHANGES: Bytes = TableDefinition::new("block_to_changes");
/// Code hash (32) -> code. Never removed. Written by `import`.
const HASH_TO_CODE: Bytes = TableDefinition::new("hash_to_code");
/// Trie of the head state: owner prefix, nibble path -> node. Written by `import`.
const PATH_TO_TRIE_NODE: Bytes = TableDefinition::new("path_to_trie_node");
/// Log key (8), first block number (8) -> numbers of canonical blocks whose logs have the key's
/// address or topic. Written by `import` and by reorganizations.
const LOG_KEY_TO_BLOCKS: Bytes = TableDefinition::new("log_key_to_blocks");

/// The tables, for code that treats them alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "each is documented at its definition above")]
pub enum TableId {
    Meta,
    HashToNumber,
    NumberToHash,
    BlockToHeader,
    BlockToBody,
    BlockToReceipts,
    BlockToNotices,
    TransactionToPosition,
    AccountAtBlock,
    StorageAtBlock,
    BlockToChanges,
    HashToCode,
    PathToTrieNode,
    LogKeyToBlocks,
}

/// How many tables there are.
pub(crate) const TABLE_COUNT: usize = 14;

impl TableId {
    /// Every table, in the order of the enum.
    pub const ALL: [Self; TABLE_COUNT] = [
        Self::Meta,
        Self::HashToNumber,
        Self::NumberToHash,
        Self::BlockToHeader,
        Self::BlockToBody,
        Self::BlockToReceipts,
        Self::BlockToNotices,
        Self::TransactionToPosition,
        Self::AccountAtBlock,
        Self::StorageAtBlock,
        Self::BlockToChanges,
        Self::HashToCode,
        Self::PathToTrieNode,
        Self::LogKeyToBlocks,
    ];

    /// The table's name in the file.
    pub fn name(self) -> &'static str {
        use redb::TableHandle;
        match self {
            Self::Meta => META.name(),
            Self::HashToNumber => HASH_TO_NUMBER.name(),
            Self::NumberToHash => NUMBER_TO_HASH.name(),
            Self::BlockToHeader => BLOCK_TO_HEADER.name(),
            Self::BlockToBody => BLOCK_TO_BODY.name(),
            Self::BlockToReceipts => BLOCK_TO_RECEIPTS.name(),
            Self::BlockToNotices => BLOCK_TO_NOTICES.name(),
            Self::TransactionToPosition => TRANSACTION_TO_POSITION.name(),
            Self::AccountAtBlock => ACCOUNT_AT_BLOCK.name(),
            Self::StorageAtBlock => STORAGE_AT_BLOCK.name(),
            Self::BlockToChanges => BLOCK_TO_CHANGES.name(),
            Self::HashToCode => HASH_TO_CODE.name(),
            Self::PathToTrieNode => PATH_TO_TRIE_NODE.name(),
            Self::LogKeyToBlocks => LOG_KEY_TO_BLOCKS.name(),
        }
    }

    /// The table's definition for redb.
    pub(crate) fn definition(self) -> Bytes {
        TableDefinition::new(self.name())
    }
}

/// Keys of the table `meta`.
pub mod meta_key {
    /// `SCHEMA_VERSION` of the code that made the file, 4 bytes big-endian.
    pub const SCHEMA: &[u8] = b"schema_version";
    /// Hash of block 0.
    pub const GENESIS: &[u8] = b"genesis_hash";
    /// Head block: number (8), hash (32).
    pub const HEAD: &[u8] = b"head";
    /// The chain spec the directory was initialised with, as JSON.
    pub const SPEC: &[u8] = b"chain_spec";
    /// How many rows the table of notices has, 8 bytes big-endian; not there while it has none.
    pub const NOTICE_ROWS: &[u8] = b"notice_rows";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_enum_and_names_differ() {
        for (index, table) in TableId::ALL.iter().enumerate() {
            assert_eq!(*table as usize, index);
            assert_eq!(
                TableId::ALL
                    .iter()
                    .filter(|other| other.name() == table.name())
                    .count(),
                1
            );
        }
    }
}
