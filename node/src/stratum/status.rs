//! Status and metrics of the Stratum server, over all and for each worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use miner::status::{MetricFamily, MetricsPage, StatusSource, label};
use serde_json::{Value, json};

use super::state::StratumState;
use super::workers::WorkerStats;

const WORKERS: MetricFamily = ("stratum_workers", "gauge", "Workers with a connection.");
const CONNECTIONS: MetricFamily = ("stratum_connections", "gauge", "Connections.");
const TURNED_AWAY: MetricFamily = (
    "stratum_turned_away_total",
    "counter",
    "Connections that were closed because there were too many.",
);
const DISPLACED: MetricFamily = (
    "stratum_displaced_total",
    "counter",
    "Connections without a valid share that made room for others.",
);
const CUT_OFF: MetricFamily = (
    "stratum_cut_off_total",
    "counter",
    "Connections that were closed because of bad shares.",
);
const BANNED: MetricFamily = (
    "stratum_banned_addresses",
    "gauge",
    "Addresses that are banned because of bad shares or wrong passwords.",
);
const BAN_REFUSALS: MetricFamily = (
    "stratum_ban_refusals_total",
    "counter",
    "Connections that were closed because their address is banned.",
);
const BAD_MESSAGES: MetricFamily = (
    "stratum_bad_messages_total",
    "counter",
    "Messages that could not be read.",
);
const BAD_LOGINS: MetricFamily = (
    "stratum_bad_logins_total",
    "counter",
    "Logins with a wrong password.",
);
const PUSH: MetricFamily = (
    "stratum_last_push_seconds",
    "gauge",
    "Time from the arrival of the latest job until the last worker had it.",
);
const SHARES: MetricFamily = ("stratum_shares_total", "counter", "Shares by worker and result.");
const BLOCKS: MetricFamily = ("stratum_blocks_total", "counter", "Blocks by worker.");
const HASHRATE: MetricFamily = (
    "stratum_hashes_per_second",
    "gauge",
    "Hashes per second by worker, from its shares of the last ten minutes.",
);

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl StratumState {
    /// The figures of the server, and those of `workers`.
    pub(super) fn figures(&self, workers: Vec<WorkerStats>) -> Value {
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
        let mut page = MetricsPage::default();
        page.figure(WORKERS, connected as f64);
        page.figure(CONNECTIONS, self.extranonces.in_use() as f64);
        page.figure(TURNED_AWAY, read(&counters.turned_away) as f64);
        page.figure(DISPLACED, read(&counters.displaced) as f64);
        page.figure(CUT_OFF, read(&counters.cut_off) as f64);
        page.figure(BANNED, self.addresses.banned(Instant::now()) as f64);
        page.figure(BAN_REFUSALS, read(&counters.ban_refusals) as f64);
        page.figure(BAD_MESSAGES, read(&counters.bad_messages) as f64);
        page.figure(BAD_LOGINS, read(&counters.bad_logins) as f64);
        page.figure(PUSH, read(&counters.last_push_us) as f64 / 1e6);
        page.family(
            SHARES,
            workers.iter().flat_map(|worker| {
                let name = label("worker", &worker.name);
                [
                    ("accepted", worker.accepted),
                    ("stale", worker.stale),
                    ("rejected", worker.rejected),
                ]
                .map(|(result, count)| (format!("{name},{}", label("result", result)), Some(count as f64)))
            }),
        );
        page.family(
            BLOCKS,
            workers
                .iter()
                .map(|worker| (label("worker", &worker.name), Some(worker.blocks as f64))),
        );
        page.family(
            HASHRATE,
            workers
                .iter()
                .map(|worker| (label("worker", &worker.name), Some(worker.hashrate))),
        );
        page.into_text()
    }

    fn health(&self) -> (bool, &'static str) {
        if self.jobs.newest().is_some() {
            (true, "there is work")
        } else {
            (false, "no work")
        }
    }
}
