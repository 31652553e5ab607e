//! Members that cannot do their part: one without money for gas, whose vote does not come, and one
//! whose disk is full.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;

use e2e::microchain::{COIN, MicroChainOwner, height, wait_for_agreement, wait_for_blocks, works};
use e2e::process::EndSignal;
use e2e::scs::Scs;
use e2e::wait::wait_within;
use e2e::{note, quantity};
use serde_json::{Value, json};

use crate::application_chains::stage::{
    MAKES_BLOCKS, PATIENCE, PROXY, counting, free_port, scs, scs_within, vnode, wait_for_lines,
};

/// Sha for gas that are enough to register, and not enough for a vote after that.
const LITTLE_GAS: u128 = 115 * COIN / 10_000;
/// No file of the member with the full disk becomes longer.
const FILE_BYTES_MAX: u64 = 3 << 20;
/// Data of a transaction that fills the disk.
const BALLAST_BYTES: usize = 30_000;
/// Such transactions that are sent at a time.
const BALLAST_COUNT: u64 = 40;

fn block(server: &Scs, chain: &str, number: u128) -> Value {
    server.rpc("scs_getBlock", json!([chain, number as u64]))
}

#[test]
#[ignore = "side_by_side runs it"]
pub(crate) fn a_member_without_gas_and_one_without_space_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let node = vnode(&folder.path().join("vnode"), &service, PROXY, &MAKES_BLOCKS);
    let owner = MicroChainOwner::new(&node, PROXY);
    let home = |name: &str| folder.path().join(name);
    let rich = scs(&home("rich"), &service);
    let full = scs_within(&home("full"), &service, FILE_BYTES_MAX);
    let poor = scs(&home("poor"), &service);
    // The first member has the first turn.
    let pools = owner.pools_of(&service, &[(rich.id(), 5 * COIN)], 1);
    let chains = owner.chain_bases(&pools, 3, 1);
    let chain = chains[0].clone();
    owner.open_registration(&chains);
    owner.wait_for_members(&chain, 1);
    let others = [(full.id(), 5 * COIN), (poor.id(), LITTLE_GAS)];
    owner.register(&pools, &others, 1);
    // The servers were not told of the registration, because they could not join then.
    owner.open_registration(&chains);
    owner.wait_for_members(&chain, 3);
    owner.close_registration(&chains);
    let servers = [&rich, &full, &poor];
    let counter = owner.dapps(&chain, &rich);

    // Transactions with much data, until the disk of one member is full.
    let data = counting(&counter, 1) + &"5a".repeat(BALLAST_BYTES);
    let mut next = 3;
    let stands_still = "the MicroChain stands still until its store works";
    wait_within(PATIENCE, "the end of the space", || {
        for _ in 0..BALLAST_COUNT {
            owner.send_to_chain(&chain, next, 1, 0, &data);
            next += 1;
        }
        wait_for_blocks(&rich, &chain, 2);
        full.log().contains(stands_still).then_some(())
    });
    let log = full.log();
    let line = log
        .lines()
        .find(|line| line.contains(stands_still))
        .expect("waited for");
    assert!(
        line.contains("free space") && line.contains(&chain[2..10]),
        "{line}"
    );
    note(&format!("a full disk: {line}"));
    let stopped = height(&full, &chain);
    let before: Vec<Value> = (0..=stopped).map(|number| block(&full, &chain, number)).collect();
    assert!(before.iter().all(|block| block["hash"].is_string()));
    // The server without space answers, and the others go on.
    wait_for_blocks(&rich, &chain, 4);
    assert_eq!(height(&full, &chain), stopped);

    // The first member proposes. The vote of the second one does not come, and the third one
    // cannot pay for its vote.
    let proposal = owner.proposal(&chain);
    wait_for_lines(
        &[&poor],
        &["the VNODE did not take a transaction", "voteOnProposal", "funds"],
    );
    wait_for_lines(&[&poor], &["little money for gas"]);
    assert_eq!(poor.figure("scs_balance_low"), Some(1.0));
    assert_eq!(rich.figure("scs_balance_low"), Some(0.0));
    let of_chain = |name: &str| rich.figure(&format!("{name}{{chain=\"{chain}\"}}"));
    assert_eq!(of_chain("scs_chain_members"), Some(3.0));
    assert_eq!(of_chain("scs_chain_votes"), Some(1.0));
    assert!(of_chain("scs_chain_escrow_coins") >= of_chain("scs_chain_operation_coins"));
    check_dashboards(&rich, &poor, &chain);
    let head = node.head();
    node.wait_for_head(head + 3);
    assert!(
        owner.flush_hash(&chain).is_none(),
        "one vote of three is not enough"
    );
    assert_eq!(owner.word(&chain, "ca3b852f"), proposal, "the proposal waits");

    // With money it votes for the same proposal.
    owner.give(poor.id(), COIN);
    assert_eq!(owner.flush_after(&chain, ""), proposal);
    // The places of the two that registered at once are those of their transactions.
    let flush = owner.last_flush(&chain);
    let voters = flush
        .voters
        .iter()
        .map(|place| flush.members[*place as usize].clone());
    let expected = [&rich, &poor].map(|member| member.id().to_lowercase());
    assert_eq!(voters.collect::<BTreeSet<_>>(), BTreeSet::from(expected));

    let told = full
        .log()
        .lines()
        .filter(|line| line.contains(stands_still))
        .count();
    assert!(
        told <= 4,
        "the failure is logged {told} times, expected once in a minute"
    );

    // With space the other one has what it had, and what it has missed.
    full.free_file_length();
    wait_for_agreement(&servers, &chain);
    for (number, expected) in before.iter().enumerate() {
        assert_eq!(block(&full, &chain, number as u128), *expected);
    }
    let sent = owner.send_to_chain(&chain, next, 1, 0, &counting(&counter, 1));
    for server in servers {
        works(server, &chain, &sent);
    }
    let from = height(&rich, &chain);
    wait_within(PATIENCE, "a block of the member with space again", || {
        let mut blocks = (from..=height(&rich, &chain)).map(|number| block(&rich, &chain, number));
        blocks
            .any(|block| block["miner"] == full.id().to_lowercase())
            .then_some(())
    });
    wait_for_agreement(&servers, &chain);
    let ended = full.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

/// The dashboards show who has little money, and the MicroChain with its explorer.
fn check_dashboards(rich: &Scs, poor: &Scs, chain: &str) {
    let status = |server: &Scs| -> Value {
        let answer = server.dashboard("/status");
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let (with, without) = (status(rich), status(poor));
    assert_eq!(with["scs"]["balance_low"], false, "{with}");
    assert_eq!(without["scs"]["balance_low"], true, "{without}");
    assert_eq!(with["scs"]["connected"], true, "{with}");
    let shown = &with["scs"]["chains"][0];
    assert_eq!(
        (&shown["address"], &shown["members"], &shown["member"]),
        (&json!(chain), &json!(3), &json!(true)),
        "{with}"
    );
    assert!(shown["escrow"].is_string(), "{with}");
    let explore = |path: &str| -> Value {
        let answer = rich.dashboard(&format!("/chain/{chain}/explorer/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    };
    // The first transaction makes DappBase.
    let mut blocks = (0..1000).map(|number| explore(&format!("block/{number}"))["block"].clone());
    let found = blocks
        .find(|block| block["transactions"][0].is_object())
        .expect("a transaction");
    let expected = block(rich, chain, quantity(&found["number"]));
    assert_eq!(found["hash"], expected["hash"], "{found}");
    let transaction = &found["transactions"][0];
    let text = |name: &str| transaction[name].as_str().expect("a text").to_owned();
    let shown = explore(&format!("transaction/{}", text("hash")));
    assert_eq!(shown["receipt"]["blockHash"], found["hash"], "{shown}");
    assert!(explore(&format!("calls/{}", text("hash")))["calls"].is_array());
    let shown = explore(&format!("account/{}", text("from")));
    assert_ne!(shown["nonce"], "0x0", "{shown}");
    assert!(explore("blocks/latest")["blocks"][0]["number"].as_u64() > Some(0));
    let page = |path: &str| rich.dashboard(path).status;
    assert_eq!(page(&format!("/chain/{chain}")), 200);
    let unknown = format!("/chain/{}", rich.id());
    assert_eq!(
        [page(&unknown), page("/chain/0x12"), page("/explorer/block/1")],
        [404; 3]
    );
}
