//! The servers of a node: HTTP, WebSockets, the local socket, Stratum.
//!
//! All are opened in this order at the start and closed when the node stops. The HTTP and the
//! WebSocket listener can also be opened and closed in between; see the module `listener`.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use daemon::listen_text;
use daemon::tls::ServerTls;
use ethash::LightCaches;
use rpc::server::ServeError;
use rpc::server::ipc::IpcServer;
use rpc::{ListenerRequest, Modules, Node, Rpc};
use stratum_server::{StratumConfig, StratumError, StratumObserver, StratumServer};

use crate::listener::{ListenerOpenError, RpcListener, WsOnHttp};
use crate::options::VnodeOptions;
use crate::version::client_version;

/// An error while a server starts.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// A server cannot listen. The text names the option.
    #[error("{}", listen_text(address, reason, option))]
    Listen {
        /// The address, or the path of the local socket.
        address: String,
        /// The option that gives the address, with its value.
        option: String,
        /// The error of the system.
        reason: io::Error,
    },
    /// The HTTP listener is already open, or cannot open.
    #[error(transparent)]
    Listener(#[from] rpc::ListenerError),
    /// The Stratum server cannot start.
    #[error(transparent)]
    Stratum(StratumError),
}

impl ServersError {
    fn of(option: String) -> impl FnOnce(ListenerOpenError) -> Self {
        |error| match error {
            ListenerOpenError::Listener(error) => error.into(),
            ListenerOpenError::Serve(ServeError::Bind { address, reason }) => Self::Listen {
                address,
                option,
                reason,
            },
        }
    }

    fn of_stratum(options: &VnodeOptions, error: StratumError) -> Self {
        match error {
            StratumError::Bind { address, reason } => {
                let status = options.stratum_status.map(|status| status.to_string());
                let option = match status {
                    Some(status) if status == address => format!("--stratum.status {status}"),
                    _ => format!("--stratumport {}", options.stratumport),
                };
                Self::Listen {
                    address,
                    option,
                    reason,
                }
            }
            error @ StratumError::Thread(_) => Self::Stratum(error),
        }
    }
}

/// The listeners that can also be opened and closed while the node runs.
#[derive(Clone)]
pub(crate) struct Listeners {
    pub(crate) http: Arc<RpcListener>,
    pub(crate) ws: Arc<RpcListener>,
}

/// The running servers.
pub(crate) struct Servers {
    listeners: Listeners,
    /// Addresses of the HTTP listener that was opened at the start.
    http: Vec<SocketAddr>,
    /// Addresses at which WebSockets were opened at the start.
    ws: Vec<SocketAddr>,
    /// Whether both speak TLS.
    has_tls: bool,
    ipc: Option<IpcServer>,
    stratum: Option<StratumServer>,
}

impl Servers {
    /// Starts the servers that the options name.
    pub(crate) async fn start(
        options: &VnodeOptions,
        rpc: &Arc<Rpc<Node>>,
        listeners: Listeners,
        caches: &LightCaches,
        directory: &Path,
        stratum_tls: Option<Arc<ServerTls>>,
    ) -> Result<Self, ServersError> {
        let http = if options.rpc {
            let http = ListenerRequest {
                host: options.rpcaddr.clone(),
                port: options.rpcport,
                cors: options.rpccorsdomain.clone(),
                modules: options.rpcapi.clone(),
            };
            let ws = options.ws_on_http().then(|| WsOnHttp {
                origins: options.wsorigins.clone(),
                modules: options.wsapi.clone(),
            });
            listeners
                .http
                .open(http, ws)
                .await
                .map_err(ServersError::of(format!("--rpcport {}", options.rpcport)))?
        } else {
            Vec::new()
        };
        let ws = if options.ws_on_http() {
            http.clone()
        } else if options.ws {
            let ws = ListenerRequest {
                host: options.wsaddr.clone(),
                port: options.wsport,
                cors: options.wsorigins.clone(),
                modules: options.wsapi.clone(),
            };
            listeners
                .ws
                .open(ws, None)
                .await
                .map_err(ServersError::of(format!("--wsport {}", options.wsport)))?
        } else {
            Vec::new()
        };
        let ipc = if options.ipcdisable {
            None
        } else {
            let default = || directory.join(rpc::server::ipc::SOCKET_NAME);
            let path = options.ipcpath.clone().unwrap_or_else(default);
            let dispatcher = Arc::new(rpc.dispatcher(&Modules::all()));
            let started = rpc::node_servers::start_ipc(dispatcher, &path);
            let failed = ServersError::of(format!("--ipcpath {}", path.display()));
            Some(started.map_err(|error| failed(error.into()))?)
        };
        let stratum = if options.stratum {
            let config = StratumConfig {
                host: options.stratumaddr.clone(),
                port: options.stratumport,
                difficulty: options.stratum_difficulty,
                password: options.stratum_password.clone(),
                connections_max: options.stratum_maxconnections,
                address_connections_max: options.stratum_maxperaddress,
                ban_time: (options.stratum_bantime > 0).then(|| Duration::from_secs(options.stratum_bantime)),
                tls: stratum_tls,
                status: options.stratum_status,
                status_hosts: options.rpcvhosts.clone(),
                agent: client_version(),
            };
            let started = stratum_server::start(&rpc.context().chain, caches, config).await;
            Some(started.map_err(|error| ServersError::of_stratum(options, error))?)
        } else {
            None
        };
        Ok(Self {
            listeners,
            http,
            ws,
            has_tls: options.access.tls_files().is_some(),
            ipc,
            stratum,
        })
    }

    /// The addresses of the servers, as text for the banner.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let s = if self.has_tls { "s" } else { "" };
        let mut all: Vec<_> = self
            .http
            .iter()
            .map(|address| format!("http{s}://{address}"))
            .collect();
        all.extend(self.ws.iter().map(|address| format!("ws{s}://{address}")));
        all.extend(
            self.ipc
                .iter()
                .map(|server| format!("ipc {}", server.path().display())),
        );
        if let Some(stratum) = &self.stratum {
            all.push(stratum.endpoint());
            let status = stratum.status();
            all.extend(status.map(|address| format!("http status of Stratum {address}")));
        }
        all
    }

    /// Reads the figures of the Stratum server, if there is one.
    pub(crate) fn stratum(&self) -> Option<StratumObserver> {
        self.stratum.as_ref().map(StratumServer::observer)
    }

    /// Stops the servers in parallel and waits until their connections have ended.
    pub(crate) async fn stop(self) {
        let stop_ipc = async {
            if let Some(ipc) = self.ipc {
                ipc.stop().await;
            }
        };
        let stop_stratum = async {
            if let Some(stratum) = self.stratum {
                stratum.stop().await;
            }
        };
        tokio::join!(
            self.listeners.http.close_and_wait(),
            self.listeners.ws.close_and_wait(),
            stop_ipc,
            stop_stratum,
        );
    }
}
