//! Work for miners outside the process: a valid solution is accepted once, a wrong one never.

use std::time::{Duration, Instant};

use e2e::ledger::{BalanceLedger, COIN};
use e2e::wait::wait_for;
use e2e::work::{RpcSolution, search};
use e2e::{RpcCallError, Vnode, data, note, quantity, to_quantity};
use ethash::B256;
use serde_json::{Value, json};

/// 2^256 / 512.
const BOUNDARY: &str = "0x0080000000000000000000000000000000000000000000000000000000000000";

/// A node that does not search itself.
fn node() -> Vnode {
    Vnode::dev(["--mine", "--minerthreads", "0"])
}

#[test]
fn a_solution_is_accepted_once_and_becomes_a_block() {
    let node = node();
    let work = node.work_after(None);
    assert_eq!(work.seed_hash, B256::ZERO);
    assert_eq!(work.boundary.to_string(), BOUNDARY);
    assert_eq!(
        node.work_after(None),
        work,
        "the work stays the same while nothing changes"
    );
    assert_eq!(node.head(), 0);

    let found = search(&work, 1, true);
    assert!(node.submit(&found));
    let block = node.block(1);
    assert_eq!(block["nonce"], found.nonce_data());
    assert_eq!(block["mixHash"], found.mix_hash.to_string());
    assert_eq!(block["difficulty"], to_quantity(512));
    let hash = data(&block["hash"], 32).to_owned();

    assert!(!node.submit(&found), "the same solution again");
    let other = search(&work, found.pow_nonce + 1, true);
    assert!(!node.submit(&other), "a second solution of the same work");
    assert_eq!((node.head(), &node.head_block()["hash"]), (1, &json!(hash)));

    let next = node.work_after(Some(work.header_hash));
    assert!(node.submit(&search(&next, 1, true)));
    assert_eq!(node.block(2)["parentHash"], json!(hash));
}

#[test]
fn wrong_solutions_change_nothing() {
    let node = node();
    let work = node.work_after(None);
    let right = search(&work, 1 << 32, true);
    let above = search(&work, 1 << 32, false);
    let flipped = |hash: B256| B256::from(std::array::from_fn(|index| hash[index] ^ u8::from(index == 31)));
    let wrong = [
        ("a nonce that does not solve the work, with its own mix", above),
        (
            "a wrong nonce with the right mix",
            RpcSolution {
                pow_nonce: right.pow_nonce + 1,
                ..right
            },
        ),
        (
            "a wrong mix",
            RpcSolution {
                mix_hash: flipped(right.mix_hash),
                ..right
            },
        ),
        (
            "a mix of zeros",
            RpcSolution {
                mix_hash: B256::ZERO,
                ..right
            },
        ),
        (
            "an unknown header hash",
            RpcSolution {
                header_hash: flipped(work.header_hash),
                ..right
            },
        ),
    ];
    let before = node.head_block();
    for (what, found) in wrong {
        assert!(!node.submit(&found), "{what}");
        assert_eq!(node.head_block(), before, "{what}");
        assert_eq!(node.try_work(), Ok(work), "{what}");
    }
    let malformed = |nonce: &str, header_hash: Value| {
        let params = json!([nonce, header_hash, right.mix_hash.to_string()]);
        node.refused("mc_submitWork", params, -32602)
    };
    malformed("0x00", json!(work.header_hash.to_string()));
    malformed("0x0000000000000001", json!("0x00"));
    malformed("0x0000000000000001", Value::Null);
    assert_eq!(node.head(), 0);

    assert!(
        node.submit(&right),
        "the right solution is accepted after the wrong ones"
    );
    assert_eq!(node.block(1)["nonce"], right.nonce_data());
}

#[test]
fn after_a_block_its_work_is_not_given_again() {
    let node = node();
    let mut work = node.work_after(None);
    for number in 1..=3 {
        assert!(node.submit(&search(&work, 1, true)));
        let sealed = Instant::now();
        let solved = work.header_hash;
        let mut refusals = 0;
        work = wait_for("work after a block", || match node.try_work() {
            Ok(next) => {
                assert_ne!(next.header_hash, solved, "solved work is given again");
                Some(next)
            }
            Err(RpcCallError::Refused {
                code: -32000,
                message,
            }) => {
                assert!(message.contains("not ready"), "{message}");
                refusals += 1;
                None
            }
            Err(error) => panic!("{error}"),
        });
        let gap = sealed.elapsed();
        note(&format!(
            "work {gap:.2?} after block {number}, {refusals} refusals"
        ));
        assert!(gap < Duration::from_secs(10), "no work for {gap:?}");
    }
}

#[test]
fn work_is_given_without_mining() {
    let node = Vnode::dev(Vec::<String>::new());
    assert_eq!(node.rpc("mc_mining", json!([])), json!(false));
    let work = node.work_after(None);
    assert!(node.submit(&search(&work, 7, true)));
    assert_eq!(node.head(), 1);
}

#[test]
fn a_solution_on_a_stale_parent_becomes_a_side_block() {
    let node = node();
    let accounts = node.accounts();
    let first = node.work_after(None);
    let hash = node.send(json!({"from": accounts[1], "to": accounts[2], "value": to_quantity(COIN)}));
    // The same parent, now with a transaction.
    let second = node.work_after(Some(first.header_hash));
    let (late, early) = (search(&first, 1, true), search(&second, 1, true));
    assert!(node.submit(&early));
    assert_eq!(node.block(1)["transactions"], json!([hash]));
    assert!(node.submit(&late), "work that was given stays valid");
    assert!(!node.submit(&late), "the same solution again");
    assert_eq!(
        node.block(1)["nonce"],
        early.nonce_data(),
        "the first seen block stays the head"
    );
    assert_eq!(node.head(), 1);

    // A later block names the side block as its uncle, at the latest block 4.
    let mut work = second;
    let (number, uncle) = (2..=4)
        .find_map(|number| {
            work = node.work_after(Some(work.header_hash));
            assert!(node.submit(&search(&work, 1, true)));
            let uncle = node.block(number)["uncles"][0].clone();
            (!uncle.is_null()).then_some((number, uncle))
        })
        .expect("an uncle in blocks 2 to 4");
    let side = node.rpc("mc_getBlockByHash", json!([uncle, true]));
    assert_eq!(
        (&side["hash"], &side["number"]),
        (&uncle, &json!("0x1")),
        "{side}"
    );
    assert_eq!(
        (&side["nonce"], &side["mixHash"]),
        (&late.nonce_data(), &json!(late.mix_hash.to_string()))
    );
    assert_eq!(side["parentHash"], node.block(0)["hash"]);
    assert_eq!(side["transactions"], json!([]));
    let count = quantity(&node.rpc("mc_getUncleCountByBlockNumber", json!([to_quantity(number)])));
    assert_eq!(count, 1);
    BalanceLedger::genesis(&accounts).check(&node, node.head());
}
