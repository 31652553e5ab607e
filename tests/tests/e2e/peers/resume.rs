//! A synchronization that is killed again and again: each start goes on where the last one was.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::wait::wait_for;
use network::NodeContact;
use primitives::{B256, Enode};
use store::{Store, StoreOptions};

use crate::peers::in_process::InProcess;
use crate::peers::support::runtime;

/// Blocks of the chain.
const BLOCKS: u64 = 6_000;
/// A start is killed when it has so many blocks more than at its begin.
const BLOCKS_A_LIFE: u64 = 700;
/// Starts that are killed.
const KILLS: usize = 4;
/// Folder, peer and last block of the node that is killed.
const CHILD: [&str; 3] = ["SYNC_FOLDER", "SYNC_PEER", "SYNC_GOAL"];

/// The node that is killed. It runs in a process of its own.
#[test]
#[ignore = "the test `a_killed_synchronization_goes_on` starts it"]
fn synchronizing_child() {
    let [folder, peer, goal] = CHILD.map(|name| std::env::var(name).expect("set by the parent"));
    let peer: Enode = peer.parse().expect("an enode");
    let goal: B256 = goal.parse().expect("a hash");
    let runtime = runtime();
    let store = Store::open(Path::new(&folder), &StoreOptions::default()).expect("a store");
    let node = InProcess::start(&runtime, 2, store);
    let number = || node.chain.view().expect("a view").head_number();
    let mut told = number();
    println!("\nhead {told}");
    node.network()
        .add_static(NodeContact::from_enode(&peer).expect("an address"));
    while node.head() != goal {
        let head = number();
        if head > told {
            told = head;
            println!("\nhead {head}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("\ndone");
    node.stop(&runtime);
}

fn start_child(folder: &Path, peer: &NodeContact, goal: &B256) -> Child {
    let values = [folder.display().to_string(), peer.to_string(), goal.to_string()];
    Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--ignored",
            "--exact",
            "peers::resume::synchronizing_child",
            "--nocapture",
        ])
        .envs(CHILD.into_iter().zip(values))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

#[test]
fn a_killed_synchronization_goes_on() {
    let runtime = runtime();
    let server = InProcess::start(&runtime, 1, Store::in_memory().expect("a store in memory"));
    for _ in 0..BLOCKS {
        server.mine();
    }
    let goal = server.head();
    let home = tempfile::tempdir().expect("a folder");
    let (mut kills, mut last) = (0, 0);
    let mut firsts = Vec::new();
    loop {
        let mut child = start_child(home.path(), &server.contact(), &goal);
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = None;
        let mut is_done = false;
        for line in output.lines().map_while(Result::ok) {
            is_done |= line == "done";
            let Some(head) = line.strip_prefix("head ") else {
                continue;
            };
            let head: u64 = head.parse().expect("a number");
            let begun = *first.get_or_insert(head);
            assert!(begun >= last, "block {begun} after block {last} was there");
            if kills < KILLS && head >= begun + BLOCKS_A_LIFE {
                last = head;
                child.kill().expect("SIGKILL");
                kills += 1;
                break;
            }
        }
        firsts.push(first.expect("it says where it begins"));
        let ended = child.wait().expect("it ends");
        if is_done {
            assert!(ended.success(), "{ended}");
            break;
        }
    }
    assert_eq!(kills, KILLS, "{firsts:?}");
    assert!(firsts.is_sorted() && firsts.len() == KILLS + 1, "{firsts:?}");
    wait_for("no peer", || (server.network().peer_count() == 0).then_some(()));
    server.stop(&runtime);
}
