//! The requests of a miner, in each dialect.

use ethash::Solution;
use serde_json::{Value, json};

use super::event::{ClientSessionError, PoolJob};
use super::session::{ClientSession, PENDING_MAX, PendingRequest};
use crate::Dialect;

/// The highest id in EthereumStratum/2.0.0. After it the ids start again with 1.
const ID_MAX: u64 = 65_535;

impl ClientSession {
    /// Sends the first request of the dialect.
    pub(super) fn greet(&mut self) {
        match self.dialect {
            Dialect::EthereumStratum2 => {
                let params = json!({
                    "agent": self.login.agent,
                    "host": self.login.host,
                    "port": format!("{:x}", self.login.port),
                    "proto": Dialect::EthereumStratum2.name(),
                });
                self.request(PendingRequest::Hello, "mining.hello", params);
            }
            Dialect::EthereumStratum1 => self.subscribe(),
            Dialect::EthProxy => {
                let params = json!([self.login.user, self.login.password]);
                self.request(PendingRequest::Authorize, "eth_submitLogin", params);
            }
        }
    }

    pub(super) fn subscribe(&mut self) {
        let params = match self.dialect {
            Dialect::EthereumStratum1 => json!([self.login.agent, Dialect::EthereumStratum1.name()]),
            Dialect::EthereumStratum2 | Dialect::EthProxy => Value::Null,
        };
        self.request(PendingRequest::Subscribe, "mining.subscribe", params);
    }

    pub(super) fn authorize(&mut self) {
        if self.dialect == Dialect::EthereumStratum1 {
            self.request(
                PendingRequest::ExtranonceSubscribe,
                "mining.extranonce.subscribe",
                json!([]),
            );
        }
        let params = json!([self.login.account(), self.login.password]);
        self.request(PendingRequest::Authorize, "mining.authorize", params);
    }

    pub(super) fn get_work(&mut self) {
        self.request(PendingRequest::GetWork, "eth_getWork", json!([]));
    }

    /// Submits a solution of `job` as a share. Returns the id of the request, which its answer will
    /// have.
    ///
    /// # Errors
    /// [`ClientSessionError::Unanswered`] if too many requests have no answer.
    pub fn submit(&mut self, job: &PoolJob, solution: &Solution) -> Result<u64, ClientSessionError> {
        let got = self.pending.len();
        if got >= PENDING_MAX {
            return Err(ClientSessionError::Unanswered {
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
        Ok(self.request(PendingRequest::Submit, method, params))
    }

    /// Reports the hashrate `rate` in hashes per second.
    ///
    /// `id` identifies the rig in the dialects that have no worker token.
    pub fn report_hashrate(&mut self, rate: u64, id: &ethash::B256) {
        let (method, params) = match self.dialect {
            Dialect::EthereumStratum2 => ("mining.hashrate", json!([format!("{rate:x}"), self.worker_token])),
            Dialect::EthProxy | Dialect::EthereumStratum1 => (
                "eth_submitHashrate",
                json!([format!("0x{rate:064x}"), id.to_string()]),
            ),
        };
        self.replace_request(PendingRequest::Hashrate, method, params);
    }

    /// Sends a request without effect, so that the pool does not end the session because of
    /// silence. Does nothing in the dialects before EthereumStratum/2.0.0, which have no such
    /// request.
    pub fn keep_alive(&mut self) {
        if self.dialect == Dialect::EthereumStratum2 {
            self.replace_request(PendingRequest::Noop, "mining.noop", Value::Null);
        }
    }

    /// Tells the pool that the session ends. Does nothing in the dialects before
    /// EthereumStratum/2.0.0, which have no such message.
    pub fn say_bye(&mut self) {
        if self.dialect == Dialect::EthereumStratum2 {
            self.send(&json!({"method": "mining.bye"}));
        }
    }

    /// Sends a request of which at most one waits for its answer, because some pools answer none.
    fn replace_request(&mut self, kind: PendingRequest, method: &str, params: Value) {
        let before = self.pending.iter().find(|(_, pending)| **pending == kind);
        if let Some((&id, _)) = before {
            self.pending.remove(&id);
            self.replaced.insert(kind, id);
        }
        self.request(kind, method, params);
    }

    /// Sends a request and remembers its kind. Returns its id.
    fn request(&mut self, kind: PendingRequest, method: &str, params: Value) -> u64 {
        let id = self.next_id();
        self.pending.insert(id, kind);
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

    /// The next id that no pending request has. There are far more ids than pending requests.
    fn next_id(&mut self) -> u64 {
        loop {
            self.last_id = self.last_id % ID_MAX + 1;
            if !self.pending.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }
}
