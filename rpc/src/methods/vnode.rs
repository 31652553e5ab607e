//! The `vnode` module (docs/interface.md, 4.9): the service for the servers of application chains,
//! and what `vnodeconfig.json` says about it.

use primitives::Address;

use crate::error::RpcResult;
use crate::json::JsonOf;
use crate::node::Node;
use crate::table::Method;
use crate::types::Data;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("vnode_address", [], address).summary(
            "Returns the address that is paid for relaying to application chains, or the zero \
             address if there is no such address.",
        ),
        Method::inline("vnode_scsService", [], scs_service)
            .summary("Returns whether the service for the servers of application chains runs on this node."),
        Method::inline("vnode_serviceCfg", [], service_cfg).summary(
            "Returns the port of the service for servers of application chains, after a colon: the one \
             that it listens on, or if it does not run, the one in vnodeconfig.json.",
        ),
        Method::inline("vnode_showToPublic", [], show_to_public).summary(
            "Returns whether the service for servers of application chains is announced to the \
             public.",
        ),
        Method::inline("vnode_vnodeIP", [], ip)
            .summary("Returns the address under which users reach this node."),
    ]
}

/// `vnode_address`: the zero address if nobody is named, as on the public network. Clients expect
/// 20 bytes here.
fn address(node: &Node) -> RpcResult<Data<Address>> {
    let address = node.settings.vnode.beneficial_address;
    Ok(Data(address.unwrap_or_default()))
}

/// `vnode_scsService`.
const fn scs_service(node: &Node) -> RpcResult<bool> {
    Ok(node.scs_service.is_some())
}

/// `vnode_serviceCfg`: a colon and the port.
fn service_cfg(node: &Node) -> RpcResult<String> {
    let running = node.scs_service.as_ref().map(|service| service.port());
    Ok(format!(
        ":{}",
        running.unwrap_or(node.settings.vnode.service_port)
    ))
}

/// `vnode_showToPublic`.
const fn show_to_public(node: &Node) -> RpcResult<bool> {
    Ok(node.settings.vnode.show_to_public)
}

/// `vnode_vnodeIP`.
fn ip(node: &Node) -> RpcResult<JsonOf<str>> {
    JsonOf::write(node.settings.vnode.ip.as_str())
}
