//! Errors in messages: those that this package finds, and those that the other side reports.

use core::fmt;

/// An error in a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The line is not JSON.
    #[error("message: got {got:?}, expected JSON")]
    NotJson {
        /// The beginning of the line.
        got: String,
    },
    /// The line is JSON of another kind.
    #[error("message: got {got:?}, expected a JSON object")]
    NoObject {
        /// The beginning of the line.
        got: String,
    },
    /// A value in the message has the wrong type or form.
    #[error("{what}: got {got}, expected {expected}")]
    Value {
        /// The name of the value.
        what: &'static str,
        /// The actual value.
        got: String,
        /// The expected form.
        expected: &'static str,
    },
}

/// An error that the other side reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReply {
    /// The error code; 0 if there was none.
    pub code: i64,
    /// The error message; empty if there was none.
    pub message: String,
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() {
            "no reason given"
        } else {
            &self.message
        };
        if self.code == 0 {
            f.write_str(message)
        } else {
            write!(f, "{message} ({})", self.code)
        }
    }
}
