//! The coins that a rig earns in a day, the cost of its power, and what is left: projections from
//! the figures of this moment.
//!
//! All prices are in one currency, which nobody needs to name.

use engine::monitor::RigReport;
use serde_json::{Value, json};

const DAY_SECS: f64 = 86_400.0;
const DAY_HOURS: f64 = 24.0;

/// The prices and sizes that the owner of a rig knows. `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostConfig {
    /// The price of a kilowatt hour.
    pub power_price: Option<f64>,
    /// The price of a coin.
    pub coin_price: Option<f64>,
    /// The coins that a block pays its miner.
    pub block_reward: Option<f64>,
    /// The difficulty of a block. A node tells it with its work, a pool does not.
    pub network_difficulty: Option<f64>,
    /// The power in watts of what no sensor shows.
    pub base_watts: f64,
}

/// A day of a rig at the rates of this moment. `None`: a figure that is needed is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DayBalance {
    /// Coins a day.
    coins: Option<f64>,
    /// Power in watts: all sensors and the base.
    watts: Option<f64>,
    power_price: Option<f64>,
    /// The cost of the power of a day.
    cost: Option<f64>,
    /// The value of the coins of a day.
    income: Option<f64>,
}

impl CostConfig {
    /// The balance of a day. `None` if no price is known, so that nobody wants it. `power_price` is
    /// that of the hour, if there is one.
    pub(super) fn day(&self, power_price: Option<f64>, report: &RigReport) -> Option<DayBalance> {
        let power_price = power_price.or(self.power_price);
        if power_price.is_none() && self.coin_price.is_none() {
            return None;
        }
        let shown = report.devices.iter().filter_map(|device| device.reading.power_w);
        let sum: f64 = shown.clone().sum::<f64>() + self.base_watts;
        let is_known = self.base_watts > 0.0 || shown.count() > 0;
        let watts = Some(sum).filter(|sum| is_known && sum.is_finite());
        let coins = self.coins(report);
        let cost = watts.zip(power_price);
        let income = coins.zip(self.coin_price);
        Some(DayBalance {
            coins,
            watts,
            power_price,
            cost: cost.map(|(watts, price)| watts / 1000.0 * DAY_HOURS * price),
            income: income.map(|(coins, price)| coins * price),
        })
    }

    /// The coins of a day, without those for solutions that are too late or refused.
    fn coins(&self, report: &RigReport) -> Option<f64> {
        let of_node = || {
            let is_node = report.client.active()?.url.starts_with("http");
            let difficulty = report.client.job.map(|job| f64::from(job.difficulty));
            difficulty.filter(|_| is_node)
        };
        let difficulty = self.network_difficulty.or_else(of_node)?;
        let total = report.client.total();
        let answered = total.accepted + total.stale + total.rejected;
        let good = if answered > 0 {
            total.accepted as f64 / answered as f64
        } else {
            1.0
        };
        let blocks = report.engine.hashrate * DAY_SECS / difficulty.max(1.0);
        Some(blocks * good * self.block_reward?)
    }
}

impl DayBalance {
    /// The figures with their names in the metrics, and what they are.
    pub(super) fn figures(&self) -> [(&'static str, &'static str, Option<f64>); 6] {
        let income = self.income.zip(self.cost);
        let balance = income.map(|(income, cost)| income - cost);
        [
            ("coins", "Coins a day at the rates of this moment.", self.coins),
            (
                "power_watts",
                "Power of the rig: all sensors and --base-watts.",
                self.watts,
            ),
            ("power_price", "Price of a kilowatt hour now.", self.power_price),
            (
                "power_cost",
                "Cost of the power of a day at the rates of this moment.",
                self.cost,
            ),
            (
                "income",
                "Value of the coins of a day at the rates of this moment.",
                self.income,
            ),
            (
                "balance",
                "Income of a day without the cost of its power.",
                balance,
            ),
        ]
    }

    /// The figures as JSON. Unknown ones are null.
    pub(super) fn to_json(self) -> Value {
        let members = self.figures();
        let members = members
            .into_iter()
            .map(|(name, _, value)| (name.to_owned(), json!(value)));
        Value::Object(members.collect())
    }
}

#[cfg(test)]
mod tests {
    use engine::JobStatus;
    use engine::testing::sample_report;
    use ethash::{B256, Epoch, U256};

    use super::*;

    const COSTS: CostConfig = CostConfig {
        power_price: Some(0.25),
        coin_price: Some(20.0),
        block_reward: Some(2.0),
        network_difficulty: None,
        base_watts: 100.0,
    };

    /// A rig of 50 MH/s and 400 W, 7 of whose 8 answered solutions were accepted.
    fn report() -> RigReport {
        let mut report = sample_report();
        report.devices[0].reading.power_w = Some(300.0);
        report.client.job = Some(JobStatus {
            header_hash: B256::ZERO,
            epoch: Epoch::ethash(3),
            number: None,
            difficulty: U256::from(4_320_000_000_000_u64),
        });
        report
    }

    #[test]
    fn a_day_has_coins_costs_and_a_balance() {
        let day = |costs: CostConfig, price| costs.day(price, &report()).expect("prices are known").to_json();
        // A block a day, and 9.6 kWh.
        let all = json!({
            "coins": 1.75, "power_watts": 400.0, "power_price": 0.25, "power_cost": 2.4,
            "income": 35.0, "balance": 32.6,
        });
        let close = |got: &Value, expected: &Value| {
            for (name, expected) in expected.as_object().expect("an object") {
                let (got, expected) = (got[name].as_f64(), expected.as_f64());
                let differs = got
                    .zip(expected)
                    .is_some_and(|(got, expected)| (got - expected).abs() > 1e-9);
                assert!(
                    got.is_some() == expected.is_some() && !differs,
                    "{name}: {got:?}, {expected:?}"
                );
            }
        };
        close(&day(COSTS, None), &all);
        let dear = day(COSTS, Some(5.0));
        close(
            &dear,
            &json!({"power_price": 5.0, "power_cost": 48.0, "balance": -13.0}),
        );
        let no_coins = CostConfig {
            block_reward: None,
            ..COSTS
        };
        close(
            &day(no_coins, None),
            &json!({"coins": null, "power_cost": 2.4, "income": null, "balance": null}),
        );
        let of_pool = CostConfig {
            network_difficulty: Some(8.64e12),
            ..COSTS
        };
        close(&day(of_pool, None), &json!({"coins": 0.875}));
        assert_eq!(
            CostConfig {
                power_price: None,
                coin_price: None,
                ..COSTS
            }
            .day(None, &report()),
            None
        );
    }

    #[test]
    fn a_pool_does_not_tell_the_difficulty_of_a_block() {
        let mut report = report();
        report.client.endpoints[0].url = "stratum+tcp://a:1".into();
        for device in &mut report.devices {
            device.reading.power_w = None;
        }
        let costs = CostConfig {
            base_watts: 0.0,
            ..COSTS
        };
        let day = costs.day(None, &report).expect("prices are known").to_json();
        assert!(
            day["coins"].is_null() && day["power_watts"].is_null() && day["power_cost"].is_null(),
            "{day}"
        );
    }
}
