//! Awaited answers, and the searches that wait for them.

use std::time::Duration;

use primitives::{B512, keccak256};

use super::{
    ANSWER_TIMEOUT, Awaited, Discovery, DiscoveryEvent, FAILURES_MAX, LOOKUPS_MAX, PENDING_ANSWERS_MAX,
    PendingAnswer, SEEDS_MAX,
};
use crate::contact::NodeContact;
use crate::discovery::lookup::NodeLookup;
use crate::discovery::table::{BUCKET_NODES_MAX, ContactKind};
use crate::moment::Moment;

impl Discovery {
    /// Notes that an answer is awaited. `false` if too many are.
    pub(super) fn await_answer(&mut self, id: B512, awaited: Awaited, now: Duration) -> bool {
        let has_room = self.pending.len() < PENDING_ANSWERS_MAX;
        if has_room {
            let deadline = now + ANSWER_TIMEOUT;
            self.pending.push(PendingAnswer {
                id,
                deadline,
                awaited,
            });
        }
        has_room
    }

    pub(super) fn take_pending(&mut self, id: &B512, is_it: impl Fn(&Awaited) -> bool) -> Option<Awaited> {
        let mut pending = self.pending.iter();
        let at = pending.position(|pending| pending.id == *id && is_it(&pending.awaited))?;
        Some(self.pending.swap_remove(at).awaited)
    }

    pub(super) fn start_lookup(&mut self, target: B512) -> Option<u64> {
        if self.lookups.len() >= LOOKUPS_MAX {
            return None;
        }
        let mut search = NodeLookup::new(self.id, target);
        let known = self.table.closest(&keccak256(target), BUCKET_NODES_MAX, |_| true);
        let few = known.len() < BUCKET_NODES_MAX;
        search.add(known);
        if few {
            let is_usable = |node: &&NodeContact| self.bonds.kind(&node.id) != ContactKind::Alien;
            let seeds = self.settings.seeds.iter().take(SEEDS_MAX);
            search.add(seeds.filter(is_usable).copied());
        }
        let number = self.next_lookup;
        self.next_lookup += 1;
        self.lookups.insert(number, search);
        Some(number)
    }

    /// Notes how asking a node in a search ended.
    pub(super) fn end_query(&mut self, lookup: u64, id: &B512, has_answered: bool) {
        if let Some(search) = self.lookups.get_mut(&lookup) {
            search.ended(id, has_answered);
        }
        let Some(state) = self.bonds.get(id) else { return };
        state.failures = if has_answered { 0 } else { state.failures + 1 };
        if state.failures >= FAILURES_MAX {
            self.table.remove(id, &mut self.entropy);
        }
    }

    /// Lets the searches ask their next nodes, and ends those that are done.
    pub(super) fn advance(&mut self, now: Moment) {
        let numbers: Vec<_> = self.lookups.keys().copied().collect();
        for number in numbers {
            let Some(search) = self.lookups.get_mut(&number) else {
                continue;
            };
            for contact in search.next() {
                if self.bonds.has_proven(&contact.id, contact.ip, now.elapsed) {
                    self.ask_for_nodes(number, contact, now);
                } else {
                    let awaited = Awaited::Bond {
                        lookup: number,
                        contact,
                    };
                    if self.await_answer(contact.id, awaited, now.elapsed) {
                        self.ping(contact, false, now);
                    } else {
                        self.end_query(number, &contact.id, false);
                    }
                }
            }
            if self.lookups.get(&number).is_some_and(NodeLookup::is_done) {
                self.end_lookup(number);
            }
        }
    }

    pub(super) fn end_lookup(&mut self, number: u64) {
        let Some(search) = self.lookups.remove(&number) else {
            return;
        };
        let nodes = search.result();
        self.tell(DiscoveryEvent::LookupDone {
            lookup: number,
            nodes,
        });
        if self.refresh_lookup == Some(number) {
            let next = self.refresh_targets.pop_front();
            self.refresh_lookup = next.and_then(|target| self.start_lookup(target));
        }
    }
}
