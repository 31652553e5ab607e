//! A handle of a chain that another part of the process writes: an application chain, for the
//! methods of wallets. It has no threads and takes no blocks. Its pool stays empty.

use std::sync::Arc;

use primitives::{Address, Bytes};
use store::{Store, StoreError};

use super::{Chain, ChainConfig, ChainInner, ChainOpenError, ChainThreads, HandleChannels, WriterJobs};
use crate::import::{ForkLimits, Importer, StateRetention};
use crate::pool::PoolConfig;
use crate::rules::seal::SealCheck;
use crate::spec::ChainSpec;

impl Chain {
    /// A handle of the chain in `store`, which must have its block 0. Subscribers are told how the
    /// head has moved at each [`Self::look_at_head`].
    ///
    /// # Errors
    /// [`ChainOpenError`] if the store fails.
    pub fn follower(store: Store, spec: Arc<ChainSpec>) -> Result<Self, ChainOpenError> {
        let jobs = WriterJobs::of(&Importer::new(store.clone(), spec.clone(), SealCheck::Off));
        let config = ChainConfig {
            spec,
            seals: SealCheck::Off,
            forks: ForkLimits::default(),
            pool: PoolConfig::default(),
            beneficiary: Address::ZERO,
            extra_data: Bytes::new(),
            states: StateRetention::Archive,
        };
        let inner = ChainInner::open(store, config, &jobs, HandleChannels::default())?;
        let threads = Arc::new(ChainThreads::new(inner.clone()));
        Ok(Self { inner, threads })
    }

    /// Tells subscribers how the head has moved since the last look, if it has.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn look_at_head(&self) -> Result<(), StoreError> {
        self.inner.follow_other_writer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::WriteError;
    use crate::genesis::ensure_genesis;
    use crate::mining::build::build;

    #[test]
    fn a_follower_tells_what_another_writer_does_and_writes_nothing() {
        let (store, spec) = (Store::in_memory().unwrap(), Arc::new(ChainSpec::dev()));
        ensure_genesis(&store, &spec).unwrap();
        let writer = Importer::new(store.clone(), spec.clone(), SealCheck::Off);
        let follower = Chain::follower(store, spec.clone()).unwrap();
        let events = follower.subscribe();
        follower.look_at_head().unwrap();
        assert!(events.try_recv().is_err());
        let next = |tag: &'static [u8]| {
            let view = follower.view().unwrap();
            let mut settings = follower.settings();
            settings.extra_data = Bytes::from_static(tag);
            let (head, time) = (view.head(), 1_000_000 + view.head_number());
            let ready = follower.pool().ready();
            let draft = build(&spec, view.snapshot(), head, time, &settings, ready, &[]);
            draft.unwrap().block
        };
        let (one, other) = (next(b"one"), next(b"other"));
        writer.import(&one, None).unwrap();
        follower.look_at_head().unwrap();
        let event = events.try_recv().unwrap();
        assert_eq!(event.applied.last().unwrap().hash, one.hash());
        writer.set_head(0).unwrap();
        writer.import(&other, None).unwrap();
        follower.look_at_head().unwrap();
        let event = events.try_recv().unwrap();
        assert_eq!(event.applied.last().unwrap().hash, other.hash());
        assert!(events.try_recv().is_err());
        assert!(matches!(follower.import(one), Err(WriteError::Stopping)));
    }
}
