//! Hashrates of the last hour and of the last day, in memory. Knows no clock: the time comes with
//! each reading.
//!
//! Memory has a fixed bound: [`SERIES_MAX`] series of at most [`HOUR`] and [`DAY`] points with four
//! bytes each, together less than 400 KiB. A restart of the program begins anew.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

/// The most series. A further name is left out.
const SERIES_MAX: usize = 64;

/// The length of a history, and the time between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistorySpan {
    /// The time that a point covers, in seconds.
    pub(super) step_secs: u64,
    /// The most points.
    pub(super) points: usize,
}

/// An hour of points of ten seconds.
pub(super) const HOUR: HistorySpan = HistorySpan {
    step_secs: 10,
    points: 360,
};
/// A day of points of two minutes.
pub(super) const DAY: HistorySpan = HistorySpan {
    step_secs: 120,
    points: 720,
};

/// The hashrates of all devices over one span. A point is the mean of the readings in its time.
#[derive(Debug)]
pub(super) struct RateHistory {
    span: HistorySpan,
    /// The number of the point that is being collected, from 0.
    current: u64,
    series: Vec<RateSeries>,
}

#[derive(Debug)]
struct RateSeries {
    name: String,
    /// Finished points, the oldest first; `None` without a reading.
    points: VecDeque<Option<f32>>,
    /// Sum and number of the readings of the current point.
    sum: f64,
    readings: u32,
}

impl RateSeries {
    fn finish_point(&mut self, points_max: usize) {
        let mean = (self.readings > 0).then(|| (self.sum / f64::from(self.readings)) as f32);
        (self.sum, self.readings) = (0.0, 0);
        self.push(mean, points_max);
    }

    fn push(&mut self, point: Option<f32>, points_max: usize) {
        if self.points.len() >= points_max {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }
}

impl RateHistory {
    /// An empty history.
    pub(super) const fn new(span: HistorySpan) -> Self {
        Self {
            span,
            current: 0,
            series: Vec::new(),
        }
    }

    /// Adds a reading of each device: its name, and its rate in hashes per second. `elapsed` is the
    /// time since the start and does not decrease.
    pub(super) fn add(&mut self, elapsed: Duration, rates: &[(String, f64)]) {
        self.follow(elapsed);
        for (name, rate) in rates {
            let known = self.series.iter().position(|series| series.name == *name);
            let index = match known {
                Some(index) => index,
                None if self.series.len() < SERIES_MAX => {
                    self.series.push(RateSeries {
                        name: name.clone(),
                        points: std::iter::repeat_n(None, self.finished()).collect(),
                        sum: 0.0,
                        readings: 0,
                    });
                    self.series.len() - 1
                }
                None => continue,
            };
            let series = &mut self.series[index];
            if rate.is_finite() {
                series.sum += rate;
                series.readings += 1;
            }
        }
    }

    /// The number of finished points that are kept.
    fn finished(&self) -> usize {
        usize::try_from(self.current)
            .unwrap_or(usize::MAX)
            .min(self.span.points)
    }

    /// Finishes the points whose time is over at `elapsed`. Series without any reading are removed.
    fn follow(&mut self, elapsed: Duration) {
        let now = elapsed.as_secs() / self.span.step_secs;
        let points_max = self.span.points;
        // After a long pause, such as sleep of the machine, older points are all gone anyway.
        let missed = usize::try_from(now.saturating_sub(self.current))
            .unwrap_or(usize::MAX)
            .min(points_max + 1);
        self.current = self.current.max(now);
        for series in &mut self.series {
            for _ in 0..missed {
                series.finish_point(points_max);
            }
        }
        if missed > 0 {
            self.series
                .retain(|series| series.points.iter().any(Option::is_some));
        }
    }

    /// The history as JSON: the time of a point in seconds, the time when the last point ended, and
    /// for each device its points in hashes per second, the oldest first, null without a reading.
    /// All lists have the same length. `unix_secs` is the time now.
    pub(super) fn json(&mut self, elapsed: Duration, unix_secs: u64) -> Value {
        self.follow(elapsed);
        let since = elapsed
            .as_secs()
            .saturating_sub(self.current.saturating_mul(self.span.step_secs));
        let series = self.series.iter().map(|series| {
            let rates: Vec<Value> = series.points.iter().map(|point| shown(*point)).collect();
            json!({"name": series.name, "rates": rates})
        });
        json!({
            "step_s": self.span.step_secs,
            "points_max": self.span.points,
            "points": self.finished(),
            "end_s": unix_secs.saturating_sub(since),
            "series": series.collect::<Vec<_>>(),
        })
    }
}

/// A rate with as many digits as a chart can show.
fn shown(rate: Option<f32>) -> Value {
    let Some(rate) = rate.map(f64::from) else {
        return Value::Null;
    };
    if rate >= 1000.0 {
        json!(rate.round())
    } else {
        json!((rate * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: HistorySpan = HistorySpan {
        step_secs: 10,
        points: 4,
    };

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn rates(rates: &[(&str, f64)]) -> Vec<(String, f64)> {
        rates
            .iter()
            .map(|(name, rate)| ((*name).to_owned(), *rate))
            .collect()
    }

    #[test]
    fn a_point_is_the_mean_of_its_readings() {
        let mut history = RateHistory::new(SPAN);
        history.add(at(0), &rates(&[("cpu", 10.0)]));
        history.add(at(9), &rates(&[("cpu", 20.0)]));
        assert_eq!(history.json(at(9), 1009)["series"][0]["rates"], json!([]));
        // The device `gpu:0` came later, and `cpu` had no reading meanwhile.
        history.add(at(12), &rates(&[("gpu:0", 1234.56)]));
        let got = history.json(at(23), 1023);
        let expected = json!({
            "step_s": 10, "points_max": 4, "points": 2, "end_s": 1020,
            "series": [
                {"name": "cpu", "rates": [15.0, null]},
                {"name": "gpu:0", "rates": [null, 1235.0]},
            ],
        });
        assert_eq!(got, expected);
    }

    #[test]
    fn old_points_and_series_without_points_go_away() {
        let mut history = RateHistory::new(SPAN);
        history.add(at(5), &rates(&[("cpu", 1.0), ("gpu:0", 2.0)]));
        for second in (10..50).step_by(10) {
            history.add(at(second), &rates(&[("cpu", second as f64), ("gpu:0", f64::NAN)]));
        }
        let got = history.json(at(50), 50);
        assert_eq!(
            got["series"],
            json!([{"name": "cpu", "rates": [10.0, 20.0, 30.0, 40.0]}])
        );
        // The machine has slept for a long time.
        let got = history.json(at(1_000_000_000), 7);
        assert_eq!((&got["series"], &got["points"]), (&json!([]), &json!(4)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = RateHistory::new(SPAN);
        for round in 0..10 {
            let many: Vec<_> = (0..SERIES_MAX + 9)
                .map(|number| (number.to_string(), 1.0))
                .collect();
            history.add(at(round * 10), &many);
        }
        assert_eq!(history.series.len(), SERIES_MAX);
        assert!(
            history
                .series
                .iter()
                .all(|series| series.points.len() == SPAN.points)
        );
    }
}
