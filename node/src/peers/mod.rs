//! The peer-to-peer network as part of the node. It is started from the options here; what
//! JSON-RPC asks of it is in [`registry`].

mod registry;
mod subnets;

use std::path::Path;

use chain::Chain;
use chain::spec::ChainFamily;
use network::{NetworkService, NetworkSettings, NetworkStartError, WireFamily};
use primitives::SecretKey;

use crate::options::PeerOptions;
use crate::version::client_version_of;

pub use registry::NetworkError;
pub(crate) use registry::PeerRegistry;

/// The parts that the network needs beside the options.
pub(crate) struct NetworkParts<'a> {
    pub(crate) key: &'a SecretKey,
    pub(crate) chain: &'a Chain,
    pub(crate) folder: &'a Path,
    pub(crate) registry: &'a PeerRegistry,
    /// The node keeps to itself unless options name others.
    pub(crate) is_alone: bool,
    /// Whether the log has lines about the progress of a synchronization.
    pub(crate) has_progress_lines: bool,
    /// Miners get no work while there are no peers.
    pub(crate) work_needs_peers: bool,
    /// The state of a recent block is fetched if the chain has block 0 only.
    pub(crate) fetches_state: bool,
}

/// Starts to listen and to look for peers.
///
/// # Errors
/// [`NetworkStartError`] if the node cannot listen.
pub(crate) async fn start(
    options: &PeerOptions,
    parts: NetworkParts<'_>,
) -> Result<NetworkService, NetworkStartError> {
    let NetworkParts {
        key,
        chain,
        folder,
        registry,
        is_alone,
        has_progress_lines,
        work_needs_peers,
        fetches_state,
    } = parts;
    let spec = chain.spec();
    let mut addresses = options.listen_addresses(is_alone).into_iter().peekable();
    loop {
        let listen = addresses.next().expect("there is at least one address");
        let settings = NetworkSettings {
            key: key.clone(),
            client: client_version_of(options.identity.as_ref()),
            family: match spec.family {
                ChainFamily::Ethereum => WireFamily::Eth,
                ChainFamily::Moac => WireFamily::Mc,
            },
            network_id: spec.network_id,
            listen,
            discovery_port: options.discovery_port,
            has_discovery: options.has_discovery(is_alone),
            boot_nodes: options.boot_nodes(spec.network_id),
            dns_lists: options.dns_lists(spec.network_id),
            dns_server: None,
            nat: options.nat(is_alone),
            ranges: options.netrestrict.clone(),
            peers_max: options.maxpeers,
            pending_max: options.pending_max(),
            folder: folder.to_owned(),
            static_nodes: registry.static_targets(),
            trusted_nodes: registry.trusted_ids(),
            required_blocks: options.required_blocks(),
            has_progress_lines,
            work_needs_peers,
            fetches_state,
        };
        match NetworkService::start(settings, chain.clone()).await {
            Ok(service) => {
                registry.connect(service.handle().clone());
                return Ok(service);
            }
            Err(error @ NetworkStartError::Listen { .. }) if addresses.peek().is_some() => {
                tracing::warn!(%error, "another port is used; --port chooses one");
            }
            Err(error) => return Err(error),
        }
    }
}
