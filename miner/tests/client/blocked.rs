//! The program `miner` while its standard error takes no output.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use ethash::{B256, U256};

use crate::pool::ScriptedPool;

/// Jobs whose log lines are longer than a pipe.
const JOBS: u64 = 2000;
/// A difficulty that takes a processor no time, and not so low that every hash is a share.
const EASY: f64 = 1e-8;
/// A difficulty that no share of a short test has.
const HARD: f64 = 1e9;

/// A running miner. Killed when dropped.
struct Miner(Child);

impl Drop for Miner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_stops_no_share_and_is_whole() {
    let pool = ScriptedPool::listen();
    let mut miner = Command::new(env!("CARGO_BIN_EXE_miner"));
    miner
        .args(["stratum", &pool.url("stratum2+tcp")])
        .args("--device cpu --threads 1 --dataset never --nice 0".split(' '))
        .env("RUST_LOG", "miner=debug")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut miner = Miner(miner.spawn().expect("the miner starts"));
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(HARD);
    for job in 0..=JOBS {
        if job == JOBS {
            talk.ethereum_stratum1_difficulty(EASY);
        }
        let header = B256::from(U256::from(job).to_be_bytes());
        talk.ethereum_stratum1_job(&job.to_string(), header, false);
    }
    let submit = talk.expect("mining.submit");
    assert_eq!(submit["params"][1], JOBS.to_string());
    talk.accept_request(&submit);
    // The log is read only now.
    let log = BufReader::new(miner.0.stderr.take().expect("piped"));
    let mut jobs = 0;
    for line in log.lines() {
        let line = line.expect("UTF-8");
        if line.contains(" work job=") {
            assert!(
                line.contains(&format!(" job=\"{jobs}\" ")),
                "{line}, expected job {jobs}"
            );
            jobs += 1;
        }
        if line.contains("solution accepted") {
            break;
        }
    }
    assert_eq!(jobs, JOBS + 1);
}
