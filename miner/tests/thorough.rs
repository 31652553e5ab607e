//! `miner bench --thorough` as a process, on the adapters of this machine, with small datasets.
//!
//! The figures of a software adapter say nothing about cards. The command, the comparisons with the
//! CPU, the file and the report are the same on every machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use engine::gpu::{AdapterInfo, KernelForm, list_adapters};
use serde_json::Value;

/// The command with short measurements into `folder`.
fn command(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_miner"));
    command
        .args(["bench", "--thorough", "--scale", "small", "--seconds", "0.02"])
        .args(["--threads", "2", "--out"])
        .arg(folder)
        .args(more);
    command
}

fn run(folder: &Path, more: &[&str]) -> Output {
    command(folder, more).output().expect("the miner runs")
}

/// Runs the command, which must succeed. Returns its standard output.
#[track_caller]
fn run_well(folder: &Path, more: &[&str]) -> String {
    let output = run(folder, more);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// All records of a folder.
fn records(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("figures.jsonl")).unwrap_or_default();
    // The last line may be unfinished while the command runs.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(parse).collect()
}

/// The keys of the figures of a folder, in the order of the file.
fn keys(folder: &Path) -> Vec<String> {
    let key = |record: &Value| record["key"].as_str().map(str::to_owned);
    records(folder).iter().filter_map(key).collect()
}

/// The adapters that the command measures: all hardware adapters, or all software adapters.
fn measured() -> Vec<AdapterInfo> {
    let (software, hardware): (Vec<_>, Vec<_>) =
        list_adapters().into_iter().partition(|adapter| adapter.software);
    let measured = if hardware.is_empty() { software } else { hardware };
    if measured.is_empty() {
        assert!(
            std::env::var_os("REQUIRE_GPU").is_none(),
            "REQUIRE_GPU is set, but there is no adapter"
        );
        eprintln!("only the processor is measured: there is no adapter");
    }
    measured
}

#[test]
fn everything_is_measured_and_a_second_run_adds_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let text = run_well(&out, &["--peer", "other=12.5", "--published", "best=90"]);
    assert!(text.starts_with("complete"), "{text}");
    let figures = records(&out);
    for record in &figures {
        assert!(
            record["wrong"] != true,
            "a result differs from the CPU's: {record}"
        );
        let needs_none = record["final"] == true || record.get("machine").is_some();
        assert!(needs_none || record["value"].is_number(), "no value: {record}");
    }
    let all = keys(&out);
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "a figure was taken twice: {all:?}");
    for adapter in measured() {
        let device = format!("gpu:{}", adapter.index);
        let of = |what: &str| -> Vec<_> {
            let is_own = |record: &&Value| record["device"] == *device && record["what"] == what;
            figures.iter().filter(is_own).collect()
        };
        let expected = KernelForm::ALL
            .iter()
            .filter(|form| form.runs_on(&adapter))
            .count();
        assert!(of("checks").len() >= 2, "page counts");
        for checks in of("checks") {
            assert_eq!(checks["value"], expected, "{checks}");
        }
        for form in KernelForm::ALL.into_iter().filter(|form| form.runs_on(&adapter)) {
            for epoch in [0, 385] {
                let key = format!("{device}/small/e{epoch}/hashrate/{}:64", form.name());
                let record = figures.iter().find(|record| record["key"] == *key);
                let record = record.unwrap_or_else(|| panic!("no {key}"));
                assert!(record["value"].as_f64() > Some(0.0), "{record}");
                assert!(record["predicted"].as_f64() > Some(0.0), "{record}");
                let pages = if epoch == 0 { 1 } else { 5 };
                assert_eq!(record["pages"], pages, "{record}");
            }
        }
        assert!(of("batch").iter().all(|record| record["latency_ms"].is_number()));
        assert_eq!(of("choice").len(), 2);
        assert!(
            of("dataset")
                .iter()
                .any(|record| record["generation"] == "4-slices")
        );
    }
    let searched = |record: &&Value| record["device"] == "cpu" && record["what"] == "hashrate";
    assert!(
        figures
            .iter()
            .filter(searched)
            .any(|record| record["share_of_ceiling"].is_number())
    );

    let report = fs::read_to_string(out.join("report.md")).expect("the report");
    assert!(
        report.contains("Nothing differed.") && report.contains("## Processor"),
        "{report}"
    );
    let svg = fs::read_to_string(out.join("report.svg")).expect("the charts");
    assert!(
        svg.starts_with("<svg") && svg.contains("Hash rate of the processor"),
        "{svg}"
    );

    let text = run_well(&out, &[]);
    assert!(text.starts_with("complete"), "{text}");
    assert_eq!(keys(&out), all, "nothing is measured twice");
    let shown = Command::new(env!("CARGO_BIN_EXE_miner"))
        .args(["bench", "--report"])
        .arg(&out)
        .output()
        .expect("the miner runs");
    let again = fs::read_to_string(out.join("report.md")).expect("the report");
    assert_eq!(
        String::from_utf8_lossy(&shown.stdout).trim_end(),
        again.trim_end()
    );
}

#[test]
fn a_run_without_time_ends_at_once_and_another_one_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = run_well(folder.path(), &["--minutes", "0"]);
    assert!(text.starts_with("the time is over"), "{text}");
    assert_eq!(keys(folder.path()), [""; 0]);
    let only = ["--only", "cpu/small/e0/dataset"];
    let text = run_well(folder.path(), &only);
    assert!(text.starts_with("complete"), "{text}");
    let taken = keys(folder.path());
    assert!(
        !taken.is_empty() && taken.iter().all(|key| key.starts_with("cpu/small/e0/dataset/")),
        "{taken:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_run_cleanly_and_the_figures_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = command(folder.path(), &[]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the miner runs");
    let start = std::time::Instant::now();
    while keys(folder.path()).is_empty() {
        assert!(start.elapsed().as_secs() < 300, "no figure comes");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: the call takes only numbers, and the process is a child that was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("the miner ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("stopped"), "{text}");
    assert!(folder.path().join("report.md").exists());
    let before = keys(folder.path());
    let text = run_well(folder.path(), &["--only", before[0].as_str()]);
    assert!(text.starts_with("complete"), "{text}");
    assert_eq!(keys(folder.path()), before, "the figure is still there");
}

#[test]
fn a_folder_of_another_machine_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run_well(folder.path(), &["--minutes", "0"]);
    let file = folder.path().join("figures.jsonl");
    let text = fs::read_to_string(&file).expect("the file");
    let other = text.replace("\"cpu\":\"", "\"cpu\":\"other ");
    assert_ne!(text, other);
    fs::write(&file, other).expect("written");
    let output = run(folder.path(), &["--minutes", "0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("another machine"), "{stderr}");
}
