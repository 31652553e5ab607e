//! Writes answers and jobs, in each dialect's words. The numbers of refusals are chosen here.

use serde_json::{Value, json};

use super::{Job, Refusal, Session};
use crate::{Dialect, difficulty_of_boundary};

impl Refusal {
    /// The words for it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Stale => "Stale share",
            Self::UnknownJob => "Job not found",
            Self::Duplicate => "Duplicate share",
            Self::LowDifficulty => "Low difficulty share",
            Self::BadNonce => "Bad nonce",
            Self::Unauthorized => "Unauthorized worker",
            Self::BadLogin => "Invalid login",
            Self::Malformed => "Malformed request",
            Self::UnknownMethod => "Method not found",
            Self::TooMany => "Too many requests",
            Self::NoWork => "No work now",
            Self::Internal => "Internal error",
        }
    }

    /// The number for it: EthereumStratum/2.0.0's classes, or those that older pools share.
    const fn code(self, dialect: Option<Dialect>) -> i64 {
        if matches!(dialect, Some(Dialect::EthereumStratum2)) {
            return match self {
                Self::Unauthorized => 301,
                Self::BadLogin => 302,
                Self::Malformed => 400,
                Self::UnknownJob | Self::Stale => 404,
                Self::UnknownMethod => 405,
                Self::BadNonce => 406,
                Self::Duplicate => 409,
                Self::LowDifficulty => 410,
                Self::TooMany => 429,
                Self::Internal => 500,
                Self::NoWork => 503,
            };
        }
        match self {
            Self::Stale | Self::UnknownJob => 21,
            Self::Duplicate => 22,
            Self::LowDifficulty => 23,
            Self::Unauthorized | Self::BadLogin => 24,
            Self::UnknownMethod => -3,
            Self::BadNonce | Self::Malformed | Self::TooMany | Self::NoWork | Self::Internal => 20,
        }
    }
}

impl Session {
    /// Answers that `id` is well.
    pub fn accept(&mut self, id: &Value) {
        self.answer(id, json!(true));
    }

    /// Answers that share `id` counts, though its job was over. Only EthereumStratum/2.0.0 can say
    /// so.
    pub fn accept_stale(&mut self, id: &Value) {
        if self.dialect == Some(Dialect::EthereumStratum2) {
            self.send(&json!({"id": id, "error": {"code": 202, "message": "Stale"}}));
        } else {
            self.accept(id);
        }
    }

    /// Answers that `id` is refused. A notification, which has no id, gets no answer.
    pub fn refuse(&mut self, id: &Value, refusal: Refusal) {
        if id.is_null() {
            return;
        }
        let (code, words) = (refusal.code(self.dialect), refusal.words());
        self.send(&match self.dialect {
            Some(Dialect::EthereumStratum2) => json!({"id": id, "error": {"code": code, "message": words}}),
            Some(Dialect::EthereumStratum1) => json!({"id": id, "result": false, "error": [code, words, null]}),
            Some(Dialect::EthProxy) | None => {
                json!({"id": id, "jsonrpc": "2.0", "result": false, "error": {"code": code, "message": words}})
            }
        });
    }

    /// Answers eth-proxy's question for work.
    pub fn give_work(&mut self, id: &Value, job: &Job<'_>) {
        self.answer(id, proxy_work(job));
    }

    /// Tells of new work, and before it of whatever has changed that it depends on.
    pub fn announce(&mut self, job: &Job<'_>) {
        match self.dialect {
            None => {}
            Some(Dialect::EthProxy) => {
                self.send(&json!({"id": 0, "jsonrpc": "2.0", "result": proxy_work(job)}));
            }
            Some(Dialect::EthereumStratum1) => self.announce_first(job),
            Some(Dialect::EthereumStratum2) => self.announce_second(job),
        }
    }

    fn announce_first(&mut self, job: &Job<'_>) {
        if self.told_boundary != Some(*job.share_boundary) {
            self.told_boundary = Some(*job.share_boundary);
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

    fn announce_second(&mut self, job: &Job<'_>) {
        let epoch = job.package.epoch;
        let mut changed = json!({});
        if self.told_epoch.is_none() {
            changed["extranonce"] = json!(self.settings.extranonce.to_string());
        }
        if self.told_epoch != Some(epoch) {
            // A seed of as many steps as the epoch has a number is Ethash's.
            let algo = if epoch.seed_steps == epoch.index {
                "ethash"
            } else {
                "etchash"
            };
            changed["epoch"] = json!(format!("{:x}", epoch.index));
            changed["algo"] = json!(algo);
        }
        if self.told_boundary != Some(*job.share_boundary) {
            changed["target"] = json!(bare(job.share_boundary));
        }
        self.told_epoch = Some(epoch);
        self.told_boundary = Some(*job.share_boundary);
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

    pub(super) fn answer_login(&mut self, id: &Value, place: usize) {
        let second = self.dialect == Some(Dialect::EthereumStratum2);
        let result = if second {
            json!(format!("w{place}"))
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
            // There a yes is told by the absence of everything else.
            Some(Dialect::EthereumStratum2) if result == json!(true) => json!({"id": id}),
            Some(Dialect::EthereumStratum2) => json!({"id": id, "result": result}),
            Some(Dialect::EthereumStratum1) => json!({"id": id, "result": result, "error": null}),
            Some(Dialect::EthProxy) | None => json!({"id": id, "jsonrpc": "2.0", "result": result}),
        });
    }

    fn send(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }
}

/// Header, seed, boundary, block number.
fn proxy_work(job: &Job<'_>) -> Value {
    let mut work = vec![
        json!(job.package.header_hash.to_string()),
        json!(job.package.seed_hash.to_string()),
        json!(job.share_boundary.to_string()),
    ];
    work.extend(job.package.number.map(|number| json!(format!("{number:#x}"))));
    Value::from(work)
}

/// A hash without `0x`.
fn bare(hash: &ethash::B256) -> String {
    format!("{hash:x}").trim_start_matches("0x").to_owned()
}
