//! Tables of Markdown, and the texts of values in their cells.

use std::fmt::Write;

use engine::units::{byte_rate_text, rate_text};
use serde_json::Value;

/// A table that is filled row by row.
pub(super) struct MarkdownTable {
    columns: usize,
    text: String,
    rows: usize,
}

impl MarkdownTable {
    /// A table with these heads. The first column is aligned left, the others right.
    pub(super) fn new(heads: &[&str]) -> Self {
        let mut text = row_text(heads);
        let lines = heads
            .iter()
            .enumerate()
            .map(|(i, _)| if i == 0 { "---" } else { "---:" });
        text += &row_text(&lines.collect::<Vec<_>>());
        Self {
            columns: heads.len(),
            text,
            rows: 0,
        }
    }

    /// Adds a row. Missing cells are empty, and further ones are left out.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        let mut cells = cells;
        cells.resize(self.columns, String::new());
        self.text += &row_text(&cells);
        self.rows += 1;
    }

    /// The text below a heading. Empty if the table has no row.
    pub(super) fn section(&self, heading: &str) -> String {
        if self.rows == 0 {
            return String::new();
        }
        format!("\n{heading}\n\n{}", self.text)
    }
}

fn row_text(cells: &[impl AsRef<str>]) -> String {
    let mut text = String::from("|");
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(text, " {} |", escaped(cell.as_ref()));
    }
    text.push('\n');
    text
}

/// A text without the characters that end a cell or a row.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A number with `digits` digits after the point. Empty if it is absent.
pub(super) fn number(value: &Value, digits: usize) -> String {
    value
        .as_f64()
        .map_or_else(String::new, |value| format!("{value:.digits$}"))
}

/// A hash rate. Empty if it is absent.
pub(super) fn hashrate(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, rate_text)
}

/// A rate of bytes. Empty if it is absent.
pub(super) fn byte_rate(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, byte_rate_text)
}

/// A fraction in percent. Empty if it is absent.
pub(super) fn percent(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(String::new, |value| format!("{:.1} %", value * 100.0))
}

/// A text or a number as it is. Empty if it is absent.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_have_a_cell_for_each_head() {
        let mut table = MarkdownTable::new(&["a", "b", "c"]);
        assert_eq!(table.section("## Empty"), "");
        table.row(vec!["x|y\nz".into(), number(&json!(1.256), 2)]);
        let expected = "\n## T\n\n| a | b | c |\n| --- | ---: | ---: |\n| x\\|y z | 1.26 |  |\n";
        assert_eq!(table.section("## T"), expected);
    }

    #[test]
    fn absent_values_are_empty() {
        for text in [
            number,
            |value: &Value, _| percent(value),
            |value: &Value, _| plain(value),
        ] {
            assert_eq!(text(&Value::Null, 1), "");
        }
        assert_eq!(percent(&json!(0.8512)), "85.1 %");
        assert_eq!(
            (plain(&json!("lane")), plain(&json!(64))),
            ("lane".into(), "64".into())
        );
        assert_eq!(
            (hashrate(&Value::Null), byte_rate(&Value::Null)),
            (String::new(), String::new())
        );
    }
}
