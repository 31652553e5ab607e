//! The commands that make parts of a package, run as programs.

use std::process::Command;

use node::{PERIOD_SECS_MAX, SHELLS, TABLES};

fn tools(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vnode-tools"))
        .args(arguments)
        .output()
        .expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn each_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("man");
    tools(&["manual", path.to_str().expect("a plain path")]);
    for name in ["vnode.1", "scs.1", "vnode-import.1", "vnode-db-check.1"] {
        let page = std::fs::read_to_string(path.join(name)).expect(name);
        assert!(page.contains(".SH"), "{name}");
    }
    let page = std::fs::read_to_string(path.join("vnode.1")).expect("read");
    assert!(page.contains("rpcport"));
}

#[test]
fn each_shell_has_completions() {
    for shell in SHELLS {
        let script = tools(&["completions", shell]);
        assert!(script.contains("rpcport") && script.contains("import"), "{shell}");
    }
    assert!(tools(&["completions", "bash", "scs"]).contains("userconfig"));
}

/// `vnode` names these values without the packages that use them.
#[test]
fn the_options_of_vnode_agree_with_the_tools() {
    assert_eq!(etl::EtlTable::ALL.map(etl::EtlTable::name), TABLES);
    assert_eq!(scs_node::PERIOD_SECS_MAX, PERIOD_SECS_MAX);
}

#[test]
fn other_commands_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_vnode-tools"))
        .arg("version")
        .output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("vnode itself"));
}
