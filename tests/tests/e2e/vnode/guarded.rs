//! Servers that are guarded: TLS, tokens and rates, files that are read again, secrets from the
//! environment.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::clients::javascript;
use e2e::ipc;
use e2e::stratum::RawConnection;
use e2e::tls::CertificateFiles;
use e2e::{Launch, MinerProcess, Vnode, vnode_path, wait_for};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-that-nobody-guesses";
const OTHER_TOKEN: &str = "another-token-of-this-test";

/// Writes a file that only its owner can read.
fn write_secret(path: &Path, text: &str) {
    fs::write(path, text).expect("a write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a change of the mode");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have plain names")
}

/// The first endpoint of the banner with this scheme.
#[track_caller]
fn endpoint(node: &Vnode, scheme: &str) -> SocketAddr {
    let endpoints = node.banner_values("endpoint");
    let mut found = endpoints.iter().filter_map(|value| value.strip_prefix(scheme));
    let found = found
        .next()
        .unwrap_or_else(|| panic!("no {scheme} in {endpoints:?}"));
    found.parse().expect("an address")
}

/// A node whose servers are guarded, with its files.
struct Guarded {
    node: Vnode,
    own: CertificateFiles,
    tokens: PathBuf,
    folder: tempfile::TempDir,
}

impl Guarded {
    /// Starts a node with HTTP, WebSockets and Stratum over TLS, and with these tokens.
    fn start(tokens: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let own = CertificateFiles::write(folder.path(), "own", "localhost");
        let path = folder.path().join("tokens.toml");
        write_secret(&path, tokens);
        let options = [
            "--ws",
            "--wsport",
            "0",
            "--stratum",
            "--stratumport",
            "0",
            "--rpc.tls.cert",
            own.certificate(),
            "--stratum.tls.cert",
            own.certificate(),
            "--stratum.tls.key",
            own.key(),
        ];
        let node = Launch::dev(options.into_iter().chain(arguments.iter().copied()))
            .environment("VNODE_RPC_TOKENS", text(&path))
            .environment("VNODE_RPC_TLS_KEY", own.key())
            .start();
        Self {
            node,
            own,
            tokens: path,
            folder,
        }
    }

    /// Calls a method over HTTP as a client that trusts the certificate in `files`.
    fn call(&self, files: &CertificateFiles, token: Option<&str>, method: &str) -> (u16, Value) {
        let header = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": []}).to_string();
        let address = endpoint(&self.node, "https://");
        let (status, body) = files
            .post(address, &header.unwrap_or_default(), &body)
            .expect("an answer");
        (
            status,
            serde_json::from_str(&body).unwrap_or_else(|_| json!(body)),
        )
    }

    /// Lets the node read its files again, and waits for this text in the log for another time.
    fn reload(&self, expected: &str) {
        let count = || self.node.log().matches(expected).count();
        let before = count();
        self.node.hang_up();
        wait_for(expected, || (count() > before).then_some(()));
    }
}

fn one_token() -> String {
    format!("[[token]]\nname = \"one\"\nsecret = \"{TOKEN}\"\nmodules = [\"mc\"]\n")
}

#[test]
fn tokens_are_asked_for_over_tls_and_read_again() {
    let guarded = Guarded::start(&one_token(), &["--verbosity", "4"]);
    let call = |token, method| guarded.call(&guarded.own, token, method);
    assert_eq!(call(None, "mc_chainId").0, 401);
    assert_eq!(call(Some(OTHER_TOKEN), "mc_chainId").0, 401);
    assert_eq!(
        call(Some(TOKEN), "mc_chainId"),
        (200, json!({"jsonrpc": "2.0", "id": 1, "result": "0x64"}))
    );
    assert_eq!(call(Some(TOKEN), "net_version").1["error"]["code"], -32601);
    // The local socket needs no token.
    let local = ipc::rpc(&guarded.node.socket(), "net_version", json!([]));
    assert_eq!(local, json!("100"));

    let more = format!(
        "{}[[token]]\nname = \"two\"\nsecret = \"{OTHER_TOKEN}\"\nmodules = [\"net\"]\n[anonymous]\nmodules = [\"net\"]\nrate = 1\n",
        one_token()
    );
    write_secret(&guarded.tokens, &more);
    guarded.reload("the tokens were read again");
    assert_eq!(call(Some(OTHER_TOKEN), "net_version").1["result"], "100");
    assert_eq!(call(Some(TOKEN), "mc_chainId").0, 200);
    let statuses: Vec<_> = (0..8).map(|_| call(None, "net_version").0).collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");

    write_secret(&guarded.tokens, &more.replace("modules", "module"));
    guarded.reload("the tokens stay as they were");
    assert_eq!(call(Some(OTHER_TOKEN), "net_version").1["result"], "100");
    let log = guarded.node.log();
    assert!(log.contains("unknown field `module`"), "{log}");
    for secret in [TOKEN, OTHER_TOKEN] {
        assert!(
            !log.contains(secret) && !guarded.node.banner().contains(secret),
            "{log}"
        );
    }
}

#[test]
fn certificates_are_read_again() {
    let guarded = Guarded::start(&one_token(), &[]);
    let other = CertificateFiles::write(guarded.folder.path(), "other", "localhost");
    let first = CertificateFiles::write(guarded.folder.path(), "first", "localhost");
    first.replace_with(&guarded.own);
    let address = endpoint(&guarded.node, "https://");
    assert!(first.connect(address).is_ok() && other.connect(address).is_err());

    fs::write(&guarded.own.certificate, "broken").expect("a write");
    guarded.reload("--stratum.tls: the certificate stays as it was");
    assert_eq!(guarded.call(&first, Some(TOKEN), "mc_chainId").0, 200);

    guarded.own.replace_with(&other);
    guarded.reload("--stratum.tls: the certificate was read again");
    assert_eq!(guarded.call(&other, Some(TOKEN), "mc_chainId").0, 200);
    for scheme in ["https://", "wss://", "stratum+ssl://"] {
        let address = endpoint(&guarded.node, scheme);
        assert!(other.connect(address).is_ok(), "{scheme}");
        assert!(first.connect(address).is_err(), "{scheme}");
    }
}

#[test]
fn miners_work_over_tls() {
    let guarded = Guarded::start(&one_token(), &["--mine", "--minerthreads", "0"]);
    let stratum = endpoint(&guarded.node, "stratum+ssl://").port();
    let url = format!("stratum2+ssl://w.r:x@localhost:{stratum}");
    let socket = guarded.node.socket();
    let wait_for_blocks = |miner: &MinerProcess| {
        miner.wait_for_status("two shares", |status| status["accepted"].as_u64() >= Some(2));
        let head = e2e::quantity(&ipc::rpc(&socket, "mc_blockNumber", json!([])));
        assert!(head >= 1, "{head}");
    };
    let ca = guarded.own.certificate();
    let miner = MinerProcess::start(["stratum", &url, "--tls-ca", ca]);
    wait_for_blocks(&miner);
    drop(miner);
    let http = endpoint(&guarded.node, "https://").port();
    let url = format!("https://one:{TOKEN}@localhost:{http}");
    let miner = MinerProcess::start(["getwork", &url, "--tls-ca", ca]);
    wait_for_blocks(&miner);
    drop(miner);
    let url = format!("stratum2+tcp://w.r:x@localhost:{stratum}");
    let plain = MinerProcess::start(["stratum", &url, "--max-wait", "0.2"]).wait();
    assert_eq!(plain.status.code(), Some(3), "{}", plain.stderr);
}

#[test]
fn ethers_uses_a_token_over_https_and_wss() {
    let Some(clients) = javascript() else { return };
    let guarded = Guarded::start(&one_token(), &["--mine", "--wsapi", "mc,net"]);
    let port = |scheme| endpoint(&guarded.node, scheme).port();
    let ca = fs::read_to_string(&guarded.own.certificate).expect("readable");
    let result = clients.run(
        "guarded.mjs",
        &json!({
            "http": format!("https://localhost:{}", port("https://")),
            "ws": format!("wss://localhost:{}", port("wss://")),
            "ca": ca,
            "token": TOKEN,
        }),
    );
    assert_eq!(
        result,
        json!({"chainId": "0x64", "refused": 401, "refusedWs": 401, "heard": true})
    );
}

#[test]
fn the_own_client_has_a_token_and_trusts_a_file() {
    let guarded = Guarded::start(&one_token(), &[]);
    let call = |url: &str, token: Option<&str>, trusts: bool| {
        let mut command = Command::new(vnode_path());
        command.args(["rpc", "--endpoint", url]);
        if trusts {
            command.args(["--tls.ca", guarded.own.certificate()]);
        }
        if let Some(token) = token {
            command.env("VNODE_TOKEN", token);
        }
        let output = command.arg("mc_chainId").output().expect("the program runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("text"))
    };
    for scheme in ["https://", "wss://"] {
        let url = format!("{scheme}localhost:{}", endpoint(&guarded.node, scheme).port());
        let (code, out) = call(&url, Some(TOKEN), true);
        assert_eq!((code, out.as_str()), (Some(0), "\"0x64\"\n"), "{url}");
        for (token, trusts, expected_code, expected) in [
            (None, true, 3, "401"),
            (Some(OTHER_TOKEN), true, 3, "401"),
            (Some(TOKEN), false, 3, "TLS handshake failed"),
            (Some("two\nlines"), true, 2, "--token: got characters"),
        ] {
            let (code, out) = call(&url, token, trusts);
            assert_eq!(code, Some(expected_code), "{url}: {out}");
            assert!(out.contains(expected), "{url}: got {out}, expected {expected}");
            assert!(!out.contains(TOKEN) && !out.contains(OTHER_TOKEN), "{out}");
        }
    }
}

#[test]
fn files_that_cannot_be_used_end_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = CertificateFiles::write(folder.path(), "one", "localhost");
    let two = CertificateFiles::write(folder.path(), "two", "localhost");
    let tokens = folder.path().join("tokens.toml");
    write_secret(&tokens, &one_token().replace("mc", "nonsense"));
    let check = |arguments: &[&str], expected: &[&str]| {
        let ended = Launch::dev(arguments.iter().copied()).run();
        assert!(
            !ended.status.success() && ended.stdout.is_empty(),
            "{}",
            ended.stdout
        );
        for part in expected {
            assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
        }
    };
    let (certificate, key) = (one.certificate(), one.key());
    check(
        &["--rpc.tls.cert", key, "--rpc.tls.key", key],
        &[
            "--rpc.tls",
            "one.key: got PRIVATE KEY, expected at least one certificate",
        ],
    );
    check(
        &["--rpc.tls.cert", certificate, "--rpc.tls.key", two.key()],
        &["two.key: got a key that does not belong", "one.pem"],
    );
    check(
        &["--stratum.tls.cert", certificate, "--stratum.tls.key", "/nothing"],
        &["--stratum.tls: cannot read /nothing"],
    );
    check(&["--rpc.tls.cert", certificate], &["--rpc.tls.key"]);
    check(
        &["--rpc.tokens", text(&tokens)],
        &["tokens.toml: one: modules: got nonsense"],
    );
}

#[test]
fn a_wrong_stratum_password_is_answered_after_a_pause() {
    let password = ["--stratum.password", "long enough", "--stratum.bantime", "0"];
    let arguments = ["--dev", "--stratum", "--stratumport", "0"];
    let node = Launch::bare(arguments.into_iter().chain(password)).start();
    let warning = "with --stratum.bantime 0 guesses are not slowed down";
    wait_for("a warning", || node.log().contains(warning).then_some(()));
    let login = |password: &str| {
        json!({"id": 1, "method": "eth_submitLogin", "params": ["a.b", password]}).to_string()
    };
    // Seven bad messages first, so that the wrong password is the last error of the connection.
    for bad_messages in [0, 7] {
        let mut connection = RawConnection::connect(node.stratum());
        assert!(connection.send("{}\n".repeat(bad_messages).as_bytes()));
        let begun = Instant::now();
        assert!(connection.send(format!("{}\n", login("wrong")).as_bytes()));
        let mut answers = std::iter::from_fn(|| connection.receive());
        let refused = answers.find(|answer| answer["error"]["message"] == "Invalid login");
        assert!(refused.is_some(), "after {bad_messages} bad messages");
        let elapsed = begun.elapsed();
        assert!(
            elapsed >= Duration::from_millis(500),
            "answered after {elapsed:?}"
        );
    }
    let mut connection = RawConnection::connect(node.stratum());
    let lines = format!("{}\n{}\n", login("wrong"), login("long enough"));
    assert!(connection.send(lines.as_bytes()));
    let results = [connection.receive(), connection.receive()].map(|answer| answer.expect("an answer"));
    assert_eq!(
        results[0]["error"]["message"], "Invalid login",
        "answers keep their order"
    );
    assert_eq!(
        results[1]["result"], true,
        "the next login is judged: {results:?}"
    );
}

#[test]
fn guesses_of_the_stratum_password_are_slowed_down() {
    let password = "long enough";
    let arguments = [
        "--dev",
        "--stratum",
        "--stratumport",
        "0",
        "--stratum.password",
        password,
    ];
    let node = Launch::bare(arguments).start();
    let warning = "got 11 characters, expected at least 12";
    wait_for("a warning", || node.log().contains(warning).then_some(()));
    let log_in = |password: &str| {
        let mut connection = RawConnection::connect(node.stratum());
        connection.call(&json!({"id": 1, "method": "eth_submitLogin", "params": ["a.b", password]}))
    };
    for attempt in 0..10 {
        let refused = log_in(["an old password", "an older one"][attempt % 2]);
        assert_eq!(
            refused["error"]["message"], "Invalid login",
            "it is not counted again: {refused}"
        );
    }
    let begun = Instant::now();
    let answers: Vec<_> = (0..200).map(|guess| log_in(&format!("guess {guess}"))).collect();
    let judged = answers
        .iter()
        .filter(|answer| answer["error"]["message"] == "Invalid login")
        .count();
    // Two were counted before. Six more are free, and then there is one a second, and less.
    let bound = 6 + begun.elapsed().as_secs() as usize;
    assert!(judged <= bound, "{judged} guesses in {:?}", begun.elapsed());
    wait_for("a login", || {
        let answer = log_in(password);
        (answer["result"] == true).then_some(())
    });
    assert_eq!(
        log_in("guess 1000")["error"]["message"],
        "Invalid login",
        "the count has begun anew"
    );
}

#[test]
fn secrets_come_from_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("vnode.toml");
    fs::write(&config, "\"stratum.password\" = \"from the file\"\n").expect("a write");
    let hex = "46".repeat(32);
    let launch = |arguments: &[&str]| {
        Launch::bare(arguments.iter().copied())
            .environment("VNODE_STRATUM_PASSWORD", "from-the-environment")
            .environment("VNODE_NODEKEYHEX", &hex)
    };
    for arguments in [&["dumpconfig"][..], &["--help"]] {
        let ended = launch(arguments).run();
        assert!(ended.status.success(), "{}", ended.stderr);
        for secret in ["from-the-environment", &hex] {
            assert!(!ended.stdout.contains(secret), "{}", ended.stdout);
        }
    }
    let arguments = [
        "--dev",
        "--stratum",
        "--stratumport",
        "0",
        "--config",
        text(&config),
    ];
    let node = launch(&arguments).start();
    let log_in = |password: &str| {
        let url = format!("stratum+tcp://a.b:{password}@{}", node.stratum());
        MinerProcess::start(["stratum", &url, "--max-wait", "0.2"])
    };
    let ended = log_in("wrong").wait();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let miner = log_in("from-the-environment");
    miner.wait_for_status("a share", |status| status["accepted"].as_u64() >= Some(1));
    assert!(!node.log().contains("from-the-environment"));
}
