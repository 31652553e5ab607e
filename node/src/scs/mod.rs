//! The service for the servers of application chains (SCS), as part of the node.
//!
//! The package `scs_service` serves; here it is connected with the chain ([`host`]), with the
//! options and with JSON-RPC. It runs if `SCSService` in `vnodeconfig.json` is true.

mod bridge;
mod host;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chain::Chain;
use crossbeam_channel::RecvTimeoutError;
use daemon::tls::ServerTls;
use network::NetworkHandle;
use primitives::{B256, SecretKey, Transaction, hex};
use rpc::{ControlError, ScsServiceControl};
pub(crate) use scs_service::vnode::ALPN;
use scs_service::vnode::{AllowList, ScsServer, ScsService, ServerError, ServiceConfig, ServiceLimits};
use store::StoreError;
use tokio::sync::watch;

use crate::options::ScsOptions;
use crate::vnodeconfig::VnodeConfig;
use host::{ChainScsHost, direct_call};

/// Time between two looks of the thread that follows the head whether the service has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// An error while the service starts.
#[derive(Debug, thiserror::Error)]
pub enum ScsStartError {
    /// The service cannot listen.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The chain cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The network has no application chains. Holds its name.
    #[error(
        "SCSService in vnodeconfig.json: got true, expected false: the network {0} has no application chains"
    )]
    NoMicroChains(String),
    /// The thread that follows the head cannot be started.
    #[error("cannot start the thread that tells SCS servers of the head: {0}")]
    Thread(std::io::Error),
}

/// The running service.
pub(crate) struct NodeScsService {
    server: ScsServer,
    has_tls: bool,
    /// The running network; empty until it has started.
    network: Arc<OnceLock<NetworkHandle>>,
}

/// Connects the running network with the service, if there is one.
pub(crate) fn connect(network: &NetworkHandle, chain: &Chain, service: Option<&NodeScsService>) {
    if let Some(service) = service {
        // The cell is empty: a node starts its network once.
        let _ = service.network.set(network.clone());
    }
    bridge::connect(
        network,
        chain,
        service.map(|service| service.server.service().clone()),
    );
}

impl NodeScsService {
    /// Starts the service, if the settings say so, over TLS if there is `tls`.
    pub(crate) async fn start(
        options: &ScsOptions,
        tls: Option<Arc<ServerTls>>,
        config: &VnodeConfig,
        key: &SecretKey,
        chain: &Chain,
    ) -> Result<Option<Self>, ScsStartError> {
        if !config.scs_service {
            return Ok(None);
        }
        let spec = chain.spec();
        if !spec.has_application_chains() {
            return Err(ScsStartError::NoMicroChains(spec.name.clone()));
        }
        let service = ServiceConfig {
            node_id: hex::encode(key.public_key()),
            beneficiary: config.beneficial_address,
            allow: AllowList::new(options.allow.clone()),
            limits: ServiceLimits {
                connections_max: options.maxconnections,
                address_connections_max: options.maxperaddress,
                ..ServiceLimits::default()
            },
        };
        let has_tls = tls.is_some();
        let (heads, followed) = watch::channel(chain.view()?.head_number());
        follow_heads(chain, heads).map_err(ScsStartError::Thread)?;
        let network = Arc::default();
        let host = Arc::new(ChainScsHost::new(chain.clone(), Arc::clone(&network)));
        let server = ScsServer::start(&config.service_cfg, tls, service, host, followed).await?;
        let address = server.address();
        if !address.ip().is_loopback() && options.allow.is_empty() {
            tracing::warn!(
                %address,
                "whoever reaches this address can connect as an SCS server: --scs.allow names who may"
            );
        }
        if config.beneficial_address.is_none() {
            tracing::warn!(
                "no transaction for application chains is taken from clients: VnodeBeneficialAddress is missing in vnodeconfig.json"
            );
        }
        Ok(Some(Self {
            server,
            has_tls,
            network,
        }))
    }

    /// The address at which SCS servers connect.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The address as text for the banner.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.has_tls { "grpcs" } else { "grpc" };
        format!("{scheme}://{}", self.address())
    }

    /// The service as the methods see it.
    pub(crate) fn control(&self, chain: &Chain) -> Arc<dyn ScsServiceControl> {
        Arc::new(ScsControl {
            port: self.address().port(),
            service: self.server.service().clone(),
            chain: chain.clone(),
        })
    }

    /// Ends all connections.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

/// Starts a thread that tells each new head, until nobody listens.
fn follow_heads(chain: &Chain, heads: watch::Sender<u64>) -> std::io::Result<()> {
    let events = chain.subscribe();
    let chain = chain.clone();
    let follow = move || {
        while !heads.is_closed() {
            let event = match events.recv_timeout(END_CHECK_INTERVAL) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let head = match event.applied.last() {
                Some(head) => head.number,
                // The head was set back.
                None => match chain.view() {
                    Ok(view) => view.head_number(),
                    Err(error) => {
                        tracing::warn!(%error, "SCS servers are not told of the head");
                        continue;
                    }
                },
            };
            heads.send_replace(head);
        }
    };
    std::thread::Builder::new()
        .name("scs-heads".to_owned())
        .spawn(follow)
        .map(drop)
}

/// The service as the methods see it.
struct ScsControl {
    port: u16,
    service: ScsService,
    chain: Chain,
}

impl ScsServiceControl for ScsControl {
    fn port(&self) -> u16 {
        self.port
    }

    fn submit(&self, transaction: &Transaction) -> Result<B256, ControlError> {
        let call = direct_call(&self.chain, transaction)?;
        Ok(self.service.submit(call)?)
    }
}
