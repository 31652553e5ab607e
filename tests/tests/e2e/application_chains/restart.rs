//! A VNODE that ends in the middle of a MicroChain's life, and comes back. The owner closes the
//! MicroChain at the end.

use e2e::microchain::{
    COIN, MicroChainOwner, RATE, height, receipt_of, wait_for_agreement, wait_for_blocks, works,
};
use e2e::scs::Scs;
use e2e::wait::wait_for;
use e2e::{Vnode, quantity};
use serde_json::json;

use crate::application_chains::stage::{MAKES_BLOCKS, PROXY, counting, free_port, scs, vnode};

#[test]
fn a_microchain_goes_on_when_its_vnode_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let start = || vnode(&folder.path().join("vnode"), &service, PROXY, &MAKES_BLOCKS);
    let node = start();
    let servers = ["a", "b", "c"].map(|name| scs(&folder.path().join(name), &service));
    let servers: Vec<_> = servers.iter().collect();
    let owner = MicroChainOwner::new(&node, PROXY);
    let pools = owner.pools(&service, &servers, 1);
    let chain = owner.chains(&pools, 3, 1).remove(0);
    let counter = owner.dapps(&chain, servers[0]);
    let account = owner.address().to_owned();
    let dapp_base = servers[0].rpc("scs_getDappList", json!([chain]))[0].clone();
    let dapp_base = dapp_base.as_str().expect("an address");
    // DappBase takes nothing without a call: it has no function for that. A kill changes nothing.
    let sent = owner.send_to_chain(&chain, 3, 2, 0, dapp_base);
    assert_eq!(receipt_of(servers[0], &chain, &sent)["failed"], true);

    // The VNODE is killed between two flushes. The SCSs stay.
    let killed = |node: Vnode| drop(node);
    killed(node);
    let alone = height(servers[0], &chain);
    let node = start();
    let owner = MicroChainOwner::new(&node, PROXY);
    // The VNODE keeps it until an SCS has come back.
    let sent = owner.send_to_chain(&chain, 4, 1, 0, &counting(&counter, 5));
    receipt_of(servers[0], &chain, &sent);
    for server in &servers {
        let receipt = works(server, &chain, &sent);
        // count(uint256) returns the new total, here 5, as a word.
        assert_eq!(receipt["result"], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAU=");
    }
    let sent = owner.send_to_chain(&chain, 5, 2, 0, dapp_base);
    assert_eq!(receipt_of(servers[0], &chain, &sent)["failed"], true);
    assert!(height(servers[0], &chain) > alone);
    wait_for_agreement(&servers, &chain);
    owner.transact(&chain, "6bbded70", &[], 2 * COIN);
    wait_for("the deposit", || {
        let balance = servers[1].rpc("scs_getBalance", json!([chain, account]));
        (quantity(&balance) == 2 * RATE * COIN).then_some(())
    });

    // The node is killed again, in the middle of a flush.
    owner.proposal(&chain);
    killed(node);
    let node = start();
    let owner = MicroChainOwner::new(&node, PROXY);
    let first = owner.flush_after(&chain, "");
    wait_for_blocks(servers[0], &chain, 3);
    wait_for_agreement(&servers, &chain);
    assert_eq!(owner.word(&chain, "db22ccad"), first);

    // The flush after close() ends the MicroChain, and no SCS lists it any more. The base chain may
    // be younger than a round of flushes: the contract's last flush is below zero then.
    owner.transact(&chain, "43d726d6", &[], 0);
    owner.flush_after(&chain, &first);
    wait_for("lists without the MicroChain", || {
        let list = |server: &&Scs| server.rpc("scs_getMicroChainList", json!([]));
        servers
            .iter()
            .all(|server| list(server) == json!([]))
            .then_some(())
    });
    let last = height(servers[0], &chain);
    assert!(
        !servers[0]
            .rpc("scs_getBlock", json!([chain, last as u64]))
            .is_null()
    );
}
