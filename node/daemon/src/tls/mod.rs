//! TLS of connections, versions 1.2 and 1.3.
//!
//! | subject | module |
//! |---|---|
//! | connections to servers | `client` |
//! | a server's files: reading and checking them | `files` |
//! | a server's settings, which can be read again, and the handshake | `server` |
//! | clients that do not speak TLS | `first_bytes` |
//!
//! Time limits are those of the caller.

mod client;
mod files;
mod first_bytes;
mod server;

pub use client::{ClientStream, TlsClient, TlsError, TlsOptions};
pub use files::{TlsFiles, TlsFilesError};
pub use first_bytes::FirstBytes;
pub use server::{ServerStream, ServerTls, TlsHandshakeError};
