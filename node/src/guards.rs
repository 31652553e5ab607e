//! Guards of the servers of the node: certificates, keys and tokens from files, and the rate of
//! each client address. The files are read again on SIGHUP.
//!
//! A file that cannot be used at the start is an error. Later it is a line in the log, and what was
//! read before stays in use.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use daemon::ClientRates;
use daemon::tls::{ServerTls, TlsFiles, TlsFilesError};
use rpc::access::Tokens;
use rpc::server::Guards;

use crate::options::AccessOptions;
use crate::token_file::{self, TokenFileError};

/// The name of HTTP/1.1 in the handshake of TLS.
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// An error in the files that guard the servers.
#[derive(Debug, thiserror::Error)]
pub enum GuardsError {
    /// A certificate or a key cannot be used.
    #[error("{option}: {source}")]
    Tls {
        /// The option that names the files.
        option: &'static str,
        /// The fault.
        source: TlsFilesError,
    },
    /// The tokens cannot be used.
    #[error("--rpc.tokens: {0}")]
    Tokens(#[from] TokenFileError),
    /// The signal cannot be listened for.
    #[error("cannot listen for SIGHUP: {0}")]
    Signal(std::io::Error),
}

/// All files that are read again on SIGHUP.
#[derive(Default)]
pub struct GuardFiles {
    /// With the option that names each.
    tls: Vec<(&'static str, Arc<ServerTls>)>,
    tokens: Option<(PathBuf, Arc<Tokens>)>,
}

impl GuardFiles {
    /// Reads certificate and key of a server that speaks `protocols`, if there are files for it.
    /// `option` is the name of the options for errors.
    ///
    /// # Errors
    /// [`GuardsError`] if a file cannot be used.
    pub fn tls(
        &mut self,
        option: &'static str,
        files: Option<TlsFiles>,
        protocols: &[&[u8]],
    ) -> Result<Option<Arc<ServerTls>>, GuardsError> {
        let Some(files) = files else { return Ok(None) };
        let tls = ServerTls::load(files, protocols).map_err(|source| GuardsError::Tls { option, source })?;
        let tls = Arc::new(tls);
        self.tls.push((option, Arc::clone(&tls)));
        Ok(Some(tls))
    }

    /// The guards of the HTTP and the WebSocket listener.
    ///
    /// # Errors
    /// [`GuardsError`] if a file cannot be used.
    pub fn json_rpc(&mut self, options: &AccessOptions) -> Result<Guards, GuardsError> {
        let tls = self.tls("--rpc.tls", options.tls_files(), &[ALPN_HTTP1])?;
        let tokens = match &options.rpc_tokens {
            None => None,
            Some(path) => {
                let tokens = Arc::new(Tokens::new(token_file::read(path)?));
                self.tokens = Some((path.clone(), Arc::clone(&tokens)));
                Some(tokens)
            }
        };
        let rates = options.rate().map(ClientRates::new).map(Arc::new);
        Ok(Guards { tls, tokens, rates })
    }

    /// Starts to listen for SIGHUP, if there are files. Without any, the signal ends the process as
    /// it does by default.
    ///
    /// # Errors
    /// [`GuardsError::Signal`] if that is not possible.
    pub fn listen(self) -> Result<ReloadSignal, GuardsError> {
        #[cfg(unix)]
        let signal = {
            use tokio::signal::unix::{SignalKind, signal};
            let has_files = !self.tls.is_empty() || self.tokens.is_some();
            let listen = || signal(SignalKind::hangup()).map_err(GuardsError::Signal);
            has_files.then(listen).transpose()?
        };
        Ok(ReloadSignal {
            files: Arc::new(self),
            #[cfg(unix)]
            signal,
        })
    }

    /// Reads all files again.
    fn reload(&self) {
        for (option, tls) in &self.tls {
            let path = tls.files().certificates.display();
            match tls.reload() {
                Ok(()) => tracing::info!(%path, "{option}: the certificate was read again"),
                Err(error) => {
                    tracing::error!(%error, "{option}: the certificate stays as it was");
                }
            }
        }
        if let Some((path, tokens)) = &self.tokens {
            match token_file::read(path) {
                Ok(rules) => {
                    tokens.replace(rules);
                    let (path, count) = (path.display(), tokens.count());
                    tracing::info!(%path, count, "--rpc.tokens: the tokens were read again");
                }
                Err(error) => tracing::error!(%error, "--rpc.tokens: the tokens stay as they were"),
            }
        }
    }
}

/// The signal that files are to be read again.
pub struct ReloadSignal {
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such signal"))]
    files: Arc<GuardFiles>,
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl ReloadSignal {
    /// Reads the files again after each signal.
    pub async fn follow(&mut self) -> Infallible {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            while signal.recv().await.is_some() {
                let files = Arc::clone(&self.files);
                // Reading blocks. A panic would be in the log already.
                let _ = tokio::task::spawn_blocking(move || files.reload()).await;
            }
        }
        std::future::pending().await
    }
}
