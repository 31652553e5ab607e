//! Runs the blocks of a page in one shell, in a network, a folder and a home of their own.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use e2e::binary::workspace;
use e2e::clients::javascript;
use e2e::wait::{FairClock, note};
use e2e::{miner_path, scs_path, vnode_path};

use crate::guides::output::compare;
use crate::guides::page::{Page, Step};

/// Longest time for a page.
const PAGE_PATIENCE: Duration = Duration::from_secs(420);
/// Longest time for one block to print what is expected, in seconds.
const BLOCK_SECONDS: u32 = 300;
/// The part of the log that a failing test prints, in bytes.
const LOG_SHOWN: usize = 8000;

/// Stands for `cargo` in the folder of programs: the programs are built, and are run directly.
const CARGO: &str = r#"#!/usr/bin/env bash
program=vnode
while [ $# -gt 0 ]; do
    case "$1" in
        run | --release | --locked) ;;
        -p) program=$2; shift ;;
        --) shift; break ;;
        *) echo "cargo: got $1, expected: run --release [-p PACKAGE] -- OPTIONS" >&2; exit 2 ;;
    esac
    shift
done
exec "$program" "$@"
"#;

/// The functions of the session. `end` says at which line of the page it failed.
const FUNCTIONS: &str = r#"set -eu -o pipefail
ip link set lo up
line=0
end() {
    status=$?
    if [ "$status" -ne 0 ]; then
        echo "failed with status $status at the block of line $line, which printed:"
        for file in "$logs"/*; do echo "--- $file"; tail -c 3000 "$file"; done
    fi
}
trap end EXIT
prints() { grep -Eq -- "$1" "$logs/$line" || { echo "did not print $1"; return 1; }; }
all_printed() { for regex; do grep -Eq -- "$regex" "$logs/$line" || return 1; done; }
repeat() {
    SECONDS=0
    until "block_$line" >"$logs/$line" 2>&1; all_printed "$@"; do
        [ "$SECONDS" -lt "$patience" ] || { echo "has not printed $* in $SECONDS seconds"; return 1; }
        sleep 2
    done
}
server() {
    ("block_$line") >"$logs/$line" 2>&1 &
    SECONDS=0
    until grep -Eq -- "$1" "$logs/$line"; do
        kill -0 $! 2>/dev/null || { echo "ended before it printed $1"; return 1; }
        [ "$SECONDS" -lt "$patience" ] || { echo "has not printed $1 in $SECONDS seconds"; return 1; }
        sleep 0.2
    done
}
"#;

/// `unshare` with a network and processes of its own; all of them end with it.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    // SAFETY: the call has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

/// The reason why this machine grants no network of its own. `None` if it grants one.
fn refusal() -> Option<String> {
    let output = unshare().args(["ip", "link", "set", "lo", "up"]).output();
    match output {
        Ok(Output { status, .. }) if status.success() => None,
        Ok(Output { stderr, .. }) => Some(String::from_utf8_lossy(&stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// A word that the shell takes as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn script(page: &Page) -> String {
    let mut script = FUNCTIONS.to_owned();
    for block in &page.blocks {
        let line = block.line;
        let step = match &block.step {
            Step::NotRun { .. } => continue,
            Step::Run { prints } => {
                let expected = prints.as_deref().map(|regex| format!("prints {}", quoted(regex)));
                let expected = expected.unwrap_or_default();
                format!("block_{line} >\"$logs/{line}\" 2>&1\n{expected}")
            }
            Step::Repeat { until } => {
                let regexes: Vec<_> = until.split(" and ").map(quoted).collect();
                format!("repeat {}", regexes.join(" "))
            }
            Step::Server { until } => format!("server {}", quoted(until)),
        };
        script += &format!("block_{line}() {{\n{}}}\nline={line}\n{step}\n", block.text);
    }
    script
}

fn prepare(folder: &Path) {
    for name in ["bin", "home", "work", "logs"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    let bin = folder.join("bin");
    for (name, path) in [
        ("vnode", vnode_path()),
        ("miner", miner_path()),
        ("scs", scs_path()),
    ] {
        symlink(path, bin.join(name)).expect("a link");
    }
    let cargo = bin.join("cargo");
    fs::write(&cargo, CARGO).expect("a file");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("an owner's right");
    // Guides name files of the repository by their paths there.
    symlink(workspace().join("packaging"), folder.join("work/packaging")).expect("a link");
}

/// Runs the blocks of `page`. Skips it, with a note, where the machine lacks what it needs.
///
/// # Panics
/// If a block fails or does not print what is expected, or what the page shows.
#[track_caller]
pub(crate) fn run_page(page: &Page) {
    if let Some(reason) = refusal() {
        note(&format!(
            "{} is not run: no network of its own: {reason}",
            page.path
        ));
        return;
    }
    for program in &page.needs {
        let version = Command::new(program).arg("-v").output();
        if let Err(error) = version {
            note(&format!("{} is not run: {program}: {error}", page.path));
            return;
        }
    }
    // The name is short, because the path of a Unix socket has at most about a hundred bytes.
    let folder = tempfile::Builder::new().prefix("gd").tempdir().expect("a folder");
    prepare(folder.path());
    if page.needs.iter().any(|program| program == "node") {
        let Some(libraries) = javascript() else { return };
        let link = folder.path().join("work/node_modules");
        symlink(libraries.node_modules(), link).expect("a link");
    }
    let script_path = folder.path().join("session.sh");
    fs::write(&script_path, script(page)).expect("a file");
    let log_path = folder.path().join("log");
    let log = File::create(&log_path).expect("a file");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut session = unshare()
        .arg("bash")
        .arg(&script_path)
        .current_dir(folder.path().join("work"))
        .env("PATH", format!("{}:{path}", folder.path().join("bin").display()))
        .env("HOME", folder.path().join("home"))
        .env("logs", folder.path().join("logs"))
        .env("patience", BLOCK_SECONDS.to_string())
        .env("NODEVICE_SELECT", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("bash runs");
    let begun = Instant::now();
    let mut clock = FairClock::start();
    let status = loop {
        if let Some(status) = session.try_wait().expect("a child can be waited for") {
            break Some(status);
        }
        if clock.elapsed() > PAGE_PATIENCE {
            // Ends its processes, too.
            let _ = session.kill();
            let _ = session.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let log = fs::read_to_string(&log_path).unwrap_or_default();
    let shown = &log[log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN))..];
    match status {
        Some(status) => assert!(status.success(), "{}: {status}\n{shown}", page.path),
        None => panic!("{} has not ended after {PAGE_PATIENCE:?}\n{shown}", page.path),
    }
    for block in &page.blocks {
        let Some(shown) = block.shown.as_deref() else {
            continue;
        };
        let printed = folder.path().join("logs").join(block.line.to_string());
        let printed = fs::read_to_string(printed).unwrap_or_default();
        if let Err(reason) = compare(shown, &printed) {
            panic!("{}:{}: the page {reason}", page.path, block.line);
        }
    }
    note(&format!("{}: {:.1} s", page.path, begun.elapsed().as_secs_f64()));
}
