//! What a line of the console says: a method and its parameters.
//!
//! `mc.getBalance 0x… latest`, `mc_getBalance("0x…", "latest")` and mixtures of both are the same
//! call. A parameter that is valid JSON is that value, anything else is text.

use serde_json::Value;

/// A call as it was typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The method, as the node names it.
    pub(super) method: String,
    /// Its parameters in order.
    pub(super) params: Vec<Value>,
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    /// No name at its begin.
    #[error("want the name of a method first, got {0:?}")]
    Name(String),
    /// A bracket or quote without its other half.
    #[error("{0} is not closed")]
    Open(char),
    /// A closing bracket too many.
    #[error("{0} closes nothing")]
    Close(char),
}

/// Reads a line; `None` for one without a word. `is_known` says whether the node has a method of
/// this very name: a few have a dot in their names.
pub(super) fn parse(line: &str, is_known: impl Fn(&str) -> bool) -> Result<Option<Line>, LineError> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let end = line
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || rest.starts_with(|c: char| !c.is_whitespace() && c != '(') {
        return Err(LineError::Name(
            line.split_whitespace().next().unwrap_or(line).to_owned(),
        ));
    }
    let rest = rest.trim();
    let rest = match rest.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')').ok_or(LineError::Open('('))?,
        None => rest,
    };
    Ok(Some(Line {
        method: method_name(name, is_known),
        params: words(rest)?.into_iter().map(value).collect(),
    }))
}

/// The name of a method as the node has it, for one that may be written with a dot.
pub(super) fn method_name(name: &str, is_known: impl Fn(&str) -> bool) -> String {
    match name.contains('_') || is_known(name) {
        true => name.to_owned(),
        false => name.replacen('.', "_", 1),
    }
}

/// A parameter: JSON where it is valid JSON, otherwise text; 'in single quotes' always text.
pub(super) fn value(word: &str) -> Value {
    if let Some(text) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Value::from(text);
    }
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}

/// Cuts at spaces and commas outside of brackets and quotes.
fn words(text: &str) -> Result<Vec<&str>, LineError> {
    let mut words = Vec::new();
    let (mut start, mut open, mut quote, mut escaped) = (None, Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(own), _) if own == c => quote = None,
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
                    return Err(LineError::Close(c));
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
    if let Some(open) = quote.or(open.pop()) {
        return Err(LineError::Open(open));
    }
    words.extend(start.map(|start| &text[start..]));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<(&str, Value), LineError>) {
        let got = parse(line, |name| name == "rpc.discover").map(|line| line.expect("a call"));
        let expected = expected.map(|(method, params)| Line {
            method: method.to_owned(),
            params: params.as_array().expect("an array").clone(),
        });
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn both_ways_of_writing() {
        assert_eq!(parse("  ", |_| false), Ok(None));
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
    fn parameters_are_json_or_text() {
        check(
            r#"m_n {"a": [1, "b c"]} [] true null 7 -1.5 '7' "x\" y" 0x7 a"b"#,
            Err(LineError::Open('"')),
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
    fn nonsense_is_named() {
        check("{}", Err(LineError::Name("{}".to_owned())));
        check("m+n 1", Err(LineError::Name("m+n".to_owned())));
        check("m(1", Err(LineError::Open('(')));
        check("m [1", Err(LineError::Open('[')));
        check("m [1}", Err(LineError::Close('}')));
        check("m 1]", Err(LineError::Close(']')));
        check("m 'x", Err(LineError::Open('\'')));
    }
}
