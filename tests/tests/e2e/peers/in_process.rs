//! Nodes in this process.

use std::ops::Deref;
use std::sync::Arc;

use chain::ChainSpec;
use chain::chain::ChainConfig;
use chain::pool::PoolConfig;
use network::NodeContact;
use network::testing::{LoopbackNode, chain_config, contact_of};
use primitives::{Address, B256, U256};
use store::Store;
use tokio::runtime::Runtime;

use crate::peers::support::key;

/// A node of the development network. `mark` gives its key, its beneficiary and its extra data.
pub(crate) struct InProcess {
    node: LoopbackNode,
    pub(crate) beneficiary: Address,
}

impl Deref for InProcess {
    type Target = LoopbackNode;

    fn deref(&self) -> &LoopbackNode {
        &self.node
    }
}

impl InProcess {
    pub(crate) fn start(runtime: &Runtime, mark: u8, store: Store) -> Self {
        let beneficiary = Address::repeat_byte(mark);
        let config = ChainConfig {
            pool: PoolConfig {
                price_floor: U256::ZERO,
                ..PoolConfig::default()
            },
            beneficiary,
            extra_data: vec![mark].into(),
            ..chain_config(Arc::new(ChainSpec::dev()))
        };
        let node = runtime.block_on(LoopbackNode::start(key(mark), store, config, |_| {}));
        Self { node, beneficiary }
    }

    pub(crate) const fn contact(&self) -> NodeContact {
        contact_of(self.node.network())
    }

    pub(crate) fn head(&self) -> B256 {
        self.chain.view().expect("a view").head_hash()
    }

    pub(crate) fn balance(&self, address: &Address) -> U256 {
        let view = self.chain.view().expect("a view");
        let account = view.account(address, view.head_number()).expect("read");
        account.unwrap_or_default().balance
    }

    pub(crate) fn stop(self, runtime: &Runtime) {
        runtime.block_on(self.node.stop());
    }
}
