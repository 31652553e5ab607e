//! A report as a page of metrics for Prometheus.

use super::report::RigReport;
use crate::status::{MetricFamily, MetricsPage, label};

const HASHRATE: MetricFamily = (
    "miner_hashes_per_second",
    "gauge",
    "Hashes per second over the last ten seconds.",
);
const HASHES: MetricFamily = ("miner_hashes_total", "counter", "Hashes since the start.");
const FOUND: MetricFamily = (
    "miner_solutions_found_total",
    "counter",
    "Solutions found, checked on the CPU.",
);
const ANSWERS: MetricFamily = ("miner_solutions_total", "counter", "Solutions by their answers.");
const INVALID: MetricFamily = (
    "miner_invalid_total",
    "counter",
    "Hits that the check on the CPU has refused.",
);
const CHECKS: MetricFamily = (
    "miner_device_checks_total",
    "counter",
    "Comparisons of the device with the CPU during the search, by their results.",
);
const SEARCHING: MetricFamily = ("miner_searching", "gauge", "1 while the device searches.");
const TEMPERATURE: MetricFamily = ("miner_temperature_celsius", "gauge", "Temperature of the device.");
const POWER: MetricFamily = ("miner_power_watts", "gauge", "Power consumption of the device.");
const FAN: MetricFamily = (
    "miner_fan_ratio",
    "gauge",
    "Speed of the device's first fan, from 0 to 1.",
);
const DATASET: MetricFamily = (
    "miner_dataset_ratio",
    "gauge",
    "Completed fraction of the dataset that is being generated, from 0 to 1.",
);
const CONNECTED: MetricFamily = (
    "miner_endpoint_active",
    "gauge",
    "1 for the endpoint that gives the current work.",
);
const FAILURES: MetricFamily = (
    "miner_endpoint_failures_total",
    "counter",
    "Number of failures of the endpoint.",
);
const SKIPPED: MetricFamily = (
    "miner_endpoint_skipped_total",
    "counter",
    "Messages of the endpoint that could not be understood and were skipped.",
);
const JOBS: MetricFamily = ("miner_jobs_total", "counter", "Jobs since the start.");
const UPTIME: MetricFamily = ("miner_uptime_seconds", "counter", "Seconds since the start.");

/// The whole page of metrics.
pub(super) fn page(report: &RigReport) -> String {
    let mut page = MetricsPage::default();
    page.figure(UPTIME, report.uptime.as_secs_f64());
    page.figure(JOBS, report.client.jobs as f64);
    let endpoints = || {
        report
            .client
            .endpoints
            .iter()
            .map(|endpoint| (label("endpoint", &endpoint.url), endpoint))
    };
    page.family(
        CONNECTED,
        endpoints().map(|(labels, endpoint)| (labels, Some(f64::from(u8::from(endpoint.active))))),
    );
    page.family(
        FAILURES,
        endpoints().map(|(labels, endpoint)| (labels, Some(endpoint.failures as f64))),
    );
    page.family(
        SKIPPED,
        endpoints().map(|(labels, endpoint)| (labels, Some(endpoint.skipped as f64))),
    );
    let devices = || {
        report
            .devices
            .iter()
            .map(|device| (label("device", &device.status.name), device))
    };
    page.family(
        HASHRATE,
        devices().map(|(labels, device)| (labels, Some(device.status.hashrate))),
    );
    page.family(
        HASHES,
        devices().map(|(labels, device)| (labels, Some(device.status.hashes as f64))),
    );
    page.family(
        FOUND,
        devices().map(|(labels, device)| (labels, Some(device.status.solutions as f64))),
    );
    page.family(
        ANSWERS,
        devices().flat_map(|(labels, device)| {
            let shares = device.shares;
            [
                ("accepted", shares.accepted),
                ("stale", shares.stale),
                ("rejected", shares.rejected),
                ("lost", shares.lost),
                ("unknown", shares.unknown),
            ]
            .map(|(result, count)| {
                (
                    format!("{labels},{}", label("result", result)),
                    Some(count as f64),
                )
            })
        }),
    );
    page.family(
        INVALID,
        devices().map(|(labels, device)| (labels, Some(device.status.hardware_errors as f64))),
    );
    page.family(
        CHECKS,
        devices().flat_map(|(labels, device)| {
            let checks = device.status.checks;
            [("passed", checks.passed), ("failed", checks.failed)].map(|(result, count)| {
                (
                    format!("{labels},{}", label("result", result)),
                    Some(count as f64),
                )
            })
        }),
    );
    page.family(
        SEARCHING,
        devices().map(|(labels, device)| {
            let searching = matches!(
                device.status.state,
                crate::telemetry::DeviceState::Searching { .. }
            );
            (labels, Some(f64::from(u8::from(searching))))
        }),
    );
    page.family(
        DATASET,
        devices().map(|(labels, device)| {
            let dataset = device.status.dataset;
            (
                labels,
                dataset.map(|at| f64::from(at.done) / f64::from(at.total.max(1))),
            )
        }),
    );
    page.family(
        TEMPERATURE,
        devices().map(|(labels, device)| (labels, device.reading.temperature_c)),
    );
    page.family(
        POWER,
        devices().map(|(labels, device)| (labels, device.reading.power_w)),
    );
    page.family(
        FAN,
        devices().map(|(labels, device)| (labels, device.reading.fan_percent.map(|percent| percent / 100.0))),
    );
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::fixture::sample_report;

    #[test]
    fn metrics_have_a_head_and_unknown_ones_do_not_appear() {
        let text = page(&sample_report());
        for line in [
            "# TYPE miner_hashes_per_second gauge",
            "miner_hashes_per_second{device=\"gpu:0\"} 25000000",
            "miner_solutions_total{device=\"gpu:0\",result=\"accepted\"} 7",
            "miner_solutions_total{device=\"gpu:1\",result=\"lost\"} 0",
            "miner_searching{device=\"gpu:1\"} 0",
            "miner_device_checks_total{device=\"gpu:1\",result=\"failed\"} 2",
            "miner_dataset_ratio{device=\"gpu:1\"} 0.25",
            "miner_temperature_celsius{device=\"gpu:0\"} 61",
            "miner_endpoint_active{endpoint=\"http://a:8545\"} 1",
            "miner_endpoint_skipped_total{endpoint=\"http://a:8545\"} 3",
            "miner_solutions_total{device=\"gpu:0\",result=\"unknown\"} 2",
            "miner_uptime_seconds 100",
        ] {
            assert!(
                text.lines().any(|got| got == line),
                "{line} is missing in\n{text}"
            );
        }
        assert!(
            !text.contains("miner_power_watts") && !text.contains("miner_fan_ratio"),
            "{text}"
        );
        assert_eq!(text.matches("# HELP miner_solutions_total").count(), 1);
    }
}
