//! The claim of a connection to its place.

use std::time::Instant;

use parking_lot::Mutex;

/// The claim of a connection to its place. The weakest claim comes first.
///
/// A server whose clients ask as soon as they have connected has no use for [`Claim::New`]: the
/// first request may be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The client has only connected so far.
    New,
    /// The client has said what it wants.
    Known,
    /// The client does what the server is there for. Its connection never makes room.
    Active,
}

/// Knows what a connection does. It is asked only when a connection has to make room.
pub trait Claimant {
    /// The connection's claim at the time `now`, and since when it has been idle.
    fn claim(&self, now: Instant) -> (Claim, Instant);
}

/// A claim that the connection states itself, each time that it changes.
#[derive(Debug)]
pub struct StatedClaim(Mutex<(Claim, Instant)>);

impl StatedClaim {
    /// The claim of a client that connects at the time `now`.
    pub const fn new(now: Instant) -> Self {
        Self(Mutex::new((Claim::New, now)))
    }

    /// Sets how good the claim is, and since when the connection has been idle.
    pub fn set(&self, claim: Claim, since: Instant) {
        *self.0.lock() = (claim, since);
    }
}

impl Claimant for StatedClaim {
    fn claim(&self, _: Instant) -> (Claim, Instant) {
        *self.0.lock()
    }
}
