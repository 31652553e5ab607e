//! The fate of a block: it is canonical, a canonical block pays it as an uncle, or nobody does.

use primitives::{B256, Header, U256};
use store::StoreError;

use crate::import::BlockId;
use crate::rules::UNCLE_GENERATIONS;
use crate::rules::payment::BlockPayment;
use crate::view::View;

/// The fate of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFate {
    /// The block is canonical.
    Canonical,
    /// A canonical block includes it as an uncle.
    Uncle {
        /// The canonical block.
        nephew: BlockId,
        /// The reward of the uncle's miner in sha.
        reward: U256,
    },
    /// Another block has its place, and a coming block can include it as an uncle.
    Side,
    /// Nobody is paid for it.
    Lost,
}

impl BlockFate {
    /// The name in answers and on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::Uncle { .. } => "uncle",
            Self::Side => "side",
            Self::Lost => "lost",
        }
    }
}

impl View {
    /// Returns the fate of the block `hash` with this header. Reads the headers of the few blocks
    /// that could include it, and the bodies of those that have uncles.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn block_fate(&self, hash: &B256, header: &Header) -> Result<BlockFate, StoreError> {
        if self.canonical_hash(header.number)? == Some(*hash) {
            return Ok(BlockFate::Canonical);
        }
        // Its parent is one generation further away than the block itself.
        let last = header.number.saturating_add(UNCLE_GENERATIONS - 1);
        let no_uncles = primitives::uncles_hash(&[]);
        for number in header.number + 1..=last.min(self.head_number()) {
            let Some((nephew, record)) = self.header(number)? else {
                break;
            };
            if record.header.uncles_hash == no_uncles {
                continue;
            }
            let Some(block) = self.block(number)? else {
                continue;
            };
            let uncles = &block.body.uncles;
            if let Some(index) = uncles.iter().position(|uncle| uncle.hash() == *hash) {
                let payment = BlockPayment::of(self.spec(), number, uncles);
                return Ok(BlockFate::Uncle {
                    nephew: BlockId { number, hash: nephew },
                    reward: payment.uncles[index].1,
                });
            }
        }
        Ok(if self.head_number() < last {
            BlockFate::Side
        } else {
            BlockFate::Lost
        })
    }
}
