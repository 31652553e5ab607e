//! The connection of an SCS to its VNODE over TLS, through the options of both programs.

use e2e::scs::Scs;
use e2e::tls::CertificateFiles;
use e2e::wait::wait_for;

use crate::application_chains::stage::{MAKES_BLOCKS, PROXY, vnode};

/// The name in the certificates.
const NAME: &str = "vnode.test";

#[test]
fn the_certificate_of_the_vnode_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let right = CertificateFiles::write(folder.path(), "right", NAME);
    let other = CertificateFiles::write(folder.path(), "other", NAME);
    let tls = [
        "--scs.tls.cert",
        right.certificate(),
        "--scs.tls.key",
        right.key(),
    ];
    let options = [&MAKES_BLOCKS[..], &tls].concat();
    let node = vnode(&folder.path().join("vnode"), "127.0.0.1:0", PROXY, &options);
    let endpoints = node.banner_values("endpoint");
    let service = endpoints.iter().find_map(|value| value.strip_prefix("grpcs://"));
    let service = service.expect("the banner has the service");
    let start = |name: &str, tls: &[&str]| {
        let folder = folder.path().join(name);
        Scs::configure(&folder, service, 100);
        Scs::start(&folder, tls)
    };
    let trusting = |files: &CertificateFiles, name: &str, tls_name: &str| {
        let options = [
            "--vnode.tls.ca",
            files.certificate(),
            "--vnode.tls.name",
            tls_name,
        ];
        start(name, &options)
    };

    let trusted = trusting(&right, "a", NAME);
    wait_for("heads of the base chain over TLS", || {
        let health = trusted.health();
        (health["syncing"] == false && health["head"].as_u64() > Some(0)).then_some(())
    });

    let wrong = [
        (
            trusting(&other, "b", NAME),
            vec!["invalid peer certificate", "other.pem"],
        ),
        (
            trusting(&right, "c", "else.test"),
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
    assert_eq!(trusted.health()["syncing"], false);
}
