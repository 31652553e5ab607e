//! The servers of a node: HTTP, WebSockets, the local socket, Stratum.
//!
//! They are opened in this order at the start and closed when the node stops. The HTTP listener can
//! also be opened and closed in between; see the module `listener`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ethash::LightCaches;
use rpc::server::http::HttpOptions;
use rpc::server::ipc::IpcServer;
use rpc::server::ws::WsOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{Modules, Node, Rpc};

use crate::exposure::warn_if_exposed;
use crate::listener::{HttpListener, ListenerOpenError};
use crate::options::VnodeOptions;
use crate::stratum::{self, StratumServer};
use crate::version::client_version;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// An HTTP, WebSocket or local socket server cannot listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The HTTP listener is already open, or cannot open.
    #[error(transparent)]
    Listener(#[from] rpc::ListenerError),
    /// The Stratum server cannot start.
    #[error(transparent)]
    Stratum(#[from] stratum::StratumError),
}

impl From<ListenerOpenError> for ServersError {
    fn from(error: ListenerOpenError) -> Self {
        match error {
            ListenerOpenError::Listener(error) => error.into(),
            ListenerOpenError::Serve(error) => error.into(),
        }
    }
}

/// The running servers.
pub(crate) struct Servers {
    listener: Arc<HttpListener>,
    /// Addresses of the HTTP listener that was opened at the start.
    http: Vec<SocketAddr>,
    ws: Option<TcpServer>,
    ipc: Option<IpcServer>,
    stratum: Option<StratumServer>,
}

impl Servers {
    /// Starts the servers that the options name.
    pub(crate) async fn start(
        options: &VnodeOptions,
        rpc: &Arc<Rpc<Node>>,
        listener: Arc<HttpListener>,
        caches: &LightCaches,
        directory: &Path,
    ) -> Result<Self, ServersError> {
        let http = if options.rpc {
            let http = HttpOptions {
                host: options.rpcaddr.clone(),
                port: options.rpcport,
                cors: options.rpccorsdomain.clone(),
                hosts: options.rpcvhosts.clone(),
            };
            listener.open(http, &options.rpcapi).await?
        } else {
            Vec::new()
        };
        let ws = if options.ws {
            let ws = WsOptions {
                host: options.wsaddr.clone(),
                port: options.wsport,
                origins: options.wsorigins.clone(),
                hosts: options.rpcvhosts.clone(),
            };
            let server = rpc::server::ws::start(Arc::new(rpc.dispatcher(&options.wsapi)), &ws).await?;
            warn_if_exposed("WebSocket", server.addresses(), &options.wsapi, rpc);
            Some(server)
        } else {
            None
        };
        let ipc = if options.ipcdisable {
            None
        } else {
            let default = || directory.join(rpc::server::ipc::SOCKET_NAME);
            let path = options.ipcpath.clone().unwrap_or_else(default);
            let dispatcher = Arc::new(rpc.dispatcher(&Modules::all()));
            Some(rpc::server::ipc::start(dispatcher, &path)?)
        };
        let stratum = if options.stratum {
            let config = stratum::StratumConfig {
                host: options.stratumaddr.clone(),
                port: options.stratumport,
                difficulty: options.stratum_difficulty,
                password: options.stratum_password.clone(),
                connections_max: options.stratum_maxconnections,
                address_connections_max: options.stratum_maxperaddress,
                ban_time: (options.stratum_bantime > 0).then(|| Duration::from_secs(options.stratum_bantime)),
                status: options.stratum_status,
                status_hosts: options.rpcvhosts.clone(),
                agent: client_version(),
            };
            Some(stratum::start(&rpc.context().chain, caches, config).await?)
        } else {
            None
        };
        Ok(Self {
            listener,
            http,
            ws,
            ipc,
            stratum,
        })
    }

    /// Where clients reach the servers, as text for the banner.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let ws = self.ws.as_ref().map(TcpServer::addresses).unwrap_or_default();
        let mut all: Vec<_> = self
            .http
            .iter()
            .map(|address| format!("http://{address}"))
            .collect();
        all.extend(ws.iter().map(|address| format!("ws://{address}")));
        all.extend(
            self.ipc
                .iter()
                .map(|server| format!("ipc {}", server.path().display())),
        );
        if let Some(stratum) = &self.stratum {
            all.push(format!("stratum+tcp://{}", stratum.address()));
            let status = stratum.status();
            all.extend(status.map(|address| format!("http status of Stratum {address}")));
        }
        all
    }

    /// Stops the servers and waits until their connections have ended.
    pub(crate) async fn stop(self) {
        self.listener.close_and_wait().await;
        if let Some(ws) = self.ws {
            ws.stop().await;
        }
        if let Some(ipc) = self.ipc {
            ipc.stop().await;
        }
        if let Some(stratum) = self.stratum {
            stratum.stop().await;
        }
    }
}
