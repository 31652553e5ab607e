//! The figures of a rig in the forms that ethminer has given them.
//!
//! Figures that nobody knows, such as the temperature of some cards, are 0, because the readers
//! expect numbers. A share that came too late counts as rejected: ethminer knows no third kind.

use engine::monitor::{DeviceReport, RigReport};
use engine::{DeviceState, RestCause};
use serde_json::{Value, json};

/// Name and version, as ethminer writes its own.
const VERSION: &str = concat!("miner-", env!("CARGO_PKG_VERSION"));

/// `miner_getstat1`: nine texts, whose parts semicolons separate.
pub(super) fn stat1(report: &RigReport) -> Value {
    let total = report.client.total();
    let rates = joined(report, |device| kilo(device.status.hashrate));
    let sensors = joined(report, |device| {
        let [temperature, fan, _] = sensors(device);
        format!("{temperature:.0};{fan:.0}")
    });
    json!([
        VERSION,
        minutes(report),
        format!(
            "{};{};{}",
            kilo(report.engine.hashrate),
            total.accepted,
            total.stale + total.rejected
        ),
        rates,
        "0;0;0",
        joined(report, |_| "off".into()),
        sensors,
        host(report),
        format!("{};{};0;0", report.engine.hardware_errors, switches(report)),
    ])
}

/// `miner_getstathr`: the same with names, and hashrates in hashes per second.
pub(super) fn stat_hr(report: &RigReport) -> Value {
    let total = report.client.total();
    let list = |figure: fn(&DeviceReport) -> Value| report.devices.iter().map(figure).collect::<Vec<_>>();
    json!({
        "version": VERSION,
        "runtime": minutes(report),
        "ethhashrate": report.engine.hashrate as u64,
        "ethhashrates": list(|device| (device.status.hashrate as u64).into()),
        "ethshares": total.accepted,
        "ethrejected": total.stale + total.rejected,
        "ethinvalid": report.engine.hardware_errors,
        "ethpoolsw": switches(report),
        "temperatures": list(|device| sensors(device)[0].into()),
        "fanpercentages": list(|device| sensors(device)[1].into()),
        "powerusages": list(|device| sensors(device)[2].into()),
        "pooladdrs": host(report),
        "ispaused": list(|device| pause_reason(device).is_some().into()),
    })
}

/// `miner_getstatdetail`. `heat_limits` are the temperatures at which a card goes on and rests.
pub(super) fn stat_detail(report: &RigReport, heat_limits: Option<(f64, f64)>) -> Value {
    let total = report.client.total();
    let job = report.client.job;
    let since = |device: &DeviceReport| device.status.since_solution.unwrap_or(report.uptime).as_secs();
    let last = report.devices.iter().map(since).min();
    let devices = report.devices.iter().enumerate().map(|(index, device)| {
        let status = &device.status;
        let is_cpu = status.name == "cpu";
        let reason = pause_reason(device);
        json!({
            "_index": index,
            "_mode": if is_cpu { "CPU" } else { "GPU" },
            "hardware": {
                "name": status.label,
                "pci": status.pci_bus.as_deref().map_or("", |bus| bus.strip_prefix("0000:").unwrap_or(bus)),
                "sensors": sensors(device),
                "type": if is_cpu { "CPU" } else { "GPU" },
            },
            "mining": {
                "hashrate": hex(status.hashrate),
                "paused": reason.is_some(),
                "pause_reason": reason,
                "shares": [
                    device.shares.accepted,
                    device.shares.stale + device.shares.rejected,
                    status.hardware_errors,
                    since(device),
                ],
            },
        })
    });
    json!({
        "connection": {
            "connected": report.client.active().is_some(),
            "switches": switches(report),
            "uri": current(report).map_or("", |endpoint| endpoint.url.as_str()),
        },
        "devices": devices.collect::<Vec<_>>(),
        "host": {
            "name": host_name(),
            "runtime": report.uptime.as_secs(),
            "version": VERSION,
        },
        "mining": {
            "difficulty": job.map_or(0.0, |job| f64::from(job.difficulty)),
            "epoch": job.map_or(0, |job| job.epoch.index),
            "epoch_changes": report.client.epoch_changes,
            "hashrate": hex(report.engine.hashrate),
            "shares": [
                total.accepted,
                total.stale + total.rejected,
                report.engine.hardware_errors,
                last.unwrap_or(report.uptime.as_secs()),
            ],
        },
        "monitors": heat_limits.map(|(start, stop)| json!({"temperatures": [start, stop]})),
    })
}

/// `miner_getconnections`: the endpoints, without their accounts.
pub(super) fn connections(report: &RigReport) -> Value {
    let endpoints = report.client.endpoints.iter().enumerate();
    endpoints
        .map(|(index, endpoint)| json!({"active": endpoint.active, "index": index, "uri": endpoint.url}))
        .collect()
}

/// A figure of each device, separated by semicolons.
fn joined(report: &RigReport, figure: impl Fn(&DeviceReport) -> String) -> String {
    report.devices.iter().map(figure).collect::<Vec<_>>().join(";")
}

/// Thousands of hashes per second, in whole digits.
fn kilo(rate: f64) -> String {
    format!("{:.0}", rate / 1e3)
}

/// Hashes per second as sixteen hexadecimal digits.
fn hex(rate: f64) -> String {
    format!("{:#018x}", rate as u64)
}

fn minutes(report: &RigReport) -> String {
    (report.uptime.as_secs() / 60).to_string()
}

/// Temperature, fan and power, each 0 if it is unknown.
fn sensors(device: &DeviceReport) -> [f64; 3] {
    let reading = device.reading;
    [reading.temperature_c, reading.fan_percent, reading.power_w].map(Option::unwrap_or_default)
}

/// The reason why a device does not search although there may be work.
fn pause_reason(device: &DeviceReport) -> Option<&str> {
    match &device.status.state {
        DeviceState::Resting { cause } => Some(RestCause::name(*cause)),
        DeviceState::Failed { reason } | DeviceState::Recovering { reason } => Some(reason),
        DeviceState::Waiting | DeviceState::Preparing { .. } | DeviceState::Searching { .. } => None,
    }
}

/// The endpoint that gives the work, or the preferred one.
fn current(report: &RigReport) -> Option<&engine::EndpointStatus> {
    report.client.active().or_else(|| report.client.endpoints.first())
}

/// Host and port of the current endpoint.
fn host(report: &RigReport) -> &str {
    let url = current(report).map_or("", |endpoint| endpoint.url.as_str());
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host.split_once('/').map_or(host, |(host, _)| host)
}

/// The number of times that the rig has changed its endpoint, or connected to it again.
fn switches(report: &RigReport) -> u64 {
    let connections: u64 = report
        .client
        .endpoints
        .iter()
        .map(|endpoint| endpoint.connections)
        .sum();
    connections.saturating_sub(1)
}

/// The name of this machine, if the system tells it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.map(|name| name.trim().to_owned());
    name.or_else(|| {
        std::env::var("HOSTNAME")
            .or_else(|_| std::env::var("COMPUTERNAME"))
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn stat1_has_nine_texts() {
        let version = VERSION;
        assert_eq!(
            stat1(&sample_report()),
            json!([
                version,
                "1",
                "50000;7;1",
                "25000;25000",
                "0;0;0",
                "off;off",
                "61;0;61;0",
                "a:8545",
                "2;1;0;0"
            ])
        );
    }

    #[test]
    fn stathr_has_a_number_for_each_device() {
        let hr = stat_hr(&sample_report());
        assert_eq!(hr["ethhashrate"], 50_000_000);
        assert_eq!(hr["ethhashrates"], json!([25_000_000, 25_000_000]));
        assert_eq!(
            (&hr["runtime"], &hr["ethshares"], &hr["ethrejected"]),
            (&json!("1"), &json!(7), &json!(1))
        );
        assert_eq!(
            (&hr["temperatures"], &hr["powerusages"]),
            (&json!([61.0, 61.0]), &json!([0.0, 0.0]))
        );
        assert_eq!(hr["ispaused"], json!([false, true]));
    }

    #[test]
    fn details_have_the_members_that_readers_want() {
        let mut report = sample_report();
        report.devices[0].status.pci_bus = Some("0000:0a:00.0".into());
        let detail = stat_detail(&report, Some((40.0, 75.0)));
        let device = &detail["devices"][0];
        assert_eq!(
            (&device["hardware"]["pci"], &device["hardware"]["type"]),
            (&json!("0a:00.0"), &json!("GPU"))
        );
        assert_eq!(device["mining"]["hashrate"], "0x00000000017d7840");
        assert_eq!(device["mining"]["shares"], json!([7, 1, 1, 15]));
        assert_eq!(
            (&device["mining"]["paused"], &device["mining"]["pause_reason"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(detail["devices"][1]["mining"]["pause_reason"], "lost");
        assert_eq!(
            detail["connection"],
            json!({"connected": true, "switches": 1, "uri": "http://a:8545"})
        );
        assert_eq!(detail["monitors"], json!({"temperatures": [40.0, 75.0]}));
        assert_eq!(
            (&detail["host"]["runtime"], &detail["mining"]["difficulty"]),
            (&json!(100), &json!(0.0))
        );
        assert!(stat_detail(&report, None)["monitors"].is_null());
        assert_eq!(
            connections(&report),
            json!([{"active": true, "index": 0, "uri": "http://a:8545"}])
        );
    }
}
