//! A day of jobs by a clock of its own, in a process of its own, so that its memory is known.

use std::process::Command;
use std::time::Duration;

use engine::SearchTask;
use ethash::{B256, Epoch, U256};
use miner::client::ClientConfig;
use miner::client::testing::ClientClock;
use serde_json::json;

use crate::harness::{Client, config};
use crate::pool::{ScriptedPool, Talk};

/// Set for the process that runs the day.
const IN_OWN_PROCESS: &str = "MINER_TEST_DAY";
/// Time between two jobs.
const JOB_EVERY: Duration = Duration::from_secs(10);
const JOBS_PER_HOUR: u64 = 360;
const HOURS: u64 = 24;
/// The memory may grow by this many bytes after the second hour: 500 bytes a job.
const GROWTH_MAX: u64 = 4 << 20;
/// A difficulty so low that every hash is a share.
const EASY: f64 = 1e-12;

#[test]
fn a_day_of_jobs_loses_no_solution_and_needs_no_more_memory() {
    if std::env::var_os(IN_OWN_PROCESS).is_some() {
        return run_day();
    }
    let name = "day::a_day_of_jobs_loses_no_solution_and_needs_no_more_memory";
    let program = std::env::current_exe().expect("the path of this program");
    let mut process = Command::new(program);
    let output = process.args(["--exact", name]).env(IN_OWN_PROCESS, "1").output();
    let output = output.expect("it runs");
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        output.status.success() && texts[0].contains("1 passed"),
        "{texts:?}"
    );
}

/// Every hour the pool changes the address, the extranonce, the difficulty and the epoch at once;
/// every quarter of an hour all but the address.
fn run_day() {
    let pools = [ScriptedPool::listen(), ScriptedPool::listen()];
    let clock = ClientClock::default();
    let back_off = Duration::from_millis(1);
    let client = Client::start(ClientConfig {
        clock: clock.clone(),
        first_back_off: back_off,
        last_back_off: back_off,
        report_every: None,
        ..config(&[pools[0].url("stratum2+tcp")])
    });
    let began = clock.now();
    let (mut jobs, mut memory) = (0, 0);
    // These connections end with the test, so that each miner leaves by itself.
    #[expect(
        clippy::collection_is_never_read,
        reason = "connections stay open until the end"
    )]
    let mut left = Vec::new();
    for hour in 0..HOURS {
        let mut talk = pools[hour as usize % 2].accept();
        let mut extranonce = 0x1000 + hour as u16;
        talk.ethereum_stratum1_login(&format!("{extranonce:04x}"));
        // Other chains than in the hour before.
        let mut epoch = (hour % 2) as u32 * 500;
        talk.ethereum_stratum1_difficulty(EASY * (1 + hour % 3) as f64);
        let mut before = None;
        for job in 0..JOBS_PER_HOUR {
            clock.advance(JOB_EVERY);
            if job > 0 && job % (JOBS_PER_HOUR / 4) == 0 {
                (extranonce, epoch) = (extranonce ^ 0x8000, epoch + 1);
                let texts = json!([format!("{extranonce:04x}")]);
                talk.send(&json!({"id": null, "method": "mining.set_extranonce", "params": texts}));
                talk.ethereum_stratum1_difficulty(EASY * (1 + job % 7) as f64);
                before = None;
            }
            jobs += 1;
            let header = B256::from(U256::from(jobs).to_be_bytes());
            // Every third job leaves the one before it good.
            send_job(&mut talk, jobs, epoch, header, job % 3 != 2);
            let task = client.task(header);
            let nonce = u64::from(extranonce) << 48 | jobs;
            assert!(
                task.nonces.contains(nonce) && task.work.epoch == Epoch::ethash(epoch),
                "{task:?}"
            );
            // A solution of the job before comes late, but not too late.
            let late = before.filter(|_| job % 3 == 2);
            let (searched, id): (SearchTask, u64) = late.unwrap_or_else(|| (task.clone(), jobs));
            client.find(0, searched.work.header_hash, nonce);
            let submit = talk.expect("mining.submit");
            assert_eq!(submit["params"][1], json!(id.to_string()));
            talk.accept_request(&submit);
            before = Some((task, jobs));
        }
        client.wait_until("all answers", |status| status.total().accepted == jobs);
        if hour == 1 {
            memory = resident_bytes();
        }
        if hour + 1 < HOURS {
            let next = pools[(hour as usize + 1) % 2].address;
            let to = json!([next.ip().to_string(), next.port(), 0]);
            talk.send(&json!({"id": null, "method": "client.reconnect", "params": to}));
        }
        left.push(talk);
    }
    assert!(clock.now().duration_since(began) >= Duration::from_secs(HOURS * 3600));
    let (status, after) = (client.status(), resident_bytes());
    let total = status.total();
    let others = total.stale + total.rejected + total.lost + total.unknown;
    assert_eq!((total.accepted, others), (HOURS * JOBS_PER_HOUR, 0), "{status:?}");
    assert_eq!(
        (status.jobs, status.endpoints[0].failures),
        (jobs, 0),
        "{status:?}"
    );
    assert!(
        after.saturating_sub(memory) < GROWTH_MAX,
        "{memory} bytes grew to {after}"
    );
}

fn send_job(talk: &mut Talk<std::net::TcpStream>, id: u64, epoch: u32, header: B256, clean: bool) {
    let seed = Epoch::ethash(epoch).seed_hash();
    let params = json!([id.to_string(), format!("{seed:x}"), format!("{header:x}"), clean]);
    talk.send(&json!({"id": null, "method": "mining.notify", "params": params}));
}

/// The memory of this process; 0 where the system does not show it.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
