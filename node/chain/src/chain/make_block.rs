//! Blocks that are made when somebody asks for them, on the development network.
//!
//! A block is built from the pool, sealed here and imported like every other block. Where seals are
//! not checked it has none. The clock of the chain follows the timestamps of such blocks, so that
//! no block is ahead of it.

use std::time::Duration;

use primitives::{Block, Bytes};

use super::{Chain, WriteError};
use crate::developer::{DeveloperChange, GAS_LIMIT_MARK};
use crate::import::{BlockId, Imported};
use crate::mining::build::{BuildSettings, build};
use crate::pool::ReadyTransactions;
use crate::rules::seal::{SealCheck, SealCheckError};
use crate::spec::{ChainSpec, GAS_LIMIT_MIN};
use crate::state::StateError;

/// The reason why no block was made.
#[derive(Debug, thiserror::Error)]
pub enum MakeBlockError {
    /// Only the development network makes blocks on demand.
    #[error("the network {0} makes no blocks on demand: only the development network does")]
    NotDeveloper(String),
    /// The timestamp is not above that of the head.
    #[error("timestamp of the next block: got {got}, expected more than {head}, the one of the head")]
    Timestamp {
        /// The requested timestamp.
        got: u64,
        /// The timestamp of the head.
        head: u64,
    },
    /// No block can have this gas limit.
    #[error("gas limit: got {got}, expected {GAS_LIMIT_MIN} to {}", i64::MAX)]
    GasLimit {
        /// The requested gas limit.
        got: u64,
    },
    /// The change is too long for a block.
    #[error("change of an account: got {got} bytes, expected at most {max}")]
    ChangeLength {
        /// Bytes of the change.
        got: usize,
        /// The most bytes.
        max: usize,
    },
    /// Nobody can seal the block here.
    #[error(transparent)]
    Seal(#[from] SealCheckError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The block was not imported.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The parts of the next block.
#[derive(Clone, Debug, Default)]
pub struct BlockOrder {
    /// The timestamp; `None` takes that of the clock, and at least the head's and one second.
    pub timestamp: Option<u64>,
    /// A change of an account. A block with a change has no transactions.
    pub change: Option<DeveloperChange>,
    /// The gas limit of this block and the later ones. A block that changes it has no transactions.
    pub gas_limit: Option<u64>,
}

impl Chain {
    /// Seconds by which the chain's clock is ahead of the system's.
    pub fn clock_ahead(&self) -> i64 {
        self.inner.clock.ahead()
    }

    /// Sets the seconds by which the chain's clock is ahead of the system's.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.inner.clock.set_ahead(seconds);
    }

    /// The time of the chain's clock.
    pub fn now(&self) -> Duration {
        self.inner.clock.now()
    }

    /// Makes the next block and imports it.
    ///
    /// # Errors
    /// [`MakeBlockError`] if there is no such block, or it is not imported.
    pub fn make_block(&self, order: BlockOrder) -> Result<BlockId, MakeBlockError> {
        let inner = &self.inner;
        if !inner.spec.developer {
            return Err(MakeBlockError::NotDeveloper(inner.spec.name.clone()));
        }
        // Two blocks on the same head would be of no use.
        let _making = inner.making_block.lock();
        let view = inner.view().map_err(StateError)?;
        let head = view.head();
        let above = head.header.timestamp;
        let now = inner.clock.now().as_secs();
        let timestamp = match order.timestamp {
            Some(got) if got <= above => return Err(MakeBlockError::Timestamp { got, head: above }),
            Some(timestamp) => timestamp,
            None => now.max(above + 1),
        };
        let (ready, extra_data) = match (&order.change, order.gas_limit) {
            (None, None) => (inner.pool.ready(), None),
            (Some(change), _) => (ReadyTransactions::default(), Some(encoded(change)?)),
            (None, Some(got)) if !(GAS_LIMIT_MIN..=i64::MAX as u64).contains(&got) => {
                return Err(MakeBlockError::GasLimit { got });
            }
            (None, Some(_)) => {
                let mark = Bytes::from_static(GAS_LIMIT_MARK);
                (ReadyTransactions::default(), Some(mark))
            }
        };
        let mut settings: BuildSettings = inner.settings.lock().clone();
        settings.gas_limit = order.gas_limit.or(settings.gas_limit);
        settings.extra_data = extra_data.unwrap_or(settings.extra_data);
        let snapshot = view.snapshot();
        let draft = build(&inner.spec, snapshot, head, timestamp, &settings, ready, &[])?;
        let mut block = draft.block;
        seal(inner.importer.seals(), &inner.spec, &mut block)?;
        if timestamp > now || order.timestamp.is_some() {
            inner.clock.set_now(timestamp);
        }
        let id = BlockId {
            number: block.header.number,
            hash: block.hash(),
        };
        if order.gas_limit.is_some() {
            // The follower of the head reads the limit of the block after this one.
            self.change_settings(|settings| settings.gas_limit = order.gas_limit);
        }
        match self.import(block)? {
            Imported::Head { .. } | Imported::Side | Imported::Known | Imported::Later => Ok(id),
        }
    }
}

fn encoded(change: &DeveloperChange) -> Result<Bytes, MakeBlockError> {
    use crate::developer::EXTRA_BYTES_MAX;
    let extra_data = change.encode();
    if extra_data.len() > EXTRA_BYTES_MAX {
        return Err(MakeBlockError::ChangeLength {
            got: extra_data.len(),
            max: EXTRA_BYTES_MAX,
        });
    }
    Ok(extra_data)
}

/// Searches for the seal of a block in this thread. The difficulty of the development network is so
/// low that this takes a fraction of a second.
fn seal(seals: &SealCheck, spec: &ChainSpec, block: &mut Block) -> Result<(), SealCheckError> {
    let Some(caches) = seals.light_caches() else {
        return Ok(());
    };
    let header = &mut block.header;
    let cache = caches.get(spec.schedule.epoch(header.number))?;
    let boundary = ethash::boundary(&header.difficulty);
    let header_hash = header.header_hash();
    for pow_nonce in 0.. {
        let hash = cache.hash(&header_hash, pow_nonce);
        if ethash::meets_boundary(&hash.final_hash, &boundary) {
            (header.pow_nonce, header.mix_hash) = (pow_nonce, hash.mix_hash);
            break;
        }
    }
    Ok(())
}
