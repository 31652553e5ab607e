//! The file of `packaging/compose`: its parts fit to each other and to the node.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::binary::workspace;
use e2e::{Launch, note};
use serde_json::Value;

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
