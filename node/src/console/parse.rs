//! Parses a line of the console: the name of a method and its parameters.
//!
//! `mc.getBalance 0x… latest`, `mc_getBalance("0x…", "latest")` and mixtures of both are the same
//! call. A parameter that is valid JSON is that JSON value; any other parameter is a string.

use serde_json::Value;

/// A parsed call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConsoleCall {
    /// Name of the method, as the node knows it.
    pub(super) method: String,
    /// The parameters in their order.
    pub(super) params: Vec<Value>,
}

/// A line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleCallError {
    /// The line does not begin with a name.
    #[error("got {0:?}, expected the name of a method")]
    Name(String),
    /// A bracket or a quote is not closed.
    #[error("{0} is not closed")]
    Unclosed(char),
    /// A closing bracket has no opening bracket.
    #[error("{0} closes nothing")]
    Unopened(char),
}

/// Parses a line. Returns `None` for an empty line.
///
/// `is_known` tells whether the node has a method with exactly this name: a few names contain a
/// dot.
pub(super) fn parse_call(
    line: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<Option<ConsoleCall>, ConsoleCallError> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let end = line
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || rest.starts_with(|c: char| !c.is_whitespace() && c != '(') {
        return Err(ConsoleCallError::Name(
            line.split_whitespace().next().unwrap_or(line).to_owned(),
        ));
    }
    let rest = rest.trim();
    let rest = match rest.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')').ok_or(ConsoleCallError::Unclosed('('))?,
        None => rest,
    };
    Ok(Some(ConsoleCall {
        method: method_name(name, is_known),
        params: split_params(rest)?.into_iter().map(parse_param).collect(),
    }))
}

/// The name of a method as the node knows it. `name` may have a dot after the module.
pub(super) fn method_name(name: &str, is_known: impl Fn(&str) -> bool) -> String {
    match name.contains('_') || is_known(name) {
        true => name.to_owned(),
        false => name.replacen('.', "_", 1),
    }
}

/// Parses a parameter: JSON if it is valid JSON, otherwise a string. Text 'in single quotes' is
/// always a string.
pub(super) fn parse_param(word: &str) -> Value {
    if let Some(text) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Value::from(text);
    }
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}

/// Splits `text` at spaces and commas that are outside of brackets and quotes.
fn split_params(text: &str) -> Result<Vec<&str>, ConsoleCallError> {
    let mut words = Vec::new();
    let (mut start, mut open, mut quote, mut escaped) = (None, Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(opening), _) if opening == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                quote = Some(c);
                start.get_or_insert(at);
            }
            (None, '[' | '{') => {
                open.push(c);
                start.get_or_insert(at);
            }
            (None, ']' | '}') => {
                let opening = if c == ']' { '[' } else { '{' };
                if open.pop() != Some(opening) {
                    return Err(ConsoleCallError::Unopened(c));
                }
            }
            (None, c) if open.is_empty() && (c.is_whitespace() || c == ',') => {
                words.extend(start.take().map(|start| &text[start..at]));
            }
            (None, _) => {
                start.get_or_insert(at);
            }
        }
    }
    if let Some(open) = quote.or_else(|| open.pop()) {
        return Err(ConsoleCallError::Unclosed(open));
    }
    words.extend(start.map(|start| &text[start..]));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<(&str, Value), ConsoleCallError>) {
        let got = parse_call(line, |name| name == "rpc.discover").map(|call| call.expect("a call"));
        let expected = expected.map(|(method, params)| ConsoleCall {
            method: method.to_owned(),
            params: params.as_array().expect("an array").clone(),
        });
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn calls_can_be_written_in_two_ways() {
        assert_eq!(parse_call("  ", |_| false), Ok(None));
        check("mc.blockNumber", Ok(("mc_blockNumber", json!([]))));
        check(" mc_blockNumber() ", Ok(("mc_blockNumber", json!([]))));
        let expected = json!(["0x12", "latest"]);
        for line in [
            "mc.getBalance 0x12 latest",
            "mc_getBalance 0x12, latest",
            "mc.getBalance(\"0x12\", 'latest')",
            "mc.getBalance (0x12,latest)",
        ] {
            check(line, Ok(("mc_getBalance", expected.clone())));
        }
        check("rpc.discover", Ok(("rpc.discover", json!([]))));
        check("rpc.modules", Ok(("rpc_modules", json!([]))));
    }

    #[test]
    fn parameters_are_json_or_strings() {
        check(
            r#"m_n {"a": [1, "b c"]} [] true null 7 -1.5 '7' "x\" y" 0x7 a"b"#,
            Err(ConsoleCallError::Unclosed('"')),
        );
        check(
            r#"m_n {"a": [1, "b c"]} [] true null 7 -1.5 '7' "x\" y" 0x7 ü"#,
            Ok((
                "m_n",
                json!([{"a": [1, "b c"]}, [], true, null, 7, -1.5, "7", "x\" y", "0x7", "ü"]),
            )),
        );
        check("m_n {not json}", Ok(("m_n", json!(["{not json}"]))));
    }

    #[test]
    fn invalid_calls_are_refused() {
        check("{}", Err(ConsoleCallError::Name("{}".to_owned())));
        check("m+n 1", Err(ConsoleCallError::Name("m+n".to_owned())));
        check("m(1", Err(ConsoleCallError::Unclosed('(')));
        check("m [1", Err(ConsoleCallError::Unclosed('[')));
        check("m [1}", Err(ConsoleCallError::Unopened('}')));
        check("m 1]", Err(ConsoleCallError::Unopened(']')));
        check("m 'x", Err(ConsoleCallError::Unclosed('\'')));
    }
}
