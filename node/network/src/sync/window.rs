//! The next blocks of the best header chain, from the first one without a body on: who is asked for
//! which body, what has come, what is being imported.
//!
//! The window is bounded in blocks ([`WINDOW_BLOCKS`]) and in bytes ([`WINDOW_BYTES`]). If the
//! bytes are used up, only the lowest missing bodies are asked for, because the import waits for
//! them. Knows blocks and peers; sends nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chain::import::{BlockId, PreparedBlock};
use primitives::{B256, Block};

use super::comparisons::body_bytes;
use super::jobs::WantedBody;
use crate::peers::{PeerId, RequestTicket};

/// The most blocks whose bodies are fetched or wait for their import.
pub const WINDOW_BLOCKS: usize = 2048;
/// The most bytes of bodies that wait to be imported or are on their way, as far as is known.
pub(super) const WINDOW_BYTES: usize = 64 << 20;
const IMPORT_BLOCKS: usize = 512;
/// An import job ends with the block that makes its gas more than this.
const IMPORT_GAS: u64 = 500_000_000;
/// Bytes that a body on its way is counted with, for each gas of its block. A transfer of 110 bytes
/// costs 21,000 gas; data costs at most 16 gas a byte, but few blocks are full of it.
const GAS_PER_BYTE: u64 = 128;

/// The most peers that are asked for a body at a time.
const ASKED_MAX: usize = 4;

#[derive(Clone, Debug)]
enum BodyState {
    Wanted,
    /// Peers are asked, at most [`ASKED_MAX`]. The first one since this time.
    Asked(Duration, Vec<(PeerId, RequestTicket)>),
    /// The body came, and is compared with the header. It has so many bytes.
    Compared(RequestTicket, usize),
    Ready(Arc<PreparedBlock>, usize),
    Importing(usize),
}

#[derive(Clone, Debug)]
struct BodySlot {
    number: u64,
    wanted: WantedBody,
    state: BodyState,
}

impl BodySlot {
    /// Bytes that the body takes, or will take.
    fn bytes(&self) -> usize {
        match &self.state {
            BodyState::Wanted => 0,
            BodyState::Asked(..) => {
                usize::try_from(self.wanted.header.gas_used / GAS_PER_BYTE).unwrap_or(usize::MAX)
            }
            BodyState::Compared(_, bytes) | BodyState::Ready(_, bytes) | BodyState::Importing(bytes) => {
                *bytes
            }
        }
    }
}

/// Memory that a block takes, in bytes.
fn block_bytes(block: &Block) -> usize {
    size_of::<Block>() + body_bytes(&block.transactions, &block.uncles)
}

#[derive(Clone, Debug, Default)]
pub(super) struct BodyWindow {
    slots: VecDeque<BodySlot>,
}

impl BodyWindow {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn front(&self) -> Option<BlockId> {
        let front = self.slots.front()?;
        Some(BlockId {
            number: front.number,
            hash: front.wanted.hash,
        })
    }

    /// The lowest block whose body is not here. The import will wait for it.
    pub(super) fn first_missing(&self) -> Option<BlockId> {
        let is_missing = |slot: &&BodySlot| matches!(slot.state, BodyState::Wanted | BodyState::Asked(..));
        let slot = self.slots.iter().find(is_missing)?;
        Some(BlockId {
            number: slot.number,
            hash: slot.wanted.hash,
        })
    }

    /// Makes the window begin with these blocks, which are the missing ones of the best header
    /// chain. What is known of them stays. `read` reads a header that is new here.
    pub(super) fn follow<E>(
        &mut self,
        missing: Vec<BlockId>,
        mut read: impl FnMut(&BlockId) -> Result<Option<WantedBody>, E>,
    ) -> Result<(), E> {
        let mut old: HashMap<B256, BodySlot> = self
            .slots
            .drain(..)
            .map(|slot| (slot.wanted.hash, slot))
            .collect();
        for id in missing {
            let slot = match old.remove(&id.hash) {
                Some(slot) => slot,
                None => match read(&id)? {
                    Some(wanted) => BodySlot {
                        number: id.number,
                        wanted,
                        state: BodyState::Wanted,
                    },
                    None => return Ok(()),
                },
            };
            self.slots.push_back(slot);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.slots
            .iter()
            .map(BodySlot::bytes)
            .fold(0, usize::saturating_add)
    }

    /// Takes out blocks for which `plain` gives the body without a question. They count as compared
    /// under `ticket`. Returns them with their bodies.
    pub(super) fn take_plain<T>(
        &mut self,
        ticket: RequestTicket,
        most: usize,
        mut plain: impl FnMut(&WantedBody) -> Option<T>,
    ) -> Vec<(WantedBody, T)> {
        let mut found = Vec::new();
        for slot in &mut self.slots {
            if found.len() == most {
                break;
            }
            if matches!(slot.state, BodyState::Wanted)
                && let Some(body) = plain(&slot.wanted)
            {
                slot.state = BodyState::Compared(ticket, 0);
                found.push((slot.wanted.clone(), body));
            }
        }
        found
    }

    /// Chooses up to `most` bodies for a peer that lacks all from block `lacks` on: the lowest ones
    /// that nobody is asked for.
    pub(super) fn assign(
        &mut self,
        peer: PeerId,
        ticket: RequestTicket,
        now: Duration,
        most: usize,
        lacks: u64,
    ) -> Vec<WantedBody> {
        let mut bytes = self.bytes();
        let mut chosen: Vec<WantedBody> = Vec::new();
        let mut lowest = true;
        for slot in &mut self.slots {
            if chosen.len() == most || slot.number >= lacks {
                break;
            }
            match &slot.state {
                BodyState::Wanted => {}
                BodyState::Asked(..) => {
                    lowest = false;
                    continue;
                }
                _ => continue,
            }
            if bytes > WINDOW_BYTES && !(lowest && chosen.is_empty()) {
                break;
            }
            slot.state = BodyState::Asked(now, vec![(peer, ticket)]);
            bytes = bytes.saturating_add(slot.bytes());
            chosen.push(slot.wanted.clone());
        }
        chosen
    }

    /// The peer that was asked last for the lowest missing body, the number of peers that are
    /// asked, and the time since which the first one is. `None` if no more may be asked.
    pub(super) fn waited_for(&self) -> Option<(PeerId, usize, Duration)> {
        let is_missing = |slot: &&BodySlot| matches!(slot.state, BodyState::Wanted | BodyState::Asked(..));
        match &self.slots.iter().find(is_missing)?.state {
            BodyState::Asked(since, asked) if asked.len() < ASKED_MAX => {
                let (last, _) = asked.last()?;
                Some((*last, asked.len(), *since))
            }
            _ => None,
        }
    }

    /// Asks one more peer for up to `most` bodies for which `slow` was asked last.
    pub(super) fn assign_again(
        &mut self,
        slow: PeerId,
        peer: PeerId,
        ticket: RequestTicket,
        most: usize,
        lacks: u64,
    ) -> Vec<WantedBody> {
        let mut chosen = Vec::new();
        for slot in &mut self.slots {
            if chosen.len() == most || slot.number >= lacks {
                break;
            }
            if let BodyState::Asked(_, asked) = &mut slot.state
                && asked.len() < ASKED_MAX
                && asked.last().is_some_and(|(last, _)| *last == slow)
                && asked.iter().all(|(one, _)| *one != peer)
            {
                asked.push((peer, ticket));
                chosen.push(slot.wanted.clone());
            }
        }
        chosen
    }

    /// The answer to `ticket` has come: the bodies of the first ones may be in it. It has so many
    /// bytes.
    pub(super) fn compare(&mut self, ticket: RequestTicket, bytes: usize) {
        let mut left = bytes;
        for slot in &mut self.slots {
            if let BodyState::Asked(_, asked) = &slot.state
                && asked.iter().any(|(_, one)| *one == ticket)
            {
                // The place of the bytes does not matter.
                slot.state = BodyState::Compared(ticket, std::mem::take(&mut left));
            }
        }
    }

    /// The question `ticket` gets no answer any more. Its bodies are wanted again, unless they are
    /// here or another peer is asked.
    pub(super) fn release(&mut self, ticket: RequestTicket) {
        for slot in &mut self.slots {
            match &mut slot.state {
                BodyState::Asked(_, asked) => {
                    asked.retain(|(_, one)| *one != ticket);
                    if asked.is_empty() {
                        slot.state = BodyState::Wanted;
                    }
                }
                BodyState::Compared(one, _) if *one == ticket => slot.state = BodyState::Wanted,
                _ => {}
            }
        }
    }

    /// A block has come with the right body.
    pub(super) fn put(&mut self, block: Arc<PreparedBlock>) {
        let slot = self.slots.iter_mut().find(|slot| slot.wanted.hash == block.hash);
        if let Some(slot) = slot
            && !matches!(slot.state, BodyState::Ready(..) | BodyState::Importing(_))
        {
            let bytes = block_bytes(&block.block);
            slot.state = BodyState::Ready(block, bytes);
        }
    }

    /// Takes out the next blocks for an import: those from the lowest on that are ready. They stay
    /// in the window until they are stored.
    pub(super) fn take_ready(&mut self) -> Vec<Arc<PreparedBlock>> {
        let (mut blocks, mut gas) = (Vec::new(), 0u64);
        let is_importing = |slot: &&mut BodySlot| matches!(slot.state, BodyState::Importing(_));
        let begun = self.slots.iter_mut().take_while(is_importing).count();
        for slot in self.slots.iter_mut().skip(begun) {
            let BodyState::Ready(block, bytes) = &slot.state else {
                break;
            };
            if blocks.len() == IMPORT_BLOCKS || gas > IMPORT_GAS {
                break;
            }
            gas = gas.saturating_add(slot.wanted.header.gas_used);
            let (block, bytes) = (block.clone(), *bytes);
            slot.state = BodyState::Importing(bytes);
            blocks.push(block);
        }
        blocks
    }

    /// Notes that an import has ended. The blocks that it did not store are wanted again.
    pub(super) fn import_ended(&mut self) {
        for slot in &mut self.slots {
            if matches!(slot.state, BodyState::Importing(_)) {
                slot.state = BodyState::Wanted;
            }
        }
    }

    /// Removes the `count` lowest blocks, which are stored now.
    pub(super) fn stored(&mut self, count: usize) {
        for _ in 0..count {
            if matches!(
                self.slots.front(),
                Some(BodySlot {
                    state: BodyState::Importing(_),
                    ..
                })
            ) {
                self.slots.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use primitives::Header;

    use super::*;

    const ONE: PeerId = PeerId(1);
    const TWO: PeerId = PeerId(2);

    fn id(number: u64) -> BlockId {
        BlockId {
            number,
            hash: B256::repeat_byte(number as u8),
        }
    }

    /// A window of the blocks `numbers`, each with so much gas.
    fn window(numbers: std::ops::Range<u64>, gas_used: u64) -> BodyWindow {
        let mut window = BodyWindow::default();
        follow(&mut window, numbers, gas_used);
        window
    }

    fn follow(window: &mut BodyWindow, numbers: std::ops::Range<u64>, gas_used: u64) {
        let read = |id: &BlockId| {
            let header = Header {
                number: id.number,
                gas_used,
                ..Header::default()
            };
            Ok::<_, Infallible>(Some(WantedBody {
                hash: id.hash,
                header: Arc::new(header),
            }))
        };
        let Ok(()) = window.follow(numbers.map(id).collect(), read);
    }

    fn numbers(wanted: &[WantedBody]) -> Vec<u64> {
        wanted.iter().map(|wanted| wanted.header.number).collect()
    }

    fn assign(window: &mut BodyWindow, peer: PeerId, ticket: u64, most: usize) -> Vec<u64> {
        let now = Duration::from_secs(ticket);
        numbers(&window.assign(peer, RequestTicket(ticket), now, most, u64::MAX))
    }

    #[test]
    fn bodies_are_shared_out_from_the_lowest_on() {
        let mut window = window(5..11, 0);
        assert_eq!(assign(&mut window, ONE, 1, 2), [5, 6]);
        assert_eq!(assign(&mut window, TWO, 2, 3), [7, 8, 9]);
        assert_eq!(window.waited_for(), Some((ONE, 1, Duration::from_secs(1))));
        // Bodies without an answer are wanted again.
        window.release(RequestTicket(1));
        assert_eq!(window.waited_for(), None);
        let lacking = window.assign(TWO, RequestTicket(3), Duration::ZERO, 9, 6);
        assert_eq!(numbers(&lacking), [5]);
        assert_eq!(assign(&mut window, ONE, 4, 9), [6, 10]);
        assert_eq!(window.first_missing(), Some(id(5)));
        window.compare(RequestTicket(3), 1);
        assert_eq!(window.first_missing(), Some(id(6)));
    }

    #[test]
    fn slow_peers_are_overtaken() {
        let mut window = window(5..8, 0);
        assign(&mut window, ONE, 1, 9);
        let again = |window: &mut BodyWindow, ticket| {
            numbers(&window.assign_again(ONE, TWO, RequestTicket(ticket), 2, u64::MAX))
        };
        assert_eq!(again(&mut window, 2), [5, 6]);
        assert_eq!(again(&mut window, 3), [7]);
        assert_eq!(
            window.waited_for().map(|(peer, count, _)| (peer, count)),
            Some((TWO, 2))
        );
        for peer in [3, 4] {
            let again = window.assign_again(
                PeerId(peer - 1),
                PeerId(peer),
                RequestTicket(peer + 1),
                1,
                u64::MAX,
            );
            assert_eq!(numbers(&again), [5]);
        }
        assert_eq!(window.waited_for(), None, "four are asked");
        for ticket in [1, 4, 5] {
            window.release(RequestTicket(ticket));
        }
        assert_eq!(
            window.waited_for().map(|(peer, count, _)| (peer, count)),
            Some((TWO, 1))
        );
    }

    #[test]
    fn bytes_are_bounded_but_the_import_goes_on() {
        // Each block is counted with more than a third of the bytes.
        let gas = (WINDOW_BYTES as u64 / 3 + 1) * GAS_PER_BYTE;
        let mut window = window(1..9, gas);
        assert_eq!(assign(&mut window, ONE, 1, 9), [1, 2, 3]);
        assert!(assign(&mut window, TWO, 2, 9).is_empty());
        window.release(RequestTicket(1));
        assert_eq!(assign(&mut window, TWO, 3, 9), [1, 2, 3]);
    }

    #[test]
    fn the_window_follows_the_best_header_chain() {
        let mut window = window(1..6, 0);
        assign(&mut window, ONE, 1, 2);
        follow(&mut window, 2..9, 0);
        assert_eq!(window.front(), Some(id(2)));
        assert_eq!(assign(&mut window, TWO, 2, 99), [3, 4, 5, 6, 7, 8]);
        let plain = window.take_plain(RequestTicket(9), 9, |_| Some(()));
        assert!(plain.is_empty(), "all are asked for");
        window.release(RequestTicket(2));
        let plain = window.take_plain(RequestTicket(9), 2, |wanted| {
            (wanted.header.number > 4).then_some(())
        });
        let plain: Vec<_> = plain.into_iter().map(|(wanted, ())| wanted).collect();
        assert_eq!(numbers(&plain), [5, 6]);
        follow(&mut window, 0..0, 0);
        assert!(window.is_empty());
    }
}
