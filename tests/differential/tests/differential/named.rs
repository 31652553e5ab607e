//! The comparison with a node that is named by its URL. Here it is one of ours.

use std::time::Duration;

use chain::ChainSpec;
use chain::spec::{DEV_ACCOUNTS, MoacForks};
use differential::campaign::SeedRange;
use differential::named_node::{NodeOptions, compare_with_node};
use differential::rules::ForkRules;
use e2e::Vnode;
use primitives::{SecretKey, TxForm};

fn options(node: &Vnode) -> NodeOptions {
    NodeOptions {
        url: node.url(),
        module: "mc".to_owned(),
        form: TxForm::Native,
        key: SecretKey::from_hex(DEV_ACCOUNTS[1].1).ok(),
        gas_price: None,
        spec: ChainSpec::dev(),
        rules: ForkRules::named("Moac").expect("a row"),
        patience: Duration::from_secs(60),
    }
}

const fn seeds(count: u64) -> SeedRange {
    SeedRange {
        first: 1,
        count,
        time: None,
    }
}

#[test]
fn a_node_of_ours_agrees() {
    let node = Vnode::dev(["--mine"]);
    // Blocks come from JSON here, because the node does not serve `debug`.
    let report = compare_with_node(seeds(2), options(&node)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.seeds, 2);
    assert!(report.transactions >= 10 && report.values >= 40, "{report:?}");
}

#[test]
fn a_node_that_signs_agrees() {
    let node = Vnode::dev(["--mine", "--rpcapi", "chain3,mc,net,debug"]);
    // The node signs, its names are Ethereum's, and its blocks come as bytes.
    let options = NodeOptions {
        module: "eth".to_owned(),
        key: None,
        ..options(&node)
    };
    let report = compare_with_node(seeds(1), options).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.transactions >= 5, "{report:?}");
}

#[test]
fn other_rules_are_found() {
    let node = Vnode::dev(["--mine", "--rpcapi", "chain3,mc,net,debug"]);
    // On our side the gas of failed calls is lost, on the node it goes back.
    let options = NodeOptions {
        spec: ChainSpec {
            failed_calls_refund_gas: false,
            ..ChainSpec::dev()
        },
        form: TxForm::Classic,
        ..options(&node)
    };
    let difference = compare_with_node(seeds(20), options)
        .expect_err("the rules differ")
        .to_string();
    for part in ["gasUsed: ours", "the node's", "seed", "Repeat it"] {
        assert!(difference.contains(part), "{part} is not in:\n{difference}");
    }
}

#[test]
fn the_step_of_a_difference_is_found() {
    let node = Vnode::dev(["--mine", "--rpcapi", "chain3,mc,net,debug"]);
    // Our side does not have the instructions of the fork Fuxi.
    let options = NodeOptions {
        spec: ChainSpec {
            rules: MoacForks::default().rules(),
            ..ChainSpec::dev()
        },
        ..options(&node)
    };
    let difference = compare_with_node(seeds(20), options)
        .expect_err("the rules differ")
        .to_string();
    assert!(difference.contains("the traces part at step"), "{difference}");
}

#[test]
fn another_block_0_is_an_error() {
    let node = Vnode::dev(["--mine"]);
    let mut other = options(&node);
    other.spec.genesis.timestamp = 1;
    let error = compare_with_node(seeds(1), other)
        .expect_err("block 0 differs")
        .to_string();
    assert!(
        error.contains("block 0") && error.contains("--genesis"),
        "{error}"
    );
}
