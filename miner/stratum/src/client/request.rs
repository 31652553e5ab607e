//! What a miner asks of a pool, in each dialect's words.

use ethash::Solution;
use serde_json::{Value, json};

use super::{Job, PENDING_MAX, Session, SessionError};
use crate::Dialect;

/// A request without its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Hello,
    Subscribe,
    ExtranonceSubscribe,
    Authorize,
    GetWork,
    Submit,
    Hashrate,
    Noop,
}

/// Ids of EthereumStratum/2.0.0 end here; after the last comes the first again.
const ID_MAX: u64 = 65_535;

impl Session {
    /// The first request of the dialect.
    pub(super) fn greet(&mut self) {
        match self.dialect {
            Dialect::EthereumStratum2 => {
                let params = json!({
                    "agent": self.login.agent,
                    "host": self.login.host,
                    "port": format!("{:x}", self.login.port),
                    "proto": Dialect::EthereumStratum2.name(),
                });
                self.ask(Pending::Hello, "mining.hello", params);
            }
            Dialect::EthereumStratum1 => self.subscribe(),
            Dialect::EthProxy => {
                let params = json!([self.login.user, self.login.password]);
                self.ask(Pending::Authorize, "eth_submitLogin", params);
            }
        }
    }

    pub(super) fn subscribe(&mut self) {
        let params = match self.dialect {
            Dialect::EthereumStratum1 => json!([self.login.agent, Dialect::EthereumStratum1.name()]),
            Dialect::EthereumStratum2 | Dialect::EthProxy => Value::Null,
        };
        self.ask(Pending::Subscribe, "mining.subscribe", params);
    }

    pub(super) fn authorize(&mut self) {
        if self.dialect == Dialect::EthereumStratum1 {
            self.ask(
                Pending::ExtranonceSubscribe,
                "mining.extranonce.subscribe",
                json!([]),
            );
        }
        let params = json!([self.login.account(), self.login.password]);
        self.ask(Pending::Authorize, "mining.authorize", params);
    }

    pub(super) fn get_work(&mut self) {
        self.ask(Pending::GetWork, "eth_getWork", json!([]));
    }

    /// Hands in a solution of `job`; gives the id that its answer will carry.
    ///
    /// # Errors
    /// When too many requests wait for answers: the pool is deaf.
    pub fn submit(&mut self, job: &Job, solution: &Solution) -> Result<u64, SessionError> {
        let got = self.pending.len();
        if got >= PENDING_MAX {
            return Err(SessionError::Unanswered {
                got,
                max: PENDING_MAX,
            });
        }
        let tail = job.extranonce.tail(solution.pow_nonce);
        let (method, params) = match self.dialect {
            Dialect::EthProxy => (
                "eth_submitWork",
                json!([
                    format!("{:#018x}", solution.pow_nonce),
                    solution.header_hash.to_string(),
                    solution.mix_hash.to_string(),
                ]),
            ),
            Dialect::EthereumStratum1 => ("mining.submit", json!([self.login.account(), job.id, tail])),
            Dialect::EthereumStratum2 => ("mining.submit", json!([job.id, tail, self.worker_token])),
        };
        Ok(self.ask(Pending::Submit, method, params))
    }

    /// Reports `rate`, in hashes per second, under `id`, which names this rig where the dialect has
    /// no token.
    pub fn report_hashrate(&mut self, rate: u64, id: &ethash::B256) {
        if self.pending.len() >= PENDING_MAX {
            return;
        }
        let (method, params) = match self.dialect {
            Dialect::EthereumStratum2 => ("mining.hashrate", json!([format!("{rate:x}"), self.worker_token])),
            Dialect::EthProxy | Dialect::EthereumStratum1 => (
                "eth_submitHashrate",
                json!([format!("0x{rate:064x}"), id.to_string()]),
            ),
        };
        self.ask(Pending::Hashrate, method, params);
    }

    /// Says something that means nothing, so that the pool does not take silence for the end. Only
    /// EthereumStratum/2.0.0 has a word for it; in the others nothing is said.
    pub fn keep_alive(&mut self) {
        if self.dialect == Dialect::EthereumStratum2 && self.pending.len() < PENDING_MAX {
            self.ask(Pending::Noop, "mining.noop", Value::Null);
        }
    }

    /// Says that the session ends, where the dialect has a word for it.
    pub fn say_bye(&mut self) {
        if self.dialect == Dialect::EthereumStratum2 {
            self.send(&json!({"method": "mining.bye"}));
        }
    }

    /// Sends a request and remembers what it was.
    fn ask(&mut self, pending: Pending, method: &str, params: Value) -> u64 {
        let id = self.free_id();
        self.pending.insert(id, pending);
        let mut message = json!({"id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        if self.dialect == Dialect::EthProxy {
            message["jsonrpc"] = json!("2.0");
            if let Some(worker) = &self.login.worker {
                message["worker"] = json!(worker);
            }
        }
        self.send(&message);
        id
    }

    /// The next id that no waiting request has. Far fewer wait than there are ids.
    fn free_id(&mut self) -> u64 {
        loop {
            self.last_id = self.last_id % ID_MAX + 1;
            if !self.pending.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }
}
