//! Runs a job that may panic, and makes the panic an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `job`. If it panics, returns the panic's message as the error.
///
/// The caller must not use anything that a panic in `job` may have left half changed.
///
/// # Errors
/// The [`PanicMessage`].
pub fn catch_panic<T>(job: impl FnOnce() -> T) -> Result<T, PanicMessage> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| PanicMessage::of(&*payload))
}

/// The message of a panic, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PanicMessage(String);

impl PanicMessage {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        message.unwrap_or("no reason given").into()
    }
}

impl From<&str> for PanicMessage {
    fn from(text: &str) -> Self {
        Self(text.replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_on_one_line() {
        assert_eq!(catch_panic(|| 5), Ok(5));
        let two = 2;
        let formatted = catch_panic(|| -> u8 { panic!("line 1\nline {two}") });
        assert_eq!(formatted, Err("line 1 line 2".into()));
        assert_eq!(catch_panic(|| panic!("fixed")), Err::<(), _>("fixed".into()));
        let other = catch_panic(|| std::panic::panic_any(5));
        assert_eq!(other, Err::<(), _>("no reason given".into()));
    }
}
