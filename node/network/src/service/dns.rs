//! Published lists of nodes as part of the service: they are read while the dialer needs nodes.
//!
//! Lists and their entries are in [`crate::dns`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};

use super::NetworkSettings;
use super::core::Core;
use crate::address::{self, AddressRanges};
use crate::dns::{DnsFound, DnsListWalk, DnsLookupError};
use crate::enr::NodeRecord;
use crate::entropy::Entropy;

/// The interval at which the need of the dialer for nodes is looked at.
const NEED_INTERVAL: Duration = Duration::from_secs(2);
/// The most names of a list that are asked for in one interval.
const NAMES_MAX: usize = 16;
/// The time that one server may take to answer, and the number of times that it is asked.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
const SERVER_TRIES: usize = 2;
/// The longest time for the whole search for a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Texts of a name beyond that are left out.
const TEXTS_MAX: usize = 16;
/// Answers that the resolver keeps until they are too old.
const CACHED_ANSWERS: u64 = 512;

/// Asks DNS servers for texts.
struct TxtResolver(TokioResolver);

impl TxtResolver {
    /// A resolver that asks `server`, or the servers of the system.
    fn new(server: Option<SocketAddr>) -> Result<Self, NetError> {
        let mut builder = match server {
            Some(server) => {
                let [mut udp, mut tcp] = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                udp.port = server.port();
                tcp.port = server.port();
                let server = NameServerConfig::new(server.ip(), true, vec![udp, tcp]);
                let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
            None => TokioResolver::builder_tokio()?,
        };
        let options: &mut ResolverOpts = builder.options_mut();
        options.timeout = SERVER_TIMEOUT;
        options.attempts = SERVER_TRIES;
        options.cache_size = CACHED_ANSWERS;
        options.use_hosts_file = ResolveHosts::Never;
        Ok(Self(builder.build()?))
    }

    /// The texts of a domain. The strings of one record are one text.
    async fn texts(&self, domain: &str) -> Result<Vec<String>, DnsLookupError> {
        // With the dot no domains of the system's search list are tried.
        let lookup = self.0.lookup(format!("{domain}."), RecordType::TXT);
        let answer = match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(DnsLookupError::Resolver(error.to_string())),
            Err(_) => return Err(DnsLookupError::Late(LOOKUP_TIMEOUT)),
        };
        let texts = answer.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(text) => String::from_utf8(text.txt_data.concat()).ok(),
            _ => None,
        });
        Ok(texts.take(TEXTS_MAX).collect())
    }
}

/// Reads lists for ever.
pub(super) struct DnsReader {
    core: Arc<Core>,
    resolver: TxtResolver,
    lists: Vec<DnsListWalk>,
    /// The server that is asked, if not that of the system.
    server: Option<SocketAddr>,
    ranges: Option<AddressRanges>,
    entropy: Entropy,
}

/// Returns the reader of the lists of the settings. `None` if there are none, or if the system
/// names no servers.
pub(super) fn reader(
    settings: &NetworkSettings,
    core: &Arc<Core>,
    entropy: &mut Entropy,
) -> Option<DnsReader> {
    if settings.dns_lists.is_empty() {
        return None;
    }
    match TxtResolver::new(settings.dns_server) {
        Ok(resolver) => Some(DnsReader {
            core: Arc::clone(core),
            resolver,
            lists: settings.dns_lists.iter().cloned().map(DnsListWalk::new).collect(),
            server: settings.dns_server,
            ranges: settings.ranges.clone(),
            entropy: entropy.fork(),
        }),
        Err(error) => {
            tracing::warn!(%error, "the lists of nodes are not read: the system's DNS servers are not known");
            None
        }
    }
}

impl DnsReader {
    pub(super) async fn run(mut self) {
        let mut need = tokio::time::interval(NEED_INTERVAL);
        loop {
            need.tick().await;
            for at in 0..self.lists.len() {
                self.read(at).await;
            }
        }
    }

    /// Reads on in a list if the dialer needs nodes.
    async fn read(&mut self, at: usize) {
        if !self.core.state.lock().dialer.wants_candidates() {
            return;
        }
        for _ in 0..NAMES_MAX {
            let list = &mut self.lists[at];
            let Some(name) = list.next_name(self.core.now().elapsed, &mut self.entropy) else {
                return;
            };
            let texts = self.resolver.texts(&name).await;
            let is_root = name == list.url().domain();
            match list.answer(texts, self.core.now().elapsed) {
                Ok(DnsFound::Node(record)) => self.offer(&record),
                Ok(DnsFound::Names) if is_root => {
                    tracing::debug!(list = %name, "the root of the list of nodes is read");
                }
                Ok(DnsFound::Names) => {}
                Err(error) if is_root => {
                    tracing::warn!(list = %name, %error, "the list of nodes cannot be read");
                }
                Err(error) => tracing::debug!(%name, %error, "an entry of the list of nodes is left out"),
            }
        }
    }

    /// Whether a node of a list may be at `ip`. The nodes of a list are strangers: their records
    /// may name addresses of this node's local network. Such addresses count if the server that was
    /// asked is local, too, or if `--netrestrict` allows them.
    fn may_be_at(&self, ip: IpAddr) -> bool {
        match (self.server, &self.ranges) {
            (_, Some(ranges)) => ranges.contains(ip),
            (Some(server), None) => address::may_tell(server.ip(), ip),
            (None, None) => address::is_public(ip),
        }
    }

    /// Offers a node to the dialer, unless its record says that it is of another network.
    fn offer(&self, record: &NodeRecord) {
        let contact = record.contact();
        let Some(contact) = contact.filter(|contact| self.may_be_at(contact.ip)) else {
            return;
        };
        if !self.core.note_record(record) {
            return;
        }
        self.core.state.lock().dialer.add_candidates([contact]);
        self.core.dial.notify_one();
    }
}
