//! The options that say who may use the JSON-RPC servers, and how often.

use std::path::PathBuf;

use clap::Args;
use daemon::TokenRate;
use daemon::tls::TlsFiles;

/// The clients that may use the JSON-RPC servers.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessOptions {
    /// File with the certificates of the HTTP and the WebSocket server (PEM), which then speak TLS
    #[arg(long = "rpc.tls.cert", value_name = "FILE", requires = "rpc_tls_key")]
    pub rpc_tls_cert: Option<PathBuf>,
    /// File with the private key of these servers (PEM)
    #[arg(
        long = "rpc.tls.key",
        value_name = "FILE",
        requires = "rpc_tls_cert",
        env = "VNODE_RPC_TLS_KEY",
        hide_env_values = true
    )]
    pub rpc_tls_key: Option<PathBuf>,
    /// TOML file with tokens: clients of HTTP and WebSockets then need one of them
    #[arg(
        long = "rpc.tokens",
        value_name = "FILE",
        env = "VNODE_RPC_TOKENS",
        hide_env_values = true
    )]
    pub rpc_tokens: Option<PathBuf>,
    /// Most calls a second of one client address, over HTTP and WebSockets together
    /// [default: no limit]
    #[arg(long = "rpc.rate", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rpc_rate: Option<u32>,
    /// Most calls at once of one client address that has not called for a while
    /// [default: that of --rpc.rate]
    #[arg(long = "rpc.rateburst", value_name = "N", requires = "rpc_rate", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rpc_rateburst: Option<u32>,
}

impl AccessOptions {
    /// The files for TLS, if there are any.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificates: self.rpc_tls_cert.clone()?,
            key: self.rpc_tls_key.clone()?,
            clients: None,
        })
    }

    /// The rate of calls of a client address; `None` for no limit.
    pub fn rate(&self) -> Option<TokenRate> {
        let per_second = self.rpc_rate?;
        Some(TokenRate {
            burst: self.rpc_rateburst.unwrap_or(per_second).into(),
            per_second: per_second.into(),
        })
    }
}
