//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use metrics_exporter_prometheus::PrometheusBuilder;

/// The page of what `record` records through the crate `metrics`, and of nothing else.
pub fn metrics_page(record: impl FnOnce()) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, record);
    recorder.handle().render()
}

#[cfg(test)]
mod tests {
    use metrics::{counter, describe_gauge, gauge};

    use super::*;

    #[test]
    fn a_page_has_what_was_recorded_for_it() {
        let page = metrics_page(|| {
            describe_gauge!("a", "A.");
            gauge!("a", "x" => "y\"z\n").set(2.5);
            counter!("b_total").absolute(7);
        });
        for line in [
            "# HELP a A.",
            "# TYPE a gauge",
            "a{x=\"y\\\"z\\n\"} 2.5",
            "# TYPE b_total counter",
            "b_total 7",
        ] {
            assert!(
                page.lines().any(|got| got == line),
                "{line} is missing in\n{page}"
            );
        }
        assert_eq!(metrics_page(|| ()), "");
    }
}
