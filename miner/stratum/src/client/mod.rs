//! A miner's session with a pool: logs in, follows difficulty and extranonce, turns notices into
//! jobs.
//!
//! Takes lines and gives events and lines; when to connect, to give up or to speak is the caller's
//! business, who also keeps the clock.

mod notice;
mod request;

use std::collections::HashMap;
use std::time::Duration;

use ethash::{B256, Epoch, Schedule, WorkPackage};
use serde_json::Value;

use crate::message::{Envelope, ErrorReply, MessageError, shortened};
use crate::{Dialect, Extranonce};
use request::Pending;

/// Most requests that may wait for their answers; a pool that answers none is no pool.
const PENDING_MAX: usize = 1024;

/// With what a session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The wallet or account.
    pub user: String,
    /// The rig's name.
    pub worker: Option<String>,
    /// Most pools ignore it.
    pub password: String,
    /// Name and version of the mining program.
    pub agent: String,
    /// The pool's host, as it is known here.
    pub host: String,
    /// The pool's port.
    pub port: u16,
}

impl Login {
    /// `user.worker`, or the user alone.
    pub fn account(&self) -> String {
        match &self.worker {
            Some(worker) => format!("{}.{worker}", self.user),
            None => self.user.clone(),
        }
    }
}

/// Work from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The pool's name for it; empty in eth-proxy, where the header hash is the name.
    pub id: String,
    /// What to search; the boundary is that of a share.
    pub package: WorkPackage,
    /// With what every nonce must begin.
    pub extranonce: Extranonce,
    /// Shares of jobs before it are worth nothing any more.
    pub clean: bool,
}

/// What became of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Counted.
    Accepted,
    /// Counted, though its job was over.
    AcceptedStale,
    /// Not counted, for its job was over.
    Stale(ErrorReply),
    /// Not counted.
    Rejected(ErrorReply),
}

/// What a pool has brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pool takes this miner.
    LoggedIn,
    /// New work.
    Job(Job),
    /// The answer to share `id`.
    Answer {
        /// As [`Session::submit`] gave it.
        id: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// The pool asks to be left for another address, or for its own again.
    Reconnect {
        /// Where; the same host when `None`.
        host: Option<String>,
        /// The same port when `None`.
        port: Option<u16>,
        /// Not before this time has passed.
        wait: Duration,
    },
    /// The pool ends the session.
    Bye,
    /// Something for the log.
    Note(String),
}

/// Why a session cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// What came cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The first request got an error: the pool speaks another dialect.
    #[error("the pool does not speak {dialect}: {reason}")]
    OtherDialect {
        /// The dialect tried.
        dialect: Dialect,
        /// The pool's words.
        reason: ErrorReply,
    },
    /// The pool does not take this login.
    #[error("login of {account} refused: {reason}")]
    LoginRefused {
        /// Who was refused.
        account: String,
        /// The pool's words.
        reason: ErrorReply,
    },
    /// The pool compresses, which was not asked for.
    #[error("the pool wants encoding {got:?}, expected plain")]
    Encoding {
        /// What it wants.
        got: String,
    },
    /// Requests pile up without answers.
    #[error("{got} requests without an answer, at most {max} may wait")]
    Unanswered {
        /// How many there are.
        got: usize,
        /// How many there may be.
        max: usize,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    dialect: Dialect,
    login: Login,
    schedule: Schedule,
    last_id: u64,
    pending: HashMap<u64, Pending>,
    output: Vec<u8>,
    /// The pool has answered the first request well.
    spoken: bool,
    logged_in: bool,
    /// The pool's name for this miner, in EthereumStratum/2.0.0.
    worker_token: String,
    /// For the next job, as are the fields below.
    extranonce: Extranonce,
    boundary: B256,
    /// Of `mining.set`; absent in the other dialects.
    epoch: Option<Epoch>,
    /// How long the pool bears silence, where it says.
    silence_max: Option<Duration>,
}

impl Session {
    /// A session in `dialect`; what to send first lies in [`take_output`](Self::take_output).
    ///
    /// `schedule` says which epoch a seed or a block belongs to.
    pub fn new(dialect: Dialect, login: Login, schedule: Schedule) -> Self {
        let mut session = Self {
            dialect,
            login,
            schedule,
            last_id: 0,
            pending: HashMap::new(),
            output: Vec::new(),
            spoken: false,
            logged_in: false,
            worker_token: String::new(),
            extranonce: Extranonce::default(),
            boundary: notice::default_boundary(),
            epoch: None,
            silence_max: None,
        };
        session.greet();
        session
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the pool takes shares from this session.
    pub fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    /// How long the pool bears silence, where it has said so.
    pub fn silence_max(&self) -> Option<Duration> {
        self.silence_max
    }

    /// Shares without an answer.
    pub fn shares_waiting(&self) -> usize {
        let shares = self
            .pending
            .values()
            .filter(|pending| **pending == Pending::Submit);
        shares.count()
    }

    /// The lines to be sent, each with its end.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.output)
    }

    /// Takes a line from the pool.
    ///
    /// # Errors
    /// [`SessionError`] when the session must end.
    pub fn receive(&mut self, line: &[u8]) -> Result<Vec<Event>, SessionError> {
        let message = Envelope::parse(line)?;
        if message.method.is_some() {
            return self.take_notice(message);
        }
        let pending = message.id.as_u64().and_then(|id| self.pending.remove(&id));
        if let (Some(pending), Some(id)) = (pending, message.id.as_u64()) {
            return self.take_answer(id, pending, &message);
        }
        if self.dialect == Dialect::EthProxy && message.result.is_array() {
            // A job, in the guise of an answer that nobody asked for.
            return Ok(vec![Event::Job(self.proxy_job(&message.result)?)]);
        }
        // Some pools answer a refused login under an id of their own.
        match message.error {
            Some(reason) if !self.spoken => Err(self.other_dialect(reason)),
            Some(reason) if !self.logged_in => Err(self.login_refused(reason)),
            Some(reason) => Ok(vec![Event::Note(format!("the pool says: {reason}"))]),
            None => Ok(Vec::new()),
        }
    }

    fn take_answer(
        &mut self,
        id: u64,
        pending: Pending,
        message: &Envelope,
    ) -> Result<Vec<Event>, SessionError> {
        let error = message.error.clone();
        match pending {
            Pending::Hello => self.take_hello(message),
            Pending::Subscribe => self.take_subscription(message),
            Pending::Authorize => self.take_authorization(message),
            Pending::GetWork if message.result.is_array() => {
                Ok(vec![Event::Job(self.proxy_job(&message.result)?)])
            }
            Pending::GetWork => {
                let reason = error.unwrap_or_default();
                Ok(vec![Event::Note(format!("the pool has no work yet: {reason}"))])
            }
            Pending::Submit => Ok(vec![Event::Answer {
                id,
                outcome: outcome(self.dialect, error, &message.result),
            }]),
            // Not every pool knows these, and nothing depends on them.
            Pending::ExtranonceSubscribe | Pending::Hashrate | Pending::Noop => Ok(Vec::new()),
        }
    }

    fn take_subscription(&mut self, message: &Envelope) -> Result<Vec<Event>, SessionError> {
        if let Some(reason) = refusal(message) {
            return Err(if self.spoken {
                self.login_refused(reason)
            } else {
                self.other_dialect(reason)
            });
        }
        if self.dialect == Dialect::EthereumStratum1 {
            self.take_first_extranonce(&message.result)?;
        }
        self.spoken = true;
        self.authorize();
        Ok(Vec::new())
    }

    fn take_authorization(&mut self, message: &Envelope) -> Result<Vec<Event>, SessionError> {
        if let Some(reason) = refusal(message) {
            // eth-proxy has no greeting: its login is also the question whether the pool speaks it.
            let unknown = self.dialect == Dialect::EthProxy && reason.message.contains("ethod");
            return Err(if unknown {
                self.other_dialect(reason)
            } else {
                self.login_refused(reason)
            });
        }
        if let Some(token) = message.result.as_str() {
            self.worker_token = shortened(token);
        }
        self.spoken = true;
        self.logged_in = true;
        if self.dialect == Dialect::EthProxy {
            self.get_work();
        }
        Ok(vec![Event::LoggedIn])
    }

    fn other_dialect(&self, reason: ErrorReply) -> SessionError {
        SessionError::OtherDialect {
            dialect: self.dialect,
            reason,
        }
    }

    fn login_refused(&self, reason: ErrorReply) -> SessionError {
        let account = match self.login.account() {
            none if none.is_empty() => "nobody (no account is given)".to_owned(),
            account => account,
        };
        SessionError::LoginRefused { account, reason }
    }
}

/// Why a login or greeting failed, if it did: an error, or a plain no.
fn refusal(message: &Envelope) -> Option<ErrorReply> {
    match (&message.error, &message.result) {
        // EthereumStratum/2.0.0: done, with a remark.
        (Some(error), _) if (200..300).contains(&error.code) => None,
        (Some(error), _) => Some(error.clone()),
        (None, Value::Bool(false)) => Some(ErrorReply::default()),
        (None, _) => None,
    }
}

/// What the answer to a share means.
fn outcome(dialect: Dialect, error: Option<ErrorReply>, result: &Value) -> Outcome {
    match error {
        Some(error) if dialect == Dialect::EthereumStratum2 && (200..300).contains(&error.code) => {
            Outcome::AcceptedStale
        }
        Some(error) if is_stale(&error) => Outcome::Stale(error),
        Some(error) => Outcome::Rejected(error),
        // EthereumStratum/2.0.0 answers a good share with nothing but its id.
        None if *result == Value::Bool(false) => Outcome::Rejected(ErrorReply::default()),
        None => Outcome::Accepted,
    }
}

/// Whether a pool's reason means that the job was over. There is no number for it that all use.
fn is_stale(error: &ErrorReply) -> bool {
    let message = error.message.to_ascii_lowercase();
    error.code == 21
        || ["stale", "job not found", "unknown job", "no such work", "old job"]
            .iter()
            .any(|word| message.contains(word))
}

#[cfg(test)]
mod tests;
