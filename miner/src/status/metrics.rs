//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::fmt::Write;

/// A metric family: name, type (`gauge` or `counter`) and help text.
pub type MetricFamily = (&'static str, &'static str, &'static str);

/// A page of metrics.
#[derive(Clone, Debug, Default)]
pub struct MetricsPage(String);

impl MetricsPage {
    /// Adds a family with its samples. A sample has labels and a value.
    ///
    /// Samples without a finite value are left out, and so is a family without samples.
    pub fn family(
        &mut self,
        (name, kind, help): MetricFamily,
        samples: impl IntoIterator<Item = (String, Option<f64>)>,
    ) {
        let mut head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in samples {
            let Some(value) = value.filter(|value| value.is_finite()) else {
                continue;
            };
            self.0.push_str(&std::mem::take(&mut head));
            // Writing to a string cannot fail.
            let _ = if labels.is_empty() {
                writeln!(self.0, "{name} {value}")
            } else {
                writeln!(self.0, "{name}{{{labels}}} {value}")
            };
        }
    }

    /// Adds a family with one sample without labels.
    pub fn figure(&mut self, family: MetricFamily, value: f64) {
        self.family(family, [(String::new(), Some(value))]);
    }

    /// The page as text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A label with its escaped value.
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
    fn families_without_samples_are_left_out() {
        let mut page = MetricsPage::default();
        page.family(
            ("a", "gauge", "A."),
            [("x=\"1\"".into(), None), ("x=\"2\"".into(), Some(f64::NAN))],
        );
        page.figure(("b", "counter", "B."), 2.5);
        assert_eq!(page.into_text(), "# HELP b B.\n# TYPE b counter\nb 2.5\n");
    }
}
