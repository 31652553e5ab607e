//! The peer-to-peer network as JSON-RPC sees it: the node's identity, the lists of nodes and
//! subnets in the data directory, and the peers of the running network.
//!
//! The lists of the user are `static-nodes.json` (nodes that this one stays connected to) and
//! `trusted-nodes.json` (nodes for which there is always a place).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use network::{
    DialTarget, LISTED_NODES_MAX, NetworkHandle, NodeFileError, PeerReport, STATIC_NODES_FILE, SubnetPlan,
    TRUSTED_NODES_FILE, read_enodes, read_node, write_enodes,
};
use parking_lot::Mutex;
use primitives::{Address, B512, Enode, SecretKey};
use rpc::{ControlError, NetworkControl, Peer, PeerMeasures, Subnet};

use super::subnets::{self, SUBNETS_FILE, SUBNETS_MAX};
use crate::vnodeconfig::VnodeConfig;

/// An error of a stored list.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A list of nodes cannot be used.
    #[error(transparent)]
    Nodes(#[from] NodeFileError),
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

/// The reason why a list is not changed as a method asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ListError {
    /// A node cannot be its own peer.
    #[error("the node id is this node's own")]
    OwnNode,
    /// A static node is dialled.
    #[error("TCP port of the node: got 0, expected one that can be dialled")]
    NoPort,
    /// There is no room for another entry.
    #[error("{file} is full: it has {got} entries, the most allowed is {max}")]
    Full {
        /// The file of the list.
        file: &'static str,
        /// The entries.
        got: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// The network has no subnets.
    #[error("this network has no application chains")]
    NoSubnets,
    /// The settings keep the node in this subnet.
    #[error("subnet {0:#x} cannot be left: ForceSubnetP2P of vnodeconfig.json always joins it")]
    Forced(Address),
}

#[derive(Debug, Default)]
struct StoredLists {
    static_nodes: Vec<Enode>,
    trusted_nodes: Vec<Enode>,
    subnets: Vec<SubnetPlan>,
}

/// Identity of the node, the lists, and the running network.
#[derive(Debug)]
pub(crate) struct PeerRegistry {
    id: B512,
    /// The address in `vnodeconfig.json`; empty if there is none.
    ip: String,
    /// Parameters of the node's enode URL.
    query: Vec<(String, String)>,
    folder: PathBuf,
    /// Subnets that the settings always join.
    forced: Vec<Address>,
    lists: Mutex<StoredLists>,
    running: OnceLock<NetworkHandle>,
}

/// A list of nodes in the data directory.
#[derive(Clone, Copy)]
enum NodeList {
    Static,
    Trusted,
}

impl NodeList {
    const fn file(self) -> &'static str {
        match self {
            Self::Static => STATIC_NODES_FILE,
            Self::Trusted => TRUSTED_NODES_FILE,
        }
    }

    const fn of(self, lists: &mut StoredLists) -> &mut Vec<Enode> {
        match self {
            Self::Static => &mut lists.static_nodes,
            Self::Trusted => &mut lists.trusted_nodes,
        }
    }
}

impl PeerRegistry {
    /// Reads the lists in the data directory `folder`.
    pub(crate) fn open(key: &SecretKey, config: &VnodeConfig, folder: &Path) -> Result<Self, NetworkError> {
        Ok(Self {
            id: key.public_key(),
            ip: config.ip.clone(),
            query: query(config),
            folder: folder.to_owned(),
            forced: config.force_subnet_p2p.clone(),
            lists: Mutex::new(StoredLists {
                static_nodes: read_enodes(&folder.join(STATIC_NODES_FILE))?,
                trusted_nodes: read_enodes(&folder.join(TRUSTED_NODES_FILE))?,
                subnets: subnets::read(folder)?,
            }),
            running: OnceLock::new(),
        })
    }

    /// The static nodes. Each dial resolves the name of one anew.
    pub(crate) fn static_targets(&self) -> Vec<DialTarget> {
        let lists = self.lists.lock();
        lists.static_nodes.iter().map(DialTarget::from).collect()
    }

    /// The ids of the trusted nodes.
    pub(crate) fn trusted_ids(&self) -> Vec<B512> {
        self.lists
            .lock()
            .trusted_nodes
            .iter()
            .map(|node| node.id)
            .collect()
    }

    /// Connects the registry with the running network.
    pub(crate) fn connect(&self, running: NetworkHandle) {
        let lists = self.lists.lock();
        let plans = self.subnet_plans(&lists);
        if !plans.is_empty() && !running.has_subnets() {
            tracing::warn!("this network has no application chains; no subnet is joined");
        }
        running.set_subnets(plans);
        if self.running.set(running).is_err() {
            tracing::error!("the network is connected already");
        }
    }

    /// The running network.
    pub(crate) fn running(&self) -> Option<&NetworkHandle> {
        self.running.get()
    }

    /// The host in the enode URL: the address of the settings, else the outside address, else this
    /// machine.
    fn host(&self) -> String {
        let outside = self.running().and_then(NetworkHandle::external_ip);
        let listens_on = self.running().map(|running| running.address().ip());
        let listens_on = listens_on.filter(|ip| !ip.is_unspecified());
        let other = outside.or(listens_on).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        match self.ip.as_str() {
            "" if other.is_ipv6() => format!("[{other}]"),
            "" => other.to_string(),
            ip if ip.contains(':') && !ip.starts_with('[') => format!("[{ip}]"),
            ip => ip.to_owned(),
        }
    }

    /// Adds a node to a list, in place of an older entry.
    fn add_node(&self, list: NodeList, node: &Enode) -> Result<(), ControlError> {
        let mut lists = self.lists.lock();
        let mut nodes = list.of(&mut lists).clone();
        nodes.retain(|other| other.id != node.id);
        check_list_len(nodes.len(), LISTED_NODES_MAX, list.file())?;
        nodes.push(node.clone());
        self.store_nodes(list, &nodes)?;
        *list.of(&mut lists) = nodes;
        Ok(())
    }

    /// Removes a node from a list. Returns whether it was there.
    fn remove_node(&self, list: NodeList, node: &Enode) -> Result<bool, ControlError> {
        let mut lists = self.lists.lock();
        let mut nodes = list.of(&mut lists).clone();
        let before = nodes.len();
        nodes.retain(|other| other.id != node.id);
        if nodes.len() == before {
            return Ok(false);
        }
        self.store_nodes(list, &nodes)?;
        *list.of(&mut lists) = nodes;
        Ok(true)
    }

    fn store_nodes(&self, list: NodeList, nodes: &[Enode]) -> Result<(), NodeFileError> {
        write_enodes(&self.folder.join(list.file()), nodes)
    }

    /// The subnets of the settings, and those of the list.
    fn subnet_plans(&self, lists: &StoredLists) -> Vec<SubnetPlan> {
        let forced = self.forced.iter().map(|address| SubnetPlan {
            address: *address,
            block_start: 0,
            block_end: u64::MAX,
        });
        let added = lists.subnets.iter().copied();
        forced
            .chain(added.filter(|plan| !self.forced.contains(&plan.address)))
            .collect()
    }

    /// Keeps a new list of subnets, and lets the running network follow it.
    fn replace_subnets(&self, lists: &mut StoredLists, subnets: Vec<SubnetPlan>) -> Result<(), ControlError> {
        subnets::write(&self.folder, &subnets)?;
        lists.subnets = subnets;
        if let Some(running) = self.running() {
            running.set_subnets(self.subnet_plans(lists));
        }
        Ok(())
    }
}

/// The parameters of the enode URL.
fn query(config: &VnodeConfig) -> Vec<(String, String)> {
    let beneficiary = config.beneficial_address;
    let members = [
        ("servicecfgport", config.service_port().to_string()),
        ("showtopublic", config.show_to_public.to_string()),
        (
            "beneficialaddress",
            beneficiary.map_or_else(String::new, |address| format!("{address:#x}")),
        ),
        ("ip", config.ip.clone()),
    ];
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Refuses a new entry if the list is full. `file` names the list.
const fn check_list_len(got: usize, max: usize, file: &'static str) -> Result<(), ListError> {
    if got < max {
        Ok(())
    } else {
        Err(ListError::Full { file, got, max })
    }
}

/// A peer as JSON-RPC shows it.
fn shown(report: PeerReport) -> Peer {
    let (head, total_difficulty) = report.head.unwrap_or_default();
    Peer {
        id: report.node,
        enode: report.contact.to_enode(),
        record: report.record,
        measures: PeerMeasures {
            slot: report.slot,
            since: report.since,
            messages_in: report.traffic.messages_in,
            messages_out: report.traffic.messages_out,
            bytes_in: report.traffic.bytes_in,
            bytes_out: report.traffic.bytes_out,
            round_trip: report.figures.round_trip,
            late_answers: report.figures.late_answers,
            faults: report.figures.faults,
        },
        name: report.client,
        capabilities: report.capabilities,
        local_address: report.local.to_string(),
        remote_address: report.remote.to_string(),
        is_inbound: report.is_inbound,
        is_static: report.is_static,
        is_trusted: report.is_trusted,
        protocol: report.protocol.family().name().to_owned(),
        version: report.protocol.version(),
        head,
        total_difficulty,
    }
}

impl NetworkControl for PeerRegistry {
    fn enode(&self) -> Enode {
        let running = self.running();
        Enode {
            id: self.id,
            host: self.host(),
            port: running.map_or(0, |running| running.address().port()),
            discovery_port: running.map_or(0, NetworkHandle::discovery_port),
            // Only the public network's nodes read the parameters.
            query: if running.is_none_or(NetworkHandle::has_subnets) {
                self.query.clone()
            } else {
                Vec::new()
            },
        }
    }

    fn record(&self) -> Option<String> {
        self.running().map(|running| running.record().to_string())
    }

    fn read_node(&self, text: &str) -> Result<Enode, ControlError> {
        Ok(read_node(text)?)
    }

    fn listen_address(&self) -> Option<String> {
        self.running().map(|running| running.address().to_string())
    }

    fn peers(&self) -> Vec<Peer> {
        let peers = self.running().map(NetworkHandle::peers).unwrap_or_default();
        peers.into_iter().map(shown).collect()
    }

    fn wait_until_told(&self, position: u64, limit: Duration) -> bool {
        self.running()
            .is_some_and(|running| running.wait_until_told(position, limit))
    }

    fn add_peer(&self, node: &Enode) -> Result<(), ControlError> {
        if node.id == self.id {
            return Err(ListError::OwnNode.into());
        }
        if node.port == 0 {
            return Err(ListError::NoPort.into());
        }
        self.add_node(NodeList::Static, node)?;
        if let Some(running) = self.running() {
            running.add_static(node);
        }
        Ok(())
    }

    fn remove_peer(&self, node: &Enode) -> Result<bool, ControlError> {
        let was_static = self.remove_node(NodeList::Static, node)?;
        if let Some(running) = self.running() {
            running.remove_static(&node.id);
        }
        Ok(was_static)
    }

    fn add_trusted_peer(&self, node: &Enode) -> Result<(), ControlError> {
        self.add_node(NodeList::Trusted, node)?;
        if let Some(running) = self.running() {
            running.add_trusted(node.id);
        }
        Ok(())
    }

    fn remove_trusted_peer(&self, node: &Enode) -> Result<bool, ControlError> {
        let was_trusted = self.remove_node(NodeList::Trusted, node)?;
        if let Some(running) = self.running() {
            running.remove_trusted(&node.id);
        }
        Ok(was_trusted)
    }

    fn add_subnet(&self, address: Address, block_start: u64) -> Result<(), ControlError> {
        if self.running().is_some_and(|running| !running.has_subnets()) {
            return Err(ListError::NoSubnets.into());
        }
        let mut lists = self.lists.lock();
        let mut subnets = lists.subnets.clone();
        subnets.retain(|other| other.address != address);
        check_list_len(subnets.len(), SUBNETS_MAX, SUBNETS_FILE)?;
        subnets.push(SubnetPlan {
            address,
            block_start,
            block_end: u64::MAX,
        });
        self.replace_subnets(&mut lists, subnets)
    }

    fn remove_subnet(&self, address: Address, block_end: u64) -> Result<bool, ControlError> {
        if self.forced.contains(&address) {
            return Err(ListError::Forced(address).into());
        }
        let mut lists = self.lists.lock();
        let mut subnets = lists.subnets.clone();
        let Some(joined) = subnets.iter_mut().find(|joined| joined.address == address) else {
            return Ok(false);
        };
        joined.block_end = block_end;
        // A subnet that ends before it begins is removed.
        subnets.retain(|joined| joined.block_start < joined.block_end);
        self.replace_subnets(&mut lists, subnets)?;
        Ok(true)
    }

    fn subnets(&self, head: u64) -> Vec<Subnet> {
        let running = self.running().map(NetworkHandle::subnets).unwrap_or_default();
        let peers = |address: &Address| {
            let report = running.iter().find(|report| report.address == *address);
            report.map_or(0, |report| report.peers.len())
        };
        let show = |plan: SubnetPlan| Subnet {
            address: plan.address,
            block_start: plan.block_start,
            block_end: plan.block_end,
            peers: peers(&plan.address).to_string(),
        };
        let plans = self.subnet_plans(&self.lists.lock());
        let lasting = plans.into_iter().filter(|plan| plan.block_end > head);
        lasting.map(show).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(folder: &Path, config: &VnodeConfig) -> PeerRegistry {
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("a key");
        PeerRegistry::open(&key, config, folder).expect("good lists")
    }

    fn peer(mark: u8) -> Enode {
        let key = SecretKey::from_bytes(&[mark; 32]).expect("a key");
        Enode {
            id: key.public_key(),
            host: "10.0.0.1".to_owned(),
            port: 30333,
            discovery_port: 30333,
            query: Vec::new(),
        }
    }

    #[test]
    fn the_enode_has_the_settings() {
        let home = tempfile::tempdir().expect("a folder");
        let config = VnodeConfig {
            show_to_public: true,
            service_cfg: "localhost:50070".to_owned(),
            beneficial_address: Some(Address::repeat_byte(0x71)),
            ip: "52.1.2.3".to_owned(),
            ..VnodeConfig::default()
        };
        let enode = registry(home.path(), &config).enode().to_string();
        let (start, rest) = enode.split_once('@').expect("a node id");
        assert_eq!(start.len(), "enode://".len() + 128);
        assert_eq!(
            rest,
            "52.1.2.3:0?servicecfgport=50070&showtopublic=true\
             &beneficialaddress=0x7171717171717171717171717171717171717171&ip=52.1.2.3"
        );
        let plain = registry(home.path(), &VnodeConfig::default()).enode().to_string();
        assert!(
            plain.ends_with("@127.0.0.1:0?servicecfgport=50062&showtopublic=false&beneficialaddress=&ip=")
        );
    }

    #[test]
    fn static_nodes_are_stored() {
        let home = tempfile::tempdir().expect("a folder");
        let config = VnodeConfig::default();
        let first = registry(home.path(), &config);
        first.add_peer(&peer(1)).expect("kept");
        first.add_peer(&peer(2)).expect("kept");
        let moved = Enode { port: 1, ..peer(1) };
        first.add_peer(&moved).expect("kept");
        let closed = Enode { port: 0, ..peer(1) };
        assert!(first.add_peer(&closed).is_err(), "it could never be dialled");
        let second = registry(home.path(), &config);
        assert_eq!(second.lists.lock().static_nodes, [peer(2), moved]);
        assert!(second.remove_peer(&peer(1)).expect("stored"));
        assert!(!second.remove_peer(&peer(1)).expect("stored"));
        assert!(second.peers().is_empty());
        // A node whose name does not resolve is kept, too.
        let named = Enode {
            host: "node.invalid".to_owned(),
            ..peer(3)
        };
        second.add_peer(&named).expect("kept");
        let third = registry(home.path(), &config);
        let targets = third.static_targets();
        assert_eq!(
            targets.last().and_then(|target| target.name.as_deref()),
            Some("node.invalid")
        );
        assert!(third.remove_peer(&named).expect("stored"));
        assert_eq!(
            registry(home.path(), &config).lists.lock().static_nodes,
            [peer(2)]
        );
    }

    #[test]
    fn subnets_begin_and_end() {
        let home = tempfile::tempdir().expect("a folder");
        let (added, forced) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let config = VnodeConfig {
            force_subnet_p2p: vec![forced],
            ..VnodeConfig::default()
        };
        let first = registry(home.path(), &config);
        first.add_subnet(added, 110).expect("kept");
        let second = registry(home.path(), &config);
        let starts = |registry: &PeerRegistry, head| -> Vec<_> {
            let subnets = registry.subnets(head).into_iter();
            subnets
                .map(|subnet| (subnet.address, subnet.block_start, subnet.block_end))
                .collect()
        };
        assert_eq!(
            starts(&second, 10),
            [(forced, 0, u64::MAX), (added, 110, u64::MAX)]
        );
        assert!(second.remove_subnet(added, 200).expect("stored"));
        assert_eq!(starts(&second, 199)[1..], [(added, 110, 200)]);
        assert_eq!(starts(&second, 200)[1..], []);
        assert!(second.remove_subnet(added, 110).expect("stored"));
        assert!(
            !second.remove_subnet(added, 110).expect("stored"),
            "it never began"
        );
        assert!(second.remove_subnet(forced, 1).is_err());
    }

    #[test]
    fn damaged_lists_stop_the_start() {
        let home = tempfile::tempdir().expect("a folder");
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("a key");
        let open = || PeerRegistry::open(&key, &VnodeConfig::default(), home.path());
        for (name, text) in [
            (STATIC_NODES_FILE, "{}"),
            (STATIC_NODES_FILE, r#"["enode://12@a:1"]"#),
            (SUBNETS_FILE, r#"[{"subnet":"0x12","blockStart":1,"blockEnd":2}]"#),
            (SUBNETS_FILE, "[1"),
        ] {
            std::fs::write(home.path().join(name), text).expect("a write");
            let error = open().expect_err(text);
            assert!(error.to_string().contains(name), "{error}");
            std::fs::remove_file(home.path().join(name)).expect("a removal");
        }
        assert!(open().is_ok());
    }
}
