//! Runs the commands of `README.md` and of each guide in `docs/guides`, as a reader would: block
//! after block, with the programs found by their names, in an empty folder.
//!
//! A block of commands is fenced as `sh`. A comment before it may say more, in HTML, so that the
//! page does not show it. REGEX is an extended regular expression, as `grep -E` takes it:
//!
//! | comment | the test |
//! |---|---|
//! | none | runs the block, which must succeed |
//! | `<!-- test: prints REGEX -->` | and looks for REGEX in what it prints |
//! | `<!-- test: repeat until REGEX -->` | runs the block again until it prints REGEX; several, with ` and ` between them, at once |
//! | `<!-- test: server until REGEX -->` | lets the block go on, and continues when it has printed REGEX |
//! | `<!-- test: not run: REASON -->` | leaves the block out |
//! | `<!-- test: needs PROGRAM -->` | skips the whole page where PROGRAM is missing, and says so |
//!
//! A fence `output` after a block shows what the block prints. It is compared line by line;
//! numbers, hashes and times stand for others ([`output`]).
//!
//! Each page has a network of its own (a network namespace), so all ports are free and nothing
//! outside is reached. Where the machine grants none, the tests are skipped, and say why.

mod output;
mod page;
mod session;

use std::path::PathBuf;

use e2e::binary::workspace;

use crate::guides::page::{Page, Step};
use crate::guides::session::run_page;

/// Most blocks of all pages together that are not run.
const NOT_RUN_MAX: usize = 6;

/// The pages whose commands are run; each has a test below.
const PAGES: [&str; 12] = [
    "README.md",
    "docs/guides/benchmarker.md",
    "docs/guides/contract-developer.md",
    "docs/guides/ethereum-classic.md",
    "docs/guides/first-steps.md",
    "docs/guides/join-network.md",
    "docs/guides/microchains.md",
    "docs/guides/pool-operator.md",
    "docs/guides/private-network.md",
    "docs/guides/rpc-provider.md",
    "docs/guides/several-nodes.md",
    "docs/guides/solo-rig.md",
];

fn read(path: &str) -> Page {
    let file: PathBuf = workspace().join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    Page::parse(path, &text).unwrap_or_else(|reason| panic!("{reason}"))
}

#[test]
fn every_guide_is_run() {
    let folder = std::fs::read_dir(workspace().join("docs/guides")).expect("the folder of guides");
    let names = folder.map(|entry| entry.expect("an entry").file_name());
    let mut found: Vec<String> = names
        .map(|name| format!("docs/guides/{}", name.to_string_lossy()))
        .collect();
    found.push("README.md".to_owned());
    found.sort();
    assert_eq!(found, PAGES, "each guide has a test here");
    for path in PAGES {
        let is_run = |step: &&Step| !matches!(step, Step::NotRun { .. });
        let page = read(path);
        let run = page.blocks.iter().map(|block| &block.step).filter(is_run).count();
        assert!(run > 0, "{path}: no block is run");
    }
}

#[test]
fn guides_show_what_is_printed() {
    for path in PAGES.iter().filter(|path| path.starts_with("docs/")) {
        for block in read(path).blocks {
            let prints = match block.step {
                Step::Run { prints } => prints.is_some(),
                Step::Repeat { .. } | Step::Server { .. } => true,
                Step::NotRun { .. } => false,
            };
            assert!(
                !prints || block.shown.is_some(),
                "{path}:{}: no output is shown below the commands",
                block.line
            );
        }
    }
}

#[test]
fn few_blocks_are_not_run() {
    let mut reasons = Vec::new();
    for path in PAGES {
        for block in read(path).blocks {
            if let Step::NotRun { reason } = block.step {
                reasons.push(format!("{path}:{}: {reason}", block.line));
            }
        }
    }
    let count = reasons.len();
    let list = reasons.join("\n");
    assert!(
        count <= NOT_RUN_MAX,
        "got {count} blocks that are not run, expected at most {NOT_RUN_MAX}:\n{list}"
    );
}

#[test]
fn readme() {
    run_page(&read("README.md"));
}

#[test]
fn benchmarker() {
    run_page(&read("docs/guides/benchmarker.md"));
}

#[test]
fn contract_developer() {
    run_page(&read("docs/guides/contract-developer.md"));
}

#[test]
fn ethereum_classic() {
    run_page(&read("docs/guides/ethereum-classic.md"));
}

#[test]
fn first_steps() {
    run_page(&read("docs/guides/first-steps.md"));
}

#[test]
fn join_network() {
    run_page(&read("docs/guides/join-network.md"));
}

#[test]
fn microchains() {
    run_page(&read("docs/guides/microchains.md"));
}

#[test]
fn pool_operator() {
    run_page(&read("docs/guides/pool-operator.md"));
}

#[test]
fn private_network() {
    run_page(&read("docs/guides/private-network.md"));
}

#[test]
fn rpc_provider() {
    run_page(&read("docs/guides/rpc-provider.md"));
}

#[test]
fn several_nodes() {
    run_page(&read("docs/guides/several-nodes.md"));
}

#[test]
fn solo_rig() {
    run_page(&read("docs/guides/solo-rig.md"));
}
