//! The HTTP and the WebSocket listener. `--rpc` and `--ws` open them at the start; methods of the
//! module `admin` open and close them while the node runs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use rpc::node_servers;
use rpc::server::http::{HttpOptions, SharedWs};
use rpc::server::ws::WsOptions;
use rpc::server::{Cors, Guards, Hosts, ServeError, TcpServer};
use rpc::{ControlFuture, ListenerControl, ListenerError, ListenerRequest, Modules, Node, Rpc};
use tokio::sync::Mutex;

use crate::exposure::warn_if_exposed;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Http,
    WebSocket,
}

impl ListenerKind {
    /// The name in the log.
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::WebSocket => "WebSocket",
        }
    }
}

/// A listener of the node, open or closed. At most one of each kind is open at a time.
pub(crate) struct RpcListener {
    kind: ListenerKind,
    /// The methods to serve. The reference is weak because the methods hold this listener.
    rpc: OnceLock<Weak<Rpc<Node>>>,
    /// Host names that requests may use.
    hosts: Hosts,
    guards: Guards,
    open: Mutex<Option<OpenListener>>,
    /// Whether it is open on an address that other machines can reach.
    exposed: AtomicBool,
}

struct OpenListener {
    server: TcpServer,
    /// The requested host and the real port.
    address: String,
}

/// WebSockets on the port of the HTTP listener.
#[derive(Clone, Debug)]
pub(crate) struct WsOnHttp {
    /// Browser origins that may connect.
    pub(crate) origins: Cors,
    /// The modules to serve.
    pub(crate) modules: Modules,
}

/// An error while a listener opens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenerOpenError {
    #[error(transparent)]
    Listener(#[from] ListenerError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl RpcListener {
    /// A closed listener.
    pub(crate) fn new(kind: ListenerKind, hosts: Hosts, guards: Guards) -> Self {
        Self {
            kind,
            rpc: OnceLock::new(),
            hosts,
            guards,
            open: Mutex::default(),
            exposed: AtomicBool::new(false),
        }
    }

    /// Sets the methods to serve. Must be called once, before the listener opens.
    pub(crate) fn set_methods(&self, rpc: &Arc<Rpc<Node>>) {
        // A second call fails; the methods of the first stay.
        let _ = self.rpc.set(Arc::downgrade(rpc));
    }

    /// Opens the listener, an HTTP listener perhaps with WebSockets on the same port. Returns its
    /// addresses with their real ports.
    pub(crate) async fn open(
        &self,
        request: ListenerRequest,
        ws_on_http: Option<WsOnHttp>,
    ) -> Result<Vec<SocketAddr>, ListenerOpenError> {
        let mut open = self.open.lock().await;
        if let Some(listener) = &*open {
            return Err(self.running(&listener.address).into());
        }
        let rpc = self.rpc.get().and_then(Weak::upgrade);
        let rpc = rpc.ok_or_else(|| ListenerError::Bind("the node is stopping".to_owned()))?;
        let ListenerRequest {
            host,
            port,
            cors,
            modules,
        } = request;
        let dispatcher = Arc::new(rpc.dispatcher(&modules));
        let server = match self.kind {
            ListenerKind::Http => {
                let shared = ws_on_http.as_ref().map(|ws| SharedWs {
                    dispatcher: Arc::new(rpc.dispatcher(&ws.modules)),
                    origins: ws.origins.clone(),
                });
                let options = HttpOptions {
                    host: host.clone(),
                    port,
                    cors,
                    hosts: self.hosts.clone(),
                    guards: self.guards.clone(),
                };
                node_servers::start_http(dispatcher, &options, shared).await?
            }
            ListenerKind::WebSocket => {
                let options = WsOptions {
                    host: host.clone(),
                    port,
                    origins: cors,
                    hosts: self.hosts.clone(),
                    guards: self.guards.clone(),
                };
                node_servers::start_ws(dispatcher, &options).await?
            }
        };
        let addresses = server.addresses().to_vec();
        let is_exposed = addresses.iter().any(|address| !address.ip().is_loopback());
        self.exposed.store(is_exposed, Relaxed);
        warn_if_exposed(self.kind.name(), &addresses, &modules, &self.guards, &rpc);
        if let Some(ws) = &ws_on_http {
            let name = ListenerKind::WebSocket.name();
            warn_if_exposed(name, &addresses, &ws.modules, &self.guards, &rpc);
        }
        let port = addresses.first().map_or(port, SocketAddr::port);
        let address = format!("{host}:{port}");
        tracing::info!(%address, "{} listener opened", self.kind.name());
        *open = Some(OpenListener { server, address });
        Ok(addresses)
    }

    fn running(&self, address: &str) -> ListenerError {
        match self.kind {
            ListenerKind::Http => ListenerError::Running(address.to_owned()),
            ListenerKind::WebSocket => {
                ListenerError::Bind(format!("WebSocket listener already running on {address}"))
            }
        }
    }

    /// Closes the listener and waits until its connections have ended.
    pub(crate) async fn close_and_wait(&self) {
        let open = self.open.lock().await.take();
        if let Some(listener) = open {
            listener.server.stop().await;
        }
        self.exposed.store(false, Relaxed);
    }
}

impl ListenerControl for RpcListener {
    fn start(&self, request: ListenerRequest) -> ControlFuture<'_, Result<(), ListenerError>> {
        Box::pin(async move {
            match self.open(request, None).await {
                Ok(_) => Ok(()),
                Err(ListenerOpenError::Listener(error)) => Err(error),
                Err(ListenerOpenError::Serve(error)) => Err(ListenerError::Bind(error.to_string())),
            }
        })
    }

    fn is_exposed(&self) -> bool {
        self.exposed.load(Relaxed)
    }

    fn stop(&self) -> ControlFuture<'_, bool> {
        Box::pin(async move {
            let Some(mut listener) = self.open.lock().await.take() else {
                return false;
            };
            // The end of the connections is not waited for, because the request to stop may have
            // come over one of them.
            listener.server.close().await;
            self.exposed.store(false, Relaxed);
            tracing::info!(address = %listener.address, "{} listener closed", self.kind.name());
            true
        })
    }
}
