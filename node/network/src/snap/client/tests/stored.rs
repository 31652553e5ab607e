//! Downloads into a store on a disk that loses power at any write.

use std::ops::ControlFlow;
use std::sync::Arc;

use chain::fetched_state::FetchedState;
use primitives::{Address, B256, U256};
use store::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, FetchedStateReads, SlotWrite, Source,
    StateReads, Store, StoreError, StoreOptions, TableId,
};

use super::*;
use crate::disk::Disk;
use crate::peers::snap_memory::MemoryState;

#[path = "../../../../../store/tests/store/power_loss.rs"]
#[expect(dead_code, reason = "the tests of the store use more of it")]
mod power_loss;

/// The operations of the disk before it goes off.
const OPERATIONS_MAX: u64 = 60;

/// A store whose disk goes off.
struct StoredSink {
    disk: Arc<Disk>,
    /// `None` while the disk is off.
    state: Option<FetchedState>,
    /// Builds that are still to be cut short, and the randomness for it.
    cuts: u64,
}

fn open(disk: &Arc<Disk>) -> Store {
    let options = StoreOptions {
        cache_bytes: 1 << 20,
        // So small that some commits are checkpoints.
        log_bytes: 64 << 10,
        ..StoreOptions::default()
    };
    disk.open_store(&options).expect("a good disk")
}

impl StoredSink {
    /// A store with a state of its own, which the fetched one replaces.
    fn new(cuts: u64) -> Self {
        let disk = Arc::new(Disk::default());
        let store = open(&disk);
        let batch = store.batch().expect("a good disk");
        let write = |number: u8| AccountWrite {
            address: Address::repeat_byte(number),
            key: AccountKey::of(&Address::repeat_byte(number)),
            version: AccountVersion {
                account: Some(AccountRecord::default()),
                incarnation: 0,
            },
            slots: vec![SlotWrite::new(U256::from(number), U256::from(1))],
        };
        let writes: Vec<_> = (1..9).map(write).collect();
        batch
            .write(|tables| tables.put_state(0, &writes))
            .expect("a good disk");
        batch.commit().expect("a good disk");
        let (state, progress) = FetchedState::begin(&store).expect("a good disk");
        assert!(progress.is_empty());
        assert!(
            store
                .snapshot()
                .expect("a good disk")
                .oldest_state()
                .expect("a row")
                > 1 << 60
        );
        Self {
            disk,
            state: Some(state),
            cuts,
        }
    }

    fn state(&mut self) -> &mut FetchedState {
        self.state.as_mut().expect("the disk is on")
    }

    fn view(&self) -> Arc<store::Snapshot> {
        self.state
            .as_ref()
            .expect("the disk is on")
            .store()
            .snapshot()
            .expect("a good disk")
    }

    fn trie_rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        self.view()
            .scan(TableId::PathToTrieNode, &[], |key, row| {
                rows.push((key.to_vec(), row.to_vec()));
                ControlFlow::Continue(())
            })
            .expect("a good disk");
        rows
    }

    fn restart(&mut self, mut random: u64) {
        self.state = None;
        let left = self.disk.after_power_loss(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.is_multiple_of(2)
        });
        self.disk = Arc::new(Disk::with(left));
        let (state, _) = FetchedState::begin(&open(&self.disk)).expect("what was committed");
        self.state = Some(state);
    }
}

impl SnapSink for StoredSink {
    fn replace_accounts(
        &mut self,
        first: &B256,
        last: &B256,
        rows: &[(B256, AccountRecord)],
    ) -> Result<(), StoreError> {
        self.state().replace_accounts(first, last, rows)
    }

    fn replace_slots(
        &mut self,
        account: &B256,
        first: &B256,
        last: &B256,
        rows: &[(B256, U256)],
    ) -> Result<(), StoreError> {
        self.state().replace_slots(account, first, last, rows)
    }

    fn has_code(&self, hash: &B256) -> Result<bool, StoreError> {
        self.state.as_ref().expect("the disk is on").has_code(hash)
    }

    fn put_code(&mut self, hash: &B256, code: &[u8]) -> Result<(), StoreError> {
        self.state().put_code(hash, code);
        Ok(())
    }

    fn commit(&mut self, progress: &[u8]) -> Result<(), StoreError> {
        self.state().commit(progress)
    }

    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.state.as_ref().expect("the disk is on").node(account, path)
    }
}

impl TestSink for StoredSink {
    fn progress(&self) -> Option<Vec<u8>> {
        let record = self.view().fetched_state().expect("a good disk");
        record
            .map(|record| record.progress)
            .filter(|progress| !progress.is_empty())
    }

    fn build(&mut self) -> Option<B256> {
        if self.cuts > 0 {
            self.cuts -= 1;
            let at = self.disk.operations() + self.cuts * 7 % OPERATIONS_MAX;
            self.disk.off_at(at);
        }
        match self.state().build(|_| ()) {
            Ok(root) => Some(root),
            Err(_) => {
                self.restart(self.cuts + 1);
                None
            }
        }
    }

    fn go_off(&mut self, random: u64) {
        self.disk.off_at(self.disk.operations() + random % OPERATIONS_MAX);
    }

    fn kill(&mut self, random: u64) {
        self.restart(random | 1);
    }

    fn content(&mut self) -> MemoryState {
        let view = self.view();
        let mut state = MemoryState::default();
        view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), 0, |found| {
            state.put_account(found.key.0, found.account);
            Ok(())
        })
        .expect("a good disk");
        let slots = |state: &mut MemoryState| {
            view.scan(TableId::Storage, &[], |key, _| {
                let (owner, slot) = (B256::from_slice(&key[..32]), B256::from_slice(&key[36..]));
                let key = AccountKey(owner).storage(0).slot(slot);
                let value = view.slot_by_key(&Address::ZERO, &key, 0).expect("a good disk");
                state.put_slot(owner, slot, value);
                ControlFlow::Continue(())
            })
        };
        slots(&mut state).expect("a good disk");
        view.scan(TableId::HashToCode, &[], |_, code| {
            state.put_code(code);
            ControlFlow::Continue(())
        })
        .expect("a good disk");
        // The tries that were changed in place are those that one pass makes.
        let changed = self.trie_rows();
        self.cuts = 0;
        self.build().expect("a good disk");
        assert!(changed == self.trie_rows(), "the tries are those of the rows");
        state
    }
}

/// Runs a download whose disk goes off many times. Returns how often it did.
fn run(seed: u64, kill_one_of: u64, cuts: u64) -> usize {
    let manners = [Manner::Honest, Manner::Honest, Manner::Slow];
    let mut world = SnapWorld::with_sink(seed, &manners, StoredSink::new(cuts));
    world.kill_one_of = kill_one_of;
    world.run();
    assert!(world.client.figures().healed > 0, "seed {seed}: the pivot moved");
    world.kills
}

#[test]
fn a_store_gets_the_state_and_nothing_else() {
    assert_eq!(run(40, 0, 0), 0);
}

#[test]
fn a_store_that_loses_power_at_any_write_goes_on() {
    let kills = run(41, 25, 3);
    assert!(kills > 8, "{kills}");
}

#[test]
#[ignore = "by hand: 200 power failures and more"]
fn two_hundred_power_failures() {
    let kills: usize = (50..)
        .scan(0, |sum, seed| {
            (*sum < 200).then(|| {
                let kills = run(seed, 12, 5);
                *sum += kills;
                kills
            })
        })
        .sum();
    println!("{kills} power failures");
    assert!(kills >= 200);
}
