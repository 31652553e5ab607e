//! Prometheus' text format (version 0.0.4).

use std::fmt::Write;

/// A family of figures: name, kind (`gauge` or `counter`), meaning.
pub type Family = (&'static str, &'static str, &'static str);

/// A page of figures.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

impl Page {
    /// A family with its figures, each with its labels; one without figures is left out.
    pub fn family(
        &mut self,
        (name, kind, meaning): Family,
        figures: impl IntoIterator<Item = (String, Option<f64>)>,
    ) {
        let mut head = format!("# HELP {name} {meaning}\n# TYPE {name} {kind}\n");
        for (labels, figure) in figures {
            let Some(figure) = figure.filter(|figure| figure.is_finite()) else {
                continue;
            };
            self.0.push_str(&std::mem::take(&mut head));
            // Writing to a string cannot fail.
            let _ = if labels.is_empty() {
                writeln!(self.0, "{name} {figure}")
            } else {
                writeln!(self.0, "{name}{{{labels}}} {figure}")
            };
        }
    }

    /// A family of one figure without labels.
    pub fn figure(&mut self, family: Family, figure: f64) {
        self.family(family, [(String::new(), Some(figure))]);
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A label with its value, escaped.
pub fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
    }

    #[test]
    fn families_without_figures_are_left_out() {
        let mut page = Page::default();
        page.family(
            ("a", "gauge", "A."),
            [("x=\"1\"".into(), None), ("x=\"2\"".into(), Some(f64::NAN))],
        );
        page.figure(("b", "counter", "B."), 2.5);
        assert_eq!(page.into_text(), "# HELP b B.\n# TYPE b counter\nb 2.5\n");
    }
}
