//! The context of the methods of JSON-RPC.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain::ChainSpec;
use chain::spec::ChainFamily;
use network::NetworkHandle;
use primitives::B256;
use rpc::{Limits, Node, NodeFacts, NodeSettings, Rpc, SyncStatus, SyncedState, VnodeSettings};

use super::base::NodeBase;
use super::error::StartError;
use super::surroundings::Surroundings;
use crate::listener::{ListenerKind, RpcListener};
use crate::mining::LocalMiner;
use crate::options::{DevSeal, VnodeOptions};
use crate::servers::Listeners;
use crate::version::client_version_of;
use crate::vnodeconfig::VnodeConfig;

/// Time for running requests to end when the node stops.
const STOP_GRACE: Duration = Duration::from_millis(500);

struct VnodeFacts {
    version: String,
    spec: Arc<ChainSpec>,
    network: NetworkHandle,
}

impl VnodeFacts {
    fn new(base: &NodeBase, around: &Surroundings) -> Self {
        let client = client_version_of(base.options.peers.identity.as_ref());
        Self {
            version: if base.options.dev_anvil {
                format!("anvil/{client}")
            } else {
                client
            },
            spec: base.chain.spec().clone(),
            network: around.network.handle().clone(),
        }
    }
}

impl NodeFacts for VnodeFacts {
    fn client_version(&self) -> &str {
        &self.version
    }

    fn network_id(&self) -> u64 {
        self.spec.network_id
    }

    /// A node that runs listens: it does not start otherwise.
    fn is_listening(&self) -> bool {
        true
    }

    fn peer_count(&self) -> u64 {
        self.network.peer_count() as u64
    }

    fn fork_hash(&self, genesis: B256, block: u64) -> Option<[u8; 4]> {
        network::fork_hash(&self.spec, genesis, block)
    }

    fn sync_status(&self) -> Option<SyncStatus> {
        let (starting_block, highest_block) = self.network.sync_status()?;
        Some(SyncStatus {
            starting_block,
            highest_block,
            state: self.network.sync_progress().state.map(|state| SyncedState {
                accounts: state.figures.accounts,
                slots: state.figures.slots,
                codes: state.figures.codes,
                healed: state.figures.healed,
                account_bytes: state.figures.account_bytes(),
                slot_bytes: state.figures.slot_bytes,
                code_bytes: state.figures.code_bytes,
                healed_bytes: state.figures.healed_bytes,
            }),
        })
    }
}

/// Makes the methods and their context. The listeners, which are still closed, serve them.
pub(super) fn make(
    base: &NodeBase,
    miner: &LocalMiner,
    around: &Surroundings,
    guards: &rpc::server::Guards,
) -> Result<(Arc<Rpc<Node>>, Listeners), StartError> {
    let options = &base.options;
    let listener = |kind| Arc::new(RpcListener::new(kind, options.rpcvhosts.clone(), guards.clone()));
    let listeners = Listeners {
        http: listener(ListenerKind::Http),
        ws: listener(ListenerKind::WebSocket),
    };
    let mut node = Node::new(
        base.chain.clone(),
        base.accounts.clone(),
        Box::new(VnodeFacts::new(base, around)),
        Arc::new(miner.clone()),
    )?
    .with_filter_limits(options.limits.filters())
    .with_settings(settings(
        options,
        &around.config,
        &base.directory,
        base.spec.family,
    ))
    .with_listener(listeners.http.clone())
    .with_ws_listener(listeners.ws.clone())
    .with_network(around.registry.clone());
    if let Some(built) = &base.index {
        node = node.with_address_index(Arc::clone(&built.index));
    }
    if options.dev_seal == DevSeal::Instant {
        node = match options.dev_period {
            None => node.with_automine(),
            Some(seconds) => node
                .with_block_interval(Duration::from_secs(seconds))
                .map_err(Box::new)?,
        };
    }
    if options.dev_anvil {
        node = node.with_present_head().map_err(Box::new)?;
    }
    if let Some(scs) = &around.scs {
        node = node.with_scs_service(scs.control(&base.chain));
    }
    let limits = Limits {
        stop_grace: STOP_GRACE,
        ..options.limits.servers()
    };
    let rpc = Rpc::new(Arc::new(node), methods(options), limits)
        .expect("the table of methods is checked by the tests of `rpc`");
    listeners.http.set_methods(&rpc);
    listeners.ws.set_methods(&rpc);
    Ok((rpc, listeners))
}

/// The methods to serve, with or without their aliases.
fn methods(options: &VnodeOptions) -> Vec<rpc::Method<rpc::Node>> {
    let rows = rpc::methods::all();
    if options.rpc_noalias {
        rows.into_iter().map(rpc::Method::without_alias).collect()
    } else {
        rows
    }
}

/// The settings that methods read.
fn settings(
    options: &VnodeOptions,
    config: &VnodeConfig,
    directory: &Path,
    family: ChainFamily,
) -> NodeSettings {
    NodeSettings {
        data_directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        cache_bytes: options.cache << 20,
        // Pool software of Ethereum's family needs the number.
        pending_number: options
            .rpc_pendingnumber
            .or_else(|| (family == ChainFamily::Ethereum).then_some(true)),
        log_limits: options.limits.logs(),
        logs_timeout: options.limits.logs_time.0,
        insecure_unlock: options.allow_insecure_unlock,
        fee_caps: options.limits.fee_caps(),
        send_wait: Duration::from_millis(options.limits.send_wait_millis),
        call_gas_max: options.limits.call_gas_max(),
        call_timeout: options.limits.call_time.0,
        trace_timeout_max: options.limits.trace_time.0,
        response_len_max: options.limits.response,
        vnode: VnodeSettings {
            beneficial_address: config.beneficial_address,
            service_port: config.service_port(),
            show_to_public: config.show_to_public,
            ip: config.ip.clone(),
        },
    }
}
