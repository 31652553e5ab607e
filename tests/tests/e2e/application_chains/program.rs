//! The program `scs` without a VNODE: key, options, settings, JSON-RPC.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::Caller;
use e2e::process::EndSignal;
use e2e::scs::Scs;
use e2e::tls::CertificateFiles;
use e2e::wait::wait_for;
use serde_json::{Value, json};

/// A MicroChain that no SCS serves.
const UNKNOWN: &str = "0x71bef1a57901d4c73de7683edb830f0b9914311a";
const ACCOUNT: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

#[test]
fn the_id_stays_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Scs::start(folder.path(), &[]);
    let id = first.id().to_owned();
    assert_eq!(first.rpc("scs_getSCSId", json!([])), id.as_str());
    let keys = fs::read_dir(folder.path().join("scsdata/scskeystore")).expect("the folder of the key");
    let is_key = |name: String| name.starts_with("UTC--");
    let names = keys.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    assert_eq!(names.filter(|name| is_key(name.clone())).count(), 1);
    assert_eq!(scrypt_n(&folder.path().join("scsdata")), 4096, "--lightkdf");
    assert!(!folder.path().join("scskeystore").exists());
    assert!(
        first.log().contains("password of the public SCS"),
        "{}",
        first.log()
    );
    let ended = first.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    let second = Scs::start(folder.path(), &[]);
    assert_eq!(second.id(), id);
    drop(second);
    let wrong = Scs::run(folder.path(), &["--password", "another"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.stderr.contains("could not decrypt key"), "{}", wrong.stderr);
    // The same failures have the codes and the words of the node.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let refused = Scs::run(folder.path(), &["--rpc", "--rpcport", &port]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    let words = format!("address already in use: --rpcport {port}");
    assert!(refused.stderr.contains(&words), "{}", refused.stderr);
    fs::write(folder.path().join("bad.json"), "{").expect("a write");
    for wrong in [&["--userconfig", "bad.json"][..], &["--period", "0"]] {
        let refused = Scs::run(folder.path(), wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(wrong[1]), "{wrong:?}: {}", refused.stderr);
    }
    let own = folder.path().join("own");
    let refused = Scs::run(folder.path(), &["--rpc", "--rpcport", &port, "--datadir", "own"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert_eq!(scrypt_n(&own), 262_144, "without --lightkdf");
}

/// The cost of the only key file of an SCS with this data directory.
fn scrypt_n(data: &Path) -> u64 {
    let files = fs::read_dir(data.join("scskeystore")).expect("the folder of the key");
    let key = files
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains("UTC--"))
        .expect("a key file");
    let file: Value = serde_json::from_slice(&fs::read(key).expect("a file")).expect("JSON");
    file["crypto"]["kdfparams"]["n"].as_u64().expect("a number")
}

#[test]
fn two_servers_in_one_place_have_two_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("password");
    fs::write(&secret, "a word that nobody knows\n").expect("a write");
    let first = Scs::start(
        folder.path(),
        &["--datadir", "one", "--password-file", "password"],
    );
    assert!(
        !first.log().contains("password of the public SCS"),
        "{}",
        first.log()
    );
    let second = Scs::start(folder.path(), &["--datadir", "two"]);
    assert_ne!(first.id(), second.id());
    let third = Scs::run(
        folder.path(),
        &["--datadir", "one", "--password-file", "password"],
    );
    assert_eq!(third.status.code(), Some(1));
    assert!(
        third.stderr.contains("the key is used by another program"),
        "{}",
        third.stderr
    );
}

#[test]
fn bad_settings_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |settings: &str, arguments: &[&str], expected: &str| {
        fs::write(folder.path().join("userconfig.json"), settings).expect("a write");
        let ended = Scs::run(folder.path(), arguments);
        assert!(!ended.status.success(), "{settings} {arguments:?}");
        assert!(
            ended.stderr.contains(expected),
            "got {}, expected {expected}",
            ended.stderr
        );
    };
    check(
        "{\"BondLimit\": -1}",
        &[],
        "BondLimit: got -1, expected an amount in coins",
    );
    check("{", &[], "userconfig.json: line 1");
    check("{}", &["--userconfig", "none.json"], "cannot read none.json");
    check("{}", &["--period", "0"], "0 is not in 1..=3600");
    check("{}", &["--rpcapi", "scs,eth2"], "unknown API module");
    check(
        "{}",
        &["--vnode.tls.ca", "userconfig.json"],
        "--vnode.tls.ca userconfig.json: got no certificate, expected one",
    );
    check("{}", &["--vnode.tls.ca", "none.pem"], "--vnode.tls.ca none.pem: ");
    check(
        "{}",
        &["--rpc.tokens", "none.toml"],
        "--rpc.tokens: cannot read none.toml",
    );
}

#[test]
fn tokens_are_asked_for_over_tls_and_read_again() {
    const TOKEN: &str = "a-token-that-nobody-guesses";
    let folder = tempfile::tempdir().expect("a folder");
    let own = CertificateFiles::write(folder.path(), "own", "localhost");
    let tokens = folder.path().join("tokens.toml");
    let write = |module: &str| {
        let text = format!("[[token]]\nname = \"one\"\nsecret = \"{TOKEN}\"\nmodules = [\"{module}\"]\n");
        fs::write(&tokens, text).expect("a write");
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).expect("a change of the mode");
    };
    write("scs");
    let options = [
        "--rpc.tls.cert",
        own.certificate(),
        "--rpc.tls.key",
        own.key(),
        "--rpc.tokens",
        "tokens.toml",
    ];
    let scs = Scs::start(folder.path(), &options);
    let call = |token: Option<&str>, method: &str| {
        let header = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": []}).to_string();
        let (status, body) = own.post(scs.address(), &header, &body).expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        (status, answer)
    };
    assert_eq!(call(None, "scs_getSCSId").0, 401);
    assert_eq!(call(Some("another-token-of-this-test"), "scs_getSCSId").0, 401);
    let (status, answer) = call(Some(TOKEN), "scs_getSCSId");
    assert_eq!((status, &answer["result"]), (200, &json!(scs.id())));
    assert_eq!(call(Some(TOKEN), "net_listening").1["error"]["code"], -32601);
    let plain = Caller::new(scs.address()).try_rpc("scs_getSCSId", json!([]));
    assert!(plain.is_err(), "got {plain:?} over plain text");

    write("net");
    scs.hang_up();
    wait_for("the new tokens", || {
        scs.log()
            .contains("--rpc.tokens: the tokens were read again")
            .then_some(())
    });
    assert_eq!(call(Some(TOKEN), "net_listening").1["result"], true);
    assert_eq!(call(Some(TOKEN), "scs_getSCSId").1["error"]["code"], -32601);
    assert!(scs.end(EndSignal::Interrupt).status.success());
}

#[test]
fn an_unknown_key_is_named_in_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("userconfig.json"), r#"{"BondLimt": 3}"#).expect("a write");
    let scs = Scs::start(folder.path(), &[]);
    let log = scs.log();
    assert!(
        log.contains("unknown key ignored") && log.contains("BondLimt"),
        "{log}"
    );
}

#[test]
fn an_unknown_microchain_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let scs = Scs::start(folder.path(), &[]);
    for (method, params, expected) in [
        ("net_listening", json!([]), json!(true)),
        ("scs_listening", json!([]), json!(true)),
        ("scs_getMicroChainList", json!([]), json!([])),
        ("scs_getBlockNumber", json!([UNKNOWN]), json!("0x0")),
        ("scs_getNonce", json!([UNKNOWN, ACCOUNT]), json!(0)),
        ("scs_getBalance", json!([UNKNOWN, ACCOUNT]), json!("0x0")),
        ("scs_getDappState", json!([UNKNOWN]), json!(0)),
        ("scs_getDappList", json!([UNKNOWN]), json!([])),
        ("scs_getDappAddrList", json!([UNKNOWN]), json!([])),
        ("scs_getMicroChainInfo", json!([UNKNOWN]), json!(null)),
        ("scs_getBlock", json!([UNKNOWN, "0x1"]), json!(null)),
        ("scs_getBlock", json!([UNKNOWN, "latest"]), json!(null)),
        (
            "scs_getReceiptByHash",
            json!([UNKNOWN, format!("0x{}", "11".repeat(32))]),
            json!(null),
        ),
        ("scs_getReceiptByNonce", json!([UNKNOWN, ACCOUNT, 3]), json!(null)),
        (
            "scs_getTransactionByNonce",
            json!([UNKNOWN, ACCOUNT, "0x3"]),
            json!(null),
        ),
        (
            "scs_directCall",
            json!([{"to": UNKNOWN, "data": "0x01020304"}]),
            json!("0x"),
        ),
        (
            "scs_getTxpool",
            json!([UNKNOWN]),
            json!({"pending": {}, "queued": {}}),
        ),
        (
            "scs_getBlockList",
            json!([UNKNOWN, 1, "0x3"]),
            json!({"blockList": [], "startBlk": "0x1", "endBlk": "0x3", "microchainAddress": UNKNOWN}),
        ),
        (
            "scs_getExchangeInfo",
            json!([UNKNOWN, 0, 10, null, null]),
            json!({
                "DepositingRecordCount": 0, "DepositingRecords": null,
                "WithdrawingRecordCount": 0, "WithdrawingRecords": null,
                "microchain": UNKNOWN, "scsid": scs.id(),
            }),
        ),
    ] {
        assert_eq!(scs.rpc(method, params), expected, "{method}");
    }
    let pending = scs.refusal("scs_getBlock", json!([UNKNOWN, "pending"]));
    assert!(
        pending.contains("got pending, expected a block number, earliest or latest"),
        "{pending}"
    );
    let backwards = scs.refusal("scs_getBlockList", json!([UNKNOWN, 5, 4]));
    assert!(
        backwards.contains("got the end 4 before the start 5"),
        "{backwards}"
    );
    let module = scs.refusal("mc_blockNumber", json!([]));
    assert!(module.contains("does not exist"), "{module}");
    let described = scs.rpc("rpc.discover", json!([]));
    let methods = described["methods"].as_array().expect("methods");
    assert!(
        methods.iter().any(|method| method["name"] == "scs_getBlockList"),
        "{described}"
    );
    assert!(methods.iter().all(|method| method["name"] != "mc_call"));
}
