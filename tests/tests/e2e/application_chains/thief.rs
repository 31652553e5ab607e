//! A contract that looks like a chain base and takes the bonds of those that join.

use e2e::microchain::{Argument, COIN, MicroChainOwner, calldata, creation, encoded};
use e2e::scs::Scs;
use e2e::wait::wait_within;
use primitives::hex;
use serde_json::json;

use crate::application_chains::stage::{
    MAKES_BLOCKS, PATIENCE, PROXY, free_port, selector, vnode, wait_for_lines,
};
use crate::microchain::compiled::code_of_tests;

/// The bond of each SCS in each pool, in coins.
const BOND: u128 = 11;

fn account(address: &str) -> Argument {
    Argument::Account(address.to_owned())
}

#[test]
fn a_contract_that_looks_like_a_chain_base_takes_no_bond() {
    let codes = (code_of_tests("Thief"), code_of_tests("PlainPool"));
    let (Some(thief), Some(plain_pool)) = codes else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    let service = format!("127.0.0.1:{}", free_port());
    let node = vnode(&home.path().join("vnode"), &service, PROXY, &MAKES_BLOCKS);
    let start = |name: &str, options: &[&str]| {
        let folder = home.path().join(name);
        Scs::configure(&folder, &service, 100);
        Scs::start(&folder, options)
    };
    let careful = start("careful", &[]);
    let careless = start("careless", &["--join", "any"]);
    let owner = MicroChainOwner::new(&node, PROXY);
    for server in [&careful, &careless] {
        owner.give(server.id(), COIN);
    }
    let pool_arguments = [
        Argument::Text("POR".to_owned()),
        Argument::Number(10),
        Argument::Number(0),
    ];
    let with = |code: &str, arguments: &[Argument]| format!("{code}{}", encoded(arguments));
    let codes = [
        creation("ScsPool", &pool_arguments),
        with(&plain_pool, &pool_arguments),
    ];
    let pools = codes.map(|code| owner.create_from(&code));
    for pool in &pools {
        for server in [&careful, &careless] {
            owner.transact(pool, "4420e486", &[account(server.id())], BOND * COIN);
        }
    }
    let head = node.head();
    wait_within(PATIENCE, "six blocks", || (node.head() > head + 6).then_some(()));
    for pool in &pools {
        let thief = owner.create_from(&with(&thief, &[account(pool), account(PROXY)]));
        owner.transact(&thief, "5defc56c", &[], 0);
    }

    let bond = |pool: &str, server: &Scs| {
        let data = calldata(&selector("scsList(address)"), &[account(server.id())]);
        let answer = node.rpc("mc_call", json!([{"to": pool, "data": data}, "latest"]));
        let answer = hex::decode(answer.as_str().expect("a text")).expect("hexadecimal");
        u128::from_be_bytes(answer[48..64].try_into().expect("a word")) / COIN
    };
    // The attack works on who joins everything: all in a pool that takes the published signature,
    // and one bond in ours.
    wait_within(PATIENCE, "the theft from a careless SCS", || {
        let left = [0, 1].map(|at| bond(&pools[at], &careless));
        (left == [BOND - 1, 0]).then_some(())
    });
    wait_for_lines(
        &[&careful],
        &["not followed", "code of the chain base", "--join.list"],
    );
    for pool in &pools {
        assert_eq!(bond(pool, &careful), BOND);
    }
    let sent = node.rpc("mc_getTransactionCount", json!([careful.id(), "latest"]));
    assert_eq!(sent, "0x0", "it signed nothing");
    // Nothing more is lost later.
    let head = node.head();
    wait_within(PATIENCE, "twelve blocks", || {
        (node.head() > head + 12).then_some(())
    });
    assert_eq!(bond(&pools[0], &careless), BOND - 1);
}
