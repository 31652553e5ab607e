//! Formats JSON for users: one member on each line, in the original order.

/// Spaces for each level of nesting.
const INDENT: usize = 2;

/// Formats valid JSON text. Empty arrays and objects stay on one line.
pub(super) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut rest = json.chars().filter({
        // White space outside of strings has no meaning.
        let (mut in_string, mut escaped) = (false, false);
        move |c| {
            let keep = in_string || !c.is_ascii_whitespace();
            match c {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                _ => {}
            }
            keep
        }
    });
    let mut next = rest.next();
    while let Some(c) = next {
        next = rest.next();
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        if in_string || c == '"' {
            out.push(c);
            continue;
        }
        match c {
            '[' | '{' => {
                out.push(c);
                if matches!(next, Some(']' | '}')) {
                    out.extend(next);
                    next = rest.next();
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth * INDENT));
}

/// The decimal digits of a QUANTITY; `None` if `json` is something else.
pub(super) fn decimal(json: &str) -> Option<String> {
    let digits = json.strip_prefix("\"0x")?.strip_suffix('"')?;
    let is_canonical = digits == "0" || !digits.starts_with('0');
    // Longer values are usually hashes or data.
    if !is_canonical || digits.len() > 25 {
        return None;
    }
    u128::from_str_radix(digits, 16)
        .ok()
        .map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_on_their_own_lines() {
        assert_eq!(pretty("null"), "null");
        assert_eq!(pretty("[ ]"), "[]");
        assert_eq!(pretty("{\"b\":{},\"a\":[]}"), "{\n  \"b\": {},\n  \"a\": []\n}");
        assert_eq!(
            pretty(r#"{"z":[1,{"a":"x, [y]: \"\\"}],"b":true}"#),
            "{\n  \"z\": [\n    1,\n    {\n      \"a\": \"x, [y]: \\\"\\\\\"\n    }\n  ],\n  \"b\": true\n}"
        );
    }

    #[test]
    fn formatting_changes_no_value() {
        let text = r#"{"a":[{"b":"c\n\u0041 \\"},[[]],-1.5e3,null],"d":"{}[],:"}"#;
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&pretty(text)), read(text));
        assert_eq!(pretty(&pretty(text)), pretty(text));
    }

    #[test]
    fn quantities_have_decimal_digits() {
        assert_eq!(decimal("\"0x10\"").as_deref(), Some("16"));
        assert_eq!(decimal("\"0x0\"").as_deref(), Some("0"));
        for other in [
            "\"0x\"",
            "\"0x01\"",
            "\"10\"",
            "16",
            "\"0x00000000000000000000000000\"",
            "null",
        ] {
            assert_eq!(decimal(other), None, "{other}");
        }
    }
}
