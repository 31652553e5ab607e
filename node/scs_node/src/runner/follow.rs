//! Which chain bases are followed, and when they are read.
//!
//! A chain base is followed from the first message that names it. It is looked at at each head and
//! each notice, and read if it has changed ([`crate::refresh`]). With a new connection everything
//! is read. What was read decides what is done (`join`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use microchain::{Event, MemberMessage};
use primitives::{Address, Transaction, TxRules};
use scs_service::client::ScsEvent;
use scs_service::{MessageKind, ScsMessage};
use tokio::sync::mpsc;

use super::{FOLLOWED_MAX, Followed, Letter, ReadState, Runner};
use crate::base::{BaseError, ReadWish};
use crate::wallet::SubmittedTransaction;
use crate::worker::{EngineActions, EngineHandle, event_len};

/// Events of a chain that is read for the first time.
const HELD_MAX: usize = 1024;
/// Bytes of those events, and of those of all chains together.
const HELD_BYTES_MAX: usize = 4 << 20;
const HELD_BYTES_TOTAL_MAX: usize = 64 << 20;
/// Chain bases that are read at one head although this SCS has nothing to do with them yet. Those
/// that it serves, or has registered with, are read at each head.
const STRANGER_READS: usize = 32;
/// A chain base that was followed in vain is not followed again for so long because of a message or
/// a transaction, which cost nothing. A notice of a contract costs gas.
const UNFOLLOWED_PAUSE: Duration = Duration::from_secs(60);
/// The most chain bases that are remembered so.
const UNFOLLOWED_MAX: usize = 4096;
/// Pause before a read that failed is repeated, if no head comes before.
const READ_PAUSE: Duration = Duration::from_secs(5);

impl Runner {
    /// Handles events, results and submissions until nobody sends any more.
    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<ScsEvent>,
        mut letters: mpsc::Receiver<Letter>,
        mut engine_actions: mpsc::Receiver<EngineActions>,
        mut submissions: mpsc::Receiver<SubmittedTransaction>,
    ) {
        loop {
            tokio::select! {
                Some(event) = events.recv() => self.hear(event),
                Some(letter) = letters.recv() => self.open(letter),
                Some(actions) = engine_actions.recv() => self.act(actions),
                Some(submitted) = submissions.recv() => {
                    self.give(submitted.chain, Event::Transaction(Box::new(submitted.transaction)));
                }
                else => return,
            }
        }
    }

    fn hear(&mut self, event: ScsEvent) {
        match event {
            ScsEvent::Connected { beneficiary } => {
                tracing::info!(vnode = %self.config.vnode, "connected");
                self.via = beneficiary;
                self.served.set_connected(true);
                self.tend(true);
                let chains: Vec<_> = self.followed.keys().copied().collect();
                for chain in chains {
                    let Some(followed) = self.followed.get_mut(&chain) else {
                        continue;
                    };
                    followed.must_read_all = true;
                    let has_engine = followed.engine.is_some();
                    self.read(chain);
                    if has_engine {
                        self.give(chain, Event::Connected);
                    }
                }
            }
            ScsEvent::Disconnected { reason } => {
                tracing::warn!(vnode = %self.config.vnode, %reason, "not connected");
                self.served.set_connected(false);
            }
            ScsEvent::Head(head) => {
                self.head = head;
                self.served.set_base_head(head);
                self.tend(false);
                for chain in self.due_at_head() {
                    self.read(chain);
                }
            }
            ScsEvent::Notice { chain, status, .. } => {
                tracing::debug!(%chain, status = status.number(), "notice");
                self.follow(chain);
                self.read(chain);
            }
            ScsEvent::DirectCall {
                chain, transaction, ..
            } => self.take_transaction(chain, &transaction),
            ScsEvent::Broadcast(message) => self.take_broadcast(message),
            ScsEvent::Ignored { reason } => tracing::debug!(%reason, "a message was ignored"),
        }
    }

    /// The chain bases that are read at this head: all own ones, and the next few others.
    pub(super) fn due_at_head(&mut self) -> Vec<Address> {
        let is_own = |chain: &Address, one: &Followed| one.engine.is_some() || self.is_wanted(chain);
        let (own, others): (Vec<_>, Vec<_>) =
            self.followed.iter().partition(|(chain, one)| is_own(chain, one));
        let mut due: Vec<_> = own.into_iter().map(|(chain, _)| *chain).collect();
        let others: Vec<_> = others.into_iter().map(|(chain, _)| *chain).collect();
        let start = others.partition_point(|chain| *chain <= self.last_stranger);
        let next = others[start..]
            .iter()
            .chain(&others[..start])
            .take(STRANGER_READS);
        due.extend(next);
        if let Some(last) = due.last().filter(|_| !others.is_empty()) {
            self.last_stranger = *last;
        }
        due
    }

    /// Follows a chain base no more, unless the operator has named it.
    pub(super) fn unfollow(&mut self, chain: &Address) {
        if self.config.chains.contains(chain) {
            return;
        }
        self.followed.remove(chain);
        self.keep_followed();
        if self.unfollowed.len() >= UNFOLLOWED_MAX {
            self.unfollowed.retain(|_, at| at.elapsed() < UNFOLLOWED_PAUSE);
        }
        if self.unfollowed.len() < UNFOLLOWED_MAX {
            self.unfollowed.insert(*chain, Instant::now());
        }
    }

    /// Follows the chain base of a message or a transaction, unless that was in vain a short while
    /// ago. Returns whether it does.
    pub(super) fn follow_again(&mut self, chain: Address) -> bool {
        let is_paused = |at: &Instant| at.elapsed() < UNFOLLOWED_PAUSE;
        if !self.followed.contains_key(&chain) && self.unfollowed.get(&chain).is_some_and(is_paused) {
            return false;
        }
        self.follow(chain)
    }

    /// Follows a chain base from now on. Returns whether it does.
    pub(super) fn follow(&mut self, chain: Address) -> bool {
        if self.followed.contains_key(&chain) {
            return true;
        }
        let without_engine = self.followed.values().filter(|one| one.engine.is_none());
        if without_engine.count() >= FOLLOWED_MAX {
            tracing::warn!(%chain, "not followed: got {FOLLOWED_MAX} chain bases, expected fewer");
            return false;
        }
        self.followed.insert(chain, Followed::default());
        self.keep_followed();
        self.read(chain);
        true
    }

    pub(super) fn keep_followed(&self) {
        let without_engine = self.followed.iter().filter(|(_, one)| one.engine.is_none());
        let chains: BTreeSet<_> = without_engine.map(|(chain, _)| *chain).collect();
        if let Err(error) = self.folders.keep_followed(&chains) {
            tracing::error!(%error, "the list of chain bases was not written");
        }
    }

    /// Gives an event to the engine of a chain, or holds it until it is known whether there is one.
    pub(super) fn give(&mut self, chain: Address, event: Event) {
        let held_bytes: usize = self.followed.values().map(|one| one.held_bytes).sum();
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if let Some(engine) = &followed.engine {
            if !engine.give(event) {
                tracing::warn!(%chain, "an event was dropped: the MicroChain is too far behind");
            }
            return;
        }
        let len = event_len(&event);
        if followed.held.len() < HELD_MAX
            && followed.held_bytes + len <= HELD_BYTES_MAX
            && held_bytes + len <= HELD_BYTES_TOTAL_MAX
        {
            followed.held_bytes += len;
            followed.held.push(event);
        }
    }

    fn take_transaction(&mut self, chain: Address, rlp: &[u8]) {
        let transaction = match Transaction::decode_raw(rlp, TxRules::Moac) {
            Ok(transaction) if transaction.to == Some(chain) => transaction,
            Ok(transaction) => {
                tracing::debug!(%chain, to = ?transaction.to, "a transaction for another chain was ignored");
                return;
            }
            Err(error) => {
                tracing::debug!(%chain, %error, "a transaction was ignored");
                return;
            }
        };
        if self.follow_again(chain) {
            self.give(chain, Event::Transaction(Box::new(transaction)));
        }
    }

    fn take_broadcast(&mut self, message: ScsMessage) {
        let MessageKind::Broadcast(status) = message.kind else {
            return;
        };
        let (Some(chain), Some(sender)) = (message.chain, message.sender) else {
            return;
        };
        if sender.address == self.id || !self.follow_again(chain.address) {
            return;
        }
        let message = MemberMessage {
            status: status.number(),
            sender: sender.address,
            receiver: message.receiver.map(|receiver| receiver.address),
            payload: message.payload.into(),
        };
        self.give(chain.address, Event::Message(message));
    }

    /// Reads a chain base in a task of its own. The result comes as a letter.
    pub(super) fn read(&mut self, chain: Address) {
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if followed.reading != ReadState::Idle {
            followed.reading = ReadState::RunningAndStale;
            return;
        }
        // The first head comes within a second of the connection.
        if !self.served.is_connected() || self.head == 0 {
            return;
        }
        followed.reading = ReadState::Running;
        let must_read_all = std::mem::take(&mut followed.must_read_all);
        let kept = followed.kept.take().filter(|_| !must_read_all);
        let wish = ReadWish {
            head: self.head,
            deposits_from: followed.engine.as_ref().and_then(EngineHandle::deposits_from),
            via: self.via,
        };
        let (reader, inbox) = (self.reader.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let read = reader.refresh(chain, wish, kept.map(|kept| *kept)).await;
            let _ = inbox.send(Letter::Read(chain, read.map(Box::new))).await;
        });
    }

    fn open(&mut self, letter: Letter) {
        let (chain, read) = match letter {
            Letter::Read(chain, read) => (chain, read),
            Letter::ReadAgain(chain) => {
                if let Some(followed) = self.followed.get_mut(&chain) {
                    followed.reads_again = false;
                    self.read(chain);
                }
                return;
            }
            Letter::Pool(plan, pool) => return self.register(plan, pool),
        };
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let is_stale = followed.reading == ReadState::RunningAndStale;
        followed.reading = ReadState::Idle;
        match read {
            Ok(kept) => {
                followed.told = None;
                let reading = kept.reading.clone();
                followed.kept = Some(kept);
                self.use_reading(chain, reading);
            }
            Err(error) => self.read_failed(chain, &error),
        }
        if is_stale {
            self.read(chain);
        }
    }

    fn read_failed(&mut self, chain: Address, error: &BaseError) {
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let may_come = matches!(error, BaseError::Source(_)) || self.config.chains.contains(&chain);
        if !may_come && followed.engine.is_none() {
            tracing::info!(%chain, %error, "not followed: the contract is no chain base");
            return self.unfollow(&chain);
        }
        let reason = error.to_string();
        if followed.told.as_ref() != Some(&reason) {
            tracing::warn!(%chain, %reason, "the chain base cannot be read now");
            followed.told = Some(reason);
        }
        if std::mem::replace(&mut followed.reads_again, true) {
            return;
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(READ_PAUSE).await;
            let _ = inbox.send(Letter::ReadAgain(chain)).await;
        });
    }
}
