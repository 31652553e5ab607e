//! The files of `packaging`: the parts of compose fit to each other and to the node, builds are
//! compared, and a client of hive starts.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::address::free_address;
use e2e::binary::{vnode_path, workspace};
use e2e::{Caller, Launch, note, wait_for};
use serde_json::{Value, json};

/// A YAML file of `packaging/compose`; `None` if no program here reads YAML.
fn yaml(name: &str) -> Option<Value> {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let file = folder().join(name);
    let output = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(&file)
        .output()
        .ok()?;
    if String::from_utf8_lossy(&output.stderr).contains("No module named 'yaml'") {
        return None;
    }
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn folder() -> PathBuf {
    workspace().join("packaging/compose")
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("text"))
}

#[test]
fn the_parts_of_the_compose_file_fit() {
    let Some(compose) = yaml("compose.yaml") else {
        note("the compose file is not read: python3 with yaml is missing");
        return;
    };
    let services = compose["services"].as_object().expect("services");
    for (name, service) in services {
        for volume in texts(&service["volumes"]) {
            let (source, _) = volume.split_once(':').expect("source and target");
            let exists = match source.starts_with('.') {
                true => folder().join(source).exists(),
                false => compose["volumes"].get(source).is_some(),
            };
            assert!(exists, "{name}: {volume}");
        }
    }
    let build = &services["node"]["build"];
    let context = folder().join(build["context"].as_str().expect("text"));
    assert!(context.join(build["dockerfile"].as_str().expect("text")).exists());

    // The node takes its options, on the default network and on another one.
    let command = services["node"]["command"].as_str().expect("text");
    let (network, options) = command.split_once('}').expect("a variable");
    let default = network
        .strip_prefix("${NETWORK:-")
        .expect("a variable with a default");
    let home = tempfile::tempdir().expect("a temporary folder");
    for network in [default, "--network classic --state recent"] {
        let arguments = format!("{network} {options} dumpconfig");
        let ended = Launch::bare(arguments.split_whitespace())
            .data(&home.path().join("data"))
            .run();
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(
            ended.stdout.contains("metrics = \"0.0.0.0:6060\""),
            "{}",
            ended.stdout
        );
    }
    // Prometheus reads the metrics, by a name that the node answers to, and Grafana reads
    // Prometheus.
    let prometheus = yaml("prometheus.yml").expect("as before");
    let targets = &prometheus["scrape_configs"][0]["static_configs"][0]["targets"];
    assert_eq!(texts(targets).collect::<Vec<_>>(), ["node:6060"]);
    assert!(options.contains("--rpcvhosts localhost,node"));
    let source = yaml("grafana/datasource.yaml").expect("as before");
    assert_eq!(source["datasources"][0]["url"], "http://prometheus:9090");
    let boards = yaml("grafana/dashboards.yaml").expect("as before");
    let path = boards["providers"][0]["options"]["path"].as_str().expect("text");
    let mut mounted = texts(&services["grafana"]["volumes"]);
    assert!(mounted.any(|volume| volume == format!("../grafana:{path}:ro")));
    assert!(Path::new(&folder()).join("../grafana/vnode.json").exists());
    check_with_engine();
}

/// Lets the container engine read the file, where there is one.
fn check_with_engine() {
    let compose = |arguments: &[&str]| {
        let mut command = Command::new("docker");
        command
            .arg("compose")
            .args(arguments)
            .current_dir(folder())
            .output()
    };
    match compose(&["version"]) {
        Ok(output) if output.status.success() => {
            let read = compose(&["config", "--quiet"]).expect("docker runs");
            assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        }
        _ => note("the compose file is not read by a container engine: `docker compose` is missing"),
    }
}

/// A compiler that writes the same bytes in each folder, or the name of the folder.
const COMPILER: &str = r#"#!/bin/sh
mkdir -p "$CARGO_TARGET_DIR/release"
for program in vnode vnode-tools miner scs; do
    printf '%s %s' "$program" "$SOURCE_DATE_EPOCH" >"$CARGO_TARGET_DIR/release/$program"
done
[ -z "$NAME_FOLDER" ] || pwd >"$CARGO_TARGET_DIR/release/miner"
"#;

/// `packaging/compare-builds` tells programs with the same bytes from others. The compiler is a
/// script, because two real builds take half an hour.
#[test]
fn builds_are_compared_byte_by_byte() {
    use std::os::unix::fs::PermissionsExt;
    if !workspace().join(".git").exists() {
        return note("skipped: the sources are not in a repository");
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let compiler = home.path().join("cargo");
    std::fs::write(&compiler, COMPILER).expect("a file");
    std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("its mode");
    let rest = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{rest}", home.path().display());
    let out = home.path().join("out");
    let compare = |name_folder: &str| {
        let mut script = Command::new(workspace().join("packaging/compare-builds"));
        script
            .arg(&out)
            .env("PATH", &path)
            .env("NAME_FOLDER", name_folder);
        script.output().expect("the script runs")
    };
    let equal = compare("");
    let errors = String::from_utf8_lossy(&equal.stderr);
    assert!(equal.status.success(), "{errors}");
    let sums = std::fs::read_to_string(out.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums.lines().count(), 4, "{sums}");
    assert_eq!(sums.as_bytes(), equal.stdout);
    assert!(out.join("programs/scs").is_file() && !out.join("first").exists());
    let different = compare("yes");
    let errors = String::from_utf8_lossy(&different.stderr);
    assert!(
        !different.status.success() && errors.contains("miner: got two programs"),
        "{errors}"
    );
    assert!(
        !out.join("SHA256SUMS").exists(),
        "no sums of programs that differ"
    );
}

/// A client of hive without its container. Killed when dropped.
struct HiveClient(std::process::Child);

impl Drop for HiveClient {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The scripts of `packaging/hive` do what hive's simulators rely on, without a container: rules
/// from variables, block 0 from a file, blocks that are invalid, the port, and the address for
/// peers.
#[test]
fn a_client_of_hive_starts_with_the_rules_of_its_variables() {
    if let Err(error) = Command::new("jq").arg("--version").output() {
        let required = std::env::var_os("REQUIRE_CLIENTS").is_some();
        assert!(!required, "jq: {error} (Debian: jq)");
        return note(&format!("skipped, jq: {error} (Debian: jq)"));
    }
    let home = tempfile::Builder::new()
        .prefix("vn")
        .tempdir()
        .expect("a temporary folder");
    let root = home.path();
    let genesis = json!({
        "difficulty": "0x20000", "gasLimit": "0x2fefd8", "nonce": "0x42", "timestamp": "0x0", "extraData": "0x",
        "alloc": {"70997970c51812dc3a010c7d01b50e0d17dc79c8": {"balance": "0x1000"}},
    });
    std::fs::write(root.join("genesis.json"), genesis.to_string()).expect("a file");
    // No block, and a folder of blocks with one that is none.
    std::fs::write(root.join("chain.rlp"), [0xc3, 1, 2, 3]).expect("a file");
    std::fs::create_dir(root.join("blocks")).expect("a folder");
    std::fs::write(root.join("blocks/0001.rlp"), b"text").expect("a file");
    let binaries = vnode_path().parent().expect("a folder").display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
    let script = |name: &str| {
        let mut script = Command::new(workspace().join("packaging/hive").join(name));
        script.env("PATH", &path).env("HIVE_ROOT", root).env("HOME", root);
        script
    };
    for (variable, value) in [
        ("HIVE_FORK_LONDON", "5"),
        ("HIVE_TERMINAL_TOTAL_DIFFICULTY", "0"),
        ("HIVE_CANCUN_TIMESTAMP", "15000"),
        ("HIVE_NODETYPE", "light"),
    ] {
        let refused = script("vnode.sh").env(variable, value).output();
        let refused = refused.expect("the script runs");
        let errors = String::from_utf8_lossy(&refused.stderr);
        let named = errors.starts_with(&format!("{variable}: got {value}, expected "));
        assert!(!refused.status.success() && named, "{errors}");
    }
    let address = free_address();
    let log = std::fs::File::create(root.join("log")).expect("a file");
    let client = script("vnode.sh")
        .envs([
            ("HIVE_CHAIN_ID", "7"),
            ("HIVE_NETWORK_ID", "8"),
            ("HIVE_PEER_PORT", "0"),
            ("HIVE_LISTEN", "127.0.0.1"),
        ])
        .envs([
            ("HIVE_FORK_HOMESTEAD", "0"),
            ("HIVE_FORK_TANGERINE", "0"),
            ("HIVE_FORK_SPURIOUS", "0"),
        ])
        .envs([
            ("HIVE_FORK_BYZANTIUM", "5"),
            ("HIVE_FORK_CONSTANTINOPLE", "7"),
            ("HIVE_FORK_PETERSBURG", "7"),
        ])
        .envs([
            ("HIVE_FORK_ISTANBUL", "7"),
            ("HIVE_FORK_LONDON", "2000"),
            ("HIVE_NODETYPE", "archive"),
        ])
        .env("HIVE_RPC_PORT", address.port().to_string())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("the script runs");
    let mut client = HiveClient(client);
    let caller = Caller::new(address);
    let chain_id = wait_for("the node", || {
        let ended = client.0.try_wait().expect("a child");
        let log = || std::fs::read_to_string(root.join("log")).unwrap_or_default();
        assert!(ended.is_none(), "{ended:?}: {}", log());
        caller.try_rpc("eth_chainId", json!([])).ok()
    });
    assert_eq!(chain_id, json!("0x7"));
    assert_eq!(caller.rpc("net_version", json!([])), json!("8"));
    assert_eq!(caller.head(), 0);
    let config = caller.rpc("eth_config", json!([]));
    let has = |rules: &str, contract: &str| config[rules]["precompiles"].get(contract).is_some();
    assert_eq!(config["next"]["activationBlock"], json!("0x5"));
    assert_eq!(config["last"]["activationBlock"], json!("0x7"));
    assert!(
        !has("current", "MODEXP")
            && has("next", "MODEXP")
            && !has("next", "BLAKE2F")
            && has("last", "BLAKE2F")
    );
    assert!(config["current"]["forkId"].is_string() && config["next"]["forkId"] != config["last"]["forkId"]);
    let enode = script("enode.sh").output().expect("the script runs");
    let enode = String::from_utf8_lossy(&enode.stdout).into_owned();
    assert!(enode.starts_with("enode://") && enode.contains('@'), "{enode}");
}
