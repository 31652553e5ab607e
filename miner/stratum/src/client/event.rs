//! The login of a session, and its events for the caller.

use std::time::Duration;

use ethash::WorkPackage;

use crate::{Dialect, ErrorReply, Extranonce, MessageError};

/// The account with which a session logs in to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The wallet or account.
    pub user: String,
    /// The name of the rig.
    pub worker: Option<String>,
    /// The password. Most pools ignore it.
    pub password: String,
    /// Name and version of the mining program.
    pub agent: String,
    /// The host of the pool, as the miner knows it.
    pub host: String,
    /// The port of the pool.
    pub port: u16,
}

impl Login {
    /// `user.worker`, or only the user if there is no worker.
    pub fn account(&self) -> String {
        match &self.worker {
            Some(worker) => format!("{}.{worker}", self.user),
            None => self.user.clone(),
        }
    }
}

/// Work from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolJob {
    /// The pool's id of the job. Empty in eth-proxy, where the header hash identifies the job.
    pub id: String,
    /// The work. Its boundary is that of a share.
    pub package: WorkPackage,
    /// The digits with which every nonce must begin.
    pub extranonce: Extranonce,
    /// Whether the pool has said that it no longer accepts shares of earlier jobs. Pools of
    /// eth-proxy do not say it.
    pub clean: bool,
}

/// The pool's answer to a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareOutcome {
    /// The share counts.
    Accepted,
    /// The share counts, although its job was over.
    AcceptedStale,
    /// The share does not count, because its job was over.
    Stale(ErrorReply),
    /// The share does not count for another reason.
    Rejected(ErrorReply),
    /// The answer says neither yes nor no, so the share may count or not.
    Unknown {
        /// The beginning of the result.
        got: String,
    },
}

/// Something that the pool has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// The pool has accepted the login.
    LoggedIn,
    /// There is new work.
    Job(PoolJob),
    /// The answer to a share.
    Answer {
        /// The id that [`ClientSession::submit`](super::ClientSession::submit) returned.
        id: u64,
        /// The answer.
        outcome: ShareOutcome,
    },
    /// The pool asks the miner to connect again.
    Reconnect {
        /// The new host; `None` for the same one.
        host: Option<String>,
        /// The new port; `None` for the same one.
        port: Option<u16>,
        /// The time to wait before that.
        wait: Duration,
    },
    /// The pool ends the session.
    Bye,
    /// A text for the log.
    Note(String),
    /// A message that cannot be understood. It has changed nothing, and the session goes on. The
    /// caller decides how many of them are too many.
    Skipped {
        /// The fault of the message.
        reason: MessageError,
        /// Whether the message was not the answer to a request.
        is_notice: bool,
    },
}

/// The reason for which a session must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientSessionError {
    /// The answer to a greeting or login cannot be read, so the login cannot go on.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The pool answers the first request with an error: it speaks another dialect.
    #[error("the pool does not speak {dialect}: {reason}")]
    OtherDialect {
        /// The dialect of this session.
        dialect: Dialect,
        /// The error from the pool.
        reason: ErrorReply,
    },
    /// The pool refuses the login.
    #[error("login of {account} refused: {reason}")]
    LoginRefused {
        /// The account of the login.
        account: String,
        /// The error from the pool.
        reason: ErrorReply,
    },
    /// The pool wants to compress messages, which this package cannot do.
    #[error("encoding: got {got:?}, expected plain")]
    Encoding {
        /// The encoding that the pool wants.
        got: String,
    },
    /// Too many requests have no answer.
    #[error("requests without an answer: got {got}, expected fewer than {max}")]
    Unanswered {
        /// Number of requests without an answer.
        got: usize,
        /// The limit.
        max: usize,
    },
}
