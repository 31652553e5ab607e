//! A pool's session with a miner: finds out the dialect, reads requests, writes answers and jobs.
//!
//! The caller decides which logins are good, what a share is worth and when there is work. The
//! session knows the messages. It answers greetings itself, because nothing depends on them.
//!
//! | file | content |
//! |---|---|
//! | `types.rs` | what the caller gives a session and gets from it |
//! | `session.rs` | the state of a session, and the choice of what a message means |
//! | `request.rs` | how requests are read |
//! | `reply.rs` | how answers and jobs are written |

mod reply;
mod request;
mod session;
#[cfg(test)]
mod tests;
mod types;

pub use session::ServerSession;
pub use types::{AnnouncedJob, JobId, MinerRequest, RejectReason, ServerSettings, ShareClaim};
