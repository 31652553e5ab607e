//! The error of a response. Every JSON-RPC error code of the node is chosen in this file.
//!
//! The caller decides which of the errors fits.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::ethereum_texts::ethereum_text;
use crate::modules::NameStyle;

/// The text is not JSON.
const PARSE_ERROR: i32 = -32700;
/// The JSON is not a request.
const INVALID_REQUEST: i32 = -32600;
/// No such method, or its module is not enabled.
const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters do not fit the method.
const INVALID_PARAMS: i32 = -32602;
/// The node fails.
const INTERNAL: i32 = -32603;
/// The method refuses or fails.
const REFUSED: i32 = -32000;
/// A contract reverted, under Ethereum's names of methods.
const REVERTED: i32 = 3;
/// The client calls too often (EIP-1474).
const LIMIT_EXCEEDED: i32 = -32005;

/// The most characters of a caller's name in an error, so that the answer to a batch of long names
/// is not longer than the batch.
const NAME_LEN_MAX: usize = 64;

/// The result of a method: a value, or the error of the response.
pub type RpcResult<T> = Result<T, RpcError>;

/// The error of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    code: i32,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<str>>,
}

impl RpcError {
    /// The text is not JSON: −32700.
    pub fn parse(reason: impl std::fmt::Display) -> Self {
        Self::new(PARSE_ERROR, format!("parse error: {reason}"))
    }

    /// The JSON is not a request: −32600.
    pub(crate) fn invalid_request(reason: impl std::fmt::Display) -> Self {
        Self::new(INVALID_REQUEST, format!("invalid request: {reason}"))
    }

    /// No such method, or its module is not enabled: −32601.
    pub(crate) fn method_not_found(name: &str) -> Self {
        Self::new(
            METHOD_NOT_FOUND,
            format!("the method {} does not exist/is not available", cut_name(name)),
        )
    }

    /// The parameters do not fit the method: −32602.
    pub(crate) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// The parameter at `index`, from 0, cannot be used: −32602.
    pub fn invalid_argument(index: usize, reason: impl std::fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, format!("invalid argument {index}: {reason}"))
    }

    /// The method refuses or fails for a reason that the caller should read: −32000.
    pub fn refused(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(REFUSED, message)
    }

    /// The client calls more often than it may, `per_second` times a second and `burst` times at
    /// once: −32005. It may call again after `wait`.
    pub(crate) fn limit_exceeded(per_second: f64, burst: f64, wait: Duration) -> Self {
        let wait_secs = wait.as_secs_f64().ceil().max(1.0);
        Self::new(
            LIMIT_EXCEEDED,
            format!(
                "limit exceeded: expected at most {per_second} calls a second and {burst} at once; \
                 try again in {wait_secs} s"
            ),
        )
    }

    /// The method refuses or fails because of `error`: −32000.
    pub(crate) fn refused_by(error: impl std::fmt::Display) -> Self {
        Self::refused(error.to_string())
    }

    /// A contract reverted: −32000, or 3 under Ethereum's names. The output of the contract is the
    /// data of the error, as DATA, which clients decode.
    pub fn reverted(message: impl Into<Cow<'static, str>>, output: &[u8]) -> Self {
        Self {
            data: Some(crate::types::data(output).into()),
            ..Self::refused(message)
        }
    }

    /// The error as a method shows it that was called by a name of this style. Under Ethereum's
    /// names the texts are geth's, and a revert has the code 3, by which clients know that there is
    /// data.
    #[must_use]
    pub(crate) fn in_style(mut self, name_style: NameStyle) -> Self {
        if name_style == NameStyle::Native {
            return self;
        }
        if self.data.is_some() {
            self.code = REVERTED;
        }
        if let Some(text) = ethereum_text(&self.message) {
            self.message = text.into();
        }
        self
    }

    /// The node fails: −32603. The text is for the caller. Details belong in the log.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// A result is longer than a response may be: −32000.
    pub(crate) fn too_long(prefix: &str, len_max: usize) -> Self {
        Self::refused(format!("{prefix}the response is longer than {len_max} bytes"))
    }

    /// The memory for messages has too little room for a result: −32000.
    pub(crate) fn no_memory() -> Self {
        Self::refused("too many long responses at the same time: ask for less at once, or try again later")
    }

    fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The JSON-RPC code.
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Data for clients, such as the output of a contract that reverted.
    pub fn data(&self) -> Option<&str> {
        self.data.as_deref()
    }
}

/// A name that a caller has sent, cut for an error.
pub(crate) fn cut_name(name: &str) -> String {
    match name.char_indices().nth(NAME_LEN_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A failure of the node to read its chain, not a fault of the request: −32603. The details are
/// logged and the caller gets a general text.
pub(crate) fn failure(error: impl std::fmt::Display) -> RpcError {
    failure_of("the node could not read its chain data", error)
}

/// Another failure of the node: −32603. The caller gets `what`, and `error` is logged.
pub(crate) fn failure_of(what: &'static str, error: impl std::fmt::Display) -> RpcError {
    log_failure(what, &error);
    RpcError::internal(what)
}

fn log_failure(what: &'static str, error: &dyn std::fmt::Display) {
    tracing::error!(%error, "a request failed because of the node: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &RpcError, code: i32, message: &str) {
        assert_eq!((error.code(), error.message()), (code, message));
    }

    #[test]
    fn texts() {
        check(
            &RpcError::method_not_found("mc_x"),
            -32601,
            "the method mc_x does not exist/is not available",
        );
        check(
            &RpcError::invalid_argument(0, "missing 0x prefix"),
            -32602,
            "invalid argument 0: missing 0x prefix",
        );
        check(&RpcError::refused("unknown account"), -32000, "unknown account");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let error = RpcError::method_not_found(&"ü".repeat(1000));
        assert!(error.message().len() < 250, "{}", error.message());
        assert!(error.message().contains("ü…"));
    }
}
