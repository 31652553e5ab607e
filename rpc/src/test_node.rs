//! A node for unit tests: a chain in memory, and no peers.

use std::sync::Arc;

use chain::import::{ForkLimits, StateRetention};
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, Block, Bytes};
use store::Store;

use crate::facts::NodeFacts;

/// A node without peers.
pub(crate) struct LoneNode;

impl NodeFacts for LoneNode {
    fn client_version(&self) -> &str {
        ""
    }

    fn network_id(&self) -> u64 {
        0
    }

    fn is_listening(&self) -> bool {
        false
    }

    fn peer_count(&self) -> u64 {
        0
    }
}

/// A chain of the development network that has only block 0. Seals are not checked.
pub(crate) fn open_chain() -> Chain {
    let config = ChainConfig {
        spec: Arc::new(ChainSpec::dev()),
        seals: SealCheck::Off,
        forks: ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(7),
        extra_data: Bytes::new(),
        states: StateRetention::Archive,
    };
    Chain::open(Store::in_memory().expect("a store in memory"), config).expect("a new chain")
}

/// An empty block on the head. `tag` makes it differ from other blocks there.
pub(crate) fn next_block(chain: &Chain, tag: &[u8]) -> Block {
    let view = chain.view().expect("a view");
    let mut settings = chain.settings();
    settings.extra_data = tag.to_vec().into();
    let draft = build(
        chain.spec(),
        view.snapshot(),
        view.head(),
        view.head().header.timestamp.max(1_000_000) + 1,
        &settings,
        chain.pool().ready(),
        &[],
    );
    draft.expect("a block").block
}
