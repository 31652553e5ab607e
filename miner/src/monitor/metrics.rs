//! A report as a page of metrics for Prometheus.

use daemon::status::metrics_page;
use engine::monitor::{DeviceReport, RigReport};
use engine::{DeviceState, EndpointStatus};
use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::costs::DayBalance;

/// The whole page of metrics. `day` is the balance of a day, if prices are known.
pub(super) fn page(report: &RigReport, day: Option<&DayBalance>) -> String {
    metrics_page(|| {
        describe();
        counter!("miner_uptime_seconds").absolute(report.uptime.as_secs());
        counter!("miner_jobs_total").absolute(report.client.jobs);
        report.client.endpoints.iter().for_each(record_endpoint);
        report.devices.iter().for_each(record_device);
        for (name, text, value) in day.iter().flat_map(|day| day.figures()) {
            if let Some(value) = value {
                let name = format!("miner_day_{name}");
                describe_gauge!(name.clone(), text);
                gauge!(name).set(value);
            }
        }
    })
}

fn describe() {
    describe_counter!("miner_uptime_seconds", "Seconds since the start.");
    describe_counter!("miner_jobs_total", "Jobs since the start.");
    describe_gauge!(
        "miner_endpoint_active",
        "1 for the endpoint that gives the current work."
    );
    describe_counter!(
        "miner_endpoint_failures_total",
        "Number of failures of the endpoint."
    );
    describe_counter!(
        "miner_endpoint_skipped_total",
        "Messages of the endpoint that could not be understood and were skipped."
    );
    describe_gauge!(
        "miner_hashes_per_second",
        "Hashes per second over the last ten seconds."
    );
    describe_counter!("miner_hashes_total", "Hashes since the start.");
    describe_counter!(
        "miner_solutions_found_total",
        "Solutions found, checked on the CPU."
    );
    describe_counter!("miner_solutions_total", "Solutions by their answers.");
    describe_counter!(
        "miner_invalid_total",
        "Hits that the check on the CPU has refused."
    );
    describe_counter!(
        "miner_device_checks_total",
        "Comparisons of the device with the CPU during the search, by their results."
    );
    describe_gauge!("miner_searching", "1 while the device searches.");
    describe_gauge!(
        "miner_resting",
        "1 while the device rests because of heat, the hour, or a request."
    );
    describe_gauge!(
        "miner_dataset_ratio",
        "Completed fraction of the dataset that is being generated, from 0 to 1."
    );
    describe_gauge!("miner_temperature_celsius", "Temperature of the device.");
    describe_gauge!("miner_power_watts", "Power consumption of the device.");
    describe_gauge!("miner_fan_ratio", "Speed of the device's first fan, from 0 to 1.");
}

/// Adds an endpoint to the page, which is empty at first. Endpoints that differ only in their
/// accounts have the same name, and share their figures.
fn record_endpoint(endpoint: &EndpointStatus) {
    let url = || ("endpoint", endpoint.url.clone());
    gauge!("miner_endpoint_active", &[url()]).increment(f64::from(u8::from(endpoint.active)));
    counter!("miner_endpoint_failures_total", &[url()]).increment(endpoint.failures);
    counter!("miner_endpoint_skipped_total", &[url()]).increment(endpoint.skipped);
}

fn record_device(device: &DeviceReport) {
    let DeviceReport {
        status,
        shares,
        reading,
    } = device;
    let name = || ("device", status.name.clone());
    let result = |text: &str| [name(), ("result", text.to_owned())];
    gauge!("miner_hashes_per_second", &[name()]).set(status.hashrate);
    counter!("miner_hashes_total", &[name()]).absolute(status.hashes);
    counter!("miner_solutions_found_total", &[name()]).absolute(status.solutions);
    for (answer, count) in [
        ("accepted", shares.accepted),
        ("stale", shares.stale),
        ("rejected", shares.rejected),
        ("lost", shares.lost),
        ("unknown", shares.unknown),
    ] {
        counter!("miner_solutions_total", &result(answer)).absolute(count);
    }
    counter!("miner_invalid_total", &[name()]).absolute(status.hardware_errors);
    let checks = status.checks;
    for (outcome, count) in [("passed", checks.passed), ("failed", checks.failed)] {
        counter!("miner_device_checks_total", &result(outcome)).absolute(count);
    }
    let is_searching = matches!(status.state, DeviceState::Searching { .. });
    gauge!("miner_searching", &[name()]).set(f64::from(u8::from(is_searching)));
    let is_resting = matches!(status.state, DeviceState::Resting { .. });
    gauge!("miner_resting", &[name()]).set(f64::from(u8::from(is_resting)));
    let dataset = status.dataset;
    let known = [
        (
            "miner_dataset_ratio",
            dataset.map(|at| f64::from(at.done) / f64::from(at.total.max(1))),
        ),
        ("miner_temperature_celsius", reading.temperature_c),
        ("miner_power_watts", reading.power_w),
        (
            "miner_fan_ratio",
            reading.fan_percent.map(|percent| percent / 100.0),
        ),
    ];
    for (figure, value) in known {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            gauge!(figure, &[name()]).set(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::super::costs::CostConfig;
    use super::*;

    #[test]
    fn metrics_have_a_head_and_unknown_ones_do_not_appear() {
        let text = page(&sample_report(), None);
        for line in [
            "# TYPE miner_hashes_per_second gauge",
            "miner_hashes_per_second{device=\"gpu:0\"} 25000000",
            "miner_solutions_total{device=\"gpu:0\",result=\"accepted\"} 7",
            "miner_solutions_total{device=\"gpu:1\",result=\"lost\"} 0",
            "miner_searching{device=\"gpu:1\"} 0",
            "miner_resting{device=\"gpu:1\"} 0",
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
        assert!(!text.contains("miner_day_"), "no price is known: {text}");
        let costs = CostConfig {
            power_price: Some(0.5),
            base_watts: 1000.0,
            ..CostConfig::default()
        };
        let report = sample_report();
        let text = page(&report, costs.day(None, &report).as_ref());
        assert!(
            text.contains("\nminer_day_power_cost 12\n") && !text.contains("miner_day_coins"),
            "{text}"
        );
    }

    #[test]
    fn two_accounts_at_one_pool_share_a_line() {
        let mut report = sample_report();
        let active = report
            .client
            .endpoints
            .iter()
            .position(|endpoint| endpoint.active);
        let active = report.client.endpoints[active.expect("a sample")].clone();
        let standby = EndpointStatus {
            active: false,
            failures: 2,
            ..active.clone()
        };
        let expected = [
            format!("miner_endpoint_active{{endpoint=\"{}\"}} 1", active.url),
            format!(
                "miner_endpoint_failures_total{{endpoint=\"{}\"}} {}",
                active.url,
                active.failures + 2
            ),
        ];
        report.client.endpoints = vec![active, standby];
        let text = page(&report, None);
        for line in expected {
            assert!(text.lines().any(|got| got == line), "{line} in {text}");
        }
    }
}
