//! PING, PONG, FINDNODE and NEIGHBORS in both directions.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::address::free_port;
use e2e::clients::javascript;
use network::NodeContact;
use network::testing::{DiscoveryDialect, DiscoveryEvent};
use primitives::hex;
use serde_json::json;

use crate::discovery::{RunningNode, start};
use crate::support::key;

/// A node that reports nothing for so long stands still, also on a busy machine.
const STANDSTILL: Duration = Duration::from_secs(180);

/// Waits until `node` has verified all of `wanted`.
async fn verify(node: &mut RunningNode, wanted: &[NodeContact]) {
    let mut missing: BTreeSet<_> = wanted.iter().map(|contact| contact.id).collect();
    while !missing.is_empty() {
        let event = tokio::time::timeout(STANDSTILL, node.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("a standstill: {missing:?} of {wanted:?} are missing"));
        match event.expect("discovery runs") {
            DiscoveryEvent::Verified(contact) => missing.remove(&contact.id),
            _ => continue,
        };
    }
}

#[test]
fn the_package_and_we_find_each_other() {
    let Some(clients) = javascript() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let home = tempfile::tempdir().expect("a folder");
    let done = home.path().join("done");
    let result = runtime.block_on(async {
        let mut first = start(1, DiscoveryDialect::Ethereum, Vec::new()).await;
        let mut second = start(2, DiscoveryDialect::Ethereum, vec![first.contact]).await;
        verify(&mut second, &[first.contact]).await;
        let port = free_port();
        let argument = json!({
            "mode": "discover",
            "key": format!("0x{}", hex::encode(key(8).to_bytes())),
            "node": format!("0x{}", hex::encode(first.contact.id)),
            "port": port,
            "udp": first.contact.udp,
            "done": done,
            "capability": {},
        });
        let mut script = tokio::task::spawn_blocking(move || clients.run("devp2p.mjs", &argument));
        let package = NodeContact {
            id: key(8).public_key(),
            ip: [127, 0, 0, 1].into(),
            udp: port,
            tcp: port,
        };
        let meet = async {
            // The package asks the first node and hears of the second.
            verify(&mut first, &[package]).await;
            verify(&mut second, &[package]).await;
            // The third knows the package alone, and hears of the others from it.
            let mut third = start(3, DiscoveryDialect::Ethereum, vec![package]).await;
            verify(&mut third, &[package, first.contact, second.contact]).await;
            third
        };
        let _third = tokio::select! {
            third = meet => third,
            ended = &mut script => panic!("the package ends before all have met: {ended:?}"),
        };
        std::fs::write(&done, "").expect("a write");
        script.await.expect("the script ends")
    });
    let ids: BTreeSet<_> = result["ids"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_str())
        .collect();
    for byte in 1..4 {
        let id = format!("0x{}", hex::encode(key(byte).public_key()));
        assert!(ids.contains(&Some(id.as_str())), "{byte}: {result}");
    }
}
