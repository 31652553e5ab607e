//! An SCS that does not believe its VNODE (`--verify-base`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::link::TestLink;
use e2e::microchain::{COIN, MicroChainOwner, RATE};
use e2e::process::EndSignal;
use e2e::scs::Scs;
use e2e::wait::wait_for;
use e2e::work::search;
use e2e::{Caller, to_quantity};
use serde_json::json;

use crate::application_chains::stage::{PROXY, free_port, vnode, wait_for_lines};

/// A VNODE that makes a block of each transaction.
const INSTANT: [&str; 2] = ["--dev.seal", "instant"];
/// A contract that does not exist.
const NOBODY: &str = "0x22f0a5f0b2c1f29ba1ff7b7b7bd1b4a4fc07a2d7";
/// The SCS's bond, in coins.
const BOND: u128 = 11;

fn checking_scs(folder: &Path, service: &str, options: &[&str]) -> Scs {
    Scs::configure(folder, service, 100);
    let usual = [
        "--period",
        "1",
        "--confirmations",
        "1",
        "--metrics",
        "127.0.0.1:0",
    ];
    Scs::start(folder, &[&usual, options].concat())
}

/// Makes blocks until `is_over`, so that what waits for blocks need not wait for a clock.
fn make_blocks(node: &Caller, is_over: &AtomicBool) {
    let from = node.accounts()[3].clone();
    while !is_over.load(Ordering::Relaxed) {
        node.send(json!({"from": from, "to": from, "value": "0x0", "gas": "0x5208"}));
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The bytes of a number without leading zeros, as tries have it.
fn trie_bytes(number: u128) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    bytes[number.leading_zeros() as usize / 8..].to_vec()
}

#[test]
fn what_a_lying_vnode_says_of_money_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let node = vnode(&folder.path().join("vnode"), &service, PROXY, &INSTANT);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("threads");
    let target = service.parse().expect("an address");
    let link = runtime.block_on(TestLink::open(target, Duration::ZERO));
    let link = link.expect("a free port");
    let proofs = ["--verify-base", "proofs"];
    let server = checking_scs(&folder.path().join("a"), &link.address().to_string(), &proofs);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| make_blocks(&node, &is_over));
        let _end = EndOfBlocks(&is_over);
        tell_lies(&node, &service, &server, &link);
    });
}

/// Ends [`make_blocks`], also if the test fails.
struct EndOfBlocks<'a>(&'a AtomicBool);

impl Drop for EndOfBlocks<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn tell_lies(node: &Caller, service: &str, server: &Scs, link: &TestLink) {
    let owner = MicroChainOwner::new(node, PROXY);
    let pools = owner.pools(service, &[server], 1);
    let chains = owner.chain_bases(&pools, 1, 1);
    let chain = &chains[0];

    // The bond that the VNODE tells is larger than the one in the pool.
    link.lie(Some((&trie_bytes(BOND * COIN), &trie_bytes((BOND + 3) * COIN))));
    owner.open_registration(&chains);
    wait_for_lines(&[server], &["the VNODE is not believed", "the proof has no node"]);
    assert_eq!(owner.members(chain), 0, "it has signed nothing");
    assert_eq!(server.figure("scs_base_refused"), Some(1.0));

    // An honest VNODE is believed.
    link.lie(None);
    owner.wait_for_members(chain, 1);
    owner.close_registration(&chains);
    wait_for("the MicroChain", || {
        let list = server.rpc("scs_getMicroChainList", json!([]));
        list.as_array().is_some_and(|list| !list.is_empty()).then_some(())
    });

    // The VNODE tells of another deposit than the one in the contract.
    let (bought, told) = (7 * RATE * COIN, 9 * RATE * COIN);
    let refusals = || server.figure("scs_base_refusals_total").unwrap_or_default();
    let (before, lies) = (refusals(), link.lies_told());
    link.lie(Some((&trie_bytes(bought), &trie_bytes(told))));
    // buyMintToken
    owner.transact(chain, "6bbded70", &[], 7 * COIN);
    wait_for("a refusal", || (refusals() > before).then_some(()));
    assert!(link.lies_told() > lies);
    let account = owner.address();
    let asked = json!([chain, account, 0, 9, 0, 9, 0, 9, 0, 9]);
    let list = || Caller::new(server.address()).try_rpc("scs_getExchangeByAddress", asked.clone());
    let list_has =
        |amount| list().is_ok_and(|list| list.to_string().contains(&to_quantity(amount).to_string()));
    assert!(!list_has(told), "{:?}", list());
    link.lie(None);
    wait_for("the deposit as it is", || list_has(bought).then_some(()));
}

#[test]
fn seals_decide_which_headers_are_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let services = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let sealed = vnode(&folder.path().join("sealed"), &services[0], PROXY, &[]);
    let unsealed = vnode(&folder.path().join("unsealed"), &services[1], PROXY, &INSTANT);
    let genesis = sealed.rpc("mc_getBlockByNumber", json!(["0x0", false]))["hash"].clone();
    let checkpoint = format!("0={}", genesis.as_str().expect("a hash"));
    let work = sealed.work_after(None);
    assert!(sealed.submit(&search(&work, 0, true)));
    sealed.wait_for_head(1);
    let from = unsealed.accounts()[3].clone();
    unsealed.send(json!({"from": from, "to": from, "value": "0x0", "gas": "0x5208"}));
    unsealed.wait_for_head(1);

    let options = [
        "--verify-base",
        "seals",
        "--verify-base.checkpoint",
        &checkpoint,
        "--chains",
        NOBODY,
    ];
    let home = folder.path().join("a");
    let server = checking_scs(&home, &services[0], &options);
    wait_for_lines(&[&server], &["cannot be read now", "no contract at"]);
    assert_eq!(server.figure("scs_base_refusals_total"), Some(0.0));
    server.end(EndSignal::Interrupt);
    // The block after the checkpoint has no seal here.
    let server = checking_scs(&home, &services[1], &options);
    wait_for_lines(&[&server], &["the VNODE is not believed", "seal of header 1"]);
    assert!(!server.log().contains("no contract at"), "{}", server.log());
    server.end(EndSignal::Interrupt);
    let wrong = [
        "--verify-base.checkpoint",
        "1=0x1234567890123456789012345678901234567890123456789012345678901234",
    ];
    let options = [&options[..2], &wrong, &options[4..]].concat();
    let server = checking_scs(&home, &services[0], &options);
    wait_for_lines(
        &[&server],
        &["block 1: got the hash 0x", "that of the checkpoint"],
    );
}
