//! One connection of the API, without its socket: which request gets which answer, and who may
//! change something.
//!
//! The errors and their codes are those of ethminer. Unlike ethminer, the API is read-only without
//! a password, and no request can reboot the machine.

use daemon::SecretDigest;
use serde_json::{Value, json};

use super::answers;
use super::{ApiConfig, ApiSource};

/// An error of a request.
struct ApiError {
    code: i64,
    message: String,
}

impl ApiError {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The answer to a method that may not be used on this connection.
    fn not_available() -> Self {
        Self::new(-32601, "Method not available")
    }
}

/// The answer to a line.
#[derive(Debug, PartialEq)]
pub(super) struct ApiAnswer {
    /// The line to send, without its end.
    pub(super) text: String,
    /// Whether the line had a wrong password.
    pub(super) wrong_password: bool,
}

/// The state of a connection.
pub(super) struct ApiSession {
    password: Option<SecretDigest>,
    read_only: bool,
    is_authorized: bool,
}

impl ApiSession {
    /// A new connection.
    pub(super) fn new(config: &ApiConfig) -> Self {
        Self {
            password: config.password.as_deref().map(SecretDigest::of),
            read_only: config.address.read_only || config.password.is_none(),
            is_authorized: config.password.is_none(),
        }
    }

    /// Answers a line.
    pub(super) fn answer(&mut self, line: &str, source: &dyn ApiSource) -> ApiAnswer {
        let request = match serde_json::from_str::<Value>(line) {
            Ok(request) => request,
            Err(error) => {
                // ethminer names the code `errorcode`, as a text.
                let error = json!({
                    "code": -32700,
                    "errorcode": "-32700",
                    "message": format!("Json parse error : {error}"),
                });
                return ApiAnswer {
                    text: json!({"id": null, "jsonrpc": "2.0", "error": error}).to_string(),
                    wrong_password: false,
                };
            }
        };
        let (id, result) = match request_id(&request) {
            Ok(id) => (id, self.result(&request, source)),
            Err(error) => (Value::Null, Err(error)),
        };
        let wrong_password = result.as_ref().is_err_and(|error| error.code == -401);
        let text = match result {
            Ok(result) => json!({"id": id, "jsonrpc": "2.0", "result": result}),
            Err(ApiError { code, message }) => {
                json!({"id": id, "jsonrpc": "2.0", "error": {"code": code, "message": message}})
            }
        };
        ApiAnswer {
            text: text.to_string(),
            wrong_password,
        }
    }

    fn result(&mut self, request: &Value, source: &dyn ApiSource) -> Result<Value, ApiError> {
        let method = match (request["jsonrpc"].as_str(), request["method"].as_str()) {
            (Some("2.0"), Some(method)) => method,
            _ => return Err(ApiError::new(-32600, "Invalid Request")),
        };
        if method == "api_authorize" {
            return self.authorize(request);
        }
        if !self.is_authorized {
            return Err(ApiError::new(-403, "Authorization needed"));
        }
        match method {
            "miner_ping" => return Ok("pong".into()),
            "miner_getstat1" => return Ok(answers::stat1(&source.report())),
            "miner_getstathr" => return Ok(answers::stat_hr(&source.report())),
            "miner_getstatdetail" => {
                return Ok(answers::stat_detail(&source.report(), source.heat_limits()));
            }
            "miner_getconnections" => return Ok(answers::connections(&source.report())),
            "miner_restart" | "miner_pausegpu" if !self.read_only => {}
            // Nobody outside reboots the machine.
            "miner_restart" | "miner_pausegpu" | "miner_reboot" => return Err(ApiError::not_available()),
            _ => return Err(ApiError::new(-32601, "Method not found")),
        }
        tracing::info!(method, "a client of the API asks");
        if method == "miner_restart" {
            source.restart();
            return Ok(true.into());
        }
        let params = member(request, "params", Value::as_object)?;
        let params = Value::Object(params.clone());
        let index = member(&params, "index", Value::as_u64)?;
        let pause = member(&params, "pause", Value::as_bool)?;
        let index = usize::try_from(index).ok();
        if index.is_some_and(|index| source.pause(index, pause)) {
            Ok(true.into())
        } else {
            Err(ApiError::new(-422, "Index out of bounds"))
        }
    }

    fn authorize(&mut self, request: &Value) -> Result<Value, ApiError> {
        // A wrong password ends what a right one had begun.
        self.is_authorized = false;
        let params = member(request, "params", Value::as_object)?;
        let given = member(&Value::Object(params.clone()), "psw", |value| {
            value.as_str().map(str::to_owned)
        })?;
        let expected = self.password.unwrap_or_else(|| SecretDigest::of(""));
        self.is_authorized = SecretDigest::of(&given) == expected;
        if self.is_authorized {
            Ok(true.into())
        } else {
            Err(ApiError::new(-401, "Invalid password"))
        }
    }
}

/// The id of a request: a whole number or a text.
fn request_id(request: &Value) -> Result<Value, ApiError> {
    match request.get("id") {
        Some(id) if id.is_u64() || id.is_string() => Ok(id.clone()),
        None | Some(Value::Null) => Err(ApiError::new(-32600, "Invalid Request (missing or empty id)")),
        Some(_) => Err(ApiError::new(-32600, "Invalid Request (id has invalid type)")),
    }
}

/// The member `name` of an object, in the type that `read` wants.
fn member<'a, T>(
    object: &'a Value,
    name: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<T, ApiError> {
    let value = object
        .get(name)
        .ok_or_else(|| ApiError::new(-32602, format!("Missing '{name}'")))?;
    read(value).ok_or_else(|| ApiError::new(-32602, format!("Invalid type of value '{name}'")))
}

#[cfg(test)]
mod tests {
    use engine::monitor::RigReport;
    use engine::testing::sample_report;
    use parking_lot::Mutex;

    use super::*;

    /// Remembers what was asked of it.
    #[derive(Default)]
    struct Rig(Mutex<Vec<String>>);

    impl ApiSource for Rig {
        fn report(&self) -> RigReport {
            sample_report()
        }

        fn heat_limits(&self) -> Option<(f64, f64)> {
            None
        }

        fn restart(&self) {
            self.0.lock().push("restart".into());
        }

        fn pause(&self, index: usize, pause: bool) -> bool {
            self.0.lock().push(format!("pause {index} {pause}"));
            index < 2
        }
    }

    fn session(address: &str, password: Option<&str>) -> ApiSession {
        ApiSession::new(&ApiConfig {
            address: address.parse().expect("an address"),
            password: password.map(str::to_owned),
        })
    }

    /// Compares the answer to a request of `method` with the members that follow the version.
    #[track_caller]
    fn check(session: &mut ApiSession, rig: &Rig, method: &str, params: &str, expected: &str) {
        let request = format!(r#"{{"id":1,"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        let got: Value = serde_json::from_str(&session.answer(&request, rig).text).expect("JSON");
        let expected: Value =
            serde_json::from_str(&format!(r#"{{"id":1,"jsonrpc":"2.0",{expected}}}"#)).expect("JSON");
        assert_eq!(got, expected, "{method}");
    }

    const NOT_AVAILABLE: &str = r#""error":{"code":-32601,"message":"Method not available"}"#;

    #[test]
    fn without_a_password_the_api_only_reads() {
        let rig = Rig::default();
        for address in ["3333", "-3333"] {
            let mut open = session(address, None);
            check(&mut open, &rig, "miner_ping", "{}", r#""result":"pong""#);
            for method in ["miner_restart", "miner_reboot", "miner_pausegpu"] {
                check(&mut open, &rig, method, "{}", NOT_AVAILABLE);
            }
            let unknown = r#""error":{"code":-32601,"message":"Method not found"}"#;
            check(&mut open, &rig, "miner_shuffle", "{}", unknown);
        }
        let mut negative = session("-3333", Some("secret"));
        check(
            &mut negative,
            &rig,
            "api_authorize",
            r#"{"psw":"secret"}"#,
            r#""result":true"#,
        );
        check(&mut negative, &rig, "miner_restart", "{}", NOT_AVAILABLE);
        assert!(rig.0.lock().is_empty());
    }

    #[test]
    fn the_password_comes_before_everything() {
        let (rig, mut session) = (Rig::default(), session("3333", Some("secret")));
        let needed = r#""error":{"code":-403,"message":"Authorization needed"}"#;
        check(&mut session, &rig, "miner_ping", "{}", needed);
        let invalid = r#""error":{"code":-401,"message":"Invalid password"}"#;
        check(&mut session, &rig, "api_authorize", r#"{"psw":"other"}"#, invalid);
        check(&mut session, &rig, "miner_restart", "{}", needed);
        let missing = r#""error":{"code":-32602,"message":"Missing 'psw'"}"#;
        check(&mut session, &rig, "api_authorize", "{}", missing);
        check(
            &mut session,
            &rig,
            "api_authorize",
            r#"{"psw":"secret"}"#,
            r#""result":true"#,
        );
        check(&mut session, &rig, "miner_ping", "{}", r#""result":"pong""#);
        check(&mut session, &rig, "miner_restart", "{}", r#""result":true"#);
        check(&mut session, &rig, "miner_reboot", "{}", NOT_AVAILABLE);
        check(
            &mut session,
            &rig,
            "miner_pausegpu",
            r#"{"index":1,"pause":true}"#,
            r#""result":true"#,
        );
        let bounds = r#""error":{"code":-422,"message":"Index out of bounds"}"#;
        check(
            &mut session,
            &rig,
            "miner_pausegpu",
            r#"{"index":2,"pause":false}"#,
            bounds,
        );
        let kind = r#""error":{"code":-32602,"message":"Invalid type of value 'pause'"}"#;
        check(
            &mut session,
            &rig,
            "miner_pausegpu",
            r#"{"index":2,"pause":1}"#,
            kind,
        );
        assert_eq!(*rig.0.lock(), ["restart", "pause 1 true", "pause 2 false"]);
    }

    #[test]
    fn odd_requests_have_the_errors_of_ethminer() {
        let (rig, mut session) = (Rig::default(), session("3333", None));
        let mut error = |line: &str| {
            let answer: Value = serde_json::from_str(&session.answer(line, &rig).text).expect("JSON");
            (
                answer["id"].clone(),
                answer["error"]["code"].as_i64(),
                answer["error"]["message"].to_string(),
            )
        };
        assert_eq!(error("{").1, Some(-32700));
        for (line, message) in [
            ("[]", "missing or empty id"),
            (
                r#"{"id":null,"jsonrpc":"2.0","method":"miner_ping"}"#,
                "missing or empty id",
            ),
            (
                r#"{"id":[1],"jsonrpc":"2.0","method":"miner_ping"}"#,
                "id has invalid type",
            ),
        ] {
            let (id, code, text) = error(line);
            assert_eq!((id, code), (Value::Null, Some(-32600)), "{line}");
            assert!(text.contains(message), "{line}: {text}");
        }
        let (id, code, _) = error(r#"{"id":"x","method":"miner_ping"}"#);
        assert_eq!((id, code), ("x".into(), Some(-32600)));
    }
}
