//! Whether a message of a peer is worth decoding. What costs little is looked at first: the code,
//! the length, and what the peer has sent before.

use super::super::action::PeerAction;
use super::super::interface::{PeerFault, PeerId};
use super::super::share::ShareRate;
use super::{OTHER_CHAIN_BAN, PeerHub, UNASKED_MAX};
use crate::messages::{APPLICATION_MESSAGE_BYTES_MAX, WireFamily, codes};
use crate::moment::Moment;
use crate::requests::AnswerKind;
use crate::rlpx::RlpxDisconnect;

/// The share of an address ([`super::super::ShareHolder`]) in messages of application chains, in
/// bytes: some blocks of the largest size at once, and then what a chain with a full block every
/// other second sends.
pub(crate) const APPLICATION_MESSAGES_SHARE: ShareRate = ShareRate {
    burst: 16 << 20,
    per_second: 1 << 20,
};
/// The least number of bytes that a message of an application chain counts in
/// [`APPLICATION_MESSAGES_SHARE`]: 4096 messages at once and 256 in each second. The shortest has
/// some 20 bytes, and costs a hash, a place in many outboxes and in the queue for the SCS servers.
pub(crate) const APPLICATION_MESSAGE_COST_MIN: u64 = 4096;
/// The share of a peer in announcements, in hashes: those of some full pools, and then more than a
/// network's transactions.
pub(crate) const ANNOUNCED_HASHES_SHARE: ShareRate = ShareRate {
    burst: 65_536,
    per_second: 8192,
};
/// The least bytes that an announced hash takes.
const HASH_BYTES: usize = 33;

impl PeerHub {
    /// Says whether a message of a peer is worth decoding. `bytes` is the length of its RLP. `Err`
    /// has what follows from a message that is not: it is left out.
    ///
    /// # Errors
    /// Actions for the caller. There may be none.
    pub(crate) fn admits(
        &mut self,
        peer: PeerId,
        code: u64,
        bytes: usize,
        now: Moment,
    ) -> Result<(), Vec<PeerAction>> {
        if self.is_worth_decoding(peer, code, bytes, now) {
            Ok(())
        } else {
            Err(self.take_actions())
        }
    }

    fn is_worth_decoding(&mut self, peer: PeerId, code: u64, bytes: usize, now: Moment) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else {
            return false;
        };
        if !state.is_active() && code != codes::STATUS {
            let fault = PeerFault {
                text: format!("got code {code:#04x} before the Status"),
                disconnect: RlpxDisconnect::Subprotocol,
                banned: OTHER_CHAIN_BAN,
            };
            self.punish(peer, &fault, now);
            return false;
        }
        if let Some(kind) = AnswerKind::of_answer_code(code)
            && !state.requests.awaits(kind)
        {
            state.unasked += 1;
            state.faults += 1;
            if state.unasked > UNASKED_MAX {
                self.breach(peer, "got answers that nobody has asked for", now);
            }
            return false;
        }
        match code {
            codes::APPLICATION_CHAIN => {
                let cost = (bytes as u64).max(APPLICATION_MESSAGE_COST_MIN);
                let holder = state.share_holder();
                bytes <= APPLICATION_MESSAGE_BYTES_MAX
                    && self.application_shares.try_use(holder, cost, now.elapsed)
            }
            codes::STATUS => true,
            codes::TRANSACTIONS => {
                // Ethereum's have no sharding flag, so they are for the pool only.
                !(self.is_behind && self.settings.family == WireFamily::Eth)
            }
            _ if self.is_subnet || codes::WITHOUT_EFFECT.contains(&code) => false,
            codes::NEW_POOLED_HASHES | codes::NEW_BLOCK_HASHES => {
                let hashes = bytes.div_ceil(HASH_BYTES) as u64;
                let used = &mut state.announced_hashes;
                used.try_use(hashes, ANNOUNCED_HASHES_SHARE, now.elapsed)
            }
            _ => true,
        }
    }
}
