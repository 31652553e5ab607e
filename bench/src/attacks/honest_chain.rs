//! A chain of the development network with real seals, and a node in this process that has it.

use std::sync::Arc;

use chain::rules::seal::SealCheck;
use chain::{Chain, ChainSpec};
use ethash::{Epoch, LightCache, meets_boundary};
use network::testing::contact_of;
use network::{NetworkService, NodeContact};
use primitives::{B256, Header};
use store::Store;
use tempfile::TempDir;

use crate::network_node::{open_chain, start_network};
use crate::{Failure, next_block};

/// Seals of the first blocks, so that nobody has to search for them. The blocks are the same in
/// every run. If the rules of the network change, seals are searched.
const NONCES: [u64; 34] = [
    311, 57, 1185, 85, 578, 50, 825, 98, 164, 1380, 1100, 24, 40, 271, 757, 170, 995, 56, 556, 1947, 464, 90,
    39, 208, 490, 135, 210, 1322, 584, 289, 931, 712, 1826, 223,
];

/// A node with a chain that others do not have yet.
pub(super) struct HonestChain {
    service: NetworkService,
    head: B256,
    _chain: Chain,
    _folder: TempDir,
}

impl HonestChain {
    /// Makes the chain, and starts a node that has it.
    pub(super) async fn start() -> Result<Self, Failure> {
        let spec = Arc::new(ChainSpec::dev());
        let store = Store::in_memory()?;
        let chain = open_chain(store.clone(), &spec, SealCheck::Off)?;
        let cache = LightCache::build(Epoch::ethash(0))?;
        let mut head = B256::ZERO;
        for nonce in NONCES {
            let mut block = next_block(&spec, &store, Vec::new())?;
            seal(&cache, &mut block.header, nonce);
            head = block.hash();
            chain.import(block)?;
        }
        let folder = tempfile::tempdir()?;
        let service = start_network(&chain, folder.path(), Vec::new()).await?;
        Ok(Self {
            service,
            head,
            _chain: chain,
            _folder: folder,
        })
    }

    /// Returns the contact of the node.
    pub(super) const fn contact(&self) -> NodeContact {
        contact_of(self.service.handle())
    }

    /// The hash of the head.
    pub(super) const fn head(&self) -> B256 {
        self.head
    }
}

/// Seals a header with the first nonce from `first` on that is right.
fn seal(cache: &LightCache, header: &mut Header, first: u64) {
    let boundary = ethash::boundary(&header.difficulty);
    let header_hash = header.header_hash();
    for nonce in first.. {
        let hash = cache.hash(&header_hash, nonce);
        if meets_boundary(&hash.final_hash, &boundary) {
            (header.pow_nonce, header.mix_hash) = (nonce, hash.mix_hash);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn nonces_are_those_of_the_seals() {
        let honest = HonestChain::start().await.expect("a chain");
        let view = honest._chain.view().expect("a view");
        let got: Vec<u64> = (1..=NONCES.len() as u64)
            .map(|number| {
                let header = view.header(number).expect("a read");
                header.expect("a header").1.header.pow_nonce
            })
            .collect();
        assert_eq!(got, NONCES);
    }
}
