//! The form of a message that all dialects share: id, method and parameters, or id and answer.
//!
//! Accepts what real pools and miners send: numbers, strings and null as ids, and errors as
//! objects, lists or text. The sessions decide what methods and parameters mean.

use serde_json::{Map, Value};

use crate::error::{ErrorReply, MessageError};
use crate::values::{decimal, entry, unexpected};

/// The most characters that are kept of an error message or a text for people.
const TEXT_LEN_MAX: usize = 256;
/// Length in bytes of the longest accepted id. Answers repeat the id.
const ID_LEN_MAX: usize = 64;

/// A message with its members, before they are interpreted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StratumMessage {
    /// The id as it was sent; null if there was none.
    pub(crate) id: Value,
    /// Set in requests and notifications, `None` in answers.
    pub(crate) method: Option<String>,
    /// Null if there were none.
    pub(crate) params: Value,
    /// Null if there was none.
    pub(crate) result: Value,
    pub(crate) error: Option<ErrorReply>,
    /// The name of the rig, which eth-proxy sends beside the parameters.
    pub(crate) worker: Option<String>,
}

impl StratumMessage {
    /// Reads a line.
    ///
    /// # Errors
    /// [`MessageError`] if the line is not a JSON object with an acceptable id, or if its method is
    /// not a text.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, MessageError> {
        let got = || String::from_utf8_lossy(line).chars().take(80).collect();
        let mut object = match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err(MessageError::NoObject { got: got() }),
            Err(_) => return Err(MessageError::NotJson { got: got() }),
        };
        let mut take = |name: &str| object.remove(name).unwrap_or(Value::Null);
        let id = take("id");
        if id.is_array() || id.is_object() || id.as_str().is_some_and(|id| id.len() > ID_LEN_MAX) {
            return Err(unexpected(
                "id",
                &id,
                "a number, a text of at most 64 bytes or null",
            ));
        }
        let method = take("method");
        if !method.is_string() && !method.is_null() {
            return Err(unexpected("method", &method, "a text"));
        }
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            _ => None,
        };
        Ok(Self {
            id,
            method: text(method).filter(|method| !method.is_empty()),
            params: take("params"),
            result: take("result"),
            error: read_error(&take("error")),
            worker: text(take("worker")),
        })
    }

    /// The id as a number. Some pools answer with a text of its decimal digits.
    pub(crate) fn id_number(&self) -> Option<u64> {
        decimal(&self.id)
    }
}

/// Reads an error in any of its forms: an object, a list or a text. `None` for null.
fn read_error(value: &Value) -> Option<ErrorReply> {
    let (code, message) = match value {
        Value::Null | Value::Bool(false) => return None,
        Value::Object(object) => (member(object, "code"), member(object, "message")),
        Value::Array(_) => (entry(value, 0), entry(value, 1)),
        other => (&Value::Null, other),
    };
    Some(ErrorReply {
        code: code.as_i64().unwrap_or_default(),
        message: printable(message.as_str().unwrap_or_default()),
    })
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// A text from the other side, made safe for a log: short and without control characters.
pub(crate) fn printable(text: &str) -> String {
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
            let got = StratumMessage::parse(line.as_bytes()).expect("an object").error;
            let got = got.as_ref().map(|error| (error.code, error.message.as_str()));
            assert_eq!(got, expected, "{error}");
        };
        check("null", None);
        check("false", None);
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
        for (bad, expected) in [
            ("", "expected JSON"),
            ("{", "expected JSON"),
            ("\u{fffd}", "expected JSON"),
            ("[]", "expected a JSON object"),
            ("1", "expected a JSON object"),
            (r#"{"id":[1]}"#, "id: got [1], expected a number"),
            (r#"{"id":{}}"#, "id: got {}, expected a number"),
            (r#"{"method":7}"#, "method: got 7, expected a text"),
        ] {
            let error = StratumMessage::parse(bad.as_bytes()).expect_err(bad).to_string();
            assert!(error.contains(expected), "{bad}: {error}");
        }
        let deep = [b"{\"a\":".repeat(10_000), b"1".to_vec(), b"}".repeat(10_000)].concat();
        assert!(
            StratumMessage::parse(&deep).is_err(),
            "deep nesting is an error and does not crash"
        );
        let message = StratumMessage::parse(br#"{"id":null,"method":"mining.notify","params":[1]}"#)
            .expect("an object");
        assert_eq!(message.method.as_deref(), Some("mining.notify"));
        assert_eq!((message.id, message.params), (Value::Null, json!([1])));
    }
}
