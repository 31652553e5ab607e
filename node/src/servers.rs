//! The servers of a node: HTTP, WebSockets, the local socket, Stratum.
//!
//! Opened in this order, closed together. HTTP may come and go in between (`listener`).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ethash::LightCaches;
use rpc::server::http::HttpOptions;
use rpc::server::ipc::IpcServer;
use rpc::server::ws::WsOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{Modules, Node, Rpc};

use crate::listener::{HttpListener, OpenError};
use crate::options::{VnodeOptions, is_loopback};
use crate::stratum::{self, StratumServer};
use crate::vnode::client_version;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// It cannot.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The HTTP listener is open already.
    #[error(transparent)]
    Listener(#[from] rpc::ListenerError),
    /// The Stratum server cannot start.
    #[error(transparent)]
    Stratum(#[from] stratum::StratumError),
}

impl From<OpenError> for ServersError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Listener(error) => error.into(),
            OpenError::Serve(error) => error.into(),
        }
    }
}

/// The servers that listen.
pub(crate) struct Servers {
    listener: Arc<HttpListener>,
    /// Where HTTP was opened at the start.
    http: Vec<SocketAddr>,
    ws: Option<TcpServer>,
    ipc: Option<IpcServer>,
    stratum: Option<StratumServer>,
}

impl Servers {
    /// Opens what the options ask for.
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
            warn_of_reach("WebSocket", server.addresses(), &options.wsapi, rpc);
            Some(server)
        } else {
            None
        };
        let ipc = if options.ipcdisable {
            None
        } else {
            let own = || directory.join(rpc::server::ipc::SOCKET_NAME);
            let path = options.ipcpath.clone().unwrap_or_else(own);
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
                status: options.stratum_status,
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

    /// Where clients find them, for people.
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

    /// Closes them and waits until their connections have ended.
    pub(crate) async fn stop(self) {
        self.listener.end().await;
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

/// Warns where passwords or unlocked accounts meet an address beyond this machine.
pub(crate) fn warn_of_reach(what: &str, addresses: &[SocketAddr], modules: &Modules, rpc: &Rpc<Node>) {
    let Some(address) = addresses.iter().find(|address| !is_loopback(address)) else {
        return;
    };
    let accounts = rpc.context().accounts.accounts();
    let unlocked = accounts.iter().filter(|held| held.unlocked).count();
    if modules.contains("personal") {
        tracing::warn!(%address, "{what} with the module personal listens beyond this machine: passwords travel in plain text");
    }
    if unlocked > 0 && modules.contains("mc") {
        tracing::warn!(%address, unlocked, "{what} listens beyond this machine: unlocked accounts sign for whoever calls");
    }
}
