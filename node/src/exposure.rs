//! Warnings about servers that other machines can reach.

use std::net::SocketAddr;

use rpc::server::Guards;
use rpc::{Modules, Node, Rpc};

/// Warns if other machines can reach a server that takes passwords in plain text, or signs with
/// unlocked accounts for everybody.
///
/// `what` names the server, `modules` are the modules it serves.
pub(crate) fn warn_if_exposed(
    what: &str,
    addresses: &[SocketAddr],
    modules: &Modules,
    guards: &Guards,
    rpc: &Rpc<Node>,
) {
    warn_of_plain_tokens(what, addresses, guards);
    let Some(address) = reachable(addresses) else {
        return;
    };
    let accounts = rpc.context().accounts.accounts();
    let unlocked = accounts.iter().filter(|account| account.unlocked).count();
    if guards.tls.is_none() && modules.contains("personal") {
        tracing::warn!(%address, "{what} serves the module personal to other machines: passwords travel in plain text");
    }
    if guards.tokens.is_none() && unlocked > 0 && modules.contains("mc") {
        tracing::warn!(%address, unlocked, "{what} can be reached from other machines: unlocked accounts sign for every caller");
    }
}

/// Warns if other machines can reach a server that takes tokens in plain text.
pub fn warn_of_plain_tokens(what: &str, addresses: &[SocketAddr], guards: &Guards) {
    if let Some(address) = reachable(addresses)
        && guards.tls.is_none()
        && guards.tokens.is_some()
    {
        tracing::warn!(%address, "{what} takes tokens from other machines in plain text: --rpc.tls.cert encrypts them");
    }
}

/// The first address that other machines can reach.
fn reachable(addresses: &[SocketAddr]) -> Option<&SocketAddr> {
    addresses.iter().find(|address| !address.ip().is_loopback())
}
