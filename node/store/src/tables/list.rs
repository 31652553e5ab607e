//! The list of tables. To add a table, add one row here.
//!
//! The columns of a row:
//!
//! - the Rust name ([`TableId`]) and the name in the file, which must never change;
//! - `key`, `value`: their layout. A number in parentheses is a length in bytes. All numbers are
//!   big-endian, so rows are sorted by number. "(number)" stands for a length byte, followed by the
//!   number without leading zero bytes;
//! - `put_by`, `removed_by`: the methods of [`Tables`](crate::Tables) that write and remove rows.
//!   `chain::genesis` calls them for block 0, `chain::import` for every other block;
//! - `is_state`: whether the row is part of the state (accounts, storage, code, trie). The rows of
//!   all other tables describe blocks;
//! - `may_wait`: whether rows wait in memory during [`write_in_order`] until they can be written
//!   sorted by key. This saves time where the keys of one block are spread over the whole table.
//!   It gains nothing where keys rise with the block number or are written sorted anyway.
//!
//! [`write_in_order`]: crate::WriteBatch::write_in_order

use super::TableInfo;

tables! {
    /// A few single values: schema version, chain spec, genesis hash, head block, number of notice
    /// rows. Their keys are in [`meta_key`](super::meta_key).
    Meta = "meta" {
        key: "name of the value, in ASCII",
        value: "see `meta_key`",
        put_by: "put_canonical, delete_canonical, put_notices, delete_notices, put_best_header, \
                 put_open_reorganization, prune_states, begin_fetched_state, put_fetched_state, \
                 put_begun_tries, end_fetched_state, put",
        removed_by: "delete_notices, delete_best_header, delete_open_reorganization, end_fetched_state, \
                     delete_begun_tries",
        is_state: false,
        may_wait: false,
    }

    /// Number of every stored block, canonical or not.
    HashToNumber = "hash_to_number" {
        key: "block hash (32)",
        value: "block number (8)",
        put_by: "put_block",
        removed_by: "delete_blocks_above, move_to_file, delete_side_block",
        is_state: false,
        may_wait: true,
    }

    /// Headers whose bodies are not stored: bare headers. No other table of blocks has them.
    HashToBareHeader = "hash_to_bare_header" {
        key: "block hash (32)",
        value: "total difficulty (32), RLP of the header",
        put_by: "put_bare_header",
        removed_by: "delete_bare_header, put_block, delete_blocks_above, move_to_file",
        is_state: false,
        may_wait: false,
    }

    /// The stored blocks that are not canonical.
    SideBlockList = "side_block_list" {
        key: "block number (8), block hash (32)",
        value: "hash of the parent (32), total difficulty (32)",
        put_by: "put_side_block, delete_canonical",
        removed_by: "delete_side_block, put_canonical, delete_blocks_above, move_to_file",
        is_state: false,
        may_wait: false,
    }

    /// The best header chain, as far as it is not canonical: side blocks, then bare headers.
    BestNumberToHash = "best_number_to_hash" {
        key: "block number (8)",
        value: "block hash (32)",
        put_by: "put_best_hash",
        removed_by: "delete_best_hash, delete_best_header",
        is_state: false,
        may_wait: false,
    }

    /// Which blocks are canonical. No other table says it.
    NumberToHash = "number_to_hash" {
        key: "block number (8)",
        value: "block hash (32)",
        put_by: "put_canonical",
        removed_by: "delete_canonical",
        is_state: false,
        may_wait: false,
    }

    /// Header of every stored block.
    BlockToHeader = "block_to_header" {
        key: "block number (8), block hash (32)",
        value: "total difficulty (32), executed: 0 or 1 (1), RLP of the header",
        put_by: "put_block, put_header",
        removed_by: "delete_blocks_above, move_to_file, delete_side_block",
        is_state: false,
        may_wait: false,
    }

    /// Body of every stored block that is not in the blocks file, with the recovered senders of its
    /// transactions.
    BlockToBody = "block_to_body" {
        key: "block number (8), block hash (32)",
        value: "number of senders (4), senders (20 each), RLP of [transactions, uncles]",
        put_by: "put_block, delete_canonical",
        removed_by: "delete_blocks_above, move_to_file, delete_side_block",
        is_state: false,
        may_wait: false,
    }

    /// Receipts of every executed block that is not in the blocks file, canonical or not. Blooms
    /// are computed from the logs.
    BlockToReceipts = "block_to_receipts" {
        key: "block number (8), block hash (32)",
        value: "RLP of a list of [outcome, cumulative gas used, logs]; then the type if there is one; with an \
                output the type and the output",
        put_by: "put_receipts, delete_canonical",
        removed_by: "delete_blocks_above, move_to_file, delete_side_block",
        is_state: false,
        may_wait: false,
    }

    /// Old canonical blocks: where their bodies and receipts are in the blocks file. These blocks
    /// have no rows in `block_to_body` and `block_to_receipts`. The numbers begin with 0 and have
    /// no gaps.
    NumberToAncient = "number_to_ancient" {
        key: "block number (8)",
        value: "offset of the record, bytes of the body and bytes of the receipts, in LEB128",
        put_by: "move_to_file",
        removed_by: "delete_canonical",
        is_state: false,
        may_wait: false,
    }

    /// Notices to application chains. Only for canonical blocks that left at least one.
    BlockToNotices = "block_to_notices" {
        key: "block number (8), block hash (32)",
        value: "Keccak-256 of the key and the rest of the row (32), \
                RLP of a list of [transaction index, caller, input]",
        put_by: "put_notices",
        removed_by: "delete_notices",
        is_state: false,
        may_wait: true,
    }

    /// Block and index of each transaction of a canonical block. A classic transaction is also
    /// found by its Ethereum hash. Transactions whose hashes begin with the same bytes share a row.
    TransactionToPosition = "transaction_to_position" {
        key: "first bytes of the transaction hash (8)",
        value: "for each transaction block number and index in the block, in LEB128, ascending",
        put_by: "put_canonical, delete_canonical",
        removed_by: "delete_canonical",
        is_state: false,
        may_wait: true,
    }

    /// Accounts after the head block, and the newest blocks that changed each of them: the leaves
    /// of the account trie.
    Account = "account_by_hash" {
        key: "Keccak-256 of the address (32)",
        value: "newest changes and perhaps the address, as `state::history` encodes them; \
                flags (1), incarnation (number), nonce (number), balance (number), \
                storage root (32) unless empty, code hash (32) unless empty",
        put_by: "put_state, revert_state, prune_states, put_fetched_account",
        removed_by: "put_state, revert_state, put_fetched_account, clear_state",
        is_state: true,
        may_wait: true,
    }

    /// Accounts that the head state does not have, but an earlier one had.
    GoneAccount = "gone_account" {
        key: "Keccak-256 of the address (32)",
        value: "newest changes and the address, as `state::history` encodes them; \
                0 (1), incarnation (number)",
        put_by: "put_state, revert_state, prune_states",
        removed_by: "put_state, revert_state, clear_state",
        is_state: true,
        may_wait: true,
    }

    /// Storage slots that are not zero after the head block, and the newest blocks that changed
    /// each of them: the leaves of the storage tries. Those of destroyed accounts keep their rows
    /// for reads of past blocks.
    Storage = "storage_by_hash" {
        key: "Keccak-256 of the address (32), incarnation (4), Keccak-256 of the slot's number (32)",
        value: "newest changes and perhaps the slot's number, as `state::history` encodes them; \
                the value without leading zero bytes",
        put_by: "put_state, revert_state, prune_states, put_fetched_slot",
        removed_by: "put_state, revert_state, sweep_dead_storages, put_fetched_slot, clear_state",
        is_state: true,
        may_wait: true,
    }

    /// Storage slots that are zero after the head block, but were not after an earlier one.
    GoneStorage = "gone_storage" {
        key: "Keccak-256 of the address (32), incarnation (4), Keccak-256 of the slot's number (32)",
        value: "newest changes and the slot's number, as `state::history` encodes them",
        put_by: "put_state, revert_state, prune_states",
        removed_by: "put_state, revert_state, prune_states, sweep_dead_storages, clear_state",
        is_state: true,
        may_wait: true,
    }

    /// Older blocks that changed an account or a slot. The newest ones are in the row of the
    /// account or slot.
    StateHistory = "state_history_by_hash" {
        key: "0 (1) and the key of an account, or 1 (1) and the key of a slot; first block number (8)",
        value: "nothing if there is one block; otherwise in LEB128 last minus first block number, \
                then the distance of each block from the one before",
        put_by: "put_state, revert_state",
        removed_by: "revert_state, prune_states, sweep_dead_storages",
        is_state: false,
        may_wait: true,
    }

    /// The changes of each canonical block above the horizon in the state: the values before it.
    /// Past states are read from it, and a reorganization takes the block back with it.
    BlockToChanges = "block_to_changes" {
        key: "block number (8)",
        value: "accounts and slots with the values before the block, as `state::changes` encodes them, \
                compressed if that makes them shorter",
        put_by: "put_state",
        removed_by: "revert_state, prune_states, begin_fetched_state",
        is_state: false,
        may_wait: false,
    }

    /// Code of contracts. Rows are never removed, because another account may have the same code.
    HashToCode = "hash_to_code" {
        key: "Keccak-256 of the code (32)",
        value: "the code",
        put_by: "put_code",
        removed_by: "nothing",
        is_state: true,
        may_wait: true,
    }

    /// Branches and extensions of the tries of the head state. Older states have no trie. Leaves
    /// are made of the rows of accounts and slots.
    PathToTrieNode = "path_to_branch" {
        key: "0 (1) for the account trie, or 1 (1), Keccak-256 of the address (32), incarnation (4) \
              for a storage trie; then the path, one byte for each nibble",
        value: "the node, as `chain::trie` encodes it",
        put_by: "put_trie_node",
        removed_by: "put_trie_node, sweep_dead_storages, clear_state, clear_tries",
        is_state: true,
        may_wait: false,
    }

    /// Branches and extensions that recent blocks changed, as they were before each block. With
    /// them the tries of recent states can be read.
    BlockToPastNodes = "block_to_past_nodes" {
        key: "block number (8)",
        value: "paths and nodes, as `state::past_nodes` encodes them",
        put_by: "put_past_nodes",
        removed_by: "delete_past_nodes, prune_states",
        is_state: false,
        may_wait: false,
    }

    /// Storages of destroyed accounts whose rows are to be removed, some with each batch.
    DeadStorage = "dead_storage_by_hash" {
        key: "Keccak-256 of the address (32), incarnation (4)",
        value: "0: the trie nodes are to be removed; 1: also the slots and their older changes (1)",
        put_by: "note_dead_tries, prune_states",
        removed_by: "sweep_dead_storages, revive_storage",
        is_state: false,
        may_wait: false,
    }

    /// The log index: which canonical blocks have a log with this address or topic.
    LogKeyToBlocks = "log_key_to_blocks" {
        key: "log key (8), first block number (8)",
        value: "nothing if there is one block; otherwise in LEB128 last minus first block number, \
                then the distance of each block from the one before",
        put_by: "put_canonical",
        removed_by: "delete_canonical",
        is_state: false,
        may_wait: true,
    }
}
