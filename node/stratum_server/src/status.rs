//! Status and metrics of the Stratum server, over all and for each worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use daemon::status::{StatusSource, metrics_page};
use metrics::{counter, describe_counter, describe_gauge, gauge};
use serde_json::{Value, json};

use crate::state::StratumState;
use crate::workers::WorkerStats;

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl StratumState {
    /// The figures of the server, and those of `workers`.
    pub(crate) fn figures(&self, workers: Vec<WorkerStats>) -> Value {
        let job = self.jobs.newest().map(|job| {
            json!({
                "number": job.package.number,
                "header_hash": job.package.header_hash.to_string(),
                "epoch": job.package.epoch.index,
                "age_ms": u64::try_from(job.received_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            })
        });
        let workers = workers.into_iter().map(|worker| {
            json!({
                "worker": worker.name,
                "connections": worker.connections,
                "accepted": worker.accepted,
                "stale": worker.stale,
                "rejected": worker.rejected,
                "blocks": worker.blocks,
                "hashrate": worker.hashrate,
                "reported_hashrate": worker.reported,
                "last_share_s": worker.last_share_secs,
            })
        });
        let counters = &self.counters;
        json!({
            "connections": self.extranonces.in_use(),
            "connections_total": read(&counters.connections),
            "turned_away": read(&counters.turned_away),
            "displaced": read(&counters.displaced),
            "cut_off": read(&counters.cut_off),
            "banned_addresses": self.addresses.banned(Instant::now()),
            "ban_refusals": read(&counters.ban_refusals),
            "bad_messages": read(&counters.bad_messages),
            "bad_logins": read(&counters.bad_logins),
            "logged_in": read(&self.logged_in),
            "last_push": {
                "workers": read(&counters.last_push_workers),
                "milliseconds": read(&counters.last_push_us) as f64 / 1e3,
            },
            "job": job,
            "workers": workers.collect::<Vec<_>>(),
        })
    }
}

impl StatusSource for StratumState {
    fn json(&self) -> Value {
        self.figures(self.workers.list(Instant::now()))
    }

    fn metrics(&self) -> String {
        let workers = self.workers.list(Instant::now());
        let connected = workers.iter().filter(|worker| worker.connections > 0).count();
        let counters = &self.counters;
        metrics_page(|| {
            describe();
            gauge!("stratum_workers").set(connected as f64);
            gauge!("stratum_connections").set(self.extranonces.in_use() as f64);
            gauge!("stratum_banned_addresses").set(self.addresses.banned(Instant::now()) as f64);
            gauge!("stratum_last_push_seconds").set(read(&counters.last_push_us) as f64 / 1e6);
            for (name, count) in [
                ("stratum_turned_away_total", &counters.turned_away),
                ("stratum_displaced_total", &counters.displaced),
                ("stratum_cut_off_total", &counters.cut_off),
                ("stratum_ban_refusals_total", &counters.ban_refusals),
                ("stratum_bad_messages_total", &counters.bad_messages),
                ("stratum_bad_logins_total", &counters.bad_logins),
            ] {
                counter!(name).absolute(read(count));
            }
            workers.iter().for_each(record_worker);
        })
    }

    fn health(&self) -> (bool, &'static str) {
        match self.chain.work_pause() {
            Some(reason) => (false, reason.name()),
            None if self.jobs.newest().is_some() => (true, "there is work"),
            None => (false, "no work"),
        }
    }
}

fn describe() {
    describe_gauge!("stratum_workers", "Workers with a connection.");
    describe_gauge!("stratum_connections", "Connections.");
    describe_counter!(
        "stratum_turned_away_total",
        "Connections that were closed because there were too many."
    );
    describe_counter!(
        "stratum_displaced_total",
        "Connections without a valid share that made room for others."
    );
    describe_counter!(
        "stratum_cut_off_total",
        "Connections that were closed because of bad shares."
    );
    describe_gauge!(
        "stratum_banned_addresses",
        "Addresses that are banned because of bad shares or wrong passwords."
    );
    describe_counter!(
        "stratum_ban_refusals_total",
        "Connections that were closed because their address is banned."
    );
    describe_counter!("stratum_bad_messages_total", "Messages that could not be read.");
    describe_counter!("stratum_bad_logins_total", "Logins with a wrong password.");
    describe_gauge!(
        "stratum_last_push_seconds",
        "Time from the arrival of the latest job until the last worker had it."
    );
    describe_counter!("stratum_shares_total", "Shares by worker and result.");
    describe_counter!("stratum_blocks_total", "Blocks by worker.");
    describe_gauge!(
        "stratum_hashes_per_second",
        "Hashes per second by worker, from its shares of the last ten minutes."
    );
}

fn record_worker(worker: &WorkerStats) {
    let name = || ("worker", worker.name.clone());
    for (result, count) in [
        ("accepted", worker.accepted),
        ("stale", worker.stale),
        ("rejected", worker.rejected),
    ] {
        counter!("stratum_shares_total", &[name(), ("result", result.to_owned())]).absolute(count);
    }
    counter!("stratum_blocks_total", &[name()]).absolute(worker.blocks);
    gauge!("stratum_hashes_per_second", &[name()]).set(worker.hashrate);
}
