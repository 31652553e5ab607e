//! Lets a card that is too hot rest until it has cooled down.
//!
//! Knows temperatures only. Who reads them, and who makes a card rest, is elsewhere.

use engine::monitor::DeviceReport;

/// The temperatures in degrees Celsius at which a card rests and goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatLimits {
    /// A card that is as hot as this rests.
    pub stop_c: f64,
    /// A card that rests goes on when it is as cool as this.
    pub start_c: f64,
}

/// A change of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HeatChange {
    /// The card is too hot.
    Rest { temperature_c: f64 },
    /// The card has cooled down.
    GoOn { temperature_c: f64 },
    /// The system does not show its temperature, so the limits have no effect on it.
    Unknown,
}

/// The cards as they were at the last check.
#[derive(Debug, Default)]
pub(super) struct HeatWatch {
    cards: Vec<CardHeat>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CardHeat {
    checks: u32,
    is_known: bool,
    rests: bool,
}

/// A temperature that never came in so many checks is unknown. The first readings come late.
const CHECKS_UNTIL_UNKNOWN: u32 = 30;

impl HeatWatch {
    /// The changes that `devices` show now, by their indices. A card whose temperature is unknown
    /// for a while stays as it is.
    pub(super) fn check(&mut self, devices: &[DeviceReport], limits: HeatLimits) -> Vec<(usize, HeatChange)> {
        self.cards.resize(devices.len(), CardHeat::default());
        let cards = self.cards.iter_mut().zip(devices).enumerate();
        cards
            .filter_map(|(index, (card, device))| {
                let change = card.check(device.reading.temperature_c, limits)?;
                Some((index, change))
            })
            .collect()
    }
}

impl CardHeat {
    fn check(&mut self, temperature_c: Option<f64>, limits: HeatLimits) -> Option<HeatChange> {
        self.checks = self.checks.saturating_add(1);
        let Some(temperature_c) = temperature_c else {
            let is_unknown = !self.is_known && self.checks == CHECKS_UNTIL_UNKNOWN;
            return is_unknown.then_some(HeatChange::Unknown);
        };
        self.is_known = true;
        if !self.rests && temperature_c >= limits.stop_c {
            self.rests = true;
            Some(HeatChange::Rest { temperature_c })
        } else if self.rests && temperature_c <= limits.start_c {
            self.rests = false;
            Some(HeatChange::GoOn { temperature_c })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn a_hot_card_rests_until_it_is_cool() {
        let limits = HeatLimits {
            stop_c: 75.0,
            start_c: 60.0,
        };
        let (mut watch, mut devices) = (HeatWatch::default(), sample_report().devices);
        devices[1].reading.temperature_c = None;
        let mut at = |temperature_c| {
            devices[0].reading.temperature_c = temperature_c;
            watch.check(&devices, limits)
        };
        let rest = |temperature_c| vec![(0, HeatChange::Rest { temperature_c })];
        assert_eq!(at(Some(74.9)), []);
        assert_eq!(at(Some(75.0)), rest(75.0));
        assert_eq!(at(Some(80.0)), [], "it rests already");
        assert_eq!(at(Some(60.5)), []);
        assert_eq!(at(None), [], "a sensor that fails ends no rest");
        assert_eq!(at(Some(60.0)), [(0, HeatChange::GoOn { temperature_c: 60.0 })]);
        assert_eq!(at(Some(90.0)), rest(90.0));
        let later: Vec<_> = (0..100).flat_map(|_| at(None)).collect();
        assert_eq!(
            later,
            [(1, HeatChange::Unknown)],
            "said once, and only of a card without sensor"
        );
    }
}
