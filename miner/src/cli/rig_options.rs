//! Options that rig systems use, and those that take care of a rig.

use clap::Args;
use miner::api::{ApiAddress, ApiAddressError, ApiConfig};
use miner::rig::{CareConfig, HeatLimits, RestHours, TimeOfDay};

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

/// The reasons why these options cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRigOptions {
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
        Ok(CareConfig {
            heat,
            hours: hours.map(|(pause_at, resume_at)| RestHours { pause_at, resume_at }),
            fruitless_after: (self.fruitless > 0.0).then_some(self.fruitless),
            ends_if_fruitless: self.fruitless_exit,
            on_event: self.on_event.clone(),
        })
    }
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
}
