//! A member that lies: blocks that break the rules, and proposals for rewards of its own.

use std::time::Duration;

use e2e::microchain::{
    Argument, COIN, MicroChainOwner, encoded, height, wait_for_agreement, wait_for_blocks, works,
};
use e2e::quantity;
use e2e::scs::Scs;
use e2e::wait::wait_within;
use primitives::{B256, Header, SecretKey};
use serde_json::json;

use crate::application_chains::lying_member::LyingMember;
use crate::application_chains::stage::{
    MAKES_BLOCKS, PATIENCE, PROXY, counting, free_port, have_lines, scs, selector, vnode, wait_for_lines,
};

/// The first rewards of a chain base for a block and for a transaction, in sha.
const REWARDS: [u128; 2] = [500_000_000_000_000, 100_000_000_000];

/// Lets the member send something in its slots, until the logs of all others have a line with these
/// words. Once is enough, if the block before has come in time.
fn lie(liar: &mut LyingMember, others: &[&Scs], words: &[&str], send: impl Fn(&mut LyingMember, &Header)) {
    wait_within(PATIENCE, &format!("{words:?} in the logs of SCSs"), || {
        let parent = liar.own_slot();
        send(liar, &parent);
        std::thread::sleep(Duration::from_secs(1));
        have_lines(others, words).then_some(())
    });
}

/// Sends blocks that break the rules, and waits until all others have refused them.
fn send_bad_blocks(liar: &mut LyingMember, others: &[&Scs]) {
    let two_blocks = ["a member broke the rules", "two blocks of one slot"];
    lie(liar, others, &two_blocks, |liar, parent| {
        for more in [0, 1] {
            let block = liar.signed(liar.block(parent, more), None);
            liar.send(block);
        }
    });
    let wrong_root = [
        "a signed block is refused",
        "state root: got 0x",
        "expected 0xabab",
    ];
    lie(liar, others, &wrong_root, |liar, parent| {
        let mut block = liar.block(parent, 0);
        block.state_root = B256::repeat_byte(0xab);
        let block = liar.signed(block, None);
        liar.send(block);
    });
    let unsigned = ["a block is refused", "signature of the block"];
    lie(liar, others, &unsigned, |liar, parent| {
        let block = liar.block(parent, 0);
        liar.send(block);
    });
    let foreign = ["a block is refused", "signer of the block"];
    lie(liar, others, &foreign, |liar, parent| {
        let stranger = SecretKey::from_bytes(&[0x78; 32]).expect("in range");
        let block = liar.signed(liar.block(parent, 0), Some(&stranger));
        liar.send(block);
    });
}

#[test]
#[ignore = "side_by_side runs it"]
pub(crate) fn a_member_that_lies_loses_its_place_and_the_flush_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let node = vnode(&folder.path().join("vnode"), &service, PROXY, &MAKES_BLOCKS);
    let servers = ["a", "b", "c"].map(|name| scs(&folder.path().join(name), &service));
    let servers: Vec<_> = servers.iter().collect();
    let mut liar = LyingMember::connect(&service);
    let owner = MicroChainOwner::new(&node, PROXY);
    // The liar is the first member, so the first turn is its own.
    let pools = owner.pools_of(&service, &[(&liar.id(), 5 * COIN)], 1);
    let chains = owner.chain_bases(&pools, 3, 1);
    let chain = chains[0].clone();
    owner.open_registration(&chains);
    liar.join(&chain, &pools.scs);
    owner.wait_for_members(&chain, 1);
    let others: Vec<_> = servers.iter().map(|server| (server.id(), 5 * COIN)).collect();
    owner.register(&pools, &others, 1);
    // The servers were not told of the registration, because they could not join then.
    owner.open_registration(&chains);
    owner.wait_for_members(&chain, 4);
    owner.close_registration(&chains);
    let counter = owner.dapps(&chain, servers[0]);

    send_bad_blocks(&mut liar, &servers);
    wait_for_blocks(servers[0], &chain, 3);
    wait_for_agreement(&servers, &chain);

    // In its turn it proposes again and again, until it may not any more.
    let word = |function: &str, argument: Argument| {
        owner.number(&chain, &format!("{}{}", selector(function), encoded(&[argument])))
    };
    let turn = word("getEstFlushBlock(uint256)", Argument::Number(0));
    wait_within(PATIENCE, "the turn of the lying member", || {
        (node.head() + 1 >= turn).then_some(())
    });
    let performance = || word("nodePerformance(address)", Argument::Account(liar.id()));
    for mark in 1..=8 {
        let head = node.head();
        liar.propose(0, 4, mark);
        node.wait_for_head(head + 2);
    }
    assert_eq!(performance(), 0, "each proposal that comes to nothing costs one");
    wait_for_lines(&servers, &["no vote for a proposal"]);
    assert!(node.head() < turn + 48, "its turn is not over");

    // In the next turn the others flush what is right, and report the liar.
    owner.flush_after(&chain, "");
    let flush = owner.last_flush(&chain);
    assert_eq!(flush.members[0], liar.id());
    assert_eq!((flush.start, &flush.bad_actors), (1, &vec![0]));
    assert!(flush.voters.len() >= 3 && !flush.voters.contains(&0), "{flush:?}");
    let list = servers[1].rpc("scs_getBlockList", json!([chain, 1, flush.end as u64]));
    let blocks = list["blockList"].as_array().expect("blocks");
    assert_eq!(blocks.len() as u128, flush.end);
    let reward_of = |member: &String| -> u128 {
        let made = blocks.iter().filter(|block| block["miner"] == member.as_str());
        let transactions = |block: &serde_json::Value| block["transactions"].as_array().map_or(0, Vec::len);
        made.map(|block| REWARDS[0] + REWARDS[1] * transactions(block) as u128)
            .sum()
    };
    let expected: Vec<u128> = flush.members.iter().map(reward_of).collect();
    assert_eq!(flush.distribution, expected);
    assert_eq!(owner.members(&chain), 3);
    assert_ne!(
        owner.number_of(&chain, "50859fd9", &liar.id()),
        1,
        "no member any more"
    );

    // The others go on.
    let before = height(servers[0], &chain);
    let sent = owner.send_to_chain(&chain, 3, 1, 0, &counting(&counter, 5));
    for server in &servers {
        works(server, &chain, &sent);
    }
    wait_for_blocks(servers[0], &chain, 6);
    wait_for_agreement(&servers, &chain);
    for number in before + 1..=height(servers[0], &chain) {
        let block = servers[0].rpc("scs_getBlock", json!([chain, number as u64]));
        assert_ne!(block["miner"], liar.id());
        assert_eq!(quantity(&block["number"]), number);
    }
}
