//! A miner's session with a pool: logs in, follows difficulty and extranonce, and turns notices
//! into jobs.
//!
//! A session takes lines and returns events and lines. The caller decides when to connect, to give
//! up and to send, and has the clock.
//!
//! | file | content |
//! |---|---|
//! | `event.rs` | what a session tells its caller: jobs, outcomes of shares, errors |
//! | `session.rs` | the state of a session |
//! | `request.rs` | requests to the pool |
//! | `answer.rs` | the pool's answers to them |
//! | `notice.rs` | what the pool sends by itself: jobs, difficulty, extranonce |

mod answer;
mod event;
mod notice;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub use event::{ClientSessionError, Login, PoolEvent, PoolJob, ShareOutcome};
pub use session::ClientSession;
