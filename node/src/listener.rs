//! The HTTP listener. `--rpc` opens it at the start; `admin_startRPC` and `admin_stopRPC` open and
//! close it while the node runs.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use rpc::server::http::HttpOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{ControlFuture, ListenerControl, ListenerError, ListenerRequest, Modules, Node, Rpc};
use tokio::sync::Mutex;

use crate::exposure::warn_if_exposed;

/// The HTTP listener of the node, open or closed. At most one is open at a time.
#[derive(Default)]
pub(crate) struct HttpListener {
    /// The methods to serve. The reference is weak because the methods hold this listener.
    rpc: OnceLock<Weak<Rpc<Node>>>,
    /// Options that a request does not name.
    base: HttpOptions,
    open: Mutex<Option<OpenListener>>,
}

struct OpenListener {
    server: TcpServer,
    /// The requested host and the real port.
    address: String,
}

/// Why the listener did not open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenerOpenError {
    #[error(transparent)]
    Listener(#[from] ListenerError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl HttpListener {
    /// Creates a closed listener. `base` has the options that a request does not name.
    pub(crate) fn new(base: HttpOptions) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Sets the methods to serve. Must be called once, before the listener opens.
    pub(crate) fn set_methods(&self, rpc: &Arc<Rpc<Node>>) {
        // A second call fails; the methods of the first stay.
        let _ = self.rpc.set(Arc::downgrade(rpc));
    }

    /// Opens the listener. Returns its addresses with their real ports.
    pub(crate) async fn open(
        &self,
        options: HttpOptions,
        modules: &Modules,
    ) -> Result<Vec<SocketAddr>, ListenerOpenError> {
        let mut open = self.open.lock().await;
        if let Some(listener) = &*open {
            return Err(ListenerError::Running(listener.address.clone()).into());
        }
        let rpc = self.rpc.get().and_then(Weak::upgrade);
        let rpc = rpc.ok_or_else(|| ListenerError::Bind("the node is stopping".to_owned()))?;
        let server = rpc::server::http::start(Arc::new(rpc.dispatcher(modules)), &options).await?;
        let addresses = server.addresses().to_vec();
        warn_if_exposed("HTTP", &addresses, modules, &rpc);
        let port = addresses.first().map_or(options.port, SocketAddr::port);
        let address = format!("{}:{port}", options.host);
        tracing::info!(%address, "HTTP listener opened");
        *open = Some(OpenListener { server, address });
        Ok(addresses)
    }

    /// Closes the listener and waits until its connections have ended.
    pub(crate) async fn close_and_wait(&self) {
        let open = self.open.lock().await.take();
        if let Some(listener) = open {
            listener.server.stop().await;
        }
    }
}

impl ListenerControl for HttpListener {
    fn start(&self, request: ListenerRequest) -> ControlFuture<'_, Result<(), ListenerError>> {
        Box::pin(async move {
            let mut options = self.base.clone();
            options.host = request.host;
            options.port = request.port;
            options.cors = request.cors;
            match self.open(options, &request.modules).await {
                Ok(_) => Ok(()),
                Err(ListenerOpenError::Listener(error)) => Err(error),
                Err(ListenerOpenError::Serve(error)) => Err(ListenerError::Bind(error.to_string())),
            }
        })
    }

    fn stop(&self) -> ControlFuture<'_, bool> {
        Box::pin(async move {
            let Some(mut listener) = self.open.lock().await.take() else {
                return false;
            };
            // The end of the connections is not waited for, because the request to stop may have
            // come over one of them.
            listener.server.close().await;
            tracing::info!(address = %listener.address, "HTTP listener closed");
            true
        })
    }
}
