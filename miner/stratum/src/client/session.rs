//! The state of a miner's session.

use std::collections::HashMap;
use std::time::Duration;

use ethash::{B256, Epoch, Schedule};
use serde_json::Value;

use super::event::{ClientSessionError, Login, PoolEvent};
use crate::message::StratumMessage;
use crate::values::unexpected;
use crate::{Dialect, ErrorReply, Extranonce};

/// The most requests that may wait for their answers. A pool that leaves so many unanswered is not
/// working.
pub(super) const PENDING_MAX: usize = 1024;

/// The kind of a request that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PendingRequest {
    Hello,
    Subscribe,
    ExtranonceSubscribe,
    Authorize,
    GetWork,
    Submit,
    Hashrate,
    Noop,
}

/// A miner's session with a pool.
#[derive(Debug)]
pub struct ClientSession {
    pub(super) dialect: Dialect,
    pub(super) login: Login,
    pub(super) schedule: Schedule,
    /// The id of the last request.
    pub(super) last_id: u64,
    /// Requests without an answer, by id.
    pub(super) pending: HashMap<u64, PendingRequest>,
    /// The last request of a kind that had no answer when the next one of its kind was sent. Its
    /// answer may still come, and is no answer to a share.
    pub(super) replaced: HashMap<PendingRequest, u64>,
    /// Lines that are not yet sent.
    output: Vec<u8>,
    /// Whether the pool has answered a request of this dialect without an error.
    pub(super) dialect_confirmed: bool,
    pub(super) logged_in: bool,
    /// The pool's name for this miner, in EthereumStratum/2.0.0.
    pub(super) worker_token: String,
    /// The extranonce of the next job.
    pub(super) extranonce: Extranonce,
    /// The boundary of the next job.
    pub(super) boundary: B256,
    /// The epoch of the next job, from `mining.set`. `None` in the other dialects.
    pub(super) epoch: Option<Epoch>,
    pub(super) silence_max: Option<Duration>,
}

/// The boundary of jobs before the pool has set one.
///
/// Difficulty 1 of EthereumStratum/1.0.0, and the default target of EthereumStratum/2.0.0.
fn default_boundary() -> B256 {
    let mut boundary = [0; 32];
    boundary[4..6].fill(0xff);
    B256::from(boundary)
}

impl ClientSession {
    /// A session in `dialect`. Its first request is ready in [`take_output`](Self::take_output).
    ///
    /// `schedule` decides the epoch of a seed hash or a block number.
    pub fn new(dialect: Dialect, login: Login, schedule: Schedule) -> Self {
        let mut session = Self {
            dialect,
            login,
            schedule,
            last_id: 0,
            pending: HashMap::new(),
            replaced: HashMap::new(),
            output: Vec::new(),
            dialect_confirmed: false,
            logged_in: false,
            worker_token: String::new(),
            extranonce: Extranonce::default(),
            boundary: default_boundary(),
            epoch: None,
            silence_max: None,
        };
        session.greet();
        session
    }

    /// The dialect of this session.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the pool has accepted the login.
    pub const fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    /// After this time without a message the pool ends the session. `None` if it has not said a
    /// time.
    pub const fn silence_max(&self) -> Option<Duration> {
        self.silence_max
    }

    /// Number of shares without an answer.
    pub fn shares_waiting(&self) -> usize {
        let shares = self
            .pending
            .values()
            .filter(|pending| **pending == PendingRequest::Submit);
        shares.count()
    }

    /// Returns the lines to send, each with its line feed, and forgets them.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.output)
    }

    /// Gives up waiting for the answer to the request `id`.
    pub fn forget(&mut self, id: u64) {
        self.pending.remove(&id);
    }

    /// Handles a line from the pool. A line that cannot be understood gives
    /// [`PoolEvent::Skipped`].
    ///
    /// # Errors
    /// [`ClientSessionError`] if the session must end.
    pub fn receive(&mut self, line: &[u8]) -> Result<Vec<PoolEvent>, ClientSessionError> {
        let skipped = |is_notice| move |reason| vec![PoolEvent::Skipped { reason, is_notice }];
        let message = match StratumMessage::parse(line) {
            Ok(message) => message,
            Err(reason) => return Ok(skipped(false)(reason)),
        };
        if message.method.is_some() {
            return Ok(self.handle_notice(&message).unwrap_or_else(skipped(true)));
        }
        if let Some(id) = message.id_number()
            && let Some(pending) = self.take_pending(id)
        {
            return self.handle_answer(id, pending, &message);
        }
        if self.dialect == Dialect::EthProxy && message.result.is_array() {
            // eth-proxy sends new jobs as answers without a request.
            return Ok(self.eth_proxy_event(&message.result));
        }
        // Some pools refuse a login with another id than that of the request.
        match message.error {
            Some(reason) if !self.dialect_confirmed => Err(self.other_dialect(reason)),
            Some(reason) if !self.logged_in => Err(self.login_refused(reason)),
            Some(reason) => Ok(vec![PoolEvent::Note(format!("the pool says: {reason}"))]),
            None => Ok(skipped(false)(unexpected(
                "id",
                &message.id,
                "the id of a request without an answer",
            ))),
        }
    }

    /// Takes the kind of the request `id`, which has its answer now.
    fn take_pending(&mut self, id: u64) -> Option<PendingRequest> {
        let pending = self.pending.remove(&id);
        pending.or_else(|| {
            let mut answered = self.replaced.extract_if(|_, replaced| *replaced == id);
            answered.next().map(|(kind, _)| kind)
        })
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }

    pub(super) const fn other_dialect(&self, reason: ErrorReply) -> ClientSessionError {
        ClientSessionError::OtherDialect {
            dialect: self.dialect,
            reason,
        }
    }

    pub(super) fn login_refused(&self, reason: ErrorReply) -> ClientSessionError {
        let account = match self.login.account() {
            account if account.is_empty() => "nobody (no account is given)".to_owned(),
            account => account,
        };
        ClientSessionError::LoginRefused { account, reason }
    }
}
