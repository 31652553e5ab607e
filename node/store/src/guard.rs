//! Damaged pages and the database's own panics become errors of the read or write they hit.
//!
//! redb trusts its pages: on bytes that it did not write it panics in places, and in others
//! finds less than there is. So every call into it runs in [`guarded`], which catches the one,
//! and learns from [`note_damage`] of the other. Knows neither tables nor files.

use std::cell::Cell;
use std::sync::Once;

use primitives::catch_panic;

thread_local! {
    /// Within [`guarded`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The first damaged page that this thread has read in the present call.
    static DAMAGE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Why a guarded call gave nothing that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fall {
    /// It read a page that is not as it was written.
    Damaged {
        /// The page's number.
        page: u64,
    },
    /// It panicked.
    Panicked(String),
}

/// Says that the present call reads a damaged page: whatever it gives is not to be used.
pub(crate) fn note_damage(page: u64) {
    DAMAGE.with(|damage| damage.set(damage.get().or(Some(page))));
}

/// Runs a call into the database.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Fall> {
    DAMAGE.set(None);
    let outside = INSIDE.replace(true);
    // Whatever a panic leaves half done lies in a transaction that is not committed then.
    let result = catch_panic(work);
    INSIDE.set(outside);
    if let Some(page) = DAMAGE.take() {
        return Err(Fall::Damaged { page });
    }
    result.map_err(Fall::Panicked)
}

/// Keeps panics that become errors here from being printed as if the program were ending.
/// Others print as before. Programs call it once at their start; later calls do nothing.
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
    fn values_panics_and_damage_are_told_apart() {
        quiet_contained_panics();
        assert_eq!(guarded(|| 5), Ok(5));
        assert_eq!(
            guarded(|| -> u8 { panic!("as {}", "asked") }),
            Err(Fall::Panicked("as asked".to_owned()))
        );
        let damaged = || {
            note_damage(7);
            note_damage(8);
        };
        assert_eq!(guarded(damaged), Err(Fall::Damaged { page: 7 }));
        // A panic on a damaged page is the page's fault, and the next call has nothing of it.
        let both = || -> u8 {
            note_damage(9);
            panic!("unreachable")
        };
        assert_eq!(guarded(both), Err(Fall::Damaged { page: 9 }));
        note_damage(3);
        assert_eq!(guarded(|| 6), Ok(6));
    }
}
