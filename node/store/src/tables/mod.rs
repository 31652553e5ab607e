//! The tables of the database: what is declared once, in [`list`], and what follows from it.
//!
//! Everything that treats tables alike reads the list: [`TableId`], creating and opening tables,
//! `vnode db stats`, the choice of rows that wait in memory and the choice of rows that are
//! state. How keys and values are encoded is in [`crate::blocks`],
//! [`crate::headers`], [`crate::state`], [`crate::notices`] and [`crate::log_index`].

use redb::TableDefinition;

/// The version of the table layout. It rises with every change that older code could misread.
/// A file with another version is refused.
pub const SCHEMA_VERSION: u32 = 5;

/// Type of every key and value: a byte string.
pub(crate) type ByteSlice = &'static [u8];

/// The one table that is not in the list, with one row: id of the database and sequence of the last
/// batch. Every batch writes it, so it tells which records of the write-ahead log a database has.
pub(crate) const LOG_POSITION: TableDefinition<'static, (), (u64, u64)> =
    TableDefinition::new("write_ahead_log");

/// One row of the list of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The table.
    pub id: TableId,
    /// Its name in the file.
    pub name: &'static str,
    /// Layout of a key. A number in parentheses is a length in bytes.
    pub key: &'static str,
    /// Layout of a value.
    pub value: &'static str,
    /// Methods of [`Tables`](crate::Tables) that write rows.
    pub put_by: &'static str,
    /// Methods of [`Tables`](crate::Tables) that remove rows.
    pub removed_by: &'static str,
    /// Whether the table holds state: accounts, storage, code or trie nodes.
    pub is_state: bool,
    /// Whether rows may wait in memory during a long write.
    pub may_wait: bool,
}

/// Turns the list of tables into [`TableId`] and its constants.
macro_rules! tables {
    ($(
        $(#[$about:meta])*
        $id:ident = $name:literal {
            key: $key:literal,
            value: $value:literal,
            put_by: $put_by:literal,
            removed_by: $removed_by:literal,
            is_state: $is_state:literal,
            may_wait: $may_wait:literal,
        }
    )+) => {
        /// A table of the database. `table as usize` is its place in [`TableId::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum TableId {
            $(
                $(#[$about])*
                ///
                #[doc = concat!("- Key: ", $key, ".")]
                #[doc = concat!("- Value: ", $value, ".")]
                #[doc = concat!("- Written by: ", $put_by, ". Removed by: ", $removed_by, ".")]
                $id,
            )+
        }

        impl TableId {
            /// Every table, in the order of the list.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$id),+];

            /// The row of the list that declares this table.
            pub const fn info(self) -> &'static TableInfo {
                match self {
                    $(
                        Self::$id => &TableInfo {
                            id: Self::$id,
                            name: $name,
                            key: $key,
                            value: $value,
                            put_by: $put_by,
                            removed_by: $removed_by,
                            is_state: $is_state,
                            may_wait: $may_wait,
                        },
                    )+
                }
            }
        }
    };
}

// After the macro, which it uses.
mod list;

pub use list::TableId;

/// The number of tables.
pub(crate) const TABLE_COUNT: usize = TableId::ALL.len();

impl TableId {
    /// The table's name in the file.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether the table holds state: accounts, storage, code or trie nodes.
    pub const fn is_state(self) -> bool {
        self.info().is_state
    }

    /// The table's definition for redb.
    pub(crate) const fn definition(self) -> TableDefinition<'static, ByteSlice, ByteSlice> {
        TableDefinition::new(self.name())
    }
}

/// Keys of the table [`TableId::Meta`].
pub mod meta_key {
    /// [`SCHEMA_VERSION`](crate::SCHEMA_VERSION) of the code that made the file: 4 bytes,
    /// big-endian. [`Store`](crate::Store) writes it when it makes the file.
    pub const SCHEMA: &[u8] = b"schema_version";
    /// Hash of block 0. `chain::genesis` writes it.
    pub const GENESIS: &[u8] = b"genesis_hash";
    /// Number (8) and hash (32) of the head block. Written with every new head.
    pub const HEAD: &[u8] = b"head";
    /// Number (8) and hash (32) of the best header. Absent if the best header is the head.
    pub const BEST_HEADER: &[u8] = b"best_header";
    /// Number (8) and hash (32) of the block that is to become the head, then of the old head.
    /// Present between the transactions of a reorganization in parts.
    pub const REORGANIZATION: &[u8] = b"reorganization";
    /// The chain spec that the data directory was made with, as JSON. `chain::genesis` writes it,
    /// and `vnode` where an older directory lacks it.
    pub const SPEC: &[u8] = b"chain_spec";
    /// Empty. Present since blocks were taken without a check of their seals. `vnode` writes it.
    pub const SEALS_UNCHECKED: &[u8] = b"seals_unchecked";
    /// The oldest block whose state is kept (8), the lowest block with a list of changes (8), how
    /// much of that list was looked at (8). Absent while all states are kept. `prune_states` writes
    /// it.
    pub(crate) const STATE_HORIZON: &[u8] = b"state_horizon";
    /// The stage of the state that is being fetched (1: 0, 1 or 2), then the progress of whoever
    /// fetches it. Present until all of it is here.
    pub(crate) const FETCHED_STATE: &[u8] = b"fetched_state";
    /// The place from where the build of all tries goes on, as RLP: those of a state that is being
    /// fetched (stage 1), or of a rewritten file. Present from the first commit of a build on.
    pub const BEGUN_TRIES: &[u8] = b"fetched_tries";
    /// The block whose state was fetched (8). Addresses and numbers of slots are known only of what
    /// later blocks have changed. Absent where all blocks were executed.
    pub(crate) const FETCHED_BLOCK: &[u8] = b"fetched_block";
    /// The block at which the chain begins here (8): of lower ones only block 0 and a few others
    /// are stored. Absent where all blocks are.
    pub(crate) const FIRST_BLOCK: &[u8] = b"first_block";
    /// Present while a rewritten file has no tries yet. [`Store::upgrade`](crate::Store::upgrade)
    /// writes it.
    pub(crate) const WITHOUT_TRIES: &[u8] = b"without_tries";
    /// Number of rows in [`TableId::BlockToNotices`](crate::TableId::BlockToNotices): 8 bytes,
    /// big-endian. Absent while there are none.
    pub(crate) const NOTICE_ROWS: &[u8] = b"notice_rows";
    /// The facts that the server of an application chain must not forget as a member. `microchain`
    /// writes them.
    pub const MEMBER: &[u8] = b"member";
}

#[cfg(test)]
mod tests {
    use primitives::{Address, B256};

    use super::*;
    use crate::LogKey;
    use crate::blocks::POSITION_KEY_BYTES;
    use crate::codec::block_key;
    use crate::log_index::row_key;
    use crate::state::{AccountKey, StateKind};

    #[test]
    fn ids_follow_the_list_and_names_differ() {
        for (index, table) in TableId::ALL.iter().enumerate() {
            assert_eq!(*table as usize, index);
            assert_eq!(table.info().id, *table);
            let same_name = TableId::ALL.iter().filter(|other| other.name() == table.name());
            assert_eq!(same_name.count(), 1);
        }
    }

    #[test]
    fn names_in_the_file_do_not_change() {
        assert_eq!(redb::TableHandle::name(&LOG_POSITION), "write_ahead_log");
        let names = TableId::ALL.map(TableId::name);
        let expected = [
            "meta",
            "hash_to_number",
            "hash_to_bare_header",
            "side_block_list",
            "best_number_to_hash",
            "number_to_hash",
            "block_to_header",
            "block_to_body",
            "block_to_receipts",
            "number_to_ancient",
            "block_to_notices",
            "transaction_to_position",
            "account_by_hash",
            "gone_account",
            "storage_by_hash",
            "gone_storage",
            "state_history_by_hash",
            "block_to_changes",
            "hash_to_code",
            "path_to_branch",
            "block_to_past_nodes",
            "dead_storage_by_hash",
            "log_key_to_blocks",
        ];
        assert_eq!(names, expected);
    }

    /// The sum of the lengths that the list gives for a key of `table`.
    fn declared_key_bytes(table: TableId) -> usize {
        let lengths = table.info().key.split('(').skip(1);
        lengths
            .map(|length| length.split_once(')').expect("closed").0)
            .map(|length| length.parse::<usize>().expect("a number"))
            .sum()
    }

    #[test]
    fn keys_have_the_declared_length() {
        use TableId::*;
        let (address, hash) = (Address::ZERO, B256::ZERO);
        let block = block_key(0, &hash).len();
        let check = |table, got| assert_eq!(got, declared_key_bytes(table), "{table:?}");
        check(HashToNumber, hash.len());
        check(HashToBareHeader, hash.len());
        check(NumberToHash, size_of::<u64>());
        check(BestNumberToHash, size_of::<u64>());
        for table in [
            SideBlockList,
            BlockToHeader,
            BlockToBody,
            BlockToReceipts,
            BlockToNotices,
        ] {
            check(table, block);
        }
        check(NumberToAncient, size_of::<u64>());
        check(TransactionToPosition, POSITION_KEY_BYTES);
        let owner = AccountKey::of(&address).storage(0);
        for table in StateKind::Account.tables() {
            check(table, owner.account.0.len());
        }
        for table in StateKind::Slot.tables() {
            check(table, owner.slot(hash).to_bytes().len());
        }
        check(BlockToChanges, size_of::<u64>());
        check(BlockToPastNodes, size_of::<u64>());
        check(HashToCode, hash.len());
        check(DeadStorage, owner.to_bytes().len());
        check(LogKeyToBlocks, row_key(&LogKey::any(), 0).len());
    }

    #[test]
    fn state_is_what_executing_a_block_reads() {
        let state = TableId::ALL.into_iter().filter(|table| table.is_state());
        let expected = [
            TableId::Account,
            TableId::GoneAccount,
            TableId::Storage,
            TableId::GoneStorage,
            TableId::HashToCode,
            TableId::PathToTrieNode,
        ];
        assert!(state.eq(expected));
    }
}
