//! The options of the peer-to-peer network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use chain::import::BlockId;
use clap::Args;
use network::{
    AddressRanges, DnsEntryError, DnsListUrl, INBOUND_HANDSHAKES_MAX, NatOption, NodeContact,
    REQUIRED_BLOCKS_MAX, boot_nodes, dns_lists, read_node,
};

use super::values::OptionValueError;

/// Default of `--port`.
pub(crate) const PORT_DEFAULT: u16 = 30333;
/// Default of `--maxpeers`.
pub(crate) const PEERS_MAX_DEFAULT: usize = 25;
/// Highest value of `--maxpendpeers`.
const PENDING_PEERS_MAX: u16 = 1024;
/// Most characters of `--identity`. The whole client name is part of a Hello of 2048 bytes.
const IDENTITY_LEN_MAX: usize = 64;

/// The peer-to-peer network.
#[derive(Clone, Debug, Args)]
pub struct PeerOptions {
    /// Port for peers, TCP and UDP; 0 chooses a free one
    /// [default: 30333, or another one if it is taken; with --dev or --fakepow a free one on
    /// 127.0.0.1]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address to listen on for peers, TCP and UDP: one of IPv4 or of IPv6; :: for all addresses of
    /// both [default: 0.0.0.0; with --dev or --fakepow and without --port 127.0.0.1]
    #[arg(long = "p2p.addr", value_name = "IP")]
    pub p2p_addr: Option<ListenIp>,
    /// Port of discovery, UDP; 0 chooses a free one [default: that of --port]
    #[arg(long = "discovery.port", value_name = "PORT")]
    pub discovery_port: Option<u16>,
    /// Nodes that are asked first for other nodes, as enode URLs or texts of node records (enr:…)
    /// separated by commas; an empty list for none [default: those of the network]
    #[arg(long, value_name = "NODES")]
    pub bootnodes: Option<BootNodes>,
    /// Published lists of nodes to read by DNS, as enrtree URLs separated by commas; an empty list
    /// for none [default: those of the network]
    #[arg(long = "discovery.dns", value_name = "LISTS")]
    pub discovery_dns: Option<DnsLists>,
    /// Do not look for nodes, nor read lists of them: only nodes that were named are dialled, and
    /// others may come. The default with --dev and --fakepow
    #[arg(long)]
    pub nodiscover: bool,
    /// The way in which nodes outside reach this one: any, none, upnp, pmp or extip:IP
    /// [default: any; none with --dev or --fakepow]
    #[arg(long, value_name = "HOW")]
    pub nat: Option<NatOption>,
    /// Address ranges that peers must be in, separated by commas [default: all]
    #[arg(long, value_name = "RANGES")]
    pub netrestrict: Option<AddressRanges>,
    /// Blocks that peers must have, as NUMBER=HASH separated by commas, at most 16: a peer with
    /// another block at that number loses its place, one without a block there stays
    #[arg(long = "eth.requiredblocks", value_name = "BLOCKS")]
    pub required_blocks: Option<RequiredBlocks>,
    /// Most peers; static and trusted nodes do not count
    #[arg(long, value_name = "N", default_value_t = PEERS_MAX_DEFAULT)]
    pub maxpeers: usize,
    /// Most handshakes at once: of connections from outside, and of dials, of which there are at
    /// most 16; 0 for the default
    #[arg(long, value_name = "N", default_value_t = INBOUND_HANDSHAKES_MAX as u16, value_parser = clap::value_parser!(u16).range(0..=i64::from(PENDING_PEERS_MAX)))]
    pub maxpendpeers: u16,
    /// A name of your own for this node, which becomes part of its client name: at most 64
    /// printable characters of ASCII
    #[arg(long, value_name = "NAME")]
    pub identity: Option<NodeIdentity>,
}

/// The address of `--p2p.addr`. An address of IPv6 may stand in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenIp(pub IpAddr);

impl std::str::FromStr for ListenIp {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, OptionValueError> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let ip = match inner {
            Some(inner) => inner.parse().map(IpAddr::V6).ok(),
            None => text.parse().ok(),
        };
        ip.map(Self).ok_or_else(|| OptionValueError::Ip(text.to_owned()))
    }
}

/// The name of `--identity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity(String);

impl std::str::FromStr for NodeIdentity {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, OptionValueError> {
        let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if text.is_empty() || text.len() > IDENTITY_LEN_MAX || !is_printable {
            return Err(OptionValueError::Name {
                got: text.to_owned(),
                max: IDENTITY_LEN_MAX,
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The nodes of `--bootnodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootNodes(pub Vec<NodeContact>);

impl std::str::FromStr for BootNodes {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, OptionValueError> {
        let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
        let parse = |url: &str| {
            let url = url.to_owned();
            match read_node(&url) {
                Ok(enode) => NodeContact::from_enode(&enode).ok_or(OptionValueError::NodeHost {
                    url,
                    host: enode.host,
                }),
                Err(error) => Err(OptionValueError::Node { url, error }),
            }
        };
        urls.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

/// The lists of `--discovery.dns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsLists(pub Vec<DnsListUrl>);

impl std::str::FromStr for DnsLists {
    type Err = DnsEntryError;

    fn from_str(text: &str) -> Result<Self, DnsEntryError> {
        let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
        urls.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// The blocks of `--eth.requiredblocks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredBlocks(pub Vec<BlockId>);

impl std::str::FromStr for RequiredBlocks {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, OptionValueError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parse = |part: &str| {
            let block = part.split_once('=').and_then(|(number, hash)| {
                let hash = hash.trim().parse().ok()?;
                let number = number.trim().parse().ok()?;
                Some(BlockId { number, hash })
            });
            block.ok_or_else(|| OptionValueError::RequiredBlock(part.to_owned()))
        };
        let blocks: Vec<_> = parts.map(parse).collect::<Result<_, _>>()?;
        if blocks.len() > REQUIRED_BLOCKS_MAX {
            return Err(OptionValueError::RequiredBlocks {
                got: blocks.len(),
                max: REQUIRED_BLOCKS_MAX,
            });
        }
        Ok(Self(blocks))
    }
}

impl PeerOptions {
    /// The blocks that peers must have.
    pub fn required_blocks(&self) -> Vec<BlockId> {
        let given = self.required_blocks.as_ref();
        given.map_or_else(Vec::new, |blocks| blocks.0.clone())
    }

    /// The addresses to try to listen on, in this order.
    pub fn listen_addresses(&self, is_alone: bool) -> Vec<SocketAddr> {
        let at = |default: Ipv4Addr, port| {
            let ip = self.p2p_addr.map_or(IpAddr::V4(default), |given| given.0);
            SocketAddr::new(ip, port)
        };
        match self.port {
            Some(port) => vec![at(Ipv4Addr::UNSPECIFIED, port)],
            None if is_alone => vec![at(Ipv4Addr::LOCALHOST, 0)],
            None => [PORT_DEFAULT, 0]
                .map(|port| at(Ipv4Addr::UNSPECIFIED, port))
                .into(),
        }
    }

    /// Most handshakes at once.
    pub fn pending_max(&self) -> usize {
        match self.maxpendpeers {
            0 => INBOUND_HANDSHAKES_MAX,
            most => most.into(),
        }
    }

    /// The nodes that are asked first.
    pub fn boot_nodes(&self, network_id: u64) -> Vec<NodeContact> {
        match &self.bootnodes {
            Some(nodes) => nodes.0.clone(),
            None => boot_nodes(network_id),
        }
    }

    /// The published lists of nodes that are read by DNS, if nodes are looked for.
    pub fn dns_lists(&self, network_id: u64) -> Vec<DnsListUrl> {
        match &self.discovery_dns {
            Some(lists) => lists.0.clone(),
            None => dns_lists(network_id),
        }
    }

    /// Whether nodes are looked for. A node that keeps to itself looks for none, unless some are
    /// named.
    pub fn has_discovery(&self, is_alone: bool) -> bool {
        let has_named = self.bootnodes.as_ref().is_some_and(|nodes| !nodes.0.is_empty());
        !self.nodiscover && (!is_alone || has_named)
    }

    /// The way in which nodes outside reach this one.
    pub fn nat(&self, is_alone: bool) -> NatOption {
        let default = if is_alone { NatOption::None } else { NatOption::Any };
        self.nat.unwrap_or(default)
    }
}
