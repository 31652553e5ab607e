//! The reach of random programs. A comparison of programs that end at once would show nothing.

use std::collections::BTreeMap;

use differential::ours::{self, Fate};
use differential::rules::ForkRules;
use differential::{generate, opcodes};

/// Seeds that are executed.
const SEEDS: u64 = 250;
/// The bytes of Istanbul's instructions, as first and last of each run.
const ISTANBUL: [(u8, u8); 12] = [
    (0x00, 0x0b),
    (0x10, 0x1d),
    (0x20, 0x20),
    (0x30, 0x47),
    (0x50, 0x5b),
    (0x60, 0x60),
    (0x80, 0x8f),
    (0x90, 0x9f),
    (0xa0, 0xa4),
    (0xf0, 0xf5),
    (0xfa, 0xfa),
    (0xfd, 0xff),
];

#[test]
fn programs_reach_every_instruction() {
    let rules = ForkRules::named("Istanbul").expect("a row");
    let mut reached: BTreeMap<u8, u64> = BTreeMap::new();
    let (mut executed, mut refused, mut failed, mut deepest, mut steps_all) = (0, 0, 0, 0, 0);
    for seed in 1..=SEEDS {
        let case = generate::case(seed, rules);
        let spec = ours::spec_of(rules).expect("the fork is known");
        let own = ours::execute(&case, spec).expect("the case is executed");
        for (block, plan) in own.blocks.iter().enumerate() {
            for (transaction, fate) in plan.fates.iter().enumerate() {
                let Fate::Executed { receipt, .. } = fate else {
                    refused += 1;
                    continue;
                };
                executed += 1;
                // The first field of a receipt is its status: one byte, 0x80 for a failure.
                failed += u64::from(receipt.get(3) == Some(&0x80));
                let steps = own.trace(block, transaction).expect("a transaction has steps");
                steps_all += steps.len();
                for step in steps {
                    *reached.entry(step.opcode).or_default() += 1;
                    deepest = deepest.max(step.depth);
                }
            }
        }
    }
    e2e::note(&format!(
        "{executed} transactions with {steps_all} steps to depth {deepest}; {failed} failed, {refused} were refused"
    ));
    let missing: Vec<String> = ISTANBUL
        .into_iter()
        .flat_map(|(first, last)| first..=last)
        .filter(|code| !reached.contains_key(code))
        .map(opcodes::name)
        .collect();
    assert!(missing.is_empty(), "not reached: {missing:?}");
    assert!(deepest >= 1024, "the deepest call is at {deepest}");
    assert!(executed > 2 * refused, "{executed} executed, {refused} refused");
    assert!(failed * 10 > executed, "{failed} of {executed} fail");
    assert!(failed * 3 < executed * 2, "{failed} of {executed} fail");
}
