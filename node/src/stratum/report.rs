//! The server for people and programs: what it has done, and each worker's part.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use miner::status::{MetricFamily, MetricsPage, StatusSource, label};
use serde_json::{Value, json};

use super::Shared;

const WORKERS: MetricFamily = ("stratum_workers", "gauge", "Workers with a connection.");
const CONNECTIONS: MetricFamily = ("stratum_connections", "gauge", "Connections.");
const TURNED_AWAY: MetricFamily = (
    "stratum_turned_away_total",
    "counter",
    "Connections for which there was no place.",
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
    "From the coming of the last job to the last worker's having it.",
);
const SHARES: MetricFamily = (
    "stratum_shares_total",
    "counter",
    "Shares by worker and by what became of them.",
);
const BLOCKS: MetricFamily = ("stratum_blocks_total", "counter", "Blocks by worker.");
const HASHRATE: MetricFamily = (
    "stratum_hashes_per_second",
    "gauge",
    "Hashes per second by worker, by its shares of the last ten minutes.",
);

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl StatusSource for Shared {
    fn json(&self) -> Value {
        let job = self.board.newest().map(|job| {
            json!({
                "number": job.package.number,
                "header_hash": job.package.header_hash.to_string(),
                "epoch": job.package.epoch.index,
                "age_ms": u64::try_from(job.at.elapsed().as_millis()).unwrap_or(u64::MAX),
            })
        });
        let workers = self.workers.list(Instant::now()).into_iter().map(|worker| {
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
        let counts = &self.counts;
        json!({
            "connections": read(&counts.connections_now),
            "connections_total": read(&counts.connections),
            "turned_away": read(&counts.turned_away),
            "bad_messages": read(&counts.bad_messages),
            "bad_logins": read(&counts.bad_logins),
            "logged_in": read(&self.logged_in),
            "last_push": {
                "workers": read(&counts.last_push_workers),
                "milliseconds": read(&counts.last_push_us) as f64 / 1e3,
            },
            "job": job,
            "workers": workers.collect::<Vec<_>>(),
        })
    }

    fn metrics(&self) -> String {
        let workers = self.workers.list(Instant::now());
        let connected = workers.iter().filter(|worker| worker.connections > 0).count();
        let counts = &self.counts;
        let mut page = MetricsPage::default();
        page.figure(WORKERS, connected as f64);
        page.figure(CONNECTIONS, read(&counts.connections_now) as f64);
        page.figure(TURNED_AWAY, read(&counts.turned_away) as f64);
        page.figure(BAD_MESSAGES, read(&counts.bad_messages) as f64);
        page.figure(BAD_LOGINS, read(&counts.bad_logins) as f64);
        page.figure(PUSH, read(&counts.last_push_us) as f64 / 1e6);
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
        if self.board.newest().is_some() {
            (true, "there is work")
        } else {
            (false, "no work")
        }
    }
}
