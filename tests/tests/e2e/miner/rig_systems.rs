//! Rig systems: the packages for HiveOS and mmpOS, whose scripts run as those systems run them, and
//! the API of ethminer.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::address::free_port;
use e2e::binary::workspace;
use e2e::{MinerProcess, Vnode, miner_path, note, wait_for};
use serde_json::{Value, json};

/// Builds the packages into `folder`, and unpacks the one whose name contains `name`.
fn unpack(folder: &Path, mmpos: bool) -> PathBuf {
    let built = Command::new(workspace().join("packaging/build-rig"))
        .arg(miner_path())
        .env("RIG_OUT", folder)
        .output()
        .expect("bash runs");
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{stderr}");
    let names = String::from_utf8(built.stdout).expect("text");
    let package = names.lines().find(|name| name.contains("mmpos") == mmpos);
    let to = folder.join(if mmpos { "mmpos" } else { "hiveos" });
    std::fs::create_dir(&to).expect("a new folder");
    let unpacked = Command::new("tar")
        .arg("xzf")
        .arg(package.expect("a package"))
        .arg("-C")
        .arg(&to)
        .status();
    assert!(unpacked.expect("tar runs").success());
    to.join("vnode_miner")
}

/// Whether this machine has the programs that HiveOS and mmpOS have.
fn has_tools() -> bool {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let all = ["bash", "curl", "jq", "tar"].into_iter().all(has);
    if !all {
        note("bash, curl, jq or tar is missing: the packages for rig systems are not tested");
    }
    all
}

/// Ends a process when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = Command::new("kill")
            .arg("-INT")
            .arg(self.0.id().to_string())
            .status();
        let _ = self.0.wait();
    }
}

/// The output of a script, as JSON, once it has an accepted solution.
fn figures(what: &str, script: impl Fn() -> String, accepted: impl Fn(&Value) -> u64) -> Value {
    wait_for(what, || {
        let figures: Value = serde_json::from_str(&script()).ok()?;
        (accepted(&figures) > 0).then_some(figures)
    })
}

const USER_OPTIONS: &str = "--device cpu --threads 1 --dataset never";

#[test]
fn hiveos_runs_and_reads_the_miner() {
    if !has_tools() {
        return;
    }
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let package = unpack(folder.path(), false);
    let port = free_port();
    // The manifest names places of HiveOS. Here they are in the folder.
    let settings = format!(
        "CUSTOM_NAME=vnode_miner\nCUSTOM_CONFIG_FILENAME={0}/options.conf\nCUSTOM_LOG_BASENAME={0}/log/miner\nCUSTOM_STATUS_PORT={port}\n",
        package.display()
    );
    let manifest = std::fs::read_to_string(package.join("h-manifest.conf")).expect("it is packed");
    assert!(
        manifest.contains("CUSTOM_VERSION=0.") && manifest.contains("/hive/miners/custom/"),
        "{manifest}"
    );
    std::fs::write(package.join("h-manifest.conf"), settings).expect("the folder is ours");
    let bash = |script: &str| {
        let run = Command::new("bash")
            .arg("-c")
            .arg(format!(
                "cd {} && . ./h-manifest.conf && {script}",
                package.display()
            ))
            .env("CUSTOM_URL", node.url())
            .env("CUSTOM_TEMPLATE", "0x00.rig")
            .env("CUSTOM_USER_CONFIG", USER_OPTIONS)
            .output()
            .expect("bash runs");
        String::from_utf8(run.stdout).expect("text")
    };
    // Without a pool nothing is started.
    bash("CUSTOM_URL= && . ./h-config.sh");
    let refused = Command::new(package.join("h-run.sh"))
        .output()
        .expect("the script runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("flight sheet"),
        "{said}"
    );
    bash(". ./h-config.sh");
    let _running = Running(
        Command::new(package.join("h-run.sh"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the script runs"),
    );
    // As the agent does it: the script is included in a function, and the variables are read.
    let stats =
        || bash("f() { . ./h-stats.sh; }; f >&2; echo \"$stats\" | jq -c --arg khs \"$khs\" '. + {$khs}'");
    let got = figures("the figures of HiveOS", stats, |got| {
        got["ar"][0].as_u64().unwrap_or_default()
    });
    assert_eq!((&got["hs_units"], &got["algo"]), (&json!("hs"), &json!("ethash")));
    assert_eq!(
        (&got["bus_numbers"], &got["ar"][3]),
        (&json!([null]), &json!("0"))
    );
    let khs: f64 = got["khs"].as_str().unwrap_or_default().parse().expect("a number");
    let rate = got["hs"][0].as_f64().expect("a number");
    assert!(
        rate > 0.0 && khs.mul_add(1000.0, -rate).abs() < rate * 0.01,
        "{got}"
    );
    assert!(
        got["uptime"].is_u64() && got["temp"][0].is_u64() && got["fan"][0].is_u64(),
        "{got}"
    );
    let log = std::fs::read_to_string(package.join("log/miner.log")).expect("the log of HiveOS");
    assert!(log.contains("solution accepted"), "{log}");
}

#[test]
fn mmpos_runs_and_reads_the_miner() {
    if !has_tools() {
        return;
    }
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let package = unpack(folder.path(), true);
    let _running = Running(
        Command::new(package.join("mmp-launch.sh"))
            .args([
                "--coin",
                "ETHW",
                "--pool",
                &node.url(),
                "--user",
                "0x00.rig",
                "--password",
                "x",
            ])
            .args(["--api-port", &free_port().to_string()])
            .args(USER_OPTIONS.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the script runs"),
    );
    let stats = || {
        let run = Command::new(package.join("mmp-stats.sh"))
            .args(["1", "/dev/null"])
            .output();
        String::from_utf8(run.expect("bash runs").stdout).expect("text")
    };
    let accepted = |got: &Value| {
        got["air"][0]
            .as_str()
            .unwrap_or_default()
            .parse()
            .unwrap_or_default()
    };
    let got = figures("the figures of mmpOS", stats, accepted);
    assert_eq!((&got["busid"], &got["units"]), (&json!(["cpu"]), &json!("hs")));
    assert_eq!(got["air"][1], "0");
    assert!(got["hash"][0].as_f64().is_some_and(|rate| rate > 0.0), "{got}");
    assert_eq!(
        got["shares"]["accepted"][0].to_string(),
        got["air"][0].as_str().unwrap_or_default()
    );
    assert_eq!(
        (&got["miner_name"], got["miner_version"].is_string()),
        (&json!("vnode_miner"), true)
    );
}

#[test]
fn the_api_of_ethminer_answers_as_long_as_the_miner_runs() {
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let url = node.url();
    let miner = MinerProcess::start([
        "getwork",
        &url,
        "--api-bind",
        "127.0.0.1:0",
        "--api-password",
        "secret",
    ]);
    miner.wait_for_log("solution accepted");
    let log = miner.log();
    let (_, address) = log.split_once("API of ethminer at ").expect("its address");
    let address = address.split(',').next().expect("an address").to_owned();
    let stream = TcpStream::connect(address).expect("it listens");
    let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
    let mut call = |method: &str, params: Value| {
        let request = json!({"id": 1, "jsonrpc": "2.0", "method": method, "params": params});
        writeln!(&stream, "{request}").expect("it reads");
        let mut line = String::new();
        lines.read_line(&mut line).expect("it answers");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    assert_eq!(call("miner_getstat1", json!({}))["error"]["code"], -403);
    assert_eq!(call("api_authorize", json!({"psw": "secret"}))["result"], true);
    let stat = call("miner_getstat1", json!({}))["result"].clone();
    let accepted = stat[2]
        .as_str()
        .unwrap_or_default()
        .split(';')
        .nth(1)
        .map(str::to_owned);
    assert!(accepted.is_some_and(|accepted| accepted != "0"), "{stat}");
    assert!(url.ends_with(stat[7].as_str().expect("a host")), "{url}: {stat}");
    assert_eq!(
        call("miner_pausegpu", json!({"index": 0, "pause": true}))["result"],
        true
    );
    let detail = call("miner_getstatdetail", json!({}))["result"].clone();
    assert_eq!(detail["devices"][0]["mining"]["paused"], true, "{detail}");
    assert_eq!(call("miner_restart", json!({}))["result"], true);
    assert_eq!(call("miner_reboot", json!({}))["error"]["code"], -32601);
}
