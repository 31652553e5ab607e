//! A pool's session with a miner: finds out the dialect, reads requests, writes answers and jobs.
//!
//! Which logins are good, what a share is worth and when there is work is the caller's business;
//! here are the words. Greetings are answered here, as nothing depends on them.

mod reply;
mod request;

use ethash::{B256, Epoch, WorkPackage};
use serde_json::Value;

use crate::message::{Envelope, MessageError};
use crate::values::unexpected;
use crate::{Dialect, Extranonce};

/// Most workers of one session: EthereumStratum/2.0.0 lets a connection carry several.
const WORKERS_MAX: usize = 64;

/// What a session tells of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name and version of the node.
    pub agent: String,
    /// Seconds without a message after which a miner is taken for gone.
    pub silence_secs_max: u64,
    /// Bad messages after which a session ends.
    pub errors_max: u32,
    /// This session's part of all nonces.
    pub extranonce: Extranonce,
    /// This session's name.
    pub session: u64,
}

/// Work as it is told to miners.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The server's number for it.
    pub number: u64,
    /// The work.
    pub package: &'a WorkPackage,
    /// What a share must not be above; never harder than the work itself.
    pub share_boundary: &'a B256,
    /// Shares of the jobs before are worth nothing any more.
    pub clean: bool,
}

/// What a miner wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be let in: answer with [`Session::admit`] or [`Session::refuse`].
    Login {
        /// For the answer.
        id: Value,
        /// The account.
        user: String,
        /// The rig.
        worker: Option<String>,
        /// Whatever it gave.
        password: String,
    },
    /// The present work: answer with [`Session::give_work`].
    Work {
        /// For the answer.
        id: Value,
    },
    /// A share: answer with [`Session::accept`], [`Session::accept_stale`] or [`Session::refuse`].
    Share(Claim),
    /// To tell its hashrate; answered already.
    Hashrate {
        /// Which of the session's workers, in the order of their logins.
        worker: usize,
        /// Hashes per second.
        rate: u64,
    },
    /// To leave.
    Bye,
}

/// A share as it was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// For the answer.
    pub id: Value,
    /// What was searched.
    pub job: JobName,
    /// The whole nonce.
    pub pow_nonce: u64,
    /// The mix, where the dialect carries it.
    pub mix_hash: Option<B256>,
    /// Which of the session's workers found it, in the order of their logins.
    pub worker: usize,
}

/// How a share names its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobName {
    /// By the server's number; `None` where it is no number.
    Number(Option<u64>),
    /// By its header hash.
    Header(B256),
}

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job is over.
    Stale,
    /// There is no such job.
    UnknownJob,
    /// The same share again.
    Duplicate,
    /// The hash is above the share's boundary.
    LowDifficulty,
    /// The nonce is not of this session, or its mix is wrong.
    BadNonce,
    /// Not logged in.
    Unauthorized,
    /// This login is not taken.
    BadLogin,
    /// The request cannot be read.
    Malformed,
    /// There is no such method.
    UnknownMethod,
    /// Too much at once.
    TooMany,
    /// There is no work now.
    NoWork,
    /// The server failed.
    Internal,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    dialect: Option<Dialect>,
    subscribed: bool,
    /// Accounts in the order of their logins.
    workers: Vec<String>,
    output: Vec<u8>,
    /// What the miner was told last.
    told_boundary: Option<B256>,
    told_epoch: Option<Epoch>,
}

impl Session {
    /// A session that waits for the miner's first word.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            dialect: None,
            subscribed: false,
            workers: Vec::new(),
            output: Vec::new(),
            told_boundary: None,
            told_epoch: None,
        }
    }

    /// The dialect, once the miner has said something.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Whether a worker was let in.
    pub fn is_logged_in(&self) -> bool {
        !self.workers.is_empty()
    }

    /// The bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.output)
    }

    /// Takes a line from the miner. What is answered here is answered then, errors too.
    ///
    /// # Errors
    /// [`MessageError`] for a line that cannot be meant; the session can go on.
    pub fn receive(&mut self, line: &[u8]) -> Result<Option<Asked>, MessageError> {
        let message = Envelope::parse(line)?;
        let Some(method) = message.method.clone() else {
            // An answer, to nothing that was asked.
            return Ok(None);
        };
        let said = self.output.len();
        let taken = self.take(&method, &message);
        // A request has one answer: who knew more about what is wrong has given it.
        if taken.is_err() && self.output.len() == said {
            self.refuse(&message.id, Refusal::Malformed);
        }
        taken
    }

    fn take(&mut self, method: &str, message: &Envelope) -> Result<Option<Asked>, MessageError> {
        let id = &message.id;
        let dialect = match self.dialect {
            Some(dialect) => dialect,
            None => match first_word(method, &message.params) {
                Some(dialect) => *self.dialect.insert(dialect),
                None => {
                    self.refuse(id, Refusal::UnknownMethod);
                    return Err(unexpected(
                        "first request",
                        &Value::from(method),
                        "a greeting or login",
                    ));
                }
            },
        };
        match (method, dialect) {
            ("mining.hello", Dialect::EthereumStratum2) => self.hello(message)?,
            ("mining.subscribe", Dialect::EthereumStratum1 | Dialect::EthereumStratum2) => self.subscribe(id),
            ("mining.extranonce.subscribe", Dialect::EthereumStratum1) | ("mining.noop", _) => {
                self.accept(id);
            }
            ("mining.authorize", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
                if !self.subscribed =>
            {
                self.refuse(id, Refusal::Unauthorized);
            }
            ("mining.authorize", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
            | ("eth_submitLogin" | "eth_login", Dialect::EthProxy) => return self.login(message).map(Some),
            ("mining.bye", _) => return Ok(Some(Asked::Bye)),
            ("eth_getWork", Dialect::EthProxy)
            | ("mining.submit", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
            | ("eth_submitWork", Dialect::EthProxy)
                if self.workers.is_empty() =>
            {
                self.refuse(id, Refusal::Unauthorized);
            }
            ("eth_getWork", Dialect::EthProxy) => return Ok(Some(Asked::Work { id: id.clone() })),
            ("mining.submit", _) | ("eth_submitWork", Dialect::EthProxy) => {
                return Ok(self.share(dialect, message)?.map(Asked::Share));
            }
            ("mining.hashrate", Dialect::EthereumStratum2) | ("eth_submitHashrate", _) => {
                return self.hashrate(dialect, message);
            }
            // Asked by miners that take themselves for asked something.
            ("client.get_version" | "mining.get_version", _) => self.accept(id),
            _ => self.refuse(id, Refusal::UnknownMethod),
        }
        Ok(None)
    }

    /// Lets in `user` with `worker` and answers the login. The number of the worker within the
    /// session; `None`, with a refusal as the answer, when there are too many.
    pub fn admit(&mut self, id: &Value, user: &str, worker: Option<&str>) -> Option<usize> {
        let account = match worker {
            Some(worker) => format!("{user}.{worker}"),
            None => user.to_owned(),
        };
        let place = match self.workers.iter().position(|known| *known == account) {
            Some(place) => place,
            None if self.workers.len() < WORKERS_MAX => {
                self.workers.push(account);
                self.workers.len() - 1
            }
            None => {
                self.refuse(id, Refusal::TooMany);
                return None;
            }
        };
        self.answer_login(id, place);
        Some(place)
    }
}

/// The dialect that a first request belongs to.
fn first_word(method: &str, params: &Value) -> Option<Dialect> {
    let asks = |version: &str| {
        params
            .get(1)
            .and_then(Value::as_str)
            .is_some_and(|name| name.eq_ignore_ascii_case(version))
    };
    match method {
        "mining.hello" => Some(Dialect::EthereumStratum2),
        "mining.subscribe" if asks(Dialect::EthereumStratum1.name()) => Some(Dialect::EthereumStratum1),
        "eth_submitLogin" | "eth_login" => Some(Dialect::EthProxy),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
