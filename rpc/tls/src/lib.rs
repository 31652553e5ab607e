//! TLS of a server: its certificate and key, and the handshake with each client.
//!
//! | subject | module |
//! |---|---|
//! | the files: reading and checking them | `files` |
//! | the settings that connections use, which can be read again | `server` |
//! | the stream of a connection, with TLS or without | `stream` |
//!
//! TLS 1.2 and 1.3 are spoken. Knows neither listeners nor what is said on a connection. Time
//! limits are those of the caller. The certificates that clients trust are not known here either.

mod files;
mod server;
mod stream;

pub use files::{TlsFiles, TlsFilesError};
pub use server::{HandshakeError, ServerTls};
pub use stream::{FirstBytes, ServerStream};
