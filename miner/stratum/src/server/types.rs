//! The values that a caller exchanges with a session.

use ethash::{B256, WorkPackage};
use serde_json::Value;

use crate::{Dialect, Extranonce};

/// The facts about its server that a session needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Name and version of the node.
    pub agent: String,
    /// After this many seconds without a message the server ends the session.
    pub silence_secs_max: u64,
    /// After this many bad messages the server ends the session.
    pub errors_max: u32,
    /// The leading digits of all nonces of this session.
    pub extranonce: Extranonce,
    /// The number of this session, which identifies it to the miner.
    pub session: u64,
}

/// Work as it is announced to a miner.
#[derive(Clone, Copy, Debug)]
pub struct AnnouncedJob<'a> {
    /// The number of the job, which is its id in EthereumStratum.
    pub number: u64,
    /// The work.
    pub package: &'a WorkPackage,
    /// The highest final hash of a share. Must not be below the work's own boundary.
    pub share_boundary: &'a B256,
    /// Whether shares of earlier jobs are no longer accepted.
    pub clean: bool,
}

/// A request of a miner that the caller must handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MinerRequest {
    /// A login. Answer with [`admit`](super::ServerSession::admit) or
    /// [`refuse`](super::ServerSession::refuse).
    Login {
        /// The id for the answer.
        id: Value,
        /// The account.
        user: String,
        /// The name of the rig.
        worker: Option<String>,
        /// The password; empty if there was none.
        password: String,
    },
    /// A request for the current work. Answer with [`give_work`](super::ServerSession::give_work).
    Work {
        /// The id for the answer.
        id: Value,
    },
    /// A share. Answer with [`accept`](super::ServerSession::accept),
    /// [`accept_stale`](super::ServerSession::accept_stale) or
    /// [`refuse`](super::ServerSession::refuse).
    Share(ShareClaim),
    /// A report of the hashrate. The session has already answered it.
    Hashrate {
        /// The index of the worker in the order of logins.
        worker: usize,
        /// Hashes per second.
        rate: u64,
    },
    /// The miner ends the session.
    Bye,
}

/// A submitted share that is not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareClaim {
    /// The id for the answer.
    pub id: Value,
    /// The job of the share.
    pub job: JobId,
    /// The whole nonce.
    pub pow_nonce: u64,
    /// The mix hash. `None` in the dialects that do not send it.
    pub mix_hash: Option<B256>,
    /// The index of the worker in the order of logins.
    pub worker: usize,
}

/// The name by which a share identifies its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobId {
    /// By [`AnnouncedJob::number`]. `None` if the id in the message is not a number.
    Number(Option<u64>),
    /// By the header hash.
    Header(B256),
}

/// The reason for which a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The job is over.
    Stale,
    /// There is no such job.
    UnknownJob,
    /// The same share was submitted before.
    Duplicate,
    /// The final hash is above the share boundary.
    LowDifficulty,
    /// The nonce does not begin with the session's extranonce, or the mix hash is wrong.
    BadNonce,
    /// The worker is not logged in.
    Unauthorized,
    /// The login is not accepted.
    BadLogin,
    /// The request cannot be read.
    Malformed,
    /// There is no such method.
    UnknownMethod,
    /// Too many requests or workers.
    TooMany,
    /// There is no work now.
    NoWork,
    /// The server has failed.
    Internal,
}

impl RejectReason {
    /// The text of the error.
    pub const fn message(self) -> &'static str {
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

    /// The code of the error: from the ranges of EthereumStratum/2.0.0, or the codes that older
    /// pools have in common.
    pub(super) const fn code(self, dialect: Option<Dialect>) -> i64 {
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
