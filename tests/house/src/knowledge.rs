//! `ARCHITECTURE.md` says what each package does not know. These tests compare that with the
//! manifests and the code.

use std::fs;

use crate::sources::{code_only, expect_none, packages, root, rust_files};

/// A package, its folder, and the packages and modules that it must not name.
struct Knowledge {
    package: &'static str,
    folder: &'static str,
    /// Crates that are not dependencies, and whose names are not in production code.
    without: &'static [&'static str],
    /// Paths that are not in production code.
    unnamed: &'static [&'static str],
}

const SOCKETS: [&str; 5] = ["tokio", "hyper", "warp", "std::net", "std::os::unix::net"];

const PACKAGES: [Knowledge; 18] = [
    Knowledge {
        package: "history",
        folder: "node/history",
        without: &["tokio", "hyper", "serde_json", "clap", "rpc"],
        unnamed: &["std::net"],
    },
    Knowledge {
        package: "etl",
        folder: "node/etl",
        without: &["tokio", "hyper", "serde_json", "clap", "rpc"],
        unnamed: &["std::net", "StopSignal"],
    },
    Knowledge {
        package: "testvec",
        folder: "node/testvec",
        without: &["tokio", "hyper", "redb", "revm", "rpc", "network"],
        unnamed: &["std::net"],
    },
    Knowledge {
        package: "ethash",
        folder: "miner/ethash",
        without: &["tracing", "chain", "primitives", "store", "serde_json", "tokio"],
        unnamed: &["std::fs", "std::net"],
    },
    Knowledge {
        package: "stratum",
        folder: "miner/stratum",
        without: &["tokio", "hyper", "ethash_cpu", "chain", "wgpu"],
        unnamed: &["std::net", "std::fs", "Instant::now", "SystemTime::now"],
    },
    Knowledge {
        package: "engine",
        folder: "miner/engine",
        without: &[
            "chain",
            "store",
            "primitives",
            "rpc",
            "redb",
            "revm",
            "stratum",
            "clap",
            "psl",
        ],
        unnamed: &[],
    },
    Knowledge {
        package: "miner",
        folder: "miner",
        without: &["chain", "store", "primitives", "rpc", "redb", "revm"],
        unnamed: &[],
    },
    Knowledge {
        package: "primitives",
        folder: "node/primitives",
        without: &["serde_json", "redb", "store", "chain", "revm", "tokio"],
        unnamed: &["std::fs", "std::net"],
    },
    Knowledge {
        package: "store",
        folder: "node/store",
        without: &["serde_json", "revm", "chain", "ethash", "tokio"],
        unnamed: &["std::net"],
    },
    Knowledge {
        package: "keystore",
        folder: "node/keystore",
        without: &["chain", "store", "revm", "redb", "tokio"],
        unnamed: &["std::net"],
    },
    Knowledge {
        package: "chain",
        folder: "node/chain",
        without: &["redb", "wgpu", "miner", "rpc", "tokio", "hyper", "warp"],
        unnamed: &["std::net"],
    },
    Knowledge {
        package: "network",
        folder: "node/network",
        without: &["redb", "revm", "rpc", "miner", "clap", "hyper", "warp"],
        unnamed: &[],
    },
    Knowledge {
        package: "microchain",
        folder: "node/microchain",
        without: &[
            "redb",
            "revm",
            "rpc",
            "scs_service",
            "serde_json",
            "tokio",
            "tonic",
            "hyper",
        ],
        unnamed: &["std::net", "std::thread", "SystemTime", "Instant"],
    },
    Knowledge {
        package: "stratum_server",
        folder: "node/stratum_server",
        without: &["rpc", "miner", "store", "redb", "revm", "clap", "network"],
        unnamed: &["std::fs"],
    },
    Knowledge {
        package: "scs_service",
        folder: "node/scs_service",
        without: &["chain", "store", "rpc", "redb", "revm", "keystore", "clap"],
        unnamed: &[],
    },
    Knowledge {
        package: "scs_node",
        folder: "node/scs_node",
        without: &[
            "clap", "redb", "revm", "store", "miner", "hyper", "warp", "keystore",
        ],
        unnamed: &["tokio::net", "std::net"],
    },
    Knowledge {
        package: "daemon",
        folder: "node/daemon",
        without: &["warp", "chain", "store", "ethash", "miner", "rpc", "clap"],
        unnamed: &["exit("],
    },
    Knowledge {
        package: "rpc",
        folder: "rpc",
        without: &["redb", "store", "wgpu", "miner", "clap", "revm"],
        unnamed: &[],
    },
];

/// The names below `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

#[test]
fn packages_do_not_know_what_the_map_says() {
    let mut faults = Vec::new();
    for known in &PACKAGES {
        let path = root().join(known.folder).join("Cargo.toml");
        let manifest =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let dependencies = dependencies(&manifest);
        assert!(
            !dependencies.is_empty(),
            "{}: no dependencies were read",
            known.package
        );
        for name in known.without {
            if dependencies.contains(name) {
                faults.push(format!("{} depends on {name}", known.package));
            }
        }
        for file in rust_files(&format!("{}/src", known.folder)) {
            let code = code_only(&file.text);
            for path in known.unnamed {
                if code.contains(path) {
                    faults.push(format!("{} names {path}", file.path));
                }
            }
        }
    }
    expect_none(
        &faults,
        "ARCHITECTURE.md says that these packages do not know these things",
    );
}

#[test]
fn chain_knows_json_for_its_genesis_alone() {
    let faults: Vec<_> = rust_files("node/chain/src")
        .iter()
        .filter(|file| !file.path.starts_with("node/chain/src/genesis/"))
        .filter(|file| code_only(&file.text).contains("serde_json"))
        .map(|file| format!("{} names serde_json", file.path))
        .collect();
    expect_none(
        &faults,
        "in the package chain only `genesis` reads and writes JSON",
    );
}

#[test]
fn only_servers_and_access_know_sockets() {
    let mut faults = Vec::new();
    for file in rust_files("rpc/src") {
        if ["rpc/src/server", "rpc/src/access"]
            .iter()
            .any(|known| file.path.starts_with(known))
        {
            continue;
        }
        let code = code_only(&file.text);
        for name in SOCKETS.iter().filter(|name| **name != "tokio") {
            if code.contains(&format!("{name}::")) {
                faults.push(format!("{} names {name}", file.path));
            }
        }
    }
    expect_none(
        &faults,
        "sockets and HTTP are known in rpc/src/server and rpc/src/access alone",
    );
}

#[test]
fn the_accounts_of_clients_know_no_sockets() {
    const SHELLS: [&str; 6] = ["accept.rs", "screen/", "status/", "stop.rs", "stream.rs", "tls/"];
    let mut faults = Vec::new();
    for file in rust_files("node/daemon/src") {
        let inside = &file.path["node/daemon/src/".len()..];
        if SHELLS.iter().any(|shell| inside.starts_with(shell)) {
            continue;
        }
        let code = code_only(&file.text);
        for name in ["tokio::net", "TcpStream", "std::fs", "hyper::body"] {
            if code.contains(name) {
                faults.push(format!("{} names {name}", file.path));
            }
        }
    }
    expect_none(&faults, "a server says who connects and what its connections do");
}

#[test]
fn the_logic_of_network_knows_neither_sockets_nor_clocks() {
    const SHELLS: [&str; 8] = [
        "node/network/src/moment.rs",
        "node/network/src/sockets.rs",
        "node/network/src/discovery/socket.rs",
        "node/network/src/nat/",
        "node/network/src/rlpx/connection.rs",
        "node/network/src/service/",
        "node/network/src/sync/driver.rs",
        "node/network/src/sync/state_fetch/thread.rs",
    ];
    let mut faults = Vec::new();
    for file in rust_files("node/network/src") {
        if SHELLS.iter().any(|shell| file.path.starts_with(shell)) || file.path.ends_with("/tests.rs") {
            continue;
        }
        let code = code_only(&file.text);
        for name in [
            "tokio::",
            "UdpSocket",
            "TcpStream",
            "Instant::now",
            "SystemTime",
            "SystemClock::start",
        ] {
            if code.contains(name) {
                faults.push(format!("{} names {name}", file.path));
            }
        }
    }
    expect_none(
        &faults,
        "a simulation runs the logic of `network` with its own clock and its own network",
    );
}

#[test]
fn the_map_names_every_package() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map is there");
    let mut missing: Vec<_> = PACKAGES
        .iter()
        .filter(|known| !map.contains(&format!("| `{}` |", known.package)))
        .map(|known| {
            format!(
                "{} has no row in the table of what packages do not know",
                known.package
            )
        })
        .collect();
    for package in packages() {
        let path = root().join(&package).join("Cargo.toml");
        let manifest =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap_or_default().trim_matches('"');
        if !map.contains(&format!("package `{name}`")) {
            missing.push(format!("{name} is not in the map"));
        }
    }
    expect_none(&missing, "ARCHITECTURE.md lists each package");
}
