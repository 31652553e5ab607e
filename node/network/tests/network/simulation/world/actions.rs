//! Carries out the actions of the hubs.

use std::time::Duration;

use network::testing::serve::{ServeLimits, answer};
use network::testing::{ChainAccess, ImportResult, PeerAction, PeerId, PeerMessage, PeerNews};
use network::{RlpxDisconnect, WireFamily};
use primitives::Block;

use super::{Event, Remote, Role, World};

impl World {
    pub(super) fn carry_out(&mut self, index: usize, actions: Vec<PeerAction>) {
        for action in actions {
            let life = self.nodes[index].life;
            match action {
                PeerAction::Send { to, message } => {
                    for peer in to {
                        if let Some(remote) = self.nodes[index].links.get(&peer).copied() {
                            let message = Box::new(message.clone());
                            self.send(remote, message);
                        }
                    }
                }
                PeerAction::Disconnect { peer, reason } => {
                    self.count_drop(index, peer, reason);
                    self.close(index, peer);
                }
                PeerAction::Serve { peer, request } => {
                    let Role::Honest { chain, .. } = &self.nodes[index].role else {
                        continue;
                    };
                    let limits = ServeLimits::of(WireFamily::Mc);
                    // A node whose store fails gives no answer.
                    let Ok(answered) = answer(&**chain, limits, &request) else {
                        continue;
                    };
                    if let Some(message) = &answered {
                        self.check_answer(index, message);
                    }
                    if let (Some(remote), Some(message)) =
                        (self.nodes[index].links.get(&peer).copied(), answered)
                    {
                        self.send(remote, Box::new(message));
                    }
                }
                PeerAction::CheckHeader { from, hash, header } => {
                    self.counts.checks += 1;
                    let result = self.chain(index).check_header(&hash, &header);
                    let event = Event::HeaderChecked(index, life, (from, hash), result);
                    self.after(Duration::from_millis(2), event);
                }
                PeerAction::Check { from, hash, block } => {
                    self.counts.checks += 1;
                    let result = self.chain(index).check(&block);
                    let event = Event::Checked(index, life, (from, hash), result);
                    self.after(Duration::from_millis(2), event);
                }
                PeerAction::Import { hash, block } => {
                    let result = self.import(index, *block);
                    let event = Event::Imported(index, life, hash, result);
                    self.after(Duration::from_millis(10), event);
                }
                PeerAction::News(news) => self.news(index, news),
                PeerAction::Take { peer, pack } if self.nodes[index].whole.is_some() => {
                    let offered = pack.transactions.into_iter().map(Into::into).collect();
                    let asked = pack.asked.as_deref();
                    self.with_hub(index, |hub, now| {
                        hub.transactions_hashed(peer, offered, asked, now)
                    });
                    self.with_hub(index, |hub, now| hub.pack_done(peer, asked, now));
                }
                PeerAction::Submit { peer, transactions } if self.nodes[index].whole.is_some() => {
                    self.offer_all(index, peer, transactions);
                }
                PeerAction::Take { .. }
                | PeerAction::Submit { .. }
                | PeerAction::Pause { .. }
                | PeerAction::Recognize { .. }
                | PeerAction::ApplicationChain(_)
                | PeerAction::ForApplicationChain(_) => {}
            }
        }
    }

    /// Sends a message over a connection.
    fn send(&mut self, to: Remote, message: Box<PeerMessage>) {
        for delay in self.delays(to.delay) {
            self.after(delay, Event::Message(to, message.clone()));
        }
    }

    pub(super) fn import(&self, index: usize, block: Block) -> ImportResult {
        ChainAccess::import(self.chain(index), block)
    }

    fn news(&mut self, index: usize, news: PeerNews) {
        self.with_sync(index, |sync, view, now| sync.handle(now, view, news));
    }

    fn count_drop(&mut self, index: usize, peer: PeerId, reason: RlpxDisconnect) {
        let Some(remote) = self.nodes[index].links.get(&peer).copied() else {
            return;
        };
        match &self.nodes[remote.node].role {
            Role::Liar { liar, .. } => {
                *self
                    .counts
                    .liars_dropped
                    .entry(format!("{:?}", liar.lie()))
                    .or_default() += 1;
            }
            Role::Honest { .. } => {
                let dropped = &mut self.counts.honest_dropped;
                *dropped.entry(format!("{reason:?}")).or_default() += 1;
            }
        }
    }
}
