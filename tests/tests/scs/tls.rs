//! The connection of an SCS to its VNODE over TLS, through the options of both programs.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::scs::Scs;
use e2e::wait::wait_for;

use crate::stage::{PROXY, vnode};

/// The name in the certificates.
const NAME: &str = "vnode.test";

/// Writes a certificate that vouches for itself, and its key.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).expect("a certificate");
    let (certificate, key) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    fs::write(&certificate, made.cert.pem()).expect("a write");
    fs::write(&key, made.signing_key.serialize_pem()).expect("a write");
    (certificate, key)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have plain names")
}

#[test]
fn the_certificate_of_the_vnode_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate_file, key) = certificate(folder.path(), "right");
    let (other, _) = certificate(folder.path(), "other");
    let options = [
        "--mine",
        "--scs.tls.cert",
        text(&certificate_file),
        "--scs.tls.key",
        text(&key),
    ];
    let node = vnode(&folder.path().join("vnode"), "127.0.0.1:0", PROXY, &options);
    let endpoints = node.banner_values("endpoint");
    let service = endpoints.iter().find_map(|value| value.strip_prefix("grpcs://"));
    let service = service.expect("the banner has the service");
    let start = |name: &str, tls: &[&str]| {
        let folder = folder.path().join(name);
        Scs::configure(&folder, service, 100);
        Scs::start(&folder, tls)
    };
    let trusting = |file: &Path, name: &str, tls_name: &str| {
        start(
            name,
            &["--vnode.tls.ca", text(file), "--vnode.tls.name", tls_name],
        )
    };

    let right = trusting(&certificate_file, "a", NAME);
    wait_for("heads of the base chain over TLS", || {
        let health = right.health();
        (health["syncing"] == false && health["head"].as_u64() > Some(0)).then_some(())
    });

    let wrong = [
        (
            trusting(&other, "b", NAME),
            vec!["invalid peer certificate", "other.pem"],
        ),
        (
            trusting(&certificate_file, "c", "else.test"),
            vec!["invalid peer certificate", "expected one for else.test"],
        ),
        (start("d", &[]), vec!["over plain text"]),
    ];
    for (scs, expected) in &wrong {
        wait_for("the reason in the log", || {
            let log = scs.log();
            expected.iter().all(|part| log.contains(part)).then_some(())
        });
        assert_eq!(scs.health()["syncing"], true, "{}", scs.log());
        assert!(!scs.log().contains("INFO connected"), "{}", scs.log());
    }
    assert_eq!(right.health()["syncing"], false);
}
