//! Reorganizations of the base chain that take back a registration, a deposit and a flush: two
//! VNODEs that mine apart, with the SCSs behind the one that loses.

use e2e::microchain::{COIN, MicroChainOwner, RATE, SUPPLY, wait_for_agreement, wait_for_blocks, works};
use e2e::scs::Scs;
use e2e::wait::{wait_for, wait_within};
use e2e::{Vnode, quantity};
use serde_json::{Value, json};

use crate::application_chains::stage::{
    MAKES_BLOCKS, OTHER_PROXY, PATIENCE, PROXY, counting, free_port, scs, selector, vnode, wait_for_lines,
};

/// The development account that buys tokens.
const BUYER: usize = 3;
/// Blocks by which the other chain is longer when the VNODEs meet.
const LONGER: u128 = 2;

/// Two VNODEs. While they are peers, the first one makes blocks, one a second.
struct TwoHalves {
    one: Vnode,
    other: Vnode,
}

impl TwoHalves {
    fn peers(node: &Vnode) -> u128 {
        quantity(&node.rpc("net_peerCount", json!([])))
    }

    /// Whether the node makes a block a second from now on. Without a time it makes none.
    fn make_blocks(node: &Vnode, are_made: bool) {
        let interval = if are_made { 1000 } else { 0 };
        node.rpc("evm_setIntervalMining", json!([interval]));
    }

    fn enode(&self) -> Value {
        self.one.rpc("admin_nodeInfo", json!([]))["enode"].clone()
    }

    fn wait_for_peers(&self, count: u128) {
        wait_for("the number of peers", || {
            let is_so = |node| Self::peers(node) == count;
            (is_so(&self.one) && is_so(&self.other)).then_some(())
        });
    }

    fn connect(&self) {
        assert_eq!(self.other.rpc("admin_addPeer", json!([self.enode()])), true);
        self.wait_for_peers(1);
    }

    /// From now on both make blocks apart.
    fn part(&self) {
        assert_eq!(self.other.rpc("admin_removePeer", json!([self.enode()])), true);
        self.wait_for_peers(0);
        Self::make_blocks(&self.other, true);
    }

    /// The first VNODE stops, the other one gets a longer chain, and they meet. Nobody makes blocks
    /// then.
    fn meet(&self) {
        Self::make_blocks(&self.one, false);
        let lost = self.one.head_block();
        let head = quantity(&lost["number"]);
        wait_within(PATIENCE, "a longer chain", || {
            (self.other.head() >= head + LONGER).then_some(())
        });
        Self::make_blocks(&self.other, false);
        self.connect();
        wait_for("one head", || {
            let heads = [&self.one, &self.other].map(|node| node.head_block()["hash"].clone());
            (heads[0] == heads[1]).then_some(())
        });
        assert_ne!(
            self.one.block(head)["hash"],
            lost["hash"],
            "the block is taken back"
        );
    }

    /// The first VNODE makes blocks again.
    fn go_on(&self) {
        Self::make_blocks(&self.one, true);
    }
}

/// Tokens of an account on the MicroChain of an SCS.
fn tokens(server: &Scs, chain: &str, account: &str) -> u128 {
    quantity(&server.rpc("scs_getBalance", json!([chain, account])))
}

#[test]
#[ignore = "side_by_side runs it"]
pub(crate) fn a_microchain_goes_on_after_reorganizations_of_the_base_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let services = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let halves = TwoHalves {
        one: vnode(&folder.path().join("one"), &services[0], PROXY, &MAKES_BLOCKS),
        other: vnode(
            &folder.path().join("other"),
            &services[1],
            OTHER_PROXY,
            &MAKES_BLOCKS,
        ),
    };
    TwoHalves::make_blocks(&halves.other, false);
    halves.connect();
    let servers = ["a", "b", "c"].map(|name| scs(&folder.path().join(name), &services[0]));
    let servers: Vec<_> = servers.iter().collect();
    let owner = MicroChainOwner::new(&halves.one, PROXY);
    let elsewhere = MicroChainOwner::new(&halves.other, OTHER_PROXY);
    let pools = owner.pools(&services[0], &servers, 1);
    let chains = owner.chain_bases(&pools, 3, 1);
    let chain = chains[0].clone();

    // The registration, of all members, is taken back. It comes again from the pool.
    halves.part();
    owner.open_registration(&chains);
    owner.wait_for_members(&chain, 3);
    halves.meet();
    assert_eq!(owner.members(&chain), 0, "the registrations are taken back");
    halves.go_on();
    owner.wait_for_members(&chain, 3);
    owner.close_registration(&chains);
    let counter = owner.dapps(&chain, servers[0]);
    wait_for_agreement(&servers, &chain);

    // A deposit is taken back after it was credited. Its sender has spent the nonce otherwise.
    let buyer = MicroChainOwner::of_account(&halves.one, PROXY, BUYER);
    let account = buyer.address().to_owned();
    halves.part();
    let other_use = json!({"from": account, "to": owner.address(), "value": "0x1"});
    halves.other.send(other_use);
    buyer.transact(&chain, "6bbded70", &[], 2 * COIN);
    for server in &servers {
        wait_within(PATIENCE, "the deposit", || {
            (tokens(server, &chain, &account) == 2 * RATE * COIN).then_some(())
        });
    }
    halves.meet();
    let bought = selector("totalExchange()");
    assert_eq!(owner.number(&chain, &bought), 0, "the deposit is taken back");
    halves.go_on();
    // The members go back to the block before the credit, and go on without it.
    wait_for_lines(
        &servers,
        &["has taken back a deposit that was credited", "position=0"],
    );
    for server in &servers {
        wait_for("the tokens to go", || {
            (tokens(server, &chain, &account) == 0).then_some(())
        });
    }
    wait_for_blocks(servers[0], &chain, 3);

    // Another deposit has its position. It is credited, and a flush follows. Both are taken back,
    // and come again.
    halves.part();
    buyer.transact(&chain, "6bbded70", &[], 2 * COIN);
    let first = owner.flush_after(&chain, "");
    wait_for_lines(&servers, &["a flush", &first]);
    halves.meet();
    assert!(owner.flush_hash(&chain).is_none(), "the flush is taken back");
    halves.go_on();
    let again = owner.flush_after(&chain, "");
    let flush = owner.last_flush(&chain);
    assert_eq!(flush.start, 1);
    wait_for("the flush on the other VNODE", || {
        (elsewhere.flush_hash(&chain) == Some(again.clone())).then_some(())
    });

    // The chain goes on, the answers agree, and tokens add up in both worlds.
    let sent = owner.send_to_chain(&chain, 3, 1, 0, &counting(&counter, 5));
    for server in &servers {
        works(server, &chain, &sent);
    }
    wait_for_blocks(servers[0], &chain, 3);
    wait_for_agreement(&servers, &chain);
    assert_eq!(owner.number(&chain, &bought), 2 * RATE * COIN);
    for (method, params) in [
        ("scs_getMicroChainInfo", json!([chain])),
        ("scs_getDappList", json!([chain])),
        ("scs_getNonce", json!([chain, owner.address()])),
        ("scs_getExchangeByAddress", json!([chain, account])),
        (
            "scs_getBlockList",
            json!([chain, flush.start as u64, flush.end as u64]),
        ),
        ("scs_getReceiptByHash", json!([chain, sent])),
    ] {
        wait_for(&format!("the same answer to {method}"), || {
            let answers = servers.iter().map(|server| server.rpc(method, params.clone()));
            let answers: Vec<_> = answers.collect();
            answers
                .iter()
                .all(|answer| *answer == answers[0] && !answer.is_null())
                .then_some(())
        });
    }
    for server in &servers {
        let dapp_base = server.rpc("scs_getDappList", json!([chain]))[0].clone();
        let vault = tokens(server, &chain, dapp_base.as_str().expect("an address"));
        assert_eq!(tokens(server, &chain, &account), 2 * RATE * COIN);
        assert_eq!(vault + 2 * RATE * COIN, SUPPLY * COIN);
    }
}
