//! Turns redb's panics and damaged pages into errors of the read or write that met them.
//!
//! redb trusts the bytes of its pages. On damaged bytes it sometimes panics and sometimes finds
//! fewer rows than there are. So every call into redb runs in [`guarded`]. It catches panics, and
//! [`note_damage`] tells it about damaged pages. Knows neither tables nor files.

use std::cell::Cell;
use std::sync::Once;

use primitives::{PanicMessage, catch_panic};

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The first damaged page that this thread has read in the current call.
    static DAMAGE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The reason why a guarded call has no usable result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The call read a page whose bytes do not match its checksum.
    #[error("page {page} does not match its checksum")]
    Damaged {
        /// The number of the page.
        page: u64,
    },
    /// The call panicked with this message.
    #[error("redb panicked: {0}")]
    Panicked(PanicMessage),
}

/// Notes that the current call has read a damaged page. [`guarded`] then discards its result.
pub(crate) fn note_damage(page: u64) {
    DAMAGE.with(|damage| damage.set(damage.get().or(Some(page))));
}

/// Runs a call into redb.
///
/// # Errors
/// [`CallFailure`] when the call panics or reads a damaged page.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, CallFailure> {
    DAMAGE.set(None);
    let outside = INSIDE.replace(true);
    // Rows that a panic leaves half written are in a transaction that is not committed then. What
    // redb has in memory may be unusable after that: see `CallMonitor::run_transaction`.
    let result = catch_panic(work);
    INSIDE.set(outside);
    if let Some(page) = DAMAGE.take() {
        return Err(CallFailure::Damaged { page });
    }
    result.map_err(CallFailure::Panicked)
}

/// Installs a panic hook that does not print the panics which [`StoreError`](crate::StoreError)
/// reports. All other panics are printed as before.
///
/// A program calls this once at its start. Further calls do nothing.
pub fn quiet_contained_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !INSIDE.get() {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_panics_and_damage_are_distinguished() {
        quiet_contained_panics();
        assert_eq!(guarded(|| 5), Ok(5));
        assert_eq!(
            guarded(|| -> u8 { panic!("as {}", "asked") }),
            Err(CallFailure::Panicked("as asked".into()))
        );
        let damaged = || {
            note_damage(7);
            note_damage(8);
        };
        assert_eq!(guarded(damaged), Err(CallFailure::Damaged { page: 7 }));
        // If a call reads a damaged page and panics, the damage is reported.
        let both = || -> u8 {
            note_damage(9);
            panic!("unreachable")
        };
        assert_eq!(guarded(both), Err(CallFailure::Damaged { page: 9 }));
        // Damage noted before a call does not count for it.
        note_damage(3);
        assert_eq!(guarded(|| 6), Ok(6));
    }
}
