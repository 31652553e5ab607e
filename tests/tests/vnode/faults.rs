//! Full disks, torn files, things in the database's place: the node says what and where, what
//! helps, and loses nothing.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::ledger::Ledger;
use e2e::process::Signal;
use e2e::{Launch, Vnode, note, quantity, wait_for};
use serde_json::{Value, json};
use store::FILE_NAME;
use tempfile::TempDir;

use crate::offline::{assert_contains, run_failing, run_ok};

fn home() -> TempDir {
    tempfile::Builder::new()
        .prefix("vn")
        .tempdir()
        .expect("a temporary directory")
}

/// Sends transactions that take much room, until the node says that there is none.
fn fill(node: &Vnode) {
    let accounts = node.accounts();
    let mut round = 0;
    wait_for("the end of the space", || {
        let from = &accounts[1 + round % 8];
        round += 1;
        let ballast = format!("0x{}", "5a".repeat(30_000));
        let sent = json!([{"from": from, "to": accounts[9], "data": ballast, "gas": "0x300000"}]);
        // The pool may be full of them.
        let _ = node.try_rpc("mc_sendTransaction", sent);
        node.log().contains("free space on its file system").then_some(())
    });
}

/// What a client sees of the chain: the head and every block below it.
fn chain(node: &Vnode) -> Vec<Value> {
    let head = node.head();
    (0..=head).map(|number| node.block(number)).collect()
}

/// A node without space serves what it has, and goes on when `free` has given it some.
fn check_full(node: Vnode, directory: &Path, free: impl FnOnce(&Vnode)) {
    fill(&node);
    let path = directory.canonicalize().expect("it is there");
    let log = node.log();
    let line = log
        .lines()
        .find(|line| line.contains("free space"))
        .expect("waited for");
    assert_contains(
        line,
        &[path.to_str().expect("plain characters"), FILE_NAME, "committed"],
    );
    let served = chain(&node);
    let stuck = node.head();
    note(&format!("no space after block {stuck}: {line}"));
    for block in &served {
        assert_eq!(
            node.rpc("mc_getBlockByHash", json!([block["hash"], false])),
            *block
        );
    }
    assert!(
        node.refused("mc_getBalance", json!(["0x12", "latest"]), -32602)
            .len()
            > 1
    );
    free(&node);
    node.wait_for_head(stuck + 2);
    let accounts = node.accounts();
    assert_eq!(
        chain(&node)[..served.len()],
        served[..],
        "nothing served was lost"
    );
    let head = node.head();
    Ledger::genesis(&accounts).check(&node, head);
    let ended = node.end(Signal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert_contains(&run_ok(directory, &["db", "check", "--full"]), &["no faults"]);
}

/// A data directory with a few blocks, whose node has ended.
fn begun(directory: &Path) -> u64 {
    let node = Launch::dev(["--mine"]).data(directory).start();
    node.wait_for_head(2);
    assert!(node.end(Signal::Interrupt).status.success());
    std::fs::metadata(directory.join(FILE_NAME))
        .expect("a database")
        .len()
}

#[test]
fn a_node_that_may_not_make_its_file_longer_waits_until_it_may() {
    let home = home();
    let bytes = begun(home.path());
    let node = Launch::dev(["--mine"])
        .data(home.path())
        .file_bytes_max(bytes)
        .start();
    check_full(node, home.path(), Vnode::free_file_length);
}

/// A small file system of its own; unmounted when dropped.
struct Small(PathBuf);

impl Small {
    /// `None` where this user may not mount.
    fn mount(at: &Path, mib: u32) -> Option<Self> {
        let options = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then(|| Self(at.to_owned()))
    }

    fn resize(&self, mib: u32) {
        let options = format!("remount,size={mib}m");
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", &options]).arg(&self.0).output();
        assert!(output.expect("mount runs").status.success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_node_on_a_full_file_system_waits_for_space() {
    let home = home();
    let Some(small) = Small::mount(home.path(), 4) else {
        return note("skipped: this user may not mount a small file system");
    };
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    node.wait_for_head(1);
    check_full(node, home.path(), |_| small.resize(256));
}

#[test]
fn a_node_whose_file_is_gone_ends_with_a_reason() {
    let home = home();
    let bytes = begun(home.path());
    let node = Launch::dev(["--mine"])
        .data(home.path())
        .file_bytes_max(bytes)
        .start();
    std::fs::rename(home.path().join(FILE_NAME), home.path().join("elsewhere")).expect("renamed");
    // While it writes the open file it need not know; once it must open it again, it does.
    let accounts = node.accounts();
    let ballast = format!("0x{}", "5a".repeat(30_000));
    let sent = json!([{"from": accounts[1], "to": accounts[9], "data": ballast, "gas": "0x300000"}]);
    wait_for("the end", || {
        node.try_rpc("mc_sendTransaction", sent.clone())
            .is_err()
            .then_some(())
    });
    let ended = node.wait_for_end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert_contains(last, &["no more blocks can be taken", FILE_NAME, "start again"]);
    // As the message says: put back, it goes on.
    std::fs::rename(home.path().join("elsewhere"), home.path().join(FILE_NAME)).expect("renamed");
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    let head = node.head();
    assert!(head >= 2);
    node.wait_for_head(head + 1);
}

#[test]
fn what_is_no_whole_database_is_told_and_left_alone() {
    let home = home();
    begun(home.path());
    let path = home.path().join(FILE_NAME);
    let whole = std::fs::read(&path).expect("a database");
    let check = |bytes: &[u8], words: &[&str]| {
        std::fs::write(&path, bytes).expect("written");
        for arguments in [&["--dev", "--mine"][..], &["db", "check"], &["db", "stats"]] {
            let said = run_failing(home.path(), arguments);
            assert_contains(&said, words);
            assert_contains(&said, &[path.to_str().expect("plain characters"), "import"]);
            let lines = said.lines().filter(|line| !line.trim().is_empty()).count();
            assert_eq!(lines, 1, "{said}");
            assert!(std::fs::read(&path).expect("a file") == bytes, "it was changed");
        }
    };
    check(b"", &["empty"]);
    check(&vec![0x77; 1 << 20], &["begins with 7777"]);
    for cut in [3, 4096, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let word = if cut < 16 { "begins with" } else { "cut off" };
        check(&whole[..cut], &[word]);
    }
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let said = run_failing(home.path(), &["--dev", "--mine"]);
    assert_contains(&said, &["a directory", FILE_NAME]);
    std::fs::remove_dir(&path).expect("removed");
    let said = run_failing(home.path(), &["--dev", "--mine"]);
    assert_contains(&said, &["is gone", "chain.redb.lock"]);
    assert!(!path.exists(), "no new chain in place of the old");
    std::fs::write(&path, &whole).expect("written");
    assert_contains(&run_ok(home.path(), &["db", "check", "--full"]), &["no faults"]);
}

#[test]
fn a_running_node_answers_rightly_or_not_at_all_over_damaged_pages() {
    const ROUNDS: usize = 18;
    let home = home();
    begun(home.path());
    let path = home.path().join(FILE_NAME);
    let whole = std::fs::read(&path).expect("a database");
    let node = Launch::dev(Vec::<String>::new()).data(home.path()).start();
    let good_chain = chain(&node);
    let accounts = node.accounts();
    let balances: Vec<_> = accounts.iter().map(|account| node.balance(account)).collect();
    assert!(node.end(Signal::Interrupt).status.success());
    let used: Vec<usize> = (16..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut refused, mut errors) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = whole.clone();
        // One byte, later two and three of them, spread over what is in use.
        for flip in 0..=round / (ROUNDS / 3) {
            let place = (round * 7 + flip * 11 + 1) * used.len() / (ROUNDS * 11);
            bytes[used[place % used.len()]] ^= 0x20;
        }
        std::fs::write(&path, &bytes).expect("written");
        let launch = Launch::dev(Vec::<String>::new()).data(home.path());
        let Some(node) = launch.try_start() else {
            refused += 1;
            continue;
        };
        let check = |method: &str, params: Value, expected: Value| match node.try_rpc(method, params) {
            Ok(got) => {
                assert_eq!(got, expected, "{method}");
                0
            }
            Err(_) => 1,
        };
        for block in &good_chain {
            errors += check(
                "mc_getBlockByNumber",
                json!([block["number"], false]),
                block.clone(),
            );
            errors += check("mc_getBlockByHash", json!([block["hash"], false]), block.clone());
        }
        let last = good_chain.last().expect("blocks");
        for (account, balance) in accounts.iter().zip(&balances) {
            let got = node.try_rpc("mc_getBalance", json!([account, last["number"]]));
            match got {
                Ok(got) => assert_eq!(quantity(&got), *balance),
                Err(_) => errors += 1,
            }
        }
        let ended = node.end(Signal::Interrupt);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
    note(&format!(
        "{ROUNDS} damaged files: {refused} not opened, {errors} answers were errors, none was wrong"
    ));
    assert!(errors + refused > 0);
}
