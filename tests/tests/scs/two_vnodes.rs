//! Two VNODEs that are peers, and one MicroChain over both.

use e2e::microchain::{COIN, MicroChainOwner, RATE, wait_for_agreement, wait_for_blocks, works};
use e2e::quantity;
use e2e::wait::wait_for;
use serde_json::json;

use crate::stage::{PROXY, counting, free_port, scs, vnode};

/// The address that is paid by the second VNODE.
const OTHER_PROXY: &str = "0x1d96f2f6bef1202e4ce1ff6dad0c2cb002861d3e";

#[test]
fn a_microchain_lives_over_two_vnodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let services = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let one = vnode(&folder.path().join("one"), &services[0], PROXY, &["--mine"]);
    let other = vnode(&folder.path().join("other"), &services[1], OTHER_PROXY, &[]);
    let enode = one.rpc("admin_nodeInfo", json!([]))["enode"].clone();
    assert_eq!(other.rpc("admin_addPeer", json!([enode])), true);
    wait_for("two peers", || {
        (quantity(&other.rpc("net_peerCount", json!([]))) > 0).then_some(())
    });
    let behind = |name: &str, service: usize| scs(&folder.path().join(name), &services[service]);
    let servers = [behind("a", 0), behind("b", 1), behind("c", 1)];
    let servers: Vec<_> = servers.iter().collect();
    let owner = MicroChainOwner::new(&one, PROXY);
    let pools = owner.pools(&services[0], &servers, 1);
    let chain = owner.chains(&pools, 3, 1).remove(0);
    let counter = owner.dapps(&chain, servers[2]);

    // A transaction of each VNODE is executed by the SCSs of both.
    let from_one = owner.send_to_chain(&chain, 3, 1, 0, &counting(&counter, 5));
    for server in &servers {
        works(server, &chain, &from_one);
    }
    let same_owner = MicroChainOwner::new(&other, OTHER_PROXY);
    let from_other = same_owner.send_to_chain(&chain, 4, 1, 0, &counting(&counter, 6));
    for server in &servers {
        works(server, &chain, &from_other);
    }
    // All three produce, and nobody is skipped for long.
    wait_for_blocks(servers[0], &chain, 6);
    let block = |number: u128| servers[0].rpc("scs_getBlock", json!([chain, number as u64]));
    let head = e2e::microchain::height(servers[0], &chain);
    let miners = (head - 5..=head).map(|number| block(number)["miner"].clone().to_string().to_lowercase());
    let miners: std::collections::BTreeSet<_> = miners.collect();
    assert_eq!(miners.len(), 3, "{miners:?}");

    let account = owner.address().to_owned();
    same_owner.transact(&chain, "6bbded70", &[], 2 * COIN);
    wait_for("the deposit", || {
        let balance = servers[2].rpc("scs_getBalance", json!([chain, account]));
        (quantity(&balance) == 2 * RATE * COIN).then_some(())
    });
    let flush = owner.flush_after(&chain, "");
    wait_for("the flush on the other VNODE", || {
        (same_owner.word(&chain, "db22ccad") == flush).then_some(())
    });
    wait_for_agreement(&servers, &chain);
}
