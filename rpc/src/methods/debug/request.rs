//! The options object of the tracing methods.

use std::time::Duration;

use chain::trace::{CallOptions, StepOptions, TIMEOUT_DEFAULT, TraceRequest, Tracer};

use crate::budget::query_limit;
use crate::decode::{FromParam, ParamFields};
use crate::methods::mc::{BlockOverrides, StateOverrides};
use crate::types::{Count, ParamError};
use crate::wire_type::WireType;

/// The names of the tracers.
const TRACERS: [&str; 4] = ["callTracer", "prestateTracer", "4byteTracer", "noopTracer"];

/// The options of a trace. If they are absent, every option has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceOptions {
    tracer: Tracer,
    timeout: Duration,
}

impl TraceOptions {
    /// The trace that is asked for, within the operator's largest time limit.
    pub(super) fn request(&self, timeout_max: Duration) -> TraceRequest {
        TraceRequest::new(self.tracer, query_limit(self.timeout.min(timeout_max)))
    }
}

impl FromParam for TraceOptions {
    const TYPE: WireType = WireType::Named("TraceOptions");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let flag = |name| fields.get::<Option<bool>>(name).map(Option::unwrap_or_default);
        let limit: Option<Count> = fields.get("limit")?;
        let steps = StepOptions {
            stack: !flag("disableStack")?,
            memory: !flag("disableMemory")?,
            storage: !flag("disableStorage")?,
            limit: limit
                .map(|limit| usize::try_from(limit.0).unwrap_or(usize::MAX))
                .filter(|limit| *limit > 0),
        };
        let tracer: Option<String> = fields.get("tracer")?;
        let config: TracerConfig = fields.get::<Option<_>>("tracerConfig")?.unwrap_or_default();
        let tracer = match tracer.as_deref() {
            None | Some("") => Tracer::Steps(steps),
            Some("callTracer") => Tracer::Calls(CallOptions {
                only_top: config.only_top_call,
                logs: config.with_log,
                own_gas: false,
            }),
            Some("prestateTracer") => Tracer::Prestate {
                changes: config.diff_mode,
            },
            Some("4byteTracer") => Tracer::Selectors,
            Some("noopTracer") => Tracer::Nothing,
            Some(other) => {
                return Err(ParamError::Rule(format!(
                    "field tracer: got {other:?}, expected none or one of {}",
                    TRACERS.join(", ")
                )));
            }
        };
        let timeout: Option<TraceTimeout> = fields.get("timeout")?;
        let timeout = timeout.map_or(TIMEOUT_DEFAULT, |timeout| timeout.0);
        Ok(Self { tracer, timeout })
    }

    fn absent() -> Option<Self> {
        Self::from_json("{}").ok()
    }
}

/// The options of the tracers. Each tracer reads its own and ignores the others.
#[derive(Default)]
struct TracerConfig {
    only_top_call: bool,
    with_log: bool,
    diff_mode: bool,
}

impl FromParam for TracerConfig {
    const TYPE: WireType = WireType::Named("TracerConfig");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let flag = |name| fields.get::<Option<bool>>(name).map(Option::unwrap_or_default);
        Ok(Self {
            only_top_call: flag("onlyTopCall")?,
            with_log: flag("withLog")?,
            diff_mode: flag("diffMode")?,
        })
    }
}

/// The options of the trace of a call: those of a trace, and what the call replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceCallOptions {
    pub(super) trace: TraceOptions,
    pub(super) state: StateOverrides,
    pub(super) block: BlockOverrides,
}

impl FromParam for TraceCallOptions {
    const TYPE: WireType = WireType::Named("TraceCallOptions");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        Ok(Self {
            trace: TraceOptions::from_json(json)?,
            state: fields.get("stateOverrides")?,
            block: fields.get("blockOverrides")?,
        })
    }

    fn absent() -> Option<Self> {
        Self::from_json("{}").ok()
    }
}

/// A time such as `500ms`, `5s` or `1m`.
struct TraceTimeout(Duration);

impl FromParam for TraceTimeout {
    const TYPE: WireType = <String as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let text = String::from_json(json)?;
        let read = |suffix: &str, unit_ms: u64| {
            let number: u64 = text.strip_suffix(suffix)?.parse().ok()?;
            number.checked_mul(unit_ms)
        };
        let ms = read("ms", 1)
            .or_else(|| read("s", 1000))
            .or_else(|| read("m", 60_000));
        ms.map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| ParamError::Rule(format!("got {text:?}, expected a time such as 500ms, 5s or 1m")))
    }
}

#[cfg(test)]
mod tests {
    use chain::query_limit::QueryStop;

    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Result<TraceOptions, &str>) {
        let got = TraceOptions::from_json(json);
        assert_eq!(
            got.map_err(|error| error.to_string()),
            expected.map_err(str::to_owned),
            "{json}"
        );
    }

    #[test]
    fn options() {
        let all = StepOptions {
            stack: true,
            memory: true,
            storage: true,
            limit: None,
        };
        let steps = |options| TraceOptions {
            tracer: Tracer::Steps(options),
            timeout: TIMEOUT_DEFAULT,
        };
        check("{}", Ok(steps(all)));
        let json =
            r#"{"disableStack":true,"disableMemory":true,"disableStorage":true,"limit":7,"tracer":null}"#;
        let few = StepOptions {
            stack: false,
            memory: false,
            storage: false,
            limit: Some(7),
        };
        check(json, Ok(steps(few)));
        check(r#"{"limit":0,"disableStack":false}"#, Ok(steps(all)));
        let calls = |only_top, timeout| TraceOptions {
            tracer: Tracer::Calls(CallOptions {
                only_top,
                ..CallOptions::default()
            }),
            timeout,
        };
        let json = r#"{"tracer":"callTracer","timeout":"500ms"}"#;
        check(json, Ok(calls(false, Duration::from_millis(500))));
        let json = r#"{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true},"timeout":"1m"}"#;
        check(json, Ok(calls(true, Duration::from_secs(60))));
    }

    #[test]
    fn tracers() {
        let of = |tracer| {
            Ok(TraceOptions {
                tracer,
                timeout: TIMEOUT_DEFAULT,
            })
        };
        let logs = CallOptions {
            logs: true,
            ..CallOptions::default()
        };
        check(
            r#"{"tracer":"callTracer","tracerConfig":{"withLog":true}}"#,
            of(Tracer::Calls(logs)),
        );
        for changes in [false, true] {
            let json = format!(r#"{{"tracer":"prestateTracer","tracerConfig":{{"diffMode":{changes}}}}}"#);
            check(&json, of(Tracer::Prestate { changes }));
        }
        check(r#"{"tracer":"4byteTracer"}"#, of(Tracer::Selectors));
        check(
            r#"{"tracer":"noopTracer","tracerConfig":null}"#,
            of(Tracer::Nothing),
        );
        check(
            r#"{"tracer":"callTracer","tracerConfig":{"withLog":1}}"#,
            Err("field tracerConfig: field withLog: got a number, expected a Boolean"),
        );
    }

    #[test]
    fn the_operator_bounds_the_time() {
        let timeout = |asked: &str| {
            let options = TraceOptions::from_json(&format!(r#"{{"timeout":"{asked}"}}"#));
            let request = options.expect("options").request(Duration::ZERO);
            request.limit.check()
        };
        let expected = Err(QueryStop::Timeout(Duration::ZERO));
        assert_eq!((timeout("1ms"), timeout("9000m")), (expected, expected));
    }

    #[test]
    fn refused_options() {
        check(
            r#"{"tracer":"{step: function() {}}"}"#,
            Err(
                "field tracer: got \"{step: function() {}}\", expected none or one of callTracer, \
                 prestateTracer, 4byteTracer, noopTracer",
            ),
        );
        check(
            r#"{"timeout":"5"}"#,
            Err(r#"field timeout: got "5", expected a time such as 500ms, 5s or 1m"#),
        );
        check(
            r#"{"limit":-1}"#,
            Err("field limit: expected a whole number of at most 64 bits"),
        );
        check(
            r#"{"disableStack":1}"#,
            Err("field disableStack: got a number, expected a Boolean"),
        );
        check("[]", Err("got an array, expected an object"));
    }
}
