//! The `vnode` module (interface 4.9): what `vnodeconfig.json` says of the service for servers of
//! application chains.

use primitives::Address;

use crate::node::{Node, VnodeSettings};
use crate::table::{Method, reply};
use crate::types::Data;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("vnode_address", |node, params| {
            reply(params.parse().map(|()| address(settings(node))))
        })
        .says(
            "-> DATA20",
            "Who is paid for relaying to application chains; zeros where nobody is named.",
        ),
        Method::inline("vnode_scsService", |node, params| {
            reply(params.parse().map(|()| settings(node).scs_service))
        })
        .says("-> Boolean", "Whether servers of application chains are served."),
        Method::inline("vnode_serviceCfg", |node, params| {
            reply(params.parse().map(|()| service_cfg(settings(node))))
        })
        .says("-> String", "The port of that service, after a colon."),
        Method::inline("vnode_showToPublic", |node, params| {
            reply(params.parse().map(|()| settings(node).show_to_public))
        })
        .says("-> Boolean", "Whether that service is announced to the public."),
        Method::inline("vnode_vnodeIP", |node, params| {
            reply(params.parse().map(|()| settings(node).ip.as_str()))
        })
        .says("-> String", "Under which address users reach this node."),
    ]
}

fn settings(node: &Node) -> &VnodeSettings {
    &node.settings.vnode
}

/// `vnode_address`: clients read 20 bytes here, so nobody is the zero address, as on the public
/// network.
fn address(settings: &VnodeSettings) -> Data<Address> {
    Data(settings.beneficial_address.unwrap_or_default())
}

/// `vnode_serviceCfg`: in the interface's form.
fn service_cfg(settings: &VnodeSettings) -> String {
    format!(":{}", settings.service_port)
}
