//! The progress of a synchronization: a row in a terminal, lines elsewhere.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use e2e::address::free_address;
use e2e::link::TestLink;
use e2e::vnode_path;
use e2e::wait::{note, wait_for};
use serde_json::json;

use crate::peers::support::{enode, plain_enode, runtime, start, start_idle};

/// The delay of the link, one way: so long that the row is seen.
const DELAY: Duration = Duration::from_millis(400);
/// Blocks to catch up with: more than a few.
const BLOCKS: u128 = 8;

#[test]
fn a_terminal_shows_a_row_and_a_pipe_gets_lines() {
    if Command::new("script").arg("--version").output().is_err() {
        return note("skipped: the program `script`, which makes terminals, is missing");
    }
    let one = start_idle();
    one.rpc("miner_start", json!([1]));
    one.wait_for_head(BLOCKS);
    one.rpc("miner_stop", json!([]));
    let runtime = runtime();
    let port = enode(&one).port;
    let link = runtime
        .block_on(TestLink::open(([127, 0, 0, 1], port).into(), DELAY))
        .expect("a free port");
    let url = plain_enode(&one);
    let (front, _) = url.rsplit_once(':').expect("a port");
    let slow = format!("{front}:{}", link.address().port());

    let home = tempfile::tempdir().expect("a folder");
    let data = home.path().display();
    let list = json!([slow]).to_string();
    std::fs::write(home.path().join("static-nodes.json"), list).expect("a write");
    let vnode = vnode_path();
    let port = free_address().port();
    let process = home.path().join("process");
    let command = format!(
        "echo $$ > {}; exec {} --dev --datadir {data} --port {port} --minerthreads 1 --ipcdisable",
        process.display(),
        vnode.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut output = terminal.stdout.take().expect("a pipe");
    let (sender, shown) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = output.read(&mut bytes) {
            if count == 0
                || sender
                    .send(String::from_utf8_lossy(&bytes[..count]).into_owned())
                    .is_err()
            {
                return;
            }
        }
    });
    let mut all = String::new();
    wait_for("the row", || {
        all.extend(shown.try_iter());
        let row = all.find("synchronizing [")?;
        all[row..].contains(" blocks/s, left ").then_some(())
    });
    wait_for("the end", || {
        all.extend(shown.try_iter());
        all.contains("synchronized").then_some(())
    });
    // The node itself is ended. `script` ends with it.
    let process = std::fs::read_to_string(process).expect("the shell has written it");
    let killed = Command::new("kill").arg(process.trim()).status();
    assert!(killed.expect("a program of every system").success());
    terminal.wait().expect("it ends");
    reader.join().expect("no panic");

    // Without a terminal there are lines, and no row.
    let two = start(&["--minerthreads", "1"]);
    assert_eq!(two.rpc("admin_addPeer", json!([slow])), true);
    wait_for("the lines", || two.log().contains("synchronized").then_some(()));
    assert!(two.log().contains("synchronization begins"));
    assert!(!two.log().contains("synchronizing ["));
}
