//! Log lines for people and watchdogs: one per device and one for all, always with the same fields.

use engine::monitor::RigReport;
use engine::sensors::SlowdownCause;
use engine::units::{rate_text, share_text, time_text};

/// Logs the current hashrates and counts.
pub(super) fn log_speed(report: &RigReport) {
    for device in &report.devices {
        let (status, shares) = (&device.status, device.shares);
        let dataset = status
            .dataset
            .map(|at| u64::from(at.done) * 100 / u64::from(at.total.max(1)));
        tracing::info!(
            device = status.name,
            rate = rate_text(status.hashrate),
            average = rate_text(status.average),
            accepted = shares.accepted,
            stale = shares.stale,
            rejected = shares.rejected,
            invalid = status.hardware_errors,
            temperature_c = device.reading.temperature_c,
            power_w = device.reading.power_w,
            slowed_by = device.reading.slowed_by.map(SlowdownCause::name),
            dataset_percent = dataset,
            "speed"
        );
    }
    let total = report.client.total();
    tracing::info!(
        device = "all",
        rate = rate_text(report.engine.hashrate),
        accepted = total.accepted,
        stale = total.stale,
        rejected = total.rejected,
        invalid = report.engine.hardware_errors,
        endpoint = report.client.active().map(|endpoint| endpoint.url.as_str()),
        "speed"
    );
}

/// Logs the totals since the start.
pub(super) fn log_totals(report: &RigReport) {
    let total = report.client.total();
    tracing::info!(
        uptime = time_text(report.uptime),
        hashes = report.engine.hashes,
        accepted = total.accepted,
        stale = total.stale,
        rejected = total.rejected,
        lost = total.lost,
        unknown = total.unknown,
        invalid = report.engine.hardware_errors,
        stale_share = share_text(report.stale_share()),
        invalid_share = share_text(report.invalid_share()),
        "done"
    );
}
