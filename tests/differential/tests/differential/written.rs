//! Cases as files: `vnode testvec block` imports what the option `--write` writes.

use std::process::{Command, Stdio};

use differential::campaign::{SeedRange, write_cases};
use differential::rules::{ForkRules, RULES};
use differential::{generate, ours};
use serde_json::Value;

#[test]
fn written_blocks_are_imported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Blocks with a base fee have no headers here.
    let rules: Vec<&'static ForkRules> = RULES.iter().filter(|rules| !rules.base_fee).collect();
    let seeds = SeedRange {
        first: 1,
        count: 2,
        time: None,
    };
    let files = write_cases(seeds, &rules, directory.path()).expect("the files are written");
    assert_eq!(files, 2 * rules.len());
    for rules in rules {
        for seed in seeds.seeds() {
            let path = directory.path().join(format!("{}-{seed}.json", rules.name));
            let output = Command::new(e2e::vnode_path())
                .args(["testvec", "block"])
                .stdin(std::fs::File::open(&path).expect("the file is there"))
                .stdout(Stdio::piped())
                .output()
                .expect("vnode runs");
            let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let case = generate::case(seed, rules);
            let spec = ours::spec_of(rules).expect("the fork is known");
            let executed = ours::execute(&case, spec).expect("the case is executed");
            let head = &executed.blocks.last().expect("a case has blocks").block;
            assert_eq!(
                reply["head"],
                head.hash().to_string(),
                "{}: {reply}",
                path.display()
            );
            assert_eq!(reply["stateRoot"], head.header.state_root.to_string());
        }
    }
}
