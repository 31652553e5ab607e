//! The store: a database file that holds blocks, receipts, state and indexes, its write-ahead log,
//! and a file with old blocks.
//!
//! # Tables
//!
//! [`TableId`] lists every table with its key, its value and the methods that write it. It is
//! generated from the file `tables/list.rs`, where each table is one row. Three groups:
//!
//! - blocks, canonical or not: headers, bodies, receipts, and block numbers by hash;
//! - canonical blocks only: hashes by number, positions of transactions, the log index, notices,
//!   and what each block changed in the state;
//! - the state after the head block: accounts, storage slots, code and the trie.
//!
//! # A block is one commit
//!
//! [`Store::batch`] starts the one write transaction that can be open at a time. Importing a block
//! writes everything about it through the [`Tables`] of that [`WriteBatch`]: header, body,
//! receipts, state, trie nodes, indexes and the new head. [`WriteBatch::commit`] makes all
//! of it durable and visible at once. A batch that is dropped or aborted leaves no trace. After a
//! failed commit the next snapshot shows whether the batch is stored. An import of many blocks puts
//! whole blocks into one batch.
//!
//! A commit appends the batch's row changes to the write-ahead log (module `wal`) as one record,
//! and syncs it. Then redb commits the batch in memory. When the log is full, a batch is committed
//! by redb durably instead. That is a checkpoint, and the log begins anew (module `open_database`).
//! The close of the store is a checkpoint, too. So what a commit writes does not depend on the size
//! of the database.
//!
//! [`Store::snapshot`] gives a view of the last commit. There may be any number of snapshots. They
//! never wait for the writer, and later commits do not change them.
//!
//! # Old blocks
//!
//! [`Tables::move_to_file`] moves bodies and receipts of old canonical blocks into a file of their
//! own, where they are compressed (module `ancient`). Reads find them there, and a reorganization
//! takes them back. A block that an archive has, too, gets no copy there (module `archive`).
//!
//! # Past states
//!
//! Accounts and slots are stored as they are after the head block. Each row lists the blocks that
//! changed it, and each block has a row with the values before it. So every past state can be read
//! with two or three look-ups, and a reorganization puts back what the rows of its blocks say. The
//! trie has no past: it exists for the head state only.
//!
//! # What survives
//!
//! - A crash or a power failure leaves the last commit, or the one in progress if it was complete.
//!   The next start applies the records of the log that the database lacks. That takes well under a
//!   second, whatever the size of the database, if its pages are in the system's cache.
//! - After a failed sync, systems go on to show bytes that never reached the disk. So what an
//!   opening reads and builds on is written again and synced first: the current copy of redb's
//!   first page, and the header and the records of the log. redb builds on no other page whose sync
//!   failed.
//! - A full disk fails the batch. Readers go on, and the write can be tried again
//!   ([`StoreError::wants_space`]).
//! - If the disk fails for another reason, or the file cannot be opened again after a failure,
//!   writing must stop until the program is started again ([`StoreError::is_final`]).
//! - After any failed commit, and after any other failed read or write of the files, the next
//!   snapshot or batch closes the files and opens them again. A record that is whole in the log
//!   counts, even if its commit has failed.
//! - Every page of the file has a checksum. A read that meets a damaged page fails with
//!   [`StoreError::Damaged`]; reads of other pages go on. A wrong value is never returned.
//! - Every record of the log has checksums, too. An incomplete record at the end is one that was
//!   being appended; it is cut off. Any other damage of the log, or of a page that a record
//!   changes, keeps the store from being opened ([`StoreError::DamagedAtOpening`]). The log is not
//!   changed then.
//!
//! - Every part of an old block has a checksum. What the index names was synced before. Bytes
//!   behind it do not count.
//!
//! The files belong together. A copy of a data directory needs all of them, and is made while the
//! node is stopped. [`back_up`] makes one of a snapshot while it runs.
//!
//! # Code
//!
//! A snapshot and the tables of a batch answer the same reads: [`Source`] reads rows of bytes, and
//! the traits built on it read types: [`BlockReads`], [`HeaderReads`], [`StateReads`],
//! [`PastNodeReads`], [`NoticeReads`], [`LogReads`], [`LogIndexReads`] and [`AncientReads`].
//!
//! Knows the types of the package `primitives`, and bytes. Knows no rules: the package `chain`
//! decides whether a block is valid.

mod ancient;
mod archive;
mod backup;
mod batch;
mod block_list;
mod blocks;
mod blocks_file;
mod canonical;
mod codec;
mod compaction;
mod compression;
mod database;
mod error;
mod guard;
mod headers;
mod log_index;
mod log_key;
mod logs;
mod medium;
mod monitor;
mod notices;
mod open;
mod open_database;
mod pages;
mod part_rows;
mod row_copy;
mod row_error;
mod snapshot;
mod source;
mod state;
mod store;
mod tables;
mod upgrade;
mod waiting_rows;
mod wal;
mod write_tables;

pub use ancient::{AncientReads, AncientRow};
pub use archive::{ArchiveError, ArchiveSlot, ArchivedBody, BlockArchive};
pub use backup::{BackupError, back_up};
pub use batch::WriteBatch;
pub use blocks::{BlockBody, BlockReads, HeaderRecord, TransactionPosition, position_hashes};
pub use blocks_file::AncientFile;
pub use compaction::CompactionError;
pub use error::StoreError;
pub use guard::quiet_contained_panics;
pub use headers::{BareHeader, HeaderReads, OpenReorganization, SideBlock};
pub use log_index::LogIndexReads;
pub use log_key::LogKey;
pub use logs::{LogReads, StoredLog};
pub use medium::{Medium, StoreMedia, sync_name};
pub use notices::{NoticeReads, ScsNotice};
pub use open::{
    BLOCKS_FILE_NAME, CACHE_BYTES_DEFAULT, FILE_NAME, LOG_BYTES_DEFAULT, LOG_FILE_NAME, StoreOptions,
};
pub use row_copy::{CopyError, CopyObserver, CopyProgress};
pub use snapshot::{HeadBlock, Snapshot, TableStats};
pub use source::{RowVisitor, Source};
pub use state::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, FetchedStage, FetchedStateReads,
    FetchedStateRecord, HorizonReads, NO_STATE, NewestChanges, PastLeaves, PastNode, PastNodeReads,
    SlotChange, SlotKey, SlotWrite, StateChanges, StateHorizon, StateKind, StateLeaf, StateReads,
    StateTrieId, StorageOwner, WalkedAccount, WalkedSlot, slot_hash,
};
pub use store::Store;
pub use tables::{SCHEMA_VERSION, TableId, TableInfo, meta_key};
pub use upgrade::{UpgradeProgress, UpgradeState};
pub use write_tables::Tables;
