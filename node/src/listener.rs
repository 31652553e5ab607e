//! The HTTP listener, opened and closed at run time: by `--rpc` and by `admin_startRPC` alike.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use rpc::server::http::HttpOptions;
use rpc::server::{ServeError, TcpServer};
use rpc::{ControlFuture, ListenerControl, ListenerError, ListenerRequest, Modules, Node, Rpc};
use tokio::sync::Mutex;

use crate::servers::warn_of_reach;

/// At most one HTTP listener at a time.
#[derive(Default)]
pub(crate) struct HttpListener {
    /// The methods to serve. They know this listener too, so they are known weakly here.
    rpc: OnceLock<Weak<Rpc<Node>>>,
    /// What every listener of this process has beside what is asked for.
    base: HttpOptions,
    running: Mutex<Option<Running>>,
}

struct Running {
    server: TcpServer,
    /// Host as asked for, and real port.
    place: String,
}

/// Why it did not open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Listener(#[from] ListenerError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl HttpListener {
    /// A closed listener; `base` has what no request names.
    pub(crate) fn new(base: HttpOptions) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Says what to serve, once.
    pub(crate) fn serve(&self, rpc: &Arc<Rpc<Node>>) {
        // A second call would name the same methods.
        let _ = self.rpc.set(Arc::downgrade(rpc));
    }

    /// Opens the listener. Its addresses, with their real ports.
    pub(crate) async fn open(
        &self,
        options: HttpOptions,
        modules: &Modules,
    ) -> Result<Vec<SocketAddr>, OpenError> {
        let mut running = self.running.lock().await;
        if let Some(running) = &*running {
            return Err(ListenerError::Running(running.place.clone()).into());
        }
        let rpc = self.rpc.get().and_then(Weak::upgrade);
        let rpc = rpc.ok_or_else(|| ListenerError::Bind("the node is stopping".to_owned()))?;
        let server = rpc::server::http::start(Arc::new(rpc.dispatcher(modules)), &options).await?;
        let addresses = server.addresses().to_vec();
        warn_of_reach("HTTP", &addresses, modules, &rpc);
        let port = addresses.first().map_or(options.port, SocketAddr::port);
        let place = format!("{}:{port}", options.host);
        tracing::info!(%place, "HTTP listener opened");
        *running = Some(Running { server, place });
        Ok(addresses)
    }

    /// Closes the listener and waits until its connections have ended.
    pub(crate) async fn end(&self) {
        let running = self.running.lock().await.take();
        if let Some(running) = running {
            running.server.stop().await;
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
                Err(OpenError::Listener(error)) => Err(error),
                Err(OpenError::Serve(error)) => Err(ListenerError::Bind(error.to_string())),
            }
        })
    }

    fn stop(&self) -> ControlFuture<'_, bool> {
        Box::pin(async move {
            let Some(mut running) = self.running.lock().await.take() else {
                return false;
            };
            // Not waited for: this may be asked over one of its own connections.
            running.server.close().await;
            tracing::info!(place = %running.place, "HTTP listener closed");
            true
        })
    }
}
