//! The options of the service for the servers of application chains (SCS). Whether it runs, and
//! where it listens, is in `vnodeconfig.json`.

use std::path::PathBuf;

use clap::Args;
use daemon::tls::TlsFiles;
use scs_service::vnode::{ADDRESS_CONNECTIONS_MAX, AllowEntry, CONNECTIONS_MAX};

/// The service for SCS servers.
#[derive(Clone, Debug, Args)]
pub struct ScsOptions {
    /// SCS servers that may connect, separated by commas: ids, IP addresses, or ID@ADDRESS
    /// [default: all]
    #[arg(long = "scs.allow", value_name = "LIST", value_delimiter = ',')]
    pub allow: Vec<AllowEntry>,
    /// File with the certificates of the service (PEM), which is then served over TLS
    #[arg(long = "scs.tls.cert", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of the service (PEM)
    #[arg(
        long = "scs.tls.key",
        value_name = "FILE",
        requires = "tls_cert",
        env = "VNODE_SCS_TLS_KEY",
        hide_env_values = true
    )]
    pub tls_key: Option<PathBuf>,
    /// File with certificates (PEM) of SCS servers, or of who signed them: no others can connect
    #[arg(long = "scs.tls.clients", value_name = "FILE", requires = "tls_cert")]
    pub tls_clients: Option<PathBuf>,
    /// Most connections of SCS servers
    #[arg(long = "scs.maxconnections", value_name = "N", default_value_t = CONNECTIONS_MAX)]
    pub maxconnections: usize,
    /// Most connections of SCS servers at one address
    #[arg(long = "scs.maxperaddress", value_name = "N", default_value_t = ADDRESS_CONNECTIONS_MAX)]
    pub maxperaddress: usize,
}

impl ScsOptions {
    /// The files for TLS, if there are any.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificates: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            clients: self.tls_clients.clone(),
        })
    }
}
