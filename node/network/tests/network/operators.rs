//! The view and the choices of operators: records, IPv6, ports, whom the node dials, figures of
//! peers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use chain::ChainSpec;
use chain::spec::{ChainFamily, DifficultyRule, RuleTable};
use e2e::address::has_ipv6;
use network::testing::NodeRecord;
use network::{NetworkHandle, NetworkSettings, NodeContact, PeerReport, read_node};
use primitives::Enode;

use crate::service_node::{start_node, wait};
use crate::support::key;

/// A chain of Ethereum's family on the development network's block 0. Its rules change at
/// `fork`.
pub(crate) fn ethereum(fork: u64) -> ChainSpec {
    ChainSpec {
        family: ChainFamily::Ethereum,
        rules: RuleTable::up_to("Istanbul")
            .expect("a fork")
            .with_fork("Berlin", fork),
        difficulty: DifficultyRule::Ethereum,
        failed_calls_refund_gas: false,
        system_contract: false,
        notify_scs_always_exists: false,
        ..ChainSpec::dev()
    }
}

/// A chain with the same rules on another block 0.
fn foreign() -> ChainSpec {
    let mut spec = ethereum(5);
    spec.genesis.gas_limit += 1;
    spec.genesis_hash = None;
    spec
}

/// The contact that the text of the node's record gives.
fn contact(network: &NetworkHandle) -> NodeContact {
    let text = network.record().to_string();
    let enode: Enode = read_node(&text).expect("a good record");
    NodeContact::from_enode(&enode).expect("an address")
}

const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

fn listen_on(ip: IpAddr) -> impl FnOnce(&mut NetworkSettings) {
    move |settings| settings.listen = SocketAddr::new(ip, 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_meet_by_their_records_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    let loopback = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for has_discovery in [true, false] {
        let change = |settings: &mut NetworkSettings| {
            listen_on(loopback)(settings);
            settings.has_discovery = has_discovery;
        };
        let first = start_node(21, ethereum(5), change).await;
        let contact = contact(first.network());
        assert_eq!(contact.tcp_address(), first.network().address());
        assert_eq!(contact.udp, first.network().discovery_port());
        let second = start_node(22, ethereum(5), |settings| {
            change(settings);
            settings.static_nodes = vec![contact.into()];
        })
        .await;
        wait(&second, "the static node", |network| network.peer_count() == 1).await;
        wait(&first, "the other node", |network| network.peer_count() == 1).await;
        let seen = &second.network().peers()[0];
        assert_eq!((seen.node, seen.contact), (key(21).public_key(), contact));
        assert_eq!(seen.remote, first.network().address());
        let came = &first.network().peers()[0];
        assert_eq!(
            came.contact.tcp_address(),
            came.remote,
            "the port that it dialled from"
        );
        second.stop().await;
        first.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_socket_is_for_both_kinds_of_addresses() {
    if !has_ipv6() {
        return;
    }
    let first = start_node(23, ethereum(5), listen_on(ANY_V6)).await;
    let port = first.network().address().port();
    assert_eq!(first.network().record().claims().ip, None, "nobody has told it");
    let at = |ip| NodeContact {
        id: key(23).public_key(),
        ip,
        udp: port,
        tcp: port,
    };
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    // The boot node is found by UDP and dialled by TCP, by both kinds.
    let boot = |node| {
        move |settings: &mut NetworkSettings| {
            settings.listen = SocketAddr::new(node, 0);
            settings.boot_nodes = vec![at(node)];
        }
    };
    let second = start_node(24, ethereum(5), boot(v4)).await;
    let third = start_node(25, ethereum(5), boot(v6)).await;
    wait(&first, "both nodes", |network| network.peer_count() == 2).await;
    let mut remotes: Vec<_> = first
        .network()
        .peers()
        .iter()
        .map(|peer| peer.remote.ip())
        .collect();
    remotes.sort();
    assert_eq!(remotes, [v4, v6], "no address of IPv4 in the form of IPv6");
    for node in [third, second, first] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_other_forks_is_not_dialled() {
    let foreign = start_node(26, foreign(), |_| {}).await;
    let fitting = start_node(27, ethereum(5), |_| {}).await;
    let boots = vec![contact(foreign.network()), contact(fitting.network())];
    let node = start_node(28, ethereum(5), |settings| settings.boot_nodes = boots).await;
    let is_known = |peer: &PeerReport| {
        peer.node == key(27).public_key() && peer.record.is_some() && peer.traffic.messages_in > 0
    };
    wait(&node, "the node of the same forks", |network| {
        network.peers().iter().any(is_known)
    })
    .await;
    wait(&node, "the record of the other one", |network| {
        network.counters().1.foreign_nodes > 0
    })
    .await;
    let of_foreign = foreign.network().counters();
    assert_eq!(
        of_foreign.0.ended.values().sum::<u64>(),
        0,
        "no connection was begun"
    );
    assert_eq!(foreign.network().peer_count(), 0);
    // The record of the peer is shown.
    let peers = node.network().peers();
    let shown: NodeRecord = peers[0]
        .record
        .as_ref()
        .expect("heard")
        .parse()
        .expect("a record");
    assert_eq!(shown, fitting.network().record());
    let traffic = &peers[0].traffic;
    assert!(traffic.bytes_in > 0 && traffic.bytes_out > 0, "{traffic:?}");
    // The place is the second one if both nodes have dialled.
    assert_eq!(peers.len(), 1);
    assert!(peers[0].slot <= 1, "{}", peers[0].slot);
    for node in [node, fitting, foreign] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_has_a_port_of_its_own() {
    let first = start_node(29, ethereum(5), |settings| settings.discovery_port = Some(0)).await;
    let boot = contact(first.network());
    assert_ne!(boot.udp, boot.tcp);
    assert_eq!(boot.tcp, first.network().address().port());
    let second = start_node(30, ethereum(5), |settings| settings.boot_nodes = vec![boot]).await;
    // The record comes by UDP.
    wait(&second, "the record of the boot node", |network| {
        network.peers().iter().any(|peer| peer.record.is_some())
    })
    .await;
    let record = second.network().peers()[0].record.clone();
    assert_eq!(record, Some(first.network().record().to_string()));
    second.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_follows_the_forks() {
    for has_discovery in [true, false] {
        let change = |settings: &mut NetworkSettings| settings.has_discovery = has_discovery;
        let node = start_node(31, ethereum(1), change).await;
        let before = node.network().record();
        let fork_id = |record: &NodeRecord| record.claims().fork_id.expect("Ethereum's family");
        assert_eq!(fork_id(&before).next, 1);
        node.mine();
        wait(&node, "the fork in the record", |network| {
            fork_id(&network.record()).next == 0
        })
        .await;
        let after = node.network().record();
        assert_ne!(fork_id(&after).hash, fork_id(&before).hash);
        assert!(after.sequence() > before.sequence());
        node.stop().await;
    }
}
