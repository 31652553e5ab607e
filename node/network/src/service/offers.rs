//! The transactions and messages that a peer has sent, until they are taken.
//!
//! Offers are hashed and checked away from the task of the connection and without the lock of the
//! hub, in parts. Few threads do this for all peers, and each peer gets one in turn. While much of
//! a peer waits, its connection is not read, so the peer has to wait, too. Transactions of a peer
//! that pauses, or of an address that has no share of the work left, are dropped and do not wait:
//! behind them may be answers that this node waits for.

use std::collections::VecDeque;
use std::future::pending;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use primitives::Transaction;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bounds::ReservedBytes;
use super::core::{Core, PeerJob};
use super::threads::start_task;
use crate::messages::ApplicationChainMessage;
use crate::peers::{
    HashedTransaction, JudgedTransactions, PACK_PART, PeerAction, PeerId, ShareHolder, TransactionPack,
    TransactionVerdict,
};

/// While more bytes of memory of a peer wait than this, its connection is not read.
pub(crate) const OFFERED_BYTES_MAX: usize = 1 << 20;
/// The bytes of a peer that may wait even if those of others fill all the memory for them. An
/// ordinary pack takes less.
pub(crate) const OFFERED_BYTES_FREE: usize = 512 << 10;
/// Transactions that are still taken of a connection that has ended: it may have been the only one
/// that had them. The rest is dropped, as is all of an address that has no share left.
pub(crate) const LAST_TRANSACTIONS_MAX: usize = 256;

/// A pack waits at most so long for a share of the work. If it would have to wait longer, the rest
/// of it is dropped.
const SHARE_WAIT_MAX: Duration = Duration::from_millis(100);

/// Something that is not taken yet.
pub(super) enum Offered {
    Pack(TransactionPack),
    Message(Box<ApplicationChainMessage>),
}

impl Offered {
    const fn is_pack(&self) -> bool {
        matches!(self, Self::Pack(_))
    }

    fn memory(&self) -> usize {
        match self {
            Self::Pack(pack) => pack.memory(),
            Self::Message(message) => size_of::<ApplicationChainMessage>() + message.length(),
        }
    }
}

struct WaitingOffer {
    offered: Offered,
    bytes: usize,
    _reserved: Option<ReservedBytes>,
}

/// The result of taking something.
#[derive(Clone, Copy, Debug, Default)]
struct TakenOffer {
    /// Transactions that may still be taken if the connection has ended.
    left_after_end: usize,
    /// The time for which no more transactions are to be taken.
    pause: Duration,
}

/// The offers of one peer that wait, and the one that is being taken.
pub(super) struct PeerOffers {
    taker: OfferTaker,
    is_over: watch::Sender<bool>,
    waiting: VecDeque<WaitingOffer>,
    running: Option<JoinHandle<TakenOffer>>,
    running_bytes: usize,
    /// The time for which the last transactions taken end the taking of more.
    pause: Duration,
    /// No transactions are taken before this time.
    paused_until: Option<Instant>,
    /// Of all that waits, and of what is being taken.
    bytes: usize,
}

impl PeerOffers {
    pub(super) fn new(core: &Arc<Core>, peer: PeerId, holder: ShareHolder) -> Self {
        let (is_over, over) = watch::channel(false);
        Self {
            taker: OfferTaker {
                core: Arc::clone(core),
                peer,
                holder,
                over,
                left_after_end: LAST_TRANSACTIONS_MAX,
            },
            is_over,
            waiting: VecDeque::new(),
            running: None,
            running_bytes: 0,
            pause: Duration::ZERO,
            paused_until: None,
            bytes: 0,
        }
    }

    /// Whether the connection may be read on.
    pub(super) const fn has_room(&self) -> bool {
        self.bytes <= OFFERED_BYTES_MAX
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Lets something wait, and begins with it if nothing else is being taken. It is dropped if
    /// those of all peers have filled the memory for them, and transactions also during a pause.
    pub(super) fn push(&mut self, offered: Offered) {
        if self.is_paused() && offered.is_pack() {
            self.taker.drop_offer(&offered);
            return;
        }
        let bytes = offered.memory();
        let reserved = if self.bytes + bytes <= OFFERED_BYTES_FREE {
            None
        } else {
            let reserved = self.taker.core.bounds.offered.try_take(bytes);
            if reserved.is_none() {
                tracing::debug!(
                    peer = self.taker.peer.0,
                    bytes,
                    "an offer of a peer is dropped: too many wait"
                );
                self.taker.drop_offer(&offered);
                return;
            }
            reserved
        };
        self.bytes += bytes;
        self.waiting.push_back(WaitingOffer {
            offered,
            bytes,
            _reserved: reserved,
        });
        self.start();
    }

    fn start(&mut self) {
        if self.running.is_none()
            && let Some(offer) = self.waiting.pop_front()
        {
            self.running_bytes = offer.bytes;
            let mut taker = self.taker.clone();
            self.running = Some(tokio::spawn(async move { taker.take(offer).await }));
        }
    }

    /// Waits until something is taken, for ever if nothing is being taken. Then
    /// [`Self::go_on`] must be called. Losing this future loses nothing.
    pub(super) async fn taken(&mut self) {
        match &mut self.running {
            // One that panics is over, too.
            Some(running) => self.pause = running.await.unwrap_or_default().pause,
            None => pending().await,
        }
    }

    pub(super) fn go_on(&mut self) {
        self.running = None;
        self.bytes -= mem::take(&mut self.running_bytes);
        let pause = mem::take(&mut self.pause);
        if !pause.is_zero() {
            self.paused_until = Some(Instant::now() + pause);
            self.drop_packs();
        }
        self.start();
    }

    fn drop_packs(&mut self) {
        let waiting = mem::take(&mut self.waiting).into_iter();
        let (packs, others): (VecDeque<_>, _) = waiting.partition(|offer| offer.offered.is_pack());
        self.waiting = others;
        for offer in packs {
            self.bytes -= offer.bytes;
            self.taker.drop_offer(&offer.offered);
        }
    }

    /// The connection has ended. If the peer has ended it, a few transactions are still taken, and
    /// the rest is dropped. Nothing is taken of a peer that had to go.
    pub(super) fn end(self, is_by_peer: bool) {
        let Self {
            mut taker,
            is_over,
            waiting,
            running,
            ..
        } = self;
        if running.is_none() && waiting.is_empty() {
            return;
        }
        let last_offers = Arc::clone(&taker.core.bounds.last_offers);
        let place = last_offers.try_acquire_owned().ok().filter(|_| is_by_peer);
        let Some(place) = place else {
            if let Some(running) = running {
                running.abort();
            }
            return;
        };
        let _ = is_over.send(true);
        start_task(async move {
            let mut pause = Duration::ZERO;
            if let Some(running) = running {
                TakenOffer {
                    left_after_end: taker.left_after_end,
                    pause,
                } = running.await.unwrap_or_default();
            }
            for offer in waiting {
                if pause.is_zero() || !offer.offered.is_pack() {
                    pause = pause.max(taker.take(offer).await.pause);
                } else {
                    taker.drop_offer(&offer.offered);
                }
            }
            drop((place, is_over));
        });
    }
}

/// Takes what one peer has sent.
#[derive(Clone)]
struct OfferTaker {
    core: Arc<Core>,
    peer: PeerId,
    holder: ShareHolder,
    over: watch::Receiver<bool>,
    left_after_end: usize,
}

impl OfferTaker {
    async fn take(&mut self, offer: WaitingOffer) -> TakenOffer {
        let pause = match offer.offered {
            Offered::Pack(pack) => self.take_pack(pack).await,
            Offered::Message(message) => {
                let (core, peer) = (Arc::clone(&self.core), self.peer);
                let recognize = move || {
                    let key = message.key();
                    core.with_hub(|hub, _| hub.application_message_came(peer, key, message));
                };
                let _ = tokio::task::spawn_blocking(recognize).await;
                Duration::ZERO
            }
        };
        TakenOffer {
            left_after_end: self.left_after_end,
            pause,
        }
    }

    /// Counts an offer that is dropped, and tells the hub.
    fn drop_offer(&self, offered: &Offered) {
        self.core.traffic.was_left_out();
        if let Offered::Pack(pack) = offered {
            self.pack_done(pack.asked.as_deref());
        }
    }

    fn pack_done(&self, asked: Option<&[primitives::B256]>) {
        if asked.is_some() {
            self.core
                .with_hub(|hub, now| hub.pack_done(self.peer, asked, now));
        }
    }

    /// Returns for how long no more transactions are to be taken. The rest of the pack is dropped
    /// then.
    async fn take_pack(&mut self, pack: TransactionPack) -> Duration {
        let TransactionPack { transactions, asked } = pack;
        let asked: Option<Arc<[_]>> = asked.map(Into::into);
        let mut left = transactions.into_iter();
        let mut running = None;
        let pause = loop {
            let wait = self.wait_for_share().await;
            if !wait.is_zero() {
                break wait;
            }
            let most = if self.is_over() {
                self.left_after_end
            } else {
                PACK_PART
            };
            let part: Vec<_> = left.by_ref().take(most.min(PACK_PART)).collect();
            if part.is_empty() {
                break Duration::ZERO;
            }
            if self.is_over() {
                self.left_after_end -= part.len();
            }
            let checks = Arc::clone(&self.core.bounds.checks);
            // The semaphore is never closed.
            let Ok(thread) = checks.acquire_owned().await else {
                break Duration::ZERO;
            };
            running.get_or_insert_with(|| self.core.begin_submission());
            let (core, peer, holder) = (Arc::clone(&self.core), self.peer, self.holder);
            let asked = asked.clone();
            let taken = tokio::task::spawn_blocking(move || {
                let pause = take_part(&core, peer, holder, part, asked.as_deref());
                drop(thread);
                pause
            });
            let pause = taken.await.unwrap_or_default();
            if !pause.is_zero() {
                break pause;
            }
        };
        drop(running);
        if !left.as_slice().is_empty() {
            self.core.traffic.was_left_out();
        }
        self.pack_done(asked.as_deref());
        pause
    }

    fn is_over(&self) -> bool {
        *self.over.borrow() || self.over.has_changed().is_err()
    }

    /// Waits until the address has a share of the work, if that is soon. Returns how long it would
    /// still have to wait: zero if it has one.
    async fn wait_for_share(&self) -> Duration {
        let wait = || self.core.bounds.wait(self.holder, self.core.now().elapsed);
        let first = wait();
        if first.is_zero() || first > SHARE_WAIT_MAX || self.is_over() {
            return first;
        }
        tokio::time::sleep(first).await;
        wait()
    }
}

/// Takes a part of a pack. Returns for how long no more is to be taken of the peer.
fn take_part(
    core: &Arc<Core>,
    peer: PeerId,
    holder: ShareHolder,
    part: Vec<Transaction>,
    asked: Option<&[primitives::B256]>,
) -> Duration {
    let part: Vec<HashedTransaction> = part.into_iter().map(HashedTransaction::from).collect();
    let mut judged = JudgedTransactions::default();
    let jobs = core.with_hub(|hub, now| {
        let actions = hub.transactions_hashed(peer, part, asked, now);
        // Copies of those that were passed on already cost nothing more.
        let is_flagged = |action: &&PeerAction| matches!(action, PeerAction::ForApplicationChain(_));
        judged.flagged = actions.iter().filter(is_flagged).count() as u32;
        actions
    });
    for job in jobs {
        let PeerJob::Submit(transactions) = job else {
            continue;
        };
        for offered in transactions {
            let verdict = core.chain.submit(offered);
            if let TransactionVerdict::Refused(reason) | TransactionVerdict::Worthless(reason) = &verdict {
                tracing::trace!(reason, "a transaction of a peer is not taken");
            }
            judged.count(&verdict);
        }
    }
    core.bounds.use_up(holder, judged.cost(), core.now().elapsed);
    let jobs = core.with_hub(|hub, now| hub.transactions_judged(peer, judged, now));
    let pauses = jobs.iter().map(|job| match job {
        PeerJob::Pause(time) => *time,
        _ => Duration::ZERO,
    });
    pauses.max().unwrap_or_default()
}
