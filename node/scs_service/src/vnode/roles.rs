//! The roles of SCSs in MicroChains, as long as they may be remembered.
//!
//! The role of a member is read again after 20 blocks, and after a notice that may have changed it.
//! Any other role is read again at each head: an SCS becomes a member without a notice, and from
//! then on gets the transactions of the MicroChain. If a contract fails to answer, the SCS has no
//! role in that MicroChain for the life of the process, as in the published node: else a contract
//! could make every message cost a call.

use std::collections::HashMap;

use lru::LruCache;
use parking_lot::Mutex;
use primitives::Address;

use super::filter::ScsRole;
use super::host::RoleAnswer;
use crate::message::ScsId;

/// Blocks for which the role of a member is remembered.
const ROLE_AGE_MAX: u64 = 20;
/// Roles that are remembered, of all MicroChains together.
const ROLES_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug)]
enum KnownRole {
    /// Read at the head of this number.
    Read { role: ScsRole, head: u64 },
    /// The contract failed to answer.
    Locked,
}

/// The roles that are remembered.
#[derive(Debug)]
pub(super) struct RoleCache(Mutex<RoleCacheState>);

#[derive(Debug)]
struct RoleCacheState {
    /// By MicroChain; the one that was not asked for longest goes first.
    chains: LruCache<Address, HashMap<ScsId, KnownRole>>,
    count: usize,
}

impl RoleCache {
    pub(super) fn new() -> Self {
        Self(Mutex::new(RoleCacheState {
            chains: LruCache::unbounded(),
            count: 0,
        }))
    }

    /// The role of an SCS, if it is known at the head of this number.
    pub(super) fn get(&self, chain: &Address, id: &ScsId, head: u64) -> Option<ScsRole> {
        let state = &mut *self.0.lock();
        match state.chains.get(chain)?.get(id)? {
            KnownRole::Locked => Some(ScsRole::None),
            // A lower head means that blocks were taken back.
            KnownRole::Read { role, head: read_at } => {
                let age_bound = match role {
                    ScsRole::Consensus => ROLE_AGE_MAX,
                    _ => 1,
                };
                let age = head.checked_sub(*read_at);
                age.is_some_and(|age| age < age_bound).then_some(*role)
            }
        }
    }

    /// Remembers what a contract has answered at the head of this number.
    pub(super) fn put(&self, chain: Address, id: ScsId, answer: RoleAnswer, head: u64) {
        let known = match answer {
            RoleAnswer::Role(role) => KnownRole::Read { role, head },
            RoleAnswer::CallFailed => KnownRole::Locked,
        };
        let state = &mut *self.0.lock();
        let chain_roles = state.chains.get_or_insert_mut(chain, HashMap::new);
        match chain_roles.get_mut(&id) {
            Some(KnownRole::Locked) => return,
            Some(old) => {
                *old = known;
                return;
            }
            None => drop(chain_roles.insert(id, known)),
        }
        state.count += 1;
        while state.count > ROLES_MAX
            && let Some((_, dropped)) = state.chains.pop_lru()
        {
            state.count -= dropped.len();
        }
    }

    /// Forgets the roles in a MicroChain, except for the locked ones.
    pub(super) fn age(&self, chain: &Address) {
        let state = &mut *self.0.lock();
        let Some(chain_roles) = state.chains.get_mut(chain) else {
            return;
        };
        let before = chain_roles.len();
        chain_roles.retain(|_, known| matches!(known, KnownRole::Locked));
        state.count -= before - chain_roles.len();
        if chain_roles.is_empty() {
            state.chains.pop(chain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(mark: u16) -> Address {
        let mut bytes = [7; 20];
        bytes[..2].copy_from_slice(&mark.to_be_bytes());
        Address::from(bytes)
    }

    const ID: ScsId = ScsId(Address::repeat_byte(1));
    const MONITOR: RoleAnswer = RoleAnswer::Role(ScsRole::Monitor);

    #[test]
    fn the_role_of_a_member_is_known_for_twenty_blocks() {
        let cache = RoleCache::new();
        assert_eq!(cache.get(&chain(1), &ID, 100), None);
        cache.put(chain(1), ID, RoleAnswer::Role(ScsRole::Consensus), 100);
        let at = |head| cache.get(&chain(1), &ID, head);
        assert_eq!(at(100), Some(ScsRole::Consensus));
        assert_eq!(at(119), Some(ScsRole::Consensus));
        assert_eq!(at(120), None);
        assert_eq!(at(99), None, "the block was taken back");
        cache.age(&chain(1));
        assert_eq!(at(100), None);
    }

    #[test]
    fn any_other_role_is_known_for_one_block() {
        for role in [
            ScsRole::None,
            ScsRole::Monitor,
            ScsRole::Backup,
            ScsRole::Selectable,
        ] {
            let cache = RoleCache::new();
            cache.put(chain(1), ID, RoleAnswer::Role(role), 100);
            assert_eq!(cache.get(&chain(1), &ID, 100), Some(role));
            assert_eq!(cache.get(&chain(1), &ID, 101), None);
        }
    }

    #[test]
    fn a_contract_that_fails_is_not_asked_again() {
        let cache = RoleCache::new();
        cache.put(chain(1), ID, RoleAnswer::CallFailed, 1);
        cache.put(chain(1), ID, MONITOR, 2);
        cache.age(&chain(1));
        assert_eq!(cache.get(&chain(1), &ID, 1_000_000), Some(ScsRole::None));
    }

    #[test]
    fn the_number_of_roles_is_bounded() {
        let cache = RoleCache::new();
        for mark in 0..=u16::MAX {
            cache.put(chain(mark), ID, MONITOR, 1);
            let _ = cache.get(&chain(0), &ID, 1);
        }
        let other = ScsId(Address::repeat_byte(2));
        cache.put(chain(0), other, MONITOR, 1);
        assert_eq!(cache.0.lock().count, ROLES_MAX);
        assert_eq!(cache.get(&chain(1), &ID, 1), None, "it was not asked for longest");
        assert_eq!(cache.get(&chain(0), &ID, 1), Some(ScsRole::Monitor));
        cache.age(&chain(0));
        assert_eq!(cache.0.lock().count, ROLES_MAX - 2);
    }
}
