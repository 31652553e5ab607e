//! The connections of a node with others: the service for SCS servers, the peer-to-peer network.

use std::sync::Arc;

use chain::Chain;
use chain::spec::ChainFamily;
use daemon::tls::ServerTls;
use network::NetworkService;

use super::base::NodeBase;
use super::error::StartError;
use crate::nodekey;
use crate::options::{SyncMode, VnodeOptions};
use crate::peers::{self, NetworkParts, PeerRegistry};
use crate::scs::{self, NodeScsService};
use crate::vnodeconfig::VnodeConfig;

/// The connections of a node with others.
pub(super) struct Surroundings {
    pub(super) scs: Option<NodeScsService>,
    /// The settings, with the real port of the service.
    pub(super) config: VnodeConfig,
    pub(super) registry: Arc<PeerRegistry>,
    pub(super) network: NetworkService,
}

impl Surroundings {
    /// Starts the service for SCS servers, over TLS if there is `scs_tls`, and the network.
    pub(super) async fn start(
        base: &NodeBase,
        config: VnodeConfig,
        scs_tls: Option<Arc<ServerTls>>,
        has_progress_lines: bool,
    ) -> Result<Self, StartError> {
        let NodeBase {
            options,
            directory,
            chain,
            ..
        } = base;
        let key = nodekey::load(options, directory)?;
        let scs = NodeScsService::start(&options.scs, scs_tls, &config, &key, chain).await?;
        let config = announced(config, scs.as_ref());
        let registry = Arc::new(PeerRegistry::open(&key, &config, directory)?);
        let parts = NetworkParts {
            key: &key,
            chain,
            folder: directory,
            registry: &registry,
            is_alone: options.is_alone(),
            has_progress_lines,
            work_needs_peers: chain.spec().is_public() && !options.miner_alone,
            fetches_state: fetches_state(options, chain)?,
        };
        let network = peers::start(&options.peers, parts).await?;
        scs::connect(network.handle(), chain, scs.as_ref());
        Ok(Self {
            scs,
            config,
            registry,
            network,
        })
    }
}

/// Whether the state of a recent block is fetched if the folder is empty.
fn fetches_state(options: &VnodeOptions, chain: &Chain) -> Result<bool, StartError> {
    // The index needs the states of all blocks.
    let full = options.index.map(|_| SyncMode::Full);
    let mode = options.syncmode.or(full);
    let spec = chain.spec();
    let has_snap = spec.family == ChainFamily::Ethereum;
    match mode {
        Some(SyncMode::Snap) if !has_snap => Err(StartError::NoSnap(spec.name.clone())),
        Some(SyncMode::Full) if chain.fetches_state()? => Err(StartError::HalfState),
        Some(mode) => Ok(mode == SyncMode::Snap),
        None => Ok(has_snap && spec.is_public() || chain.fetches_state()?),
    }
}

/// The settings with the real port of the service for SCS servers, as peers and clients see it.
fn announced(config: VnodeConfig, scs: Option<&NodeScsService>) -> VnodeConfig {
    let service_cfg = scs.map(|scs| format!(":{}", scs.address().port()));
    VnodeConfig {
        service_cfg: service_cfg.unwrap_or_else(|| config.service_cfg.clone()),
        ..config
    }
}
