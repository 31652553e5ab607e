//! Panics as values: running a job that may panic, and the text of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `job`. If it panics, returns the panic's message as the error.
///
/// The caller must not use anything that a panic in `job` may have left half changed.
///
/// # Errors
/// The text of [`panic_message`].
pub fn catch_panic<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| panic_message(&*payload))
}

/// The message of a panic, on one line.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    message.unwrap_or("no reason given").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_on_one_line() {
        assert_eq!(catch_panic(|| 5), Ok(5));
        let two = 2;
        let formatted = catch_panic(|| -> u8 { panic!("line 1\nline {two}") });
        assert_eq!(formatted, Err("line 1 line 2".to_owned()));
        assert_eq!(catch_panic(|| panic!("fixed")), Err::<(), _>("fixed".to_owned()));
        let other = catch_panic(|| std::panic::panic_any(5));
        assert_eq!(other, Err::<(), _>("no reason given".to_owned()));
    }
}
