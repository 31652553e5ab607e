//! The envelope that all dialects share: id, method and parameters, or id and answer.
//!
//! Reads what pools and miners really send: ids of any kind, errors as objects, lists or text. What
//! method and parameters mean is decided by the sessions.

use core::fmt;

use serde_json::{Map, Value};

use crate::values::entry;

/// Longest text taken from an error or a message to people.
const TEXT_LEN_MAX: usize = 256;
/// Longest id that is repeated in an answer.
const ID_LEN_MAX: usize = 64;

/// Why a line is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is no JSON object.
    #[error("got {got:?}, expected a JSON object")]
    NoObject {
        /// The beginning of the line.
        got: String,
    },
    /// A value in it is of the wrong kind.
    #[error("{what}: got {got}, expected {expected}")]
    Value {
        /// Which value.
        what: &'static str,
        /// What stood there.
        got: String,
        /// What should have.
        expected: &'static str,
    },
}

/// What the other side says is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReply {
    /// Its number for it; 0 where it gave none.
    pub code: i64,
    /// Its words.
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

/// A line, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Envelope {
    /// As it came; null where there is none.
    pub(crate) id: Value,
    /// Set in requests and notifications.
    pub(crate) method: Option<String>,
    pub(crate) params: Value,
    /// Null where there is none.
    pub(crate) result: Value,
    pub(crate) error: Option<ErrorReply>,
    /// eth-proxy's name of the rig, beside the parameters.
    pub(crate) worker: Option<String>,
}

impl Envelope {
    pub(crate) fn parse(line: &[u8]) -> Result<Self, MessageError> {
        let no_object = || MessageError::NoObject {
            got: String::from_utf8_lossy(line).chars().take(80).collect(),
        };
        let Ok(Value::Object(mut object)) = serde_json::from_slice(line) else {
            return Err(no_object());
        };
        let mut take = |name: &str| object.remove(name).unwrap_or(Value::Null);
        let id = take("id");
        if id.is_array() || id.is_object() || id.as_str().is_some_and(|id| id.len() > ID_LEN_MAX) {
            return Err(no_object());
        }
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            _ => None,
        };
        Ok(Self {
            id,
            method: text(take("method")).filter(|method| !method.is_empty()),
            params: take("params"),
            result: take("result"),
            error: read_error(&take("error")),
            worker: text(take("worker")),
        })
    }
}

/// Reads an error in any of its forms: an object, a list, a text. Null is none.
fn read_error(value: &Value) -> Option<ErrorReply> {
    let (code, message) = match value {
        Value::Null => return None,
        Value::Object(object) => (member(object, "code"), member(object, "message")),
        Value::Array(_) => (entry(value, 0), entry(value, 1)),
        other => (&Value::Null, other),
    };
    Some(ErrorReply {
        code: code.as_i64().unwrap_or_default(),
        message: shortened(message.as_str().unwrap_or_default()),
    })
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// Text of the other side, fit for a log: short, and without control characters.
pub(crate) fn shortened(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .take(TEXT_LEN_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_come_in_many_forms() {
        let check = |error: &str, expected: Option<(i64, &str)>| {
            let line = format!(r#"{{"id":1,"error":{error}}}"#);
            let got = Envelope::parse(line.as_bytes()).expect("an object").error;
            let got = got.as_ref().map(|error| (error.code, error.message.as_str()));
            assert_eq!(got, expected, "{error}");
        };
        check("null", None);
        check(
            r#"{"code":404,"message":"Job not found"}"#,
            Some((404, "Job not found")),
        );
        check(r#"[-1,"Job not found",null]"#, Some((-1, "Job not found")));
        check(r#""no\u001b[31m way""#, Some((0, "no[31m way")));
        check("[]", Some((0, "")));
        check("7", Some((0, "")));
    }

    #[test]
    fn only_objects_are_messages() {
        for bad in ["", "[]", "1", "{", r#"{"id":[1]}"#, r#"{"id":{}}"#, "\u{fffd}"] {
            assert!(Envelope::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = [b"{\"a\":".repeat(10_000), b"1".to_vec(), b"}".repeat(10_000)].concat();
        assert!(
            Envelope::parse(&deep).is_err(),
            "deep nesting ends nothing but the line"
        );
        let message =
            Envelope::parse(br#"{"id":null,"method":"mining.notify","params":[1]}"#).expect("an object");
        assert_eq!(message.method.as_deref(), Some("mining.notify"));
        assert_eq!((message.id, message.params), (Value::Null, json!([1])));
    }
}
