//! Commands, exit codes and output that scripts rely on.

use std::time::Duration;

use e2e::{MinerProcess, Vnode};
use serde_json::{Value, json};

/// Arguments that select one CPU thread.
const ONE_THREAD: [&str; 4] = ["--device", "cpu", "--threads", "1"];
const HEADER: &str = "0x2a8de2adf89af77358250bf908bf04ba94a6e8c3ba87775564a41d269a05e4ce";

/// Runs `miner`. Returns exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let ended = MinerProcess::bare(arguments.iter().copied()).wait();
    (ended.status.code(), ended.stdout, ended.stderr)
}

#[track_caller]
fn check_failure(arguments: &[&str], expected: i32, word: &str) {
    let (code, _, stderr) = run(arguments);
    assert_eq!(code, Some(expected), "{arguments:?}: {stderr}");
    assert!(stderr.contains(word), "{arguments:?}: {stderr}");
}

#[test]
fn exit_codes_tell_what_was_wrong() {
    let (code, stdout, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    for command in ["getwork", "stratum", "devices", "bench", "verify"] {
        assert!(stdout.contains(command), "{command}");
    }
    for (arguments, expected, word) in [
        (&["getwork"][..], 2, "URL"),
        (&["dance"], 2, "dance"),
        (&["getwork", "ftp://x"], 2, "scheme"),
        (&["getwork", "stratum+tcp://x"], 2, "expected http"),
        (&["stratum", "http://x"], 2, "expected stratum"),
        (&["getwork", "http://x", "--dataset", "disk"], 2, "--dagdir"),
        (
            &["getwork", "http://x", "--tls-ca", "/nowhere/ca.pem"],
            1,
            "/nowhere/ca.pem",
        ),
        (&["getwork", "http://x", "--device", "gpu:4000"], 7, "4000"),
        (&["bench", "--device", "gpu:4000", "--light"], 7, "4000"),
    ] {
        check_failure(arguments, expected, word);
    }
    // Another program has the address.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let arguments = [
        &["getwork", "http://127.0.0.1:1", "--status", &address],
        &ONE_THREAD[..],
    ]
    .concat();
    check_failure(
        &arguments,
        1,
        &format!("address already in use: --status {address}"),
    );
    for unreachable in [
        &["getwork", "http://127.0.0.1:1"][..],
        &["stratum", "127.0.0.1:1", "-u", "a.b"],
    ] {
        let arguments = [unreachable, &["--max-wait", "0.3"], &ONE_THREAD].concat();
        check_failure(&arguments, 3, "no connection");
    }
}

#[test]
fn verify_prints_valid_or_the_reason() {
    let verify = |nonce: &str, mix: &str, target: &str| {
        let (code, stdout, stderr) = run(&["verify", HEADER, nonce, mix, target, "--epoch", "0", "--json"]);
        let verdict: Value =
            serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("got {stdout} {stderr}"));
        (code, verdict)
    };
    let (code, first) = verify("0", "-", "1");
    assert_eq!((code, &first["valid"]), (Some(0), &json!(true)));
    let mix = first["mix_hash"].as_str().expect("a hash").to_owned();
    let final_hash = first["final_hash"].as_str().expect("a hash").to_owned();
    assert_eq!(
        verify("0x0", &mix, &final_hash).0,
        Some(0),
        "a final hash equal to the boundary is valid"
    );
    let (code, missed) = verify("0", &mix, &format!("0x{}", "00".repeat(32)));
    assert_eq!(code, Some(5));
    assert!(
        missed["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("above the boundary")),
        "{missed}"
    );
    let (code, other) = verify("1", &mix, "1");
    assert_eq!(code, Some(5));
    assert!(
        other["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("mix hash: got")),
        "{other}"
    );

    let (code, _, stderr) = run(&["verify", HEADER, "0", "-", "1"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--epoch"), "{stderr}");
    let seed = format!("0x{}", "00".repeat(32));
    let (code, stdout, _) = run(&["verify", HEADER, "0", &mix, "1", "--seed", &seed]);
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("valid\n"), "{stdout}");
}

#[test]
fn bench_plots_what_it_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plot = folder.path().join("rates.svg");
    let plot = plot.to_str().expect("UTF-8");
    let bench = [&["bench", "--light"][..], &ONE_THREAD].concat();
    let arguments = [&bench[..], &["--seconds", "0.2", "--plot", plot]].concat();
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains('█') && stdout.contains("H/s"), "{stdout}");
    let svg = std::fs::read_to_string(plot).expect("the plot was written");
    assert!(svg.starts_with("<svg") && svg.contains("light cache"), "{svg}");
    let (code, stdout, stderr) = run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let figures: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("got {stdout}"));
    let [cpu] = figures.as_array().expect("an array").as_slice() else {
        panic!("got {figures}, expected one device");
    };
    assert_eq!(
        (&cpu["device"], &cpu["kind"], &cpu["epoch"]),
        (&json!("cpu"), &json!("cpu"), &json!(0))
    );
    assert_eq!(cpu["dataset_bytes"], 1_073_739_904_u64);
    assert!(
        cpu["light_hashrate"].as_f64().is_some_and(|rate| rate > 0.0),
        "{cpu}"
    );
    for absent in [
        "dataset_seconds",
        "hashrate",
        "copy_bytes_per_second",
        "random_read_bytes_per_second",
        "share_of_ceiling",
    ] {
        assert!(cpu.get(absent).is_some_and(Value::is_null), "{absent} of {cpu}");
    }
    let arguments = [&bench[..], &["--seconds", "0", "--plot", "/nowhere/x.svg"]].concat();
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!(code, Some(1));
    assert!(
        stdout.is_empty(),
        "nothing is measured if the plot cannot be written: {stdout}"
    );
    assert!(stderr.contains("cannot write /nowhere/x.svg"), "{stderr}");

    // A graphics card needs the dataset, so without it there is nothing to measure.
    let (code, stdout, stderr) = run(&["bench", "--device", "gpu:0", "--light"]);
    assert_eq!(code, Some(7), "{stdout}{stderr}");
    assert!(
        stdout.contains("not measured") || stderr.contains("error: "),
        "{stdout}{stderr}"
    );
}

#[test]
fn the_thorough_benchmark_mines_for_a_node() {
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mine = |out: &str, node: [&str; 2], minutes: f64| -> Value {
        let out = folder.path().join(out);
        let path = out.to_str().expect("UTF-8");
        let start = [
            "bench",
            "--thorough",
            "--scale",
            "small",
            "--threads",
            "1",
            "--out",
            path,
        ];
        let minutes = minutes.to_string();
        let more = ["--only", "steady", "--steady", &minutes];
        let (code, stdout, stderr) = run(&[&start[..], &more[..], &node[..]].concat());
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        let lines = std::fs::read_to_string(out.join("figures.jsonl")).expect("the figures");
        let record = lines.lines().last().expect("a line");
        serde_json::from_str(record).unwrap_or_else(|_| panic!("got {record}"))
    };
    // On a busy machine a short run may find nothing, so a longer one follows.
    let mine_until_accepted = |name: &str, node: [&str; 2]| -> Value {
        let runs = [0.15, 0.6, 2.4].into_iter();
        let mut runs = runs.map(|minutes| mine(&format!("{name}-{minutes}"), node, minutes));
        let found = runs.find(|steady| steady["accepted"].as_u64() > Some(0));
        found.unwrap_or_else(|| panic!("{name}: no share was accepted"))
    };
    let steady = mine_until_accepted("running", ["--node", &node.url()]);
    assert!(steady["value"].as_f64() > Some(0.0), "{steady}");
    assert_eq!(
        (&steady["invalid"], &steady["rejected"]),
        (&json!(0), &json!(0)),
        "{steady}"
    );
    // A node whose program is started has a new chain, and is gone afterwards.
    let program = e2e::binary::vnode_path();
    mine_until_accepted("started", ["--vnode", program.to_str().expect("UTF-8")]);
    let failed = mine("absent", ["--node", "http://127.0.0.1:1"], 0.15);
    assert!(
        failed["error"]
            .as_str()
            .is_some_and(|reason| reason.contains("no connection")),
        "{failed}"
    );
}

#[test]
fn a_miner_without_a_node_waits_for_one() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let miner = MinerProcess::start(["getwork", &format!("http://{address}"), "--retry-max", "0.5"]);
    miner.wait_for_log("tried again in");
    std::thread::sleep(Duration::from_millis(300));
    let status = miner.status();
    assert_eq!(
        (&status["endpoint"], &status["job"]),
        (&Value::Null, &Value::Null)
    );
    assert!(status["endpoints"][0]["last_error"].is_string(), "{status}");
    assert_eq!(status["hashes"], 0);
    let health = e2e::http::get(miner.status_address(), "/health").expect("served");
    assert_eq!(health.status, 503);
}
