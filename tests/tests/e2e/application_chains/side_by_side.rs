//! Runs lives of MicroChains side by side, because they wait for blocks most of the time. Each is a
//! test of its own, too: `cargo test -p e2e --test e2e -- --ignored NAME`.

use std::thread::Builder;

use crate::application_chains::{liar, life, reorganization};

/// Runs all of these, and waits for their ends.
fn run(all: &[(&str, fn())]) {
    let threads = all.iter().map(|(name, life)| {
        let thread = Builder::new().name((*name).to_owned()).spawn(*life);
        (name, thread.expect("a thread"))
    });
    let threads: Vec<_> = threads.collect();
    let failed = threads
        .into_iter()
        .filter_map(|(name, thread)| thread.join().is_err().then_some(name));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}

#[test]
fn lives() {
    run(&[
        ("one VNODE", life::a_microchain_lives_to_its_second_flush),
        ("two VNODEs", life::a_microchain_lives_over_two_vnodes),
    ]);
}

#[test]
fn faults() {
    run(&[
        (
            "a member that lies",
            liar::a_member_that_lies_loses_its_place_and_the_flush_is_right,
        ),
        (
            "reorganizations",
            reorganization::a_microchain_goes_on_after_reorganizations_of_the_base_chain,
        ),
        #[cfg(target_os = "linux")]
        (
            "a member without gas, and one without space",
            crate::application_chains::member_faults::a_member_without_gas_and_one_without_space_lose_nothing,
        ),
    ]);
}
