//! The `admin` module (interface 4.7): peers, subnets, the HTTP listener, what this node is.
//!
//! What is asked is done by others, through [`crate::control`].

use std::sync::Arc;

use primitives::{Address, B256, Enode, hex};
use serde::Serialize;
use serde_json::value::RawValue;

use super::plain_number;
use crate::control::{HOST, ListenerControl, ListenerRequest, PORT, Peer, Subnet};
use crate::decode::{FromParam, string};
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::NodeFacts;
use crate::modules::Modules;
use crate::node::Node;
use crate::params::Params;
use crate::table::{Method, Waiting, reply};
use crate::types::{Count, Data, DecodeError, Quantity};

/// How many blocks ahead a subnet's first block must lie at least.
const SUBNET_LEAD: u64 = 10;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("admin_addPeer", |node, params| {
            reply(params.parse().and_then(|given| add_peer(node, given)))
        })
        .says(
            "enode: String -> Boolean",
            "Adds a node to the list of those that a connection is kept with.",
        ),
        Method::blocking("admin_removePeer", |node, params| {
            reply(params.parse().and_then(|given| remove_peer(node, given)))
        })
        .says(
            "enode: String -> Boolean",
            "Takes a node from that list; false if it is not on it.",
        ),
        Method::inline("admin_datadir", |node: &Node, params| {
            reply(
                params
                    .parse()
                    .map(|()| node.settings.data_directory.to_string_lossy()),
            )
        })
        .says("-> String", "Where the node keeps its data."),
        Method::blocking("admin_nodeInfo", |node, params| {
            reply(params.parse().and_then(|()| node_info(node)))
        })
        .says("-> NodeInfo", "What this node is and where it is reached."),
        Method::blocking("admin_peers", |node, params| {
            reply(params.parse().and_then(|()| peers(node)))
        })
        .says("-> Peer[]", "The connected peers."),
        Method::waiting("admin_startRPC", |node, params| start_rpc(node, params)).says(
            "host?: String, port?: COUNT, cors?: String, apis?: String -> Boolean",
            "Opens the HTTP listener.",
        ),
        Method::waiting("admin_stopRPC", |node, params| stop_rpc(node, params))
            .says("-> Boolean", "Closes the HTTP listener; false if there is none."),
        Method::blocking("admin_addSubnetP2P", |node, params| {
            reply(params.parse().and_then(|given| add_subnet(node, given)))
        })
        .says(
            "address: DATA20, block: COUNT -> null",
            "Joins an application chain's network at a block.",
        ),
        Method::blocking("admin_removeSubnetP2P", |node, params| {
            reply(params.parse().and_then(|given| remove_subnet(node, given)))
        })
        .says(
            "address: DATA20, block: COUNT -> Boolean",
            "Leaves an application chain's network at a block; false if this node is not part of it.",
        ),
        Method::blocking("admin_getSubnetP2PList", |node, params| {
            reply(params.parse().and_then(|()| subnets(node)))
        })
        .says(
            "-> Subnet[]",
            "The networks of application chains that this node is part of, or will be.",
        ),
    ]
}

/// An enode URL.
struct EnodeParam(Enode);

impl FromParam for EnodeParam {
    fn from_json(json: &str) -> Result<Self, DecodeError> {
        let text = string(json, "an enode URL")?;
        let node = text.parse::<Enode>();
        node.map(Self)
            .map_err(|error| DecodeError::Rule(error.to_string()))
    }
}

/// `admin_addPeer`.
fn add_peer(node: &Node, (EnodeParam(peer),): (EnodeParam,)) -> RpcResult<bool> {
    node.network()?.add_peer(&peer).map_err(RpcError::refused)?;
    Ok(true)
}

/// `admin_removePeer`.
fn remove_peer(node: &Node, (EnodeParam(peer),): (EnodeParam,)) -> RpcResult<bool> {
    node.network()?.remove_peer(&peer).map_err(RpcError::refused)
}

/// The answer of `admin_nodeInfo` (interface 2.13).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo<'a> {
    id: String,
    name: &'a str,
    enode: String,
    ip: String,
    ports: Ports,
    listen_addr: String,
    protocols: Protocols,
}

#[derive(Serialize)]
struct Ports {
    discovery: u16,
    listener: u16,
}

#[derive(Serialize)]
struct Protocols {
    mc: Protocol,
}

#[derive(Serialize)]
struct Protocol {
    network: u64,
    /// Plain digits, whatever their number.
    difficulty: Box<RawValue>,
    genesis: Data<B256>,
    head: Data<B256>,
}

/// `admin_nodeInfo`.
fn node_info(node: &Node) -> RpcResult<NodeInfo<'_>> {
    let network = node.network()?;
    let enode = network.enode();
    let view = node.view()?;
    let genesis = view.canonical_hash(0).map_err(failure)?.unwrap_or_default();
    Ok(NodeInfo {
        id: hex::encode(enode.id),
        name: node.client_version(),
        ip: enode.host.trim_matches(['[', ']']).to_owned(),
        ports: Ports {
            discovery: enode.discovery_port,
            listener: enode.port,
        },
        enode: enode.to_string(),
        listen_addr: network.listen_address().unwrap_or_default(),
        protocols: Protocols {
            mc: Protocol {
                network: node.network_id(),
                difficulty: plain_number(view.head().total_difficulty)?,
                genesis: Data(genesis),
                head: Data(view.head_hash()),
            },
        },
    })
}

/// A peer as JSON.
#[derive(Serialize)]
struct PeerObject {
    id: String,
    name: String,
    caps: Vec<String>,
    network: PeerAddresses,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PeerAddresses {
    local_address: String,
    remote_address: String,
}

impl From<Peer> for PeerObject {
    fn from(peer: Peer) -> Self {
        Self {
            id: hex::encode(peer.id),
            name: peer.name,
            caps: peer.capabilities,
            network: PeerAddresses {
                local_address: peer.local_address,
                remote_address: peer.remote_address,
            },
        }
    }
}

/// `admin_peers`.
fn peers(node: &Node) -> RpcResult<Vec<PeerObject>> {
    let peers = node.network()?.peers();
    Ok(peers.into_iter().map(PeerObject::from).collect())
}

fn listener(node: &Node) -> RpcResult<&dyn ListenerControl> {
    let none = || RpcError::refused("this node's listener cannot be opened or closed at run time");
    node.listener.as_deref().ok_or_else(none)
}

/// `admin_startRPC`: what is not given has the interface's defaults.
fn start_rpc(node: Arc<Node>, params: Params<'_>) -> Waiting {
    let request = params.parse().and_then(listener_request);
    Box::pin(async move {
        let started = listener(&node)?.start(request?).await;
        reply(
            started
                .map(|()| true)
                .map_err(|error| RpcError::refused(error.to_string())),
        )
    })
}

fn listener_request(
    (host, port, cors, apis): (Option<String>, Option<Count>, Option<String>, Option<String>),
) -> RpcResult<ListenerRequest> {
    let port = port.map_or(Ok(PORT), |port| {
        u16::try_from(port.0)
            .map_err(|_| RpcError::invalid_argument(1, format_args!("port {}, want at most 65535", port.0)))
    });
    let cors = cors.unwrap_or_default().parse();
    let modules = apis.map_or_else(|| Ok(Modules::default()), |list| list.parse());
    Ok(ListenerRequest {
        host: host
            .filter(|host| !host.is_empty())
            .unwrap_or_else(|| HOST.to_owned()),
        port: port?,
        cors: cors.map_err(|error| RpcError::invalid_argument(2, error))?,
        modules: modules.map_err(|error| RpcError::invalid_argument(3, error))?,
    })
}

/// `admin_stopRPC`: over the listener itself too, which answers this before it ends.
fn stop_rpc(node: Arc<Node>, params: Params<'_>) -> Waiting {
    let parsed = params.parse::<()>();
    Box::pin(async move {
        parsed?;
        reply(Ok(listener(&node)?.stop().await))
    })
}

/// `admin_addSubnetP2P`: null.
fn add_subnet(node: &Node, (address, Count(block)): (Address, Count)) -> RpcResult<()> {
    if block < node.view()?.head_number().saturating_add(SUBNET_LEAD) {
        return Err(RpcError::refused(format!(
            "blockNumber needs to be at least {SUBNET_LEAD} blocks in the future"
        )));
    }
    node.network()?
        .add_subnet(address, block)
        .map_err(RpcError::refused)
}

/// `admin_removeSubnetP2P`.
fn remove_subnet(node: &Node, (address, Count(block)): (Address, Count)) -> RpcResult<bool> {
    node.network()?
        .remove_subnet(address, block)
        .map_err(RpcError::refused)
}

/// A subnet as JSON (interface 2.13).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubnetObject {
    block_end: Quantity,
    block_start: Quantity,
    peers: String,
    subnet: Data<Address>,
}

impl From<Subnet> for SubnetObject {
    fn from(subnet: Subnet) -> Self {
        Self {
            block_end: Quantity(subnet.block_end),
            block_start: Quantity(subnet.block_start),
            peers: subnet.peers,
            subnet: Data(subnet.address),
        }
    }
}

/// `admin_getSubnetP2PList`.
fn subnets(node: &Node) -> RpcResult<Vec<SubnetObject>> {
    let subnets = node.network()?.subnets(node.view()?.head_number());
    Ok(subnets.into_iter().map(SubnetObject::from).collect())
}
