//! Blocks that peers must have: whoever has another one at its number is on another chain.
//!
//! Each peer is asked for their headers after its Status. A peer that does not have the block yet
//! stays.

use chain::import::BlockId;
use primitives::Header;

use super::super::interface::{PeerFault, PeerId};
use super::{OTHER_CHAIN_BAN, PeerHub, RequestNote};
use crate::messages::{HeadersRequest, HeadersStart, PeerMessage};
use crate::moment::Moment;
use crate::rlpx::RlpxDisconnect;

/// The most blocks that peers must have.
pub const REQUIRED_BLOCKS_MAX: usize = 16;

impl PeerHub {
    /// Says which blocks peers must have, at most [`REQUIRED_BLOCKS_MAX`].
    pub fn require_blocks(&mut self, blocks: &[BlockId]) {
        self.required = blocks.iter().copied().take(REQUIRED_BLOCKS_MAX).collect();
    }

    pub(super) fn ask_for_required(&mut self, peer: PeerId, now: Moment) {
        for block in self.required.clone() {
            let request = HeadersRequest {
                start: HeadersStart::Number(block.number),
                amount: 1,
                skip: 0,
                reverse: false,
            };
            let message = |id| PeerMessage::GetBlockHeaders(id, request);
            self.ask(peer, RequestNote::Required(block), message, now);
        }
    }

    pub(super) fn required_header_came(
        &mut self,
        peer: PeerId,
        block: BlockId,
        headers: &[Header],
        now: Moment,
    ) {
        let Some(header) = headers.first() else { return };
        let got = header.hash();
        if header.number != block.number || got != block.hash {
            let fault = PeerFault {
                text: format!(
                    "required block: got block {} ({got}), expected block {} ({})",
                    header.number, block.number, block.hash
                ),
                disconnect: RlpxDisconnect::Useless,
                banned: OTHER_CHAIN_BAN,
            };
            self.punish(peer, &fault, now);
        }
    }
}
