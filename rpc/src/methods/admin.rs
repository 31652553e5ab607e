//! The `admin` module (docs/interface.md, 4.7): peers, subnets, the HTTP listener, facts about this
//! node.
//!
//! The methods pass requests on to other parts of the process through `control`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chain::genesis::{chain_config, read_record};
use chain::spec::ChainFamily;
use chain::upkeep::DatabaseSize;
use primitives::{Address, B256, B512, Enode, hex, keccak256};
use serde::Serialize;
use serde_json::Value;

use crate::backups::BackupStatus;
use crate::control::{HOST, ListenerControl, ListenerRequest, PORT, PORT_WS, Peer, PeerMeasures, Subnet};
use crate::database_stats::DatabaseStats;
use crate::decode::{FromParam, string};
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::NodeFacts;
use crate::json::{JsonMembers, JsonOf};
use crate::modules::Modules;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, Data, Fraction, ParamError, PlainNumber, Quantity};
use crate::wire_type::{Described, WireType};

/// The first block of a subnet must be at least this many blocks above the head.
const SUBNET_LEAD: u64 = 10;

/// The longest time that `admin_backup` waits for the end of the backup.
const BACKUP_WAIT: Duration = Duration::from_secs(20);

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("admin_addPeer", ["enode"], add_peer)
            .summary("Adds a static node, by its enode URL or the text of its node record. This node keeps a connection to each static node."),
        Method::blocking("admin_removePeer", ["enode"], remove_peer)
            .summary("Removes a static node. Returns false if the node is not a static node."),
        Method::blocking("admin_addTrustedPeer", ["enode"], add_trusted_peer)
            .summary("Adds a trusted node, by its enode URL or the text of its node record. There is a place for it even if there are enough peers."),
        Method::blocking("admin_removeTrustedPeer", ["enode"], remove_trusted_peer)
            .summary("Removes a trusted node. Returns false if the node is not a trusted node."),
        Method::inline("admin_datadir", [], data_directory)
            .summary("Returns the data directory of this node."),
        Method::waiting("admin_backup", ["folder"], back_up).summary(
            "Copies the chain of this node as it is now into a folder of its machine, by its absolute path, while the \
             node runs. The folder becomes a data directory, without keys. Returns after the backup, or after 20 seconds.",
        ),
        Method::inline("admin_backupStatus", [], backup_status)
            .summary("Returns how far the backup is that runs, or how the last one ended; null if there was none."),
        Method::inline("admin_stopBackup", [], stop_backup)
            .summary("Ends the backup that runs; nothing is left of it. Returns false if none runs."),
        Method::blocking("admin_databaseStats", [], database_stats)
            .summary("Returns the size of the database: rows and bytes of each table."),
        Method::blocking("admin_networkRecord", [], network_record)
            .summary("Returns the record of the network that the data directory keeps, as a text of JSON; null if it has none."),
        Method::blocking("admin_nodeInfo", [], node_info)
            .summary("Returns the identity of this node, and how other nodes reach it."),
        Method::blocking("admin_peers", [], peers).summary("Returns the connected peers."),
        Method::waiting("admin_startRPC", ["host", "port", "cors", "apis"], start_listener)
            .summary("Opens the HTTP listener."),
        Method::waiting("admin_stopRPC", [], stop_listener)
            .summary("Closes the HTTP listener. Returns false if no listener is open."),
        Method::waiting("admin_startWS", ["host", "port", "origins", "apis"], start_ws)
            .summary("Opens the WebSocket listener."),
        Method::waiting("admin_stopWS", [], stop_ws)
            .summary("Closes the WebSocket listener. Returns false if no listener is open."),
        Method::blocking("admin_addSubnetP2P", ["address", "block"], add_subnet)
            .summary("Joins the peer-to-peer network of an application chain at a block."),
        Method::blocking("admin_removeSubnetP2P", ["address", "block"], remove_subnet).summary(
            "Leaves the network of an application chain at a block. Returns false if this node is \
             not part of that network.",
        ),
        Method::blocking("admin_getSubnetP2PList", [], subnets)
            .summary("Returns the networks of application chains that this node has joined or will join."),
    ]
}

/// An enode URL, or the text of a node record.
struct NodeText(String);

impl FromParam for NodeText {
    const TYPE: WireType = <String as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let text = string(json, "an enode URL or the text of a node record")?;
        Ok(Self(text.into_owned()))
    }
}

impl NodeText {
    /// The node. The network reads the text, because records are signed.
    fn read(&self, node: &Node) -> RpcResult<Enode> {
        let read = node.network()?.read_node(&self.0);
        read.map_err(|reason| RpcError::invalid_argument(0, reason))
    }
}

/// `admin_datadir`.
fn data_directory(node: &Node) -> RpcResult<String> {
    Ok(node.settings.data_directory.to_string_lossy().into_owned())
}

/// `admin_addPeer`.
fn add_peer(node: &Node, (peer,): (NodeText,)) -> RpcResult<bool> {
    let peer = peer.read(node)?;
    node.network()?.add_peer(&peer).map_err(RpcError::refused_by)?;
    Ok(true)
}

/// `admin_removePeer`.
fn remove_peer(node: &Node, (peer,): (NodeText,)) -> RpcResult<bool> {
    let peer = peer.read(node)?;
    node.network()?.remove_peer(&peer).map_err(RpcError::refused_by)
}

/// `admin_addTrustedPeer`.
fn add_trusted_peer(node: &Node, (peer,): (NodeText,)) -> RpcResult<bool> {
    let peer = peer.read(node)?;
    let added = node.network()?.add_trusted_peer(&peer);
    added.map_err(RpcError::refused_by)?;
    Ok(true)
}

/// `admin_removeTrustedPeer`.
fn remove_trusted_peer(node: &Node, (peer,): (NodeText,)) -> RpcResult<bool> {
    let peer = peer.read(node)?;
    let removed = node.network()?.remove_trusted_peer(&peer);
    removed.map_err(RpcError::refused_by)
}

/// `admin_backup`.
async fn back_up(node: Arc<Node>, (folder,): (String,)) -> RpcResult<Option<BackupStatus>> {
    let folder = PathBuf::from(folder);
    if !folder.is_absolute() {
        let reason = format!("got {:?}, expected an absolute path", folder.display());
        return Err(RpcError::invalid_argument(0, reason));
    }
    let started = node.backups.start(node.view()?, folder);
    started.map_err(RpcError::refused_by)?;
    node.backups.wait(BACKUP_WAIT).await;
    Ok(node.backups.status())
}

/// `admin_backupStatus`.
fn backup_status(node: &Node, (): ()) -> RpcResult<Option<BackupStatus>> {
    Ok(node.backups.status())
}

/// `admin_stopBackup`.
fn stop_backup(node: &Node, (): ()) -> RpcResult<bool> {
    Ok(node.backups.stop())
}

/// `admin_databaseStats`.
fn database_stats(node: &Node, (): ()) -> RpcResult<JsonOf<DatabaseStats>> {
    let size = DatabaseSize::of(node.view()?.snapshot()).map_err(failure)?;
    JsonOf::write(&DatabaseStats::from(size))
}

/// `admin_networkRecord`. Commands beside the node learn the rules from it.
fn network_record(node: &Node) -> RpcResult<Option<String>> {
    let record = read_record(node.view()?.snapshot()).map_err(failure)?;
    let text = record.map(|record| record.encode()).transpose();
    Ok(text
        .map_err(failure)?
        .map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// The answer of `admin_nodeInfo` (docs/interface.md, 2.13). Its members are also those of geth.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo<'a> {
    id: String,
    name: &'a str,
    enode: String,
    enr: String,
    ip: String,
    ports: PortsInfo,
    listen_addr: String,
    protocols: ProtocolsInfo,
}

impl Described for NodeInfo<'_> {
    const TYPE: WireType = WireType::Named("NodeInfo");
}

#[derive(Serialize)]
struct PortsInfo {
    discovery: u16,
    listener: u16,
}

/// The facts of the node about its chain, by the name of the protocol that the family speaks.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ProtocolsInfo {
    Mc(ProtocolInfo),
    Eth(ProtocolInfo),
}

#[derive(Serialize)]
struct ProtocolInfo {
    network: u64,
    difficulty: PlainNumber,
    genesis: Data<B256>,
    /// The rules, in Ethereum's family.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Value>,
    head: Data<B256>,
}

/// A node's id as its family shows it: the public key, or the hash of it in Ethereum's family, as
/// geth does from 1.9 on.
fn shown_id(node: &Node, id: &B512) -> String {
    match node.chain.spec().family {
        ChainFamily::Moac => hex::encode(id),
        ChainFamily::Ethereum => hex::encode(keccak256(id)),
    }
}

/// `admin_nodeInfo`.
fn node_info(node: &Node) -> RpcResult<JsonOf<NodeInfo<'static>>> {
    let network = node.network()?;
    let enode = network.enode();
    let view = node.view()?;
    let genesis = view.canonical_hash(0).map_err(failure)?.unwrap_or_default();
    let spec = node.chain.spec();
    let is_ethereum = spec.family == ChainFamily::Ethereum;
    let protocol = ProtocolInfo {
        network: node.network_id(),
        difficulty: PlainNumber(view.head().total_difficulty),
        genesis: Data(genesis),
        config: is_ethereum.then(|| chain_config(spec)),
        head: Data(view.head_hash()),
    };
    JsonOf::write(&NodeInfo {
        id: shown_id(node, &enode.id),
        name: node.client_version(),
        ip: enode.host.trim_matches(['[', ']']).to_owned(),
        ports: PortsInfo {
            discovery: enode.discovery_port,
            listener: enode.port,
        },
        enode: enode.to_string(),
        enr: network.record().unwrap_or_default(),
        listen_addr: network.listen_address().unwrap_or_default(),
        protocols: if is_ethereum {
            ProtocolsInfo::Eth(protocol)
        } else {
            ProtocolsInfo::Mc(protocol)
        },
    })
}

/// A peer as JSON: the members of geth, and `figures`.
#[derive(Serialize)]
struct PeerObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    enr: Option<String>,
    enode: String,
    id: String,
    name: String,
    caps: Vec<String>,
    network: PeerAddresses,
    protocols: JsonMembers<PeerProtocol>,
    figures: PeerFiguresObject,
}

impl Described for PeerObject {
    const TYPE: WireType = WireType::Named("Peer");
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PeerAddresses {
    local_address: String,
    remote_address: String,
    inbound: bool,
    trusted: bool,
    #[serde(rename = "static")]
    is_static: bool,
}

#[derive(Serialize)]
struct PeerProtocol {
    version: u64,
    difficulty: PlainNumber,
    head: Data<B256>,
}

/// The figures of a peer, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PeerFiguresObject {
    slot: usize,
    since: u64,
    messages_in: u64,
    messages_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    /// In seconds.
    round_trip: Option<Fraction>,
    late_answers: u64,
    faults: u64,
}

impl From<PeerMeasures> for PeerFiguresObject {
    fn from(measures: PeerMeasures) -> Self {
        Self {
            slot: measures.slot,
            since: measures.since,
            messages_in: measures.messages_in,
            messages_out: measures.messages_out,
            bytes_in: measures.bytes_in,
            bytes_out: measures.bytes_out,
            round_trip: measures.round_trip.map(|time| Fraction(time.as_secs_f64())),
            late_answers: measures.late_answers,
            faults: measures.faults,
        }
    }
}

impl PeerObject {
    fn new(node: &Node, peer: Peer) -> Self {
        Self {
            enr: peer.record,
            enode: peer.enode.to_string(),
            id: shown_id(node, &peer.id),
            figures: peer.measures.into(),
            name: peer.name,
            caps: peer.capabilities,
            network: PeerAddresses {
                local_address: peer.local_address,
                remote_address: peer.remote_address,
                inbound: peer.is_inbound,
                trusted: peer.is_trusted,
                is_static: peer.is_static,
            },
            protocols: std::iter::once((
                peer.protocol,
                PeerProtocol {
                    version: peer.version,
                    difficulty: PlainNumber(peer.total_difficulty),
                    head: Data(peer.head),
                },
            ))
            .collect(),
        }
    }
}

/// `admin_peers`.
fn peers(node: &Node) -> RpcResult<Vec<PeerObject>> {
    let peers = node.network()?.peers();
    Ok(peers
        .into_iter()
        .map(|peer| PeerObject::new(node, peer))
        .collect())
}

fn listener(node: &Node) -> RpcResult<&dyn ListenerControl> {
    let missing = || RpcError::refused("this node's listener cannot be opened or closed at run time");
    node.listener.as_deref().ok_or_else(missing)
}

/// The parameters of `admin_startRPC`: host, port, CORS origins, modules.
type ListenerParams = (Option<String>, Option<Count>, Option<String>, Option<String>);

/// `admin_startRPC`: opens the listener. Absent parameters have the defaults of the interface.
async fn start_listener(node: Arc<Node>, params: ListenerParams) -> RpcResult<bool> {
    let request = listener_request(params, PORT)?;
    let started = listener(&node)?.start(request).await;
    started.map_err(RpcError::refused_by)?;
    Ok(true)
}

fn listener_request(
    (host, port, cors, apis): ListenerParams,
    port_default: u16,
) -> RpcResult<ListenerRequest> {
    let port = port.map_or(Ok(port_default), |port| {
        u16::try_from(port.0).map_err(|_| {
            RpcError::invalid_argument(1, format_args!("port: got {}, expected at most 65535", port.0))
        })
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

/// `admin_stopRPC`: closes the listener. A call that came through the listener itself is answered
/// before the listener ends.
async fn stop_listener(node: Arc<Node>, (): ()) -> RpcResult<bool> {
    Ok(listener(&node)?.stop().await)
}

fn ws_listener(node: &Node) -> RpcResult<&dyn ListenerControl> {
    let missing =
        || RpcError::refused("this node's WebSocket listener cannot be opened or closed at run time");
    node.ws_listener.as_deref().ok_or_else(missing)
}

/// `admin_startWS`: opens the WebSocket listener, as `admin_startRPC` opens the HTTP listener.
async fn start_ws(node: Arc<Node>, params: ListenerParams) -> RpcResult<bool> {
    let request = listener_request(params, PORT_WS)?;
    let started = ws_listener(&node)?.start(request).await;
    started.map_err(RpcError::refused_by)?;
    Ok(true)
}

/// `admin_stopWS`: closes the WebSocket listener.
async fn stop_ws(node: Arc<Node>, (): ()) -> RpcResult<bool> {
    Ok(ws_listener(&node)?.stop().await)
}

/// `admin_addSubnetP2P`.
fn add_subnet(node: &Node, (address, Count(block)): (Address, Count)) -> RpcResult<()> {
    if block < node.view()?.head_number().saturating_add(SUBNET_LEAD) {
        return Err(RpcError::refused(format!(
            "blockNumber needs to be at least {SUBNET_LEAD} blocks in the future"
        )));
    }
    node.network()?
        .add_subnet(address, block)
        .map_err(RpcError::refused_by)
}

/// `admin_removeSubnetP2P`.
fn remove_subnet(node: &Node, (address, Count(block)): (Address, Count)) -> RpcResult<bool> {
    node.network()?
        .remove_subnet(address, block)
        .map_err(RpcError::refused_by)
}

/// A subnet as JSON (docs/interface.md, 2.13).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubnetObject {
    block_end: Quantity,
    block_start: Quantity,
    peers: String,
    subnet: Data<Address>,
}

impl Described for SubnetObject {
    const TYPE: WireType = WireType::Named("Subnet");
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
