//! Published lists of nodes: good ones, and all that can be wrong with one.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chain::ChainSpec;
use network::testing::{
    DNS_DEPTH_MAX, DNS_ENTRIES_MAX, DNS_ROOT_INTERVAL, DnsFound, DnsListWalk, DnsLookupError, NodeClaims,
    NodeRecord,
};
use network::{DialTarget, DnsListUrl, NetworkSettings};
use primitives::{Enode, SecretKey};

use crate::dns_server::{DnsServer, DnsZone, label, root};
use crate::service_node::{PATIENCE, start_node, wait};
use crate::support::{entropy, key};

const DOMAIN: &str = "nodes.example.org";

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
        has_snap: false,
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
            None => Err(DnsLookupError::Resolver("no such name".to_owned())),
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
        let texts = zone
            .texts
            .get(&name)
            .cloned()
            .ok_or(DnsLookupError::Late(Duration::ZERO));
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
            let error = walk.answer(Err(DnsLookupError::Resolver("timed out".to_owned())), now);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_list_are_dialled() {
    let first = start_node(11, ChainSpec::dev(), |_| {}).await;
    let port = first.network().address().port();
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
    let second = start_node(12, ChainSpec::dev(), with_list).await;
    let started = Instant::now();
    while second.network().peer_count() == 0 {
        assert!(
            started.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for the listed node"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(second.network().peers()[0].node, key(11).public_key());
    second.stop().await;
    // Without discovery nobody is asked.
    let before = server.asked.load(Ordering::Relaxed);
    assert!(before > 0);
    let third = start_node(13, ChainSpec::dev(), |settings| {
        with_list(settings);
        settings.has_discovery = false;
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(third.network().peer_count(), 0);
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
    let node = start_node(14, ChainSpec::dev(), |settings| {
        settings.dns_lists = vec![list(), silent];
        settings.dns_server = Some(server.address);
    })
    .await;
    let started = Instant::now();
    while server.asked.load(Ordering::Relaxed) < 3 {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for questions");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(node.network().peer_count(), 0);
    node.stop().await;
}

/// A name that does not resolve when the node starts is no reason to forget the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_nodes_may_have_names() {
    let first = start_node(15, ChainSpec::dev(), |_| {}).await;
    let port = first.network().address().port();
    let named = |mark: u8, name: &str| {
        let enode = Enode {
            id: key(mark).public_key(),
            host: name.to_owned(),
            port,
            discovery_port: port,
            query: Vec::new(),
        };
        DialTarget::from(&enode)
    };
    let second = start_node(16, ChainSpec::dev(), |settings| {
        settings.has_discovery = false;
        settings.static_nodes = vec![named(17, "node.invalid"), named(15, "localhost")];
    })
    .await;
    wait(&second, "the named node", |network| network.peer_count() == 1).await;
    let peers = second.network().peers();
    assert_eq!(peers[0].node, key(15).public_key());
    assert!(peers[0].is_static);
    second.stop().await;
    first.stop().await;
}
