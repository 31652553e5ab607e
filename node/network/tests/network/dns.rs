//! Published lists of nodes: good ones, and all that can be wrong with one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chain::chain::ChainConfig;
use chain::import::{ForkLimits, StateRetention};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainSpec};
use network::dns::{DNS_DEPTH_MAX, DNS_ENTRIES_MAX, DNS_ROOT_INTERVAL, DnsFound, DnsListUrl, DnsListWalk};
use network::messages::WireFamily;
use network::nat::NatOption;
use network::service::{NetworkService, NetworkSettings};
use network::{NodeClaims, NodeRecord};
use primitives::{Address, SecretKey};
use store::Store;

use crate::dns_server::{DnsServer, DnsZone, label, root};
use crate::support::{entropy, key};

const DOMAIN: &str = "nodes.example.org";
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn list_key() -> SecretKey {
    key(9)
}

fn list() -> DnsListUrl {
    DnsListUrl::new(list_key().public_key(), DOMAIN).expect("a domain")
}

fn record(byte: u8, port: u16) -> NodeRecord {
    let claims = NodeClaims {
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        tcp: port,
        udp: port,
        fork_id: None,
    };
    NodeRecord::sign(&key(byte), 1, &claims)
}

/// Reads a list from the zone until nothing is left to ask for. Returns the nodes, how many names
/// were asked for, and the errors.
fn read(walk: &mut DnsListWalk, zone: &DnsZone, now: Duration) -> (Vec<NodeRecord>, usize, Vec<String>) {
    let mut entropy = entropy(1);
    let (mut nodes, mut names, mut errors) = (Vec::new(), 0, Vec::new());
    while let Some(name) = walk.next_name(now, &mut entropy) {
        names += 1;
        assert!(names <= 2 * DNS_ENTRIES_MAX, "the walk must end");
        let texts = match zone.texts.get(&name) {
            Some(texts) => Ok(texts.clone()),
            None => Err("no such name".to_owned()),
        };
        match walk.answer(texts, now) {
            Ok(DnsFound::Node(record)) => nodes.push(*record),
            Ok(DnsFound::Names) => {}
            Err(error) => errors.push(error.to_string()),
        }
    }
    nodes.sort_by_key(NodeRecord::id);
    (nodes, names, errors)
}

fn read_once(zone: &DnsZone) -> (Vec<NodeRecord>, usize, Vec<String>) {
    read(&mut DnsListWalk::new(list()), zone, Duration::ZERO)
}

fn sorted(mut nodes: Vec<NodeRecord>) -> Vec<NodeRecord> {
    nodes.sort_by_key(NodeRecord::id);
    nodes
}

#[track_caller]
fn check_error(errors: &[String], expected: &str) {
    assert!(
        errors.iter().any(|error| error.contains(expected)),
        "got {errors:?}, expected one with {expected:?}"
    );
}

#[test]
fn a_good_list_is_read_once_until_it_changes() {
    let mut zone = DnsZone::default();
    let nodes: Vec<_> = (1..=20).map(|byte| record(byte, 30303)).collect();
    zone.put_list(DOMAIN, &list_key(), 5, &nodes);
    let mut walk = DnsListWalk::new(list());
    let (found, names, errors) = read(&mut walk, &zone, Duration::ZERO);
    assert_eq!(found, sorted(nodes));
    assert_eq!(errors, [""; 0]);
    // The root, 20 nodes, and 7 + 3 + 1 branches.
    assert_eq!(names, 32);
    let soon = DNS_ROOT_INTERVAL - Duration::from_secs(1);
    assert_eq!(read(&mut walk, &zone, soon).1, 0, "the root still counts");
    // A newer list replaces it.
    let newer: Vec<_> = (30..=31).map(|byte| record(byte, 30303)).collect();
    zone.put_list(DOMAIN, &list_key(), 6, &newer);
    assert_eq!(read(&mut walk, &zone, DNS_ROOT_INTERVAL).0, sorted(newer.clone()));
    // An older one does not, whoever sends it again.
    zone.put_list(DOMAIN, &list_key(), 5, &newer);
    let (found, names, errors) = read(&mut walk, &zone, 2 * DNS_ROOT_INTERVAL);
    assert_eq!((found, names), (Vec::new(), 1));
    check_error(&errors, "got number 5, expected at least 6");
}

#[test]
fn a_root_of_another_key_brings_nothing() {
    let mut zone = DnsZone::default();
    zone.put_list(DOMAIN, &key(8), 1, &[record(1, 30303)]);
    let (found, names, errors) = read_once(&zone);
    assert_eq!((found, names), (Vec::new(), 1));
    check_error(&errors, "the signature is not that of the key");
    zone.texts.insert(DOMAIN.to_owned(), vec!["hello".to_owned()]);
    check_error(&read_once(&zone).2, "got 1 texts, expected one that begins with");
}

#[test]
fn an_entry_with_a_wrong_hash_is_left_out() {
    let mut zone = DnsZone::default();
    let nodes = [record(1, 30303), record(2, 30303)];
    zone.put_list(DOMAIN, &list_key(), 1, &nodes);
    let name = format!("{}.{DOMAIN}", label(&nodes[0].to_string()));
    zone.texts.insert(name, vec![record(3, 30303).to_string()]);
    let (found, _, errors) = read_once(&zone);
    assert_eq!(found, [nodes[1].clone()]);
    check_error(&errors, "expected a text with this hash");
}

#[test]
fn what_is_neither_branch_nor_node_is_left_out() {
    let mut zone = DnsZone::default();
    let link = list().to_string();
    for (text, expected) in [
        (link.as_str(), "got a link to another list"),
        ("enr:AAAA", "node record"),
        ("hello", "expected enrtree-branch:"),
    ] {
        let top = zone.put(DOMAIN, text);
        zone.texts
            .insert(DOMAIN.to_owned(), vec![root(&list_key(), &top, 1)]);
        let (found, names, errors) = read_once(&zone);
        assert_eq!((found, names), (Vec::new(), 2));
        check_error(&errors, expected);
    }
}

#[test]
fn deep_and_wide_trees_end() {
    // A chain of branches, deeper than allowed, with a node at the bottom.
    let mut zone = DnsZone::default();
    let mut top = zone.put(DOMAIN, &record(1, 30303).to_string());
    for _ in 0..=DNS_DEPTH_MAX + 1 {
        top = zone.put(DOMAIN, &format!("enrtree-branch:{top}"));
    }
    zone.texts
        .insert(DOMAIN.to_owned(), vec![root(&list_key(), &top, 1)]);
    let (found, names, errors) = read_once(&zone);
    assert_eq!((found, names), (Vec::new(), DNS_DEPTH_MAX + 2));
    check_error(&errors, "expected nodes");
    // More entries than allowed; they have no answers.
    let mut zone = DnsZone::default();
    let labels = (0..2 * DNS_ENTRIES_MAX)
        .map(|number| label(&number.to_string()))
        .collect();
    let top = zone.put_branches(DOMAIN, labels, 60);
    zone.texts
        .insert(DOMAIN.to_owned(), vec![root(&list_key(), &top, 1)]);
    let mut walk = DnsListWalk::new(list());
    let mut entropy = entropy(1);
    let mut asked = 0;
    while let Some(name) = walk.next_name(Duration::ZERO, &mut entropy) {
        asked += 1;
        let texts = zone.texts.get(&name).cloned().ok_or_else(String::new);
        let _ = walk.answer(texts, Duration::ZERO);
    }
    assert!(asked <= 1 + 3 * DNS_ENTRIES_MAX, "asked for {asked} names");
    // A branch whose entries all name each other is read once.
    let mut zone = DnsZone::default();
    let nodes: Vec<_> = (1..=2).map(|byte| record(byte, 1)).collect();
    zone.put_list(DOMAIN, &list_key(), 1, &nodes);
    let labels: Vec<_> = nodes.iter().map(|node| label(&node.to_string())).collect();
    let twice = zone.put(
        DOMAIN,
        &format!("enrtree-branch:{0},{0},{1},{0}", labels[0], labels[1]),
    );
    zone.texts
        .insert(DOMAIN.to_owned(), vec![root(&list_key(), &twice, 1)]);
    assert_eq!(read_once(&zone).1, 4);
}

#[test]
fn a_list_that_gives_no_answers_is_asked_less_and_less() {
    let mut walk = DnsListWalk::new(list());
    let mut entropy = entropy(1);
    let mut times = Vec::new();
    for second in 0..3600 {
        let now = Duration::from_secs(second);
        while walk.next_name(now, &mut entropy).is_some() {
            times.push(second);
            let error = walk.answer(Err("timed out".to_owned()), now);
            assert_eq!(error.expect_err("no answer").to_string(), "no answer: timed out");
        }
    }
    assert_eq!(times, [0, 10, 30, 70, 150, 310, 630, 1270, 2550]);
    // Entries without an answer are asked for three times.
    let mut zone = DnsZone::default();
    let top = label("nobody");
    zone.texts
        .insert(DOMAIN.to_owned(), vec![root(&list_key(), &top, 1)]);
    let (found, names, errors) = read_once(&zone);
    assert_eq!((found, names, errors.len()), (Vec::new(), 4, 3));
}

/// A node of the development network in this process.
struct ListedNode {
    chain: Chain,
    service: NetworkService,
    _folder: tempfile::TempDir,
}

impl ListedNode {
    async fn start(mark: u8, change: impl FnOnce(&mut NetworkSettings)) -> Self {
        let config = ChainConfig {
            spec: Arc::new(ChainSpec::dev()),
            seals: SealCheck::Off,
            forks: ForkLimits::default(),
            pool: PoolConfig::default(),
            beneficiary: Address::ZERO,
            extra_data: Vec::new().into(),
            states: StateRetention::Archive,
        };
        let store = Store::in_memory().expect("a store in memory");
        let chain = Chain::open(store, config).expect("a chain");
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = NetworkSettings {
            key: key(mark),
            client: "listed/1".to_owned(),
            family: WireFamily::Mc,
            network_id: 100,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            has_discovery: true,
            boot_nodes: Vec::new(),
            dns_lists: Vec::new(),
            dns_server: None,
            nat: NatOption::None,
            ranges: None,
            peers_max: 25,
            folder: folder.path().to_owned(),
            static_nodes: Vec::new(),
            trusted_nodes: Vec::new(),
            has_progress_lines: false,
        };
        change(&mut settings);
        let service = NetworkService::start(settings, chain.clone())
            .await
            .expect("a free port");
        Self {
            chain,
            service,
            _folder: folder,
        }
    }

    fn peers(&self) -> usize {
        self.service.handle().peers().len()
    }

    async fn stop(self) {
        self.service.stop().await;
        self.chain.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_list_are_dialled() {
    let first = ListedNode::start(11, |_| {}).await;
    let port = first.service.handle().address().port();
    let mut zone = DnsZone::default();
    // Some nodes of the list do not exist, and one entry is never answered.
    let mut nodes: Vec<_> = (1..=8).map(|byte| record(byte, 1)).collect();
    nodes.push(record(11, port));
    zone.put_list(DOMAIN, &list_key(), 1, &nodes);
    zone.silent
        .insert(format!("{}.{DOMAIN}", label(&nodes[0].to_string())));
    let server = DnsServer::start(zone);
    let with_list = |settings: &mut NetworkSettings| {
        settings.dns_lists = vec![list()];
        settings.dns_server = Some(server.address);
    };
    let second = ListedNode::start(12, with_list).await;
    let started = Instant::now();
    while second.peers() == 0 {
        assert!(
            started.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for the listed node"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(second.service.handle().peers()[0].node, key(11).public_key());
    second.stop().await;
    // Without discovery nobody is asked.
    let before = server.asked.load(Ordering::Relaxed);
    assert!(before > 0);
    let third = ListedNode::start(13, |settings| {
        with_list(settings);
        settings.has_discovery = false;
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(third.peers(), 0);
    assert_eq!(server.asked.load(Ordering::Relaxed), before);
    third.stop().await;
    first.stop().await;
}

/// A server that sends rubbish or nothing costs nothing but its list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_runs_without_its_lists() {
    let mut zone = DnsZone::default();
    zone.texts.insert(DOMAIN.to_owned(), vec!["x".repeat(900)]);
    zone.silent.insert("silent.example.org".to_owned());
    let server = DnsServer::start(zone);
    let silent = DnsListUrl::new(list_key().public_key(), "silent.example.org").expect("a domain");
    let node = ListedNode::start(14, |settings| {
        settings.dns_lists = vec![list(), silent];
        settings.dns_server = Some(server.address);
    })
    .await;
    let started = Instant::now();
    while server.asked.load(Ordering::Relaxed) < 3 {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for questions");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(node.peers(), 0);
    node.stop().await;
}
