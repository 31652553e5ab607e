//! The sensors of a device during a figure: means, the highest temperature, and the share of the
//! time in which the card was slowed.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use engine::gpu::AdapterInfo;
use engine::sensors::{SensorReading, Sensors, SlowdownCause};
use engine::threads::{join_until, spawn};
use serde_json::{Value, json};

/// Time between two looks at the latest reading.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The most looks of a figure. Longer figures have the means of their beginning.
const LOOKS_MAX: usize = 100_000;

/// Collects readings until it is ended.
pub(super) struct SensorLog {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    readings: Arc<parking_lot::Mutex<Vec<SensorReading>>>,
}

impl SensorLog {
    /// Starts to collect the readings of a device. Without a thread the log stays empty.
    fn start(sensors: &Arc<Sensors>, name: &str, pci_bus: Option<&str>) -> Self {
        let (end, ended) = bounded::<()>(0);
        let readings = Arc::<parking_lot::Mutex<Vec<SensorReading>>>::default();
        let (sensors, out) = (Arc::clone(sensors), Arc::clone(&readings));
        let (name, pci_bus) = (name.to_owned(), pci_bus.map(str::to_owned));
        let thread = spawn("sensor log", move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let reading = sensors.read(&name, pci_bus.as_deref());
                let mut readings = out.lock();
                if readings.len() < LOOKS_MAX && reading != SensorReading::default() {
                    readings.push(reading);
                }
            }
        });
        Self {
            end: Some(end),
            thread: thread.ok(),
            readings,
        }
    }

    /// Starts to collect the readings of a card.
    pub(super) fn of_card(sensors: &Arc<Sensors>, info: &AdapterInfo) -> Self {
        Self::start(sensors, &format!("gpu:{}", info.index), info.pci_bus.as_deref())
    }

    /// Ends the log. Returns the fields of a record.
    pub(super) fn end(mut self) -> Value {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            join_until(thread, std::time::Instant::now() + Duration::from_secs(5));
        }
        fields(&self.readings.lock())
    }
}

/// A value of a reading.
type ReadingField = fn(&SensorReading) -> Option<f64>;

/// The means of the readings, and the highest temperature. What no reading has is absent.
fn fields(readings: &[SensorReading]) -> Value {
    let mut fields = json!({});
    let means: [(&str, ReadingField); 6] = [
        ("power_w", |reading| reading.power_w),
        ("core_mhz", |reading| reading.core_mhz),
        ("memory_mhz", |reading| reading.memory_mhz),
        ("core_busy_percent", |reading| reading.core_busy_percent),
        ("memory_busy_percent", |reading| reading.memory_busy_percent),
        ("fan_percent", |reading| reading.fan_percent),
    ];
    for (name, value) in means {
        let values: Vec<_> = readings.iter().filter_map(value).collect();
        if !values.is_empty() {
            fields[name] = json!(values.iter().sum::<f64>() / values.len() as f64);
        }
    }
    let hottest = readings.iter().filter_map(|reading| reading.temperature_c);
    if let Some(hottest) = hottest.max_by(f64::total_cmp) {
        fields["temperature_c"] = json!(hottest);
    }
    for cause in SlowdownCause::ALL {
        let slowed = readings.iter().filter(|reading| reading.slowed_by == Some(cause));
        let share = slowed.count() as f64 / readings.len().max(1) as f64;
        if share > 0.0 {
            fields["slowed_by"][cause.name()] = json!(share);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_what_was_read() {
        let reading = |power_w, temperature_c| SensorReading {
            temperature_c,
            power_w,
            slowed_by: temperature_c.map(|_| SlowdownCause::PowerLimit),
            ..SensorReading::default()
        };
        let fields = fields(&[
            reading(Some(300.0), Some(60.0)),
            reading(None, Some(70.0)),
            reading(Some(500.0), None),
            reading(Some(400.0), None),
        ]);
        let expected = json!({
            "power_w": 400.0, "temperature_c": 70.0, "slowed_by": {"power limit": 0.5},
        });
        assert_eq!(fields, expected);
        assert_eq!(super::fields(&[]), json!({}));
    }

    #[test]
    fn a_device_without_sensors_has_an_empty_log() {
        let sensors = Arc::new(Sensors::start());
        let log = SensorLog::start(&sensors, "gpu:77", None);
        assert_eq!(log.end(), json!({}));
    }
}
