//! Warnings about servers that other machines can reach.

use std::net::SocketAddr;

use rpc::{Modules, Node, Rpc};

/// Warns if other machines can reach a server that takes passwords or signs with unlocked accounts.
///
/// `what` names the server, `modules` are the modules it serves.
pub(crate) fn warn_if_exposed(what: &str, addresses: &[SocketAddr], modules: &Modules, rpc: &Rpc<Node>) {
    let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback()) else {
        return;
    };
    let accounts = rpc.context().accounts.accounts();
    let unlocked = accounts.iter().filter(|account| account.unlocked).count();
    if modules.contains("personal") {
        tracing::warn!(%address, "{what} serves the module personal to other machines: passwords travel in plain text");
    }
    if unlocked > 0 && modules.contains("mc") {
        tracing::warn!(%address, unlocked, "{what} can be reached from other machines: unlocked accounts sign for every caller");
    }
}
