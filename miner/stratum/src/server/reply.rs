//! Writes answers and jobs, in each dialect.

use serde_json::{Value, json};

use super::session::ServerSession;
use super::types::{AnnouncedJob, RejectReason};
use crate::{Dialect, difficulty_of_boundary};

impl ServerSession {
    /// Answers request `id` with success.
    pub fn accept(&mut self, id: &Value) {
        self.answer(id, json!(true));
    }

    /// Answers that share `id` counts, although its job was over.
    ///
    /// Only EthereumStratum/2.0.0 can say that. In the other dialects the answer is that of an
    /// accepted share.
    pub fn accept_stale(&mut self, id: &Value) {
        if self.dialect == Some(Dialect::EthereumStratum2) {
            self.send(&json!({"id": id, "error": {"code": 202, "message": "Stale"}}));
        } else {
            self.accept(id);
        }
    }

    /// Answers that request `id` is rejected. A notification has no id and gets no answer.
    pub fn refuse(&mut self, id: &Value, reason: RejectReason) {
        if id.is_null() {
            return;
        }
        let (code, message) = (reason.code(self.dialect), reason.message());
        self.send(&match self.dialect {
            Some(Dialect::EthereumStratum2) => json!({"id": id, "error": {"code": code, "message": message}}),
            Some(Dialect::EthereumStratum1) => json!({"id": id, "result": false, "error": [code, message, null]}),
            Some(Dialect::EthProxy) | None => {
                json!({"id": id, "jsonrpc": "2.0", "result": false, "error": {"code": code, "message": message}})
            }
        });
    }

    /// Answers the request for work, `id`, of eth-proxy.
    pub fn give_work(&mut self, id: &Value, job: &AnnouncedJob<'_>) {
        self.answer(id, eth_proxy_work(job));
    }

    /// Sends a text for the owner of the miner. eth-proxy has no message for it.
    pub fn say(&mut self, text: &str) {
        if matches!(
            self.dialect,
            Some(Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
        ) {
            self.send(&json!({"id": null, "method": "client.show_message", "params": [text]}));
        }
    }

    /// Sends new work. Before it sends the difficulty, epoch and extranonce if they have changed.
    pub fn announce(&mut self, job: &AnnouncedJob<'_>) {
        match self.dialect {
            None => {}
            Some(Dialect::EthProxy) => {
                self.send(&json!({"id": 0, "jsonrpc": "2.0", "result": eth_proxy_work(job)}));
            }
            Some(Dialect::EthereumStratum1) => self.announce_ethereum_stratum1(job),
            Some(Dialect::EthereumStratum2) => self.announce_ethereum_stratum2(job),
        }
    }

    fn announce_ethereum_stratum1(&mut self, job: &AnnouncedJob<'_>) {
        if self.announced_boundary != Some(*job.share_boundary) {
            self.announced_boundary = Some(*job.share_boundary);
            let difficulty = difficulty_of_boundary(job.share_boundary);
            self.send(&json!({"id": null, "method": "mining.set_difficulty", "params": [difficulty]}));
        }
        let params = json!([
            format!("{:x}", job.number),
            bare(&job.package.seed_hash),
            bare(&job.package.header_hash),
            job.clean,
        ]);
        self.send(&json!({"id": null, "method": "mining.notify", "params": params}));
    }

    fn announce_ethereum_stratum2(&mut self, job: &AnnouncedJob<'_>) {
        let epoch = job.package.epoch;
        let mut changed = json!({});
        if self.announced_epoch.is_none() {
            changed["extranonce"] = json!(self.settings.extranonce.to_string());
        }
        if self.announced_epoch != Some(epoch) {
            // In Ethash the number of seed steps equals the epoch number. In Etchash it is greater,
            // except in epoch 0, which is the same in both.
            let algo = if epoch.seed_steps == epoch.index {
                "ethash"
            } else {
                "etchash"
            };
            changed["epoch"] = json!(format!("{:x}", epoch.index));
            changed["algo"] = json!(algo);
        }
        if self.announced_boundary != Some(*job.share_boundary) {
            changed["target"] = json!(bare(job.share_boundary));
        }
        self.announced_epoch = Some(epoch);
        self.announced_boundary = Some(*job.share_boundary);
        if changed.as_object().is_some_and(|changed| !changed.is_empty()) {
            self.send(&json!({"method": "mining.set", "params": changed}));
        }
        let params = json!([
            format!("{:x}", job.number),
            format!("{:x}", job.package.number.unwrap_or_default()),
            bare(&job.package.header_hash),
            if job.clean { "1" } else { "0" },
        ]);
        self.send(&json!({"method": "mining.notify", "params": params}));
    }

    pub(super) fn answer_hello(&mut self, id: &Value) {
        let result = json!({
            "proto": Dialect::EthereumStratum2.name(),
            "encoding": "plain",
            "resume": "0",
            "timeout": format!("{:x}", self.settings.silence_secs_max),
            "maxerrors": format!("{:x}", self.settings.errors_max),
            "node": self.settings.agent,
        });
        self.answer(id, result);
    }

    pub(super) fn answer_subscription(&mut self, id: &Value) {
        let session = self.settings.session;
        let result = match self.dialect {
            Some(Dialect::EthereumStratum2) => json!(format!("s{session:x}")),
            _ => json!([
                [
                    "mining.notify",
                    format!("{session:032x}"),
                    Dialect::EthereumStratum1.name()
                ],
                self.settings.extranonce.to_string(),
            ]),
        };
        self.answer(id, result);
    }

    pub(super) fn answer_login(&mut self, id: &Value, worker: usize) {
        let result = if self.dialect == Some(Dialect::EthereumStratum2) {
            json!(format!("w{worker}"))
        } else {
            json!(true)
        };
        self.answer(id, result);
    }

    fn answer(&mut self, id: &Value, result: Value) {
        if id.is_null() {
            return;
        }
        self.send(&match self.dialect {
            // In this dialect success without a result is an answer with only the id.
            Some(Dialect::EthereumStratum2) if result == json!(true) => json!({"id": id}),
            Some(Dialect::EthereumStratum2) => json!({"id": id, "result": result}),
            Some(Dialect::EthereumStratum1) => json!({"id": id, "result": result, "error": null}),
            Some(Dialect::EthProxy) | None => json!({"id": id, "jsonrpc": "2.0", "result": result}),
        });
    }
}

/// Work of eth-proxy: header hash, seed hash, boundary and, if known, block number.
fn eth_proxy_work(job: &AnnouncedJob<'_>) -> Value {
    let mut work = vec![
        json!(job.package.header_hash.to_string()),
        json!(job.package.seed_hash.to_string()),
        json!(job.share_boundary.to_string()),
    ];
    work.extend(job.package.number.map(|number| json!(format!("{number:#x}"))));
    Value::from(work)
}

/// The hexadecimal digits of a hash, without `0x`.
fn bare(hash: &ethash::B256) -> String {
    format!("{hash:x}").trim_start_matches("0x").to_owned()
}
