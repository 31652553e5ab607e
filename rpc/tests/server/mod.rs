//! The servers over real sockets. Each transport has a module. The rules of JSON-RPC 2.0 are
//! checked for all transports together.

mod clients;
mod floods;
mod guards;
mod harness;
mod http;
#[cfg(unix)]
mod ipc;
#[cfg(unix)]
mod jsonrpc;
mod properties;
mod ws;
