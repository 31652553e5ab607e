//! JSON-RPC 2.0 messages: request text in, response text out.
//!
//! A parsed message borrows from the body. An id stays text and goes back unchanged, so that big
//! integers and fractions survive. This module knows no methods: parameters stay text too.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::budget::MessageBudget;
use crate::decode::{json_type, string};
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::limits::Limits;
use crate::text::{Text, TextError, TextWriter};

/// The id of a response whose request had no readable id.
const NULL_ID: &str = "null";

/// The content of one body.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    /// One request, valid or not.
    Single(ParsedRequest<'a>),
    /// Requests in order, valid or not.
    Batch(Vec<ParsedRequest<'a>>),
    /// The body as a whole cannot be read. It has one answer.
    Broken(RpcError),
}

/// One request of a message, or why it is not a valid request.
pub(crate) type ParsedRequest<'a> = Result<RpcRequest<'a>, RejectedRequest<'a>>;

/// A well-formed request.
#[derive(Debug, PartialEq)]
pub(crate) struct RpcRequest<'a> {
    /// The id as JSON text; `None` for a notification.
    pub(crate) id: Option<&'a str>,
    /// The method's name as sent.
    pub(crate) method: Cow<'a, str>,
    /// The parameters as JSON text, not checked. `None` if they are absent or null.
    pub(crate) params: Option<&'a str>,
}

/// A request that is not valid, with the id to answer with.
#[derive(Debug, PartialEq)]
pub(crate) struct RejectedRequest<'a> {
    /// The id as JSON text, `null` if the request has no readable id.
    pub(crate) id: &'a str,
    /// The fault.
    pub(crate) error: RpcError,
}

/// The fields of a request as JSON text. A field that is null is present here: a request with the
/// id null is answered, while a request without an id is a notification.
#[derive(Deserialize)]
struct RequestFields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// Reads one body.
pub(crate) fn parse<'a>(body: &'a [u8], limits: &Limits) -> Message<'a> {
    if is_deeper(body, limits.depth_max) {
        let reason = format_args!("nested deeper than {} levels", limits.depth_max);
        return Message::Broken(RpcError::parse(reason));
    }
    let body = match std::str::from_utf8(body) {
        Ok(body) => body,
        Err(error) => return Message::Broken(RpcError::parse(error)),
    };
    match body.bytes().find(|byte| !is_space(*byte)) {
        None => Message::Broken(RpcError::parse("empty body")),
        Some(b'[') => parse_batch(body, limits.batch_len_max),
        Some(b'{') => parse_single(body),
        Some(_) => Message::Broken(
            check_syntax(body)
                .err()
                .unwrap_or_else(|| RpcError::invalid_request("expected an object, or an array of objects")),
        ),
    }
}

fn parse_single(body: &str) -> Message<'_> {
    match serde_json::from_str::<RequestFields<'_>>(body) {
        Ok(fields) => Message::Single(request(fields)),
        Err(error) => match check_syntax(body) {
            Err(broken) => Message::Broken(broken),
            Ok(()) => Message::Single(Err(reject(NULL_ID, error))),
        },
    }
}

fn parse_batch(body: &str, batch_len_max: usize) -> Message<'_> {
    let mut reader = serde_json::Deserializer::from_str(body);
    let batch = reader
        .deserialize_seq(BatchVisitor(batch_len_max))
        .and_then(|batch| reader.end().map(|()| batch));
    let batch = match batch {
        Ok(batch) => batch,
        Err(error) => return Message::Broken(RpcError::parse(error)),
    };
    match batch.count {
        0 => Message::Broken(RpcError::invalid_request("empty batch")),
        count if count > batch_len_max => Message::Broken(RpcError::invalid_request(format_args!(
            "batch: got {count} requests, expected at most {batch_len_max}"
        ))),
        _ => Message::Batch(
            batch
                .members
                .into_iter()
                .map(|member| parse_member(member.get()))
                .collect(),
        ),
    }
}

fn parse_member(json: &str) -> ParsedRequest<'_> {
    // The deserializer of a struct also accepts an array of its fields, which is not a valid
    // request.
    if !json.starts_with('{') {
        return Err(reject(
            NULL_ID,
            format_args!("got {}, expected an object", json_type(json)),
        ));
    }
    serde_json::from_str::<RequestFields<'_>>(json)
        .map_err(|error| reject(NULL_ID, error))
        .and_then(request)
}

fn request(fields: RequestFields<'_>) -> ParsedRequest<'_> {
    let id = fields.id.map(RawValue::get);
    if let Some(text) = id
        && !matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n'))
    {
        let reason = format_args!("id: got {}, expected a string, a number or null", json_type(text));
        return Err(reject(NULL_ID, reason));
    }
    if let Some(text) = id
        && !is_readable(text)
    {
        return Err(reject(
            NULL_ID,
            "id: expected a number or string that can be read back",
        ));
    }
    let answer_id = id.unwrap_or(NULL_ID);
    let version = fields
        .jsonrpc
        .ok_or_else(|| reject(answer_id, "missing jsonrpc"))?;
    if !string(version.get(), "a string").is_ok_and(|text| text == "2.0") {
        return Err(reject(answer_id, "jsonrpc: expected \"2.0\""));
    }
    let method = fields.method.ok_or_else(|| reject(answer_id, "missing method"))?;
    let method = string(method.get(), "a string")
        .map_err(|reason| reject(answer_id, format_args!("method: {reason}")))?;
    let params = fields
        .params
        .map(RawValue::get)
        .filter(|params| *params != "null");
    Ok(RpcRequest { id, method, params })
}

/// Whether a client can read this id in the answer. JSON allows numbers beyond the range of all
/// readers, and escapes for half of a character.
fn is_readable(id: &str) -> bool {
    match id.as_bytes() {
        [b'"', ..] => !id.contains('\\') || serde_json::from_str::<String>(id).is_ok(),
        // Up to 300 digits are within the range of a double, which every reader has.
        digits if digits.len() <= 300 && !id.contains(['e', 'E']) => true,
        _ => id == NULL_ID || id.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

fn reject(id: &str, reason: impl fmt::Display) -> RejectedRequest<'_> {
    RejectedRequest {
        id,
        error: RpcError::invalid_request(reason),
    }
}

/// The requests of a batch as JSON text, at most as many as allowed.
struct BatchItems<'a> {
    members: Vec<&'a RawValue>,
    /// The number of requests in the batch.
    count: usize,
}

/// Reads a batch, of which it keeps at most this many requests.
struct BatchVisitor(usize);

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = BatchItems<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while members.len() < self.0 {
            match array.next_element::<&RawValue>()? {
                Some(member) => members.push(member),
                None => {
                    return Ok(BatchItems {
                        count: members.len(),
                        members,
                    });
                }
            }
        }
        let mut count = members.len();
        while array.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(BatchItems { members, count })
    }
}

/// Whether the whole of `body` is one JSON value.
fn check_syntax(body: &str) -> Result<(), RpcError> {
    match serde_json::from_str::<IgnoredAny>(body) {
        Ok(_) => Ok(()),
        Err(error) => Err(RpcError::parse(error)),
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether arrays and objects nest deeper than `depth_max`.
fn is_deeper(body: &[u8], depth_max: usize) -> bool {
    if body.len() <= depth_max {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > depth_max {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// If memory for a response with a longer id runs out, a part of the id may have been written.
const LONG_ID_LEN: usize = 16 * 1024;

/// A response with an id of at most this length becomes an error if no memory is left. With a
/// longer id the whole answer may fail.
const SHORT_ID_LEN: usize = 512;
/// Most bytes of a response without its id, its result or its error.
const RESPONSE_LEN: usize = 64;

/// The result or the error of a response as text, with its memory.
pub(crate) struct ResponseBody {
    /// The end of the id, and the name of the field.
    field: &'static [u8],
    text: Text,
}

impl ResponseBody {
    /// Takes the bytes of a result from `budget`. A long error counts as a result does. What does
    /// not fit becomes a short error.
    pub(crate) fn new(budget: &MessageBudget, result: RpcResult<Json>) -> Self {
        let error = match result {
            Ok(json) => match budget.charge(json.text().len()) {
                Ok(()) => {
                    return Self {
                        field: br#","result":"#,
                        text: json.into_text(),
                    };
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        let mut text = budget.writer();
        if serde_json::to_writer(&mut text, &error).is_err() {
            // A code and texts can always be written, if there is memory.
            return Self::short_error(&RpcError::no_memory());
        }
        match budget.charge_error(text.len()) {
            Ok(()) => Self {
                field: br#","error":"#,
                text: text.finish(),
            },
            Err(error) => Self::short_error(&error),
        }
    }

    /// An error of the node itself, whose memory is not counted.
    fn short_error(error: &RpcError) -> Self {
        let text = serde_json::to_vec(error).expect("a code and a text can always be written");
        Self {
            field: br#","error":"#,
            text: text.into(),
        }
    }
}

/// The answer to a message while its responses are made, one after the other.
pub(crate) struct AnswerWriter {
    out: TextWriter,
    is_batch: bool,
    /// The beginning of a response, kept for its allocation.
    begin: Vec<u8>,
    /// Too little memory was left even for an error.
    failed: bool,
}

impl AnswerWriter {
    /// An answer without responses. The answer to a batch is an array.
    pub(crate) fn new(budget: &MessageBudget, is_batch: bool) -> Self {
        Self {
            out: budget.writer(),
            is_batch,
            begin: Vec::new(),
            failed: false,
        }
    }

    /// Appends a response. If too little memory is left for it, it becomes an error.
    pub(crate) fn push(&mut self, id: &str, body: ResponseBody) {
        if self.failed || self.push_body(id, body).is_ok() {
            return;
        }
        let error = ResponseBody::short_error(&RpcError::no_memory());
        if id.len() <= SHORT_ID_LEN {
            self.out
                .always_make_room(error.text.len() + id.len() + RESPONSE_LEN);
        }
        // Of a response with a long id a part may have been written.
        self.failed = id.len() > LONG_ID_LEN || self.push_body(id, error).is_err();
    }

    fn push_body(&mut self, id: &str, body: ResponseBody) -> Result<(), TextError> {
        let separator: &[u8] = match (self.is_batch, self.out.len()) {
            (false, _) => b"",
            (true, 0) => b"[",
            (true, _) => b",",
        };
        self.begin.clear();
        for part in [separator, br#"{"jsonrpc":"2.0","id":"#, id.as_bytes(), body.field] {
            self.begin.extend_from_slice(part);
        }
        self.out.append(&self.begin, body.text, b"}")
    }

    /// The answer. `None` if it has no responses.
    ///
    /// # Errors
    /// [`NoMemory`] if too little memory was left even for the errors of the calls.
    pub(crate) fn finish(self) -> Result<Option<Text>, NoMemory> {
        if self.failed {
            return Err(NoMemory);
        }
        if self.out.len() == 0 {
            return Ok(None);
        }
        let is_batch = self.is_batch;
        let mut text = self.out.finish();
        if is_batch {
            text.push_end(b"]");
        }
        Ok(Some(text))
    }
}

/// Too little memory was left for the answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// The response to a message that has no readable id.
pub(crate) fn error_response(error: &RpcError) -> Text {
    let mut out = br#"{"jsonrpc":"2.0","id":null,"error":"#.to_vec();
    serde_json::to_writer(&mut out, error).expect("a code and a text can always be written");
    out.push(b'}');
    out.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daemon::ClientId;

    use super::*;
    use crate::traffic::TrafficMemory;

    fn limits() -> Limits {
        Limits {
            batch_len_max: 3,
            depth_max: 8,
            ..Limits::default()
        }
    }

    #[track_caller]
    fn check_request(body: &str, id: Option<&str>, method: &str, params: Option<&str>) {
        let expected = RpcRequest {
            id,
            method: method.into(),
            params,
        };
        assert_eq!(
            parse(body.as_bytes(), &limits()),
            Message::Single(Ok(expected)),
            "{body}"
        );
    }

    #[test]
    fn ids_are_kept_as_sent() {
        for id in [
            "1",
            "-0.5e300",
            "123456789012345678901234567890",
            "\"a\\u0062\"",
            "null",
            "\"\"",
        ] {
            let body = format!(r#" {{"jsonrpc":"2.0","id": {id} ,"method":"m"}} "#);
            check_request(&body, Some(id), "m", None);
        }
        check_request(r#"{"jsonrpc":"2.0","method":"m"}"#, None, "m", None);
    }

    #[test]
    fn members() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"a\u005fb","params":[1, {"x":2}],"more":[]}"#;
        check_request(body, Some("1"), "a_b", Some("[1, {\"x\":2}]"));
        check_request(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
            Some("1"),
            "m",
            None,
        );
        check_request(
            r#"{"params":{},"method":"m","id":1,"jsonrpc":"2\u002e0"}"#,
            Some("1"),
            "m",
            Some("{}"),
        );
    }

    #[track_caller]
    fn check_rejected(body: &str, id: &str, message: &str) {
        match parse(body.as_bytes(), &limits()) {
            Message::Single(Err(rejected)) => {
                assert_eq!((rejected.id, rejected.error.code()), (id, -32600), "{body}");
                assert!(rejected.error.message().contains(message), "{}", rejected.error);
            }
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn rejected_requests() {
        check_rejected(r#"{"id":1,"method":"m"}"#, "1", "missing jsonrpc");
        check_rejected(
            r#"{"jsonrpc":"1.0","id":"x","method":"m"}"#,
            "\"x\"",
            "expected \"2.0\"",
        );
        check_rejected(r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, "1", "expected \"2.0\"");
        check_rejected(r#"{"jsonrpc":"2.0","id":1}"#, "1", "missing method");
        check_rejected(
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            "1",
            "got a number, expected a string",
        );
        check_rejected(
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            "null",
            "got an array",
        );
        check_rejected(
            r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
            "null",
            "got a Boolean",
        );
        check_rejected(
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            "null",
            "duplicate",
        );
        for id in ["1e309", "-1E400", r#""\ud800""#, &"9".repeat(400)] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            check_rejected(&body, "null", "read back");
        }
        check_rejected("{}", "null", "missing jsonrpc");
    }

    #[track_caller]
    fn check_broken(body: &[u8], code: i32, message: &str) {
        match parse(body, &limits()) {
            Message::Broken(error) => {
                assert_eq!(error.code(), code, "{error}");
                assert!(error.message().contains(message), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn broken_bodies() {
        check_broken(b"", -32700, "empty");
        check_broken(b" \n", -32700, "empty");
        check_broken(b"{", -32700, "EOF");
        check_broken(br#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, -32700, "trailing");
        check_broken(br#"{"id":1,"id":2"#, -32700, "EOF");
        check_broken(b"[1,2", -32700, "EOF");
        check_broken(b"[1] [2]", -32700, "trailing");
        check_broken(b"{\"jsonrpc\":\"\xff\"}", -32700, "utf-8");
        check_broken(b"nonsense", -32700, "");
        check_broken(b"1", -32600, "expected an object");
        check_broken(b"\"x\"", -32600, "expected an object");
        check_broken(b"[]", -32600, "empty batch");
        check_broken(
            b"[1,2,3,4,5]",
            -32600,
            "batch: got 5 requests, expected at most 3",
        );
        check_broken(b"[[[[[[[[[]]]]]]]]]", -32700, "deeper than 8");
        check_broken("[".repeat(1_000_000).as_bytes(), -32700, "deeper than 8");
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"\"[[[[[[[[[[[[[["}"#;
        check_request(body, Some("1"), "\"[[[[[[[[[[[[[[", None);
    }

    #[test]
    fn batch_members_stand_alone() {
        let body = br#"[1, {"jsonrpc":"2.0","method":"m"}, ["2.0",1,"m",[]]]"#;
        let Message::Batch(members) = parse(body, &limits()) else {
            panic!("expected a batch")
        };
        assert!(members[0].is_err());
        assert_eq!(
            members[1],
            Ok(RpcRequest {
                id: None,
                method: "m".into(),
                params: None
            })
        );
        assert!(members[2].is_err(), "an array is not a request");
    }

    /// A budget for answers with `room` bytes of memory.
    fn budget(room: usize) -> (TrafficMemory, Arc<MessageBudget>) {
        let limits = Limits {
            response_len_max: 100_000,
            ..Limits::default()
        };
        let traffic = TrafficMemory::new(room, 100);
        let memory = traffic.client(ClientId::Local(0));
        (traffic, MessageBudget::new(&limits, memory))
    }

    #[track_caller]
    fn check_answer(budget: &MessageBudget, responses: Vec<(&str, RpcResult<Json>)>, expected: &str) {
        let is_batch = responses.len() != 1;
        let mut answer = AnswerWriter::new(budget, is_batch);
        for (id, result) in responses {
            answer.push(id, ResponseBody::new(budget, result));
        }
        let text = answer.finish().expect("memory").map(|text| text.to_vec());
        assert_eq!(String::from_utf8(text.unwrap_or_default()).unwrap(), expected);
    }

    #[test]
    fn responses() {
        let (_, budget) = budget(1 << 20);
        let error = || Err(RpcError::refused("a \"quoted\" text"));
        let error_text = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"a \"quoted\" text"}}"#;
        let value_text = r#"{"jsonrpc":"2.0","id":"x","result":true}"#;
        check_answer(&budget, vec![("7", error())], error_text);
        check_answer(&budget, vec![("\"x\"", Json::write(&true))], value_text);
        check_answer(
            &budget,
            vec![("7", error()), ("\"x\"", Json::write(&true))],
            &format!("[{error_text},{value_text}]"),
        );
        check_answer(&budget, vec![], "");
    }

    #[test]
    fn long_errors_count_as_results() {
        let (_, budget) = budget(1 << 20);
        let mut answer = AnswerWriter::new(&budget, true);
        for _ in 0..10 {
            let error = RpcError::reverted("reverted", &[7; 10_000]);
            answer.push("1", ResponseBody::new(&budget, Err(error)));
        }
        let text = answer.finish().expect("memory").expect("an answer").to_vec();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("\"data\":").count(), 4, "each has 20,000 bytes");
        assert_eq!(
            text.matches("the response is longer than 100000 bytes").count(),
            6
        );
    }

    #[test]
    fn a_response_without_memory_becomes_an_error() {
        let (traffic, budget) = budget(100_000);
        let mut answer = AnswerWriter::new(&budget, true);
        let long = || Json::write(&"x".repeat(15_000));
        for id in ["1", "2", "3", "4", "5", "6"] {
            answer.push(id, ResponseBody::new(&budget, long()));
        }
        answer.push("7", ResponseBody::new(&budget, Json::write(&7)));
        assert!(traffic.used() <= 100_000);
        let text = answer.finish().expect("memory").expect("an answer").to_vec();
        let text: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("JSON");
        let has_error: Vec<_> = text.iter().map(|response| !response["error"].is_null()).collect();
        assert_eq!(has_error, [false, false, false, false, true, true, false]);
        assert_eq!(
            text[4]["error"]["message"],
            "too many long responses at the same time: ask for less at once, or try again later"
        );
        assert_eq!(traffic.used(), 0);
    }

    #[test]
    fn an_answer_without_memory_for_its_ids_fails() {
        let (_, budget) = budget(10_000);
        let mut answer = AnswerWriter::new(&budget, false);
        answer.push(&"9".repeat(20_000), ResponseBody::new(&budget, Json::write(&1)));
        assert_eq!(answer.finish(), Err(NoMemory));
    }
}
