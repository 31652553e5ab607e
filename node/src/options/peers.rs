//! The options of the peer-to-peer network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use network::address::AddressRanges;
use network::dns::{DnsEntryError, DnsListUrl, dns_lists};
use network::nat::NatOption;
use network::{NodeContact, boot_nodes};
use primitives::Enode;

/// Default of `--port`.
pub(crate) const PORT_DEFAULT: u16 = 30333;
/// Default of `--maxpeers`.
pub(crate) const PEERS_MAX_DEFAULT: usize = 25;

/// The peer-to-peer network.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Peers")]
pub struct PeerOptions {
    /// Port for peers, TCP and UDP; 0 chooses a free one
    /// [default: 30333, or another one if it is taken; with --dev a free one on 127.0.0.1]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Nodes that are asked first for other nodes, as enode URLs separated by commas; an empty list
    /// for none [default: those of the network]
    #[arg(long, value_name = "ENODES")]
    pub bootnodes: Option<BootNodes>,
    /// Published lists of nodes to read by DNS, as enrtree URLs separated by commas; an empty list
    /// for none [default: those of the network]
    #[arg(long = "discovery.dns", value_name = "LISTS")]
    pub discovery_dns: Option<DnsLists>,
    /// Do not look for nodes: only nodes that were named are dialled. The default with --dev
    #[arg(long)]
    pub nodiscover: bool,
    /// How nodes outside reach this one: any, none, upnp, pmp or extip:IP
    /// [default: any; none with --dev]
    #[arg(long, value_name = "HOW")]
    pub nat: Option<NatOption>,
    /// Address ranges that peers must be in, separated by commas [default: all]
    #[arg(long, value_name = "RANGES")]
    pub netrestrict: Option<AddressRanges>,
    /// Most peers; static and trusted nodes do not count
    #[arg(long, value_name = "N", default_value_t = PEERS_MAX_DEFAULT)]
    pub maxpeers: usize,
}

/// The nodes of `--bootnodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootNodes(pub Vec<NodeContact>);

impl std::str::FromStr for BootNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
        let parse = |url: &str| {
            let enode: Enode = url.parse().map_err(|error| format!("{url}: {error}"))?;
            NodeContact::from_enode(&enode)
                .ok_or_else(|| format!("{url}: host: got {:?}, expected an IP address", enode.host))
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

impl PeerOptions {
    /// The addresses to try to listen on, in this order.
    pub fn listen_addresses(&self, is_dev: bool) -> Vec<SocketAddr> {
        let any = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
        match self.port {
            Some(port) => vec![any(port)],
            None if is_dev => vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)],
            None => vec![any(PORT_DEFAULT), any(0)],
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

    /// Whether nodes are looked for. A development network has no nodes to find, unless some are
    /// named.
    pub fn has_discovery(&self, is_dev: bool) -> bool {
        let has_named = self.bootnodes.as_ref().is_some_and(|nodes| !nodes.0.is_empty());
        !self.nodiscover && (!is_dev || has_named)
    }

    /// How nodes outside reach this one.
    pub fn nat(&self, is_dev: bool) -> NatOption {
        let default = if is_dev { NatOption::None } else { NatOption::Any };
        self.nat.unwrap_or(default)
    }
}
