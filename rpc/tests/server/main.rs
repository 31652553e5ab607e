//! The servers over real sockets, a module a transport, and what JSON-RPC 2.0 says about all of
//! them.

mod clients;
#[path = "../shared/facts.rs"]
mod facts;
mod harness;
mod http;
#[cfg(unix)]
mod ipc;
#[cfg(unix)]
mod jsonrpc;
mod properties;
mod ws;
