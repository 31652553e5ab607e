//! Options that rig systems use, and those that take care of a rig.

use std::path::PathBuf;

use clap::Args;
use miner::api::{ApiAddress, ApiAddressError, ApiConfig};
use miner::rig::{CareConfig, CostConfig, HeatLimits, PowerPrices, PriceFileError, RestHours, TimeOfDay};

use super::options::BadValue;

/// Options of the API.
#[derive(Debug, Args)]
pub(crate) struct ApiOptions {
    /// Serve the API of ethminer (JSON lines over TCP) for HiveOS, mmpOS, minerstat and others at
    /// this address, such as 127.0.0.1:3333, or 3333 for this machine only. A negative port is
    /// read-only, and so is every port without a password.
    #[arg(long, value_name = "[ADDRESS:]PORT", allow_hyphen_values = true)]
    pub(crate) api_bind: Option<ApiAddress>,
    /// Port of that API, if --api-bind names no other address than this machine's; 0: no API.
    #[arg(long, value_name = "PORT", allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-65_535..=65_535))]
    pub(crate) api_port: Option<i32>,
    /// Password of that API. Every connection must give it first (`api_authorize`), and may then
    /// restart and pause cards.
    #[arg(long, value_name = "TEXT", env = "MINER_API_PASSWORD", hide_env_values = true)]
    pub(crate) api_password: Option<String>,
}

/// Options that take care of a rig.
#[derive(Debug, Args)]
pub(crate) struct CareOptions {
    /// A card of this temperature in degrees Celsius rests until it has cooled down; 0: never.
    #[arg(long, value_name = "CELSIUS", default_value = "0", value_parser = celsius)]
    pub(crate) tstop: f64,
    /// A card that rests because of --tstop goes on at this temperature [default: 40, or 10 below
    /// --tstop if that is less].
    #[arg(long, value_name = "CELSIUS", requires = "tstop", value_parser = celsius)]
    pub(crate) tstart: Option<f64>,
    /// Limit the power of each NVIDIA card to this number of watts until the miner ends. The driver
    /// allows it to administrators only.
    #[arg(long, value_name = "WATTS")]
    pub(crate) power_limit: Option<u32>,
    /// Rest from this time of the day on, such as 07:00 in the time zone of this machine.
    #[arg(long, value_name = "HH:MM", requires = "resume_at")]
    pub(crate) pause_at: Option<TimeOfDay>,
    /// Go on at this time of the day.
    #[arg(long, value_name = "HH:MM", requires = "pause_at")]
    pub(crate) resume_at: Option<TimeOfDay>,
    /// File with prices of power by time. Each line has a start and the price of a kilowatt hour
    /// from then on: `07:00 0.31` every day in the time zone of this machine, or
    /// `2026-11-28T07:00Z 0.31`. The file is read again when it changes; a bad one changes nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) price_file: Option<PathBuf>,
    /// Rest while the price in --price-file is higher.
    #[arg(long, value_name = "PRICE", requires = "price_file", allow_hyphen_values = true, value_parser = price)]
    pub(crate) price_max: Option<f64>,
    /// A device that finds nothing although so many solutions were to be expected works in vain:
    /// the miner connects anew, then lets the card begin anew, then says so; 0: never. The same
    /// steps follow if 20 solutions in a row are too late.
    #[arg(long, value_name = "N", default_value = "20", value_parser = expected_solutions)]
    pub(crate) fruitless: f64,
    /// End with exit code 6 if none of that has helped.
    #[arg(long)]
    pub(crate) fruitless_exit: bool,
    /// Run this command of the shell for each event: `card_lost`, `card_back`, `pool_lost`,
    /// `pool_back`, `too_hot`, `block_found` (only where a node gives the work) and `fruitless`.
    /// The variables `MINER_EVENT`, `MINER_SUBJECT` and `MINER_TEXT` say what has happened.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_event: Option<String>,
}

/// Options for the balance of a day, on the dashboard and in the status. All prices are in one
/// currency.
#[derive(Debug, Args)]
pub(crate) struct CostOptions {
    /// Price of a kilowatt hour, for the balance of a day. A price in --price-file comes first.
    #[arg(long, value_name = "PRICE", allow_hyphen_values = true, value_parser = price)]
    pub(crate) power_price: Option<f64>,
    /// Price of a coin, for the balance of a day.
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    pub(crate) coin_price: Option<f64>,
    /// Coins that a block pays its miner, for the coins of a day.
    #[arg(long, value_name = "COINS", value_parser = above_zero)]
    pub(crate) block_reward: Option<f64>,
    /// Difficulty of a block, such as 2.5e15, for the coins of a day. A node tells it with its
    /// work, a pool does not.
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub(crate) network_difficulty: Option<f64>,
    /// Power in watts of what no sensor shows, such as fans and processors.
    #[arg(long, value_name = "WATTS", default_value = "0", value_parser = watts)]
    pub(crate) base_watts: f64,
}

/// The reasons why these options cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRigOptions {
    /// The prices of power cannot be read.
    #[error("--price-file: {0}")]
    Prices(#[from] PriceFileError),
    /// The port of the API is no port.
    #[error("--api-port: {0}")]
    ApiPort(#[from] ApiAddressError),
    /// A password without an API.
    #[error("--api-password needs --api-bind or --api-port")]
    PasswordWithoutApi,
    /// The password cannot be given on a connection.
    #[error("--api-password: got an empty password, expected a text")]
    EmptyPassword,
    /// A card that is cool enough to go on would be too hot.
    #[error("--tstart: got {start}, expected less than --tstop, which is {stop}")]
    HeatLimits {
        /// The temperature at which a card goes on.
        start: f64,
        /// The temperature at which a card rests.
        stop: f64,
    },
}

/// The temperature at which a card goes on if none is given, as in ethminer.
const TSTART: f64 = 40.0;
/// With a low `--tstop` a card goes on so much below it.
const TSTART_BELOW: f64 = 10.0;

impl ApiOptions {
    /// The settings of the API; `None` if it is off.
    pub(crate) fn config(&self) -> Result<Option<ApiConfig>, BadRigOptions> {
        let address = match (self.api_bind, self.api_port) {
            (_, Some(0)) => None,
            (Some(address), Some(port)) => Some(address.with_port(port)?),
            (None, Some(port)) => Some(ApiAddress::local(port)?),
            (address, None) => address,
        };
        let password = self.api_password.clone();
        match (address, password) {
            (None, Some(_)) => Err(BadRigOptions::PasswordWithoutApi),
            (_, Some(password)) if password.is_empty() => Err(BadRigOptions::EmptyPassword),
            (address, password) => Ok(address.map(|address| ApiConfig { address, password })),
        }
    }
}

impl CareOptions {
    /// The settings of the care for a rig.
    pub(crate) fn config(&self) -> Result<CareConfig, BadRigOptions> {
        let stop = self.tstop;
        let heat = if stop > 0.0 {
            let start = self.tstart.unwrap_or_else(|| TSTART.min(stop - TSTART_BELOW));
            if start >= stop {
                return Err(BadRigOptions::HeatLimits { start, stop });
            }
            Some(HeatLimits {
                stop_c: stop,
                start_c: start,
            })
        } else {
            None
        };
        let hours = self.pause_at.zip(self.resume_at);
        let prices = self.price_file.as_deref().map(PowerPrices::open).transpose()?;
        Ok(CareConfig {
            heat,
            hours: hours.map(|(pause_at, resume_at)| RestHours { pause_at, resume_at }),
            prices,
            price_max: self.price_max,
            fruitless_after: (self.fruitless > 0.0).then_some(self.fruitless),
            ends_if_fruitless: self.fruitless_exit,
            on_event: self.on_event.clone(),
        })
    }
}

impl CostOptions {
    /// The settings for the balance of a day.
    pub(crate) const fn config(&self) -> CostConfig {
        CostConfig {
            power_price: self.power_price,
            coin_price: self.coin_price,
            block_reward: self.block_reward,
            network_difficulty: self.network_difficulty,
            base_watts: self.base_watts,
        }
    }
}

/// Reads a price of power, which may be negative.
fn price(text: &str) -> Result<f64, BadValue> {
    let price = text.parse::<f64>().ok().filter(|price| price.abs() <= 1e9);
    price.ok_or_else(|| BadValue::new(text, "a price, such as 0.25"))
}

fn above_zero(text: &str) -> Result<f64, BadValue> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= 1e30);
    number.ok_or_else(|| BadValue::new(text, "a number above 0"))
}

fn watts(text: &str) -> Result<f64, BadValue> {
    let watts = text.parse::<f64>().ok();
    let watts = watts.filter(|watts| (0.0..=1e6).contains(watts));
    watts.ok_or_else(|| BadValue::new(text, "a number of watts from 0 to 1000000"))
}

/// Reads a temperature in the range of ethminer, or 0.
fn celsius(text: &str) -> Result<f64, BadValue> {
    match text.parse::<f64>() {
        Ok(celsius) if celsius == 0.0 || (30.0..=100.0).contains(&celsius) => Ok(celsius),
        _ => Err(BadValue::new(text, "0, or a temperature from 30 to 100 °C")),
    }
}

/// Reads a number of expected solutions. A few are no proof.
fn expected_solutions(text: &str) -> Result<f64, BadValue> {
    match text.parse::<f64>() {
        Ok(number) if number == 0.0 || (5.0..=1e6).contains(&number) => Ok(number),
        _ => Err(BadValue::new(text, "0, or a number from 5 to 1000000")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Both {
        #[command(flatten)]
        api: ApiOptions,
        #[command(flatten)]
        care: CareOptions,
        #[command(flatten)]
        costs: CostOptions,
    }

    fn parse(arguments: &[&str]) -> Both {
        Both::try_parse_from(std::iter::once(&"x").chain(arguments)).expect("good options")
    }

    #[test]
    fn the_api_is_where_it_was_asked_for() {
        let check = |arguments: &[&str], expected: Option<&str>| {
            let address = parse(arguments).api.config().expect("good options");
            let expected = expected.map(|text| text.parse().expect("an address"));
            assert_eq!(address.map(|config| config.address), expected, "{arguments:?}");
        };
        check(&[], None);
        check(&["--api-bind", "3333"], Some("127.0.0.1:3333"));
        check(&["--api-bind", "-3333"], Some("127.0.0.1:-3333"));
        check(&["--api-port", "-3333"], Some("127.0.0.1:-3333"));
        check(&["--api-bind", "0.0.0.0:1", "--api-port", "2"], Some("0.0.0.0:2"));
        check(&["--api-bind", "3333", "--api-port", "0"], None);
        for bad in [
            &["--api-password", "x"][..],
            &["--api-port", "1", "--api-password", ""],
        ] {
            assert!(parse(bad).api.config().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_card_goes_on_below_the_heat_at_which_it_rests() {
        let check = |arguments: &[&str], expected: Option<(f64, f64)>| {
            let care = parse(arguments).care.config().expect("good options");
            assert_eq!(
                care.heat.map(|heat| (heat.start_c, heat.stop_c)),
                expected,
                "{arguments:?}"
            );
        };
        check(&[], None);
        check(&["--tstop", "75"], Some((40.0, 75.0)));
        check(&["--tstop", "45"], Some((35.0, 45.0)));
        check(&["--tstop", "75", "--tstart", "60"], Some((60.0, 75.0)));
        let wrong = parse(&["--tstop", "60", "--tstart", "60"]).care.config();
        assert!(
            matches!(wrong, Err(BadRigOptions::HeatLimits { .. })),
            "{wrong:?}"
        );
    }

    #[test]
    fn prices_are_numbers_in_a_file_that_is_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("prices");
        let file = file.to_str().expect("a text");
        std::fs::write(file, "07:00 dear").expect("written");
        let arguments = ["--price-file", file, "--price-max", "-0.01"];
        let error = parse(&arguments).care.config().expect_err("it is bad");
        assert!(
            error.to_string().starts_with("--price-file: ") && error.to_string().contains("line 1"),
            "{error}"
        );
        std::fs::write(file, "07:00 0.3").expect("written");
        let care = parse(&arguments).care.config().expect("it is good");
        assert!(care.prices.is_some() && care.price_max == Some(-0.01));
        let costs = parse(&["--power-price", "0.25", "--network-difficulty", "2.5e15"])
            .costs
            .config();
        assert_eq!(
            (costs.power_price, costs.network_difficulty),
            (Some(0.25), Some(2.5e15))
        );
        for bad in [
            &["--power-price", "NaN"][..],
            &["--coin-price", "0"],
            &["--base-watts", "-1"],
            &["--price-max", "1"],
        ] {
            assert!(
                Both::try_parse_from(std::iter::once(&"x").chain(bad)).is_err(),
                "{bad:?}"
            );
        }
    }
}
