//! Reads what blocks name before they are executed, on many threads.
//!
//! The thread that executes blocks waits for each page that is not in memory, and so does the one
//! that computes roots. A disk gives much more if it is asked for many pages at once. So whoever
//! prepares blocks has the rows read that will be needed: the accounts that a block names, their
//! code, the nodes on their paths in the account trie, slots of access lists, and positions of
//! transactions. What is read is dropped: its pages stay in the cache of the database or of the
//! system. If a sample of the rows is in memory, the others are not read.
//!
//! Knows blocks and rows; executes nothing. A row that cannot be read is reported by the import.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use primitives::{Address, B256, Transaction, U256};
use store::{
    AccountKey, BlockReads, Snapshot, Source, StateReads, StateTrieId, StoreError, TableId, position_hashes,
    slot_hash,
};

use super::PreparedBlock;

/// Threads that read. They wait for the disk nearly all of the time.
const READERS: usize = 16;
/// Rows that are read to see whether rows are in memory.
const SAMPLE: usize = 32;
/// Of the sample, the number of rows that must have taken long so that the others are read, too.
const SLOW_MIN: usize = 4;
/// A row with its path that takes longer than this was not in memory.
const SLOW: Duration = Duration::from_micros(60);

/// Something that a block needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Wanted {
    Account(Address),
    Slot(Address, B256),
    Position(B256),
}

/// Reads what `blocks` name, unless a sample of it is in memory.
pub(crate) fn read_ahead(view: &Snapshot, blocks: &[PreparedBlock]) {
    read_if_slow(view, blocks, SLOW);
}

/// As [`read_ahead`]; a row is slow that takes longer than `slow`. Returns how many were read.
fn read_if_slow(view: &Snapshot, blocks: &[PreparedBlock], slow: Duration) -> usize {
    let wanted: Vec<_> = wanted(blocks).into_iter().collect();
    let (sample, others) = wanted.split_at(wanted.len().min(SAMPLE));
    let slow_rows = sample.iter().filter(|wanted| {
        let started = Instant::now();
        let _ = read(view, wanted);
        started.elapsed() > slow
    });
    if slow_rows.count() < SLOW_MIN {
        return sample.len();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(wanted) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _ = read(view, wanted);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..READERS.min(others.len()) {
            // Without threads the import reads by itself.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
    });
    wanted.len()
}

fn wanted(blocks: &[PreparedBlock]) -> HashSet<Wanted> {
    let mut wanted = HashSet::new();
    for PreparedBlock { block, senders, .. } in blocks {
        let header = &block.header;
        let miners = block.uncles.iter().map(|uncle| uncle.beneficiary);
        let named = miners
            .chain([header.beneficiary])
            .chain(senders.iter().flatten().copied());
        wanted.extend(named.map(Wanted::Account));
        for (index, transaction) in block.transactions.iter().enumerate() {
            let sender = senders.as_ref().and_then(|senders| senders.get(index));
            let created = || Some(Transaction::created_address(sender?, transaction.tx_nonce));
            wanted.extend(transaction.to.or_else(created).map(Wanted::Account));
            for entry in &transaction.access_list {
                wanted.insert(Wanted::Account(entry.address));
                let slots = entry.slots.iter();
                wanted.extend(slots.map(|slot| Wanted::Slot(entry.address, *slot)));
            }
        }
        let hashes = position_hashes(header.number, &block.transactions);
        wanted.extend(hashes.map(|(_, hash)| Wanted::Position(hash)));
    }
    wanted
}

fn read(view: &Snapshot, wanted: &Wanted) -> Result<(), StoreError> {
    // The head's state is that after the highest possible block.
    let head = u64::MAX;
    match wanted {
        Wanted::Account(address) => {
            let key = AccountKey::of(address);
            if let Some(account) = view.account_by_key(&key, head)?.account {
                view.with(TableId::HashToCode, account.code_hash.as_slice(), |_| ())?;
            }
            read_path(view, StateTrieId::Accounts, &key.0)
        }
        Wanted::Slot(address, slot) => {
            let key = AccountKey::of(address);
            let owner = key.storage(view.account_by_key(&key, head)?.incarnation);
            let slot = owner.slot(slot_hash(&U256::from_be_bytes(slot.0)));
            view.slot_by_key(address, &slot, head)?;
            read_path(view, StateTrieId::Storage(owner), &slot.hash)
        }
        Wanted::Position(hash) => view.transaction_positions(hash).map(drop),
    }
}

/// Reads the nodes on the path of a key, from the root down to the first that is not there. Below
/// an extension nothing is read; there are few.
fn read_path(view: &Snapshot, trie: StateTrieId, key: &B256) -> Result<(), StoreError> {
    let mut path = trie.prefix();
    for at in 0..64 {
        if view.with(TableId::PathToTrieNode, &path, |_| ())?.is_none() {
            break;
        }
        path.push((key[at / 2] >> (4 * (1 - at % 2))) & 0xf);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use primitives::{AccessListEntry, Block, Header, TxForm};
    use store::Store;

    use super::*;
    use crate::genesis::{ensure_genesis, genesis_header};
    use crate::spec::ChainSpec;

    /// A block with transfers to `count` accounts, each of which names a slot.
    fn block(spec: &ChainSpec, count: u8) -> PreparedBlock {
        let transactions = (0..count).map(|index| Transaction {
            form: TxForm::AccessList,
            to: Some(Address::repeat_byte(index)),
            access_list: vec![AccessListEntry {
                address: Address::repeat_byte(index),
                slots: vec![B256::ZERO],
            }],
            ..Transaction::system(index.into())
        });
        let block = Block {
            header: Header {
                beneficiary: Address::repeat_byte(0xdd),
                ..genesis_header(spec)
            },
            transactions: transactions.collect(),
            uncles: Vec::new(),
        };
        PreparedBlock {
            hash: block.hash(),
            block,
            seal_is_right: true,
            senders: Some(vec![Address::repeat_byte(0xee); count.into()]),
        }
    }

    #[test]
    fn rows_in_memory_are_only_sampled() {
        let (store, spec) = (Store::in_memory().unwrap(), ChainSpec::dev());
        ensure_genesis(&store, &spec).unwrap();
        let view = store.snapshot().unwrap();
        let blocks = [block(&spec, 100), block(&spec, 90)];
        // Receivers with a slot each, the sender and the beneficiary. No block has positions of
        // system transactions that are not its own.
        assert_eq!(read_if_slow(&view, &blocks, Duration::ZERO), 202);
        assert_eq!(read_if_slow(&view, &blocks, Duration::MAX), SAMPLE);
        assert_eq!(read_if_slow(&view, &[], Duration::ZERO), 0);
    }
}
