//! `userconfig.json`: the settings of an SCS (docs/microchain.md, 6).
//!
//! The case of keys is ignored. If the file is invalid, the SCS does not start, and the error names
//! the line and column.

use std::path::{Path, PathBuf};
use std::time::Duration;

use primitives::{Address, ShaAmount, U256};

use crate::config_file::{ConfigEntry, ConfigError, read_members, read_text};

/// Name of the file in the working directory that is read if `--userconfig` is not given.
const FILE_NAME: &str = "userconfig.json";
/// Digits of an amount after the point: 10^18 sha are a coin.
const AMOUNT_PLACES: usize = 18;
/// Longest pause before a lost connection is made again that the settings may ask for.
const RECONNECT_MAX_SECS: u64 = 3600;

/// The settings of an SCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserConfig {
    /// The VNODE: `host:port`.
    pub vnode: String,
    /// The data directory.
    pub data_directory: PathBuf,
    /// Who gets the rewards; the SCS itself without one.
    pub beneficiary: Option<Address>,
    /// The chain id of the base chain.
    pub chain_id: u64,
    /// What is logged, 0 to 5.
    pub log_level: u8,
    /// The largest bond of a MicroChain that the SCS joins.
    pub bond_max: ShaAmount,
    /// The smallest reward for a block of a MicroChain that the SCS joins.
    pub reward_min: ShaAmount,
    /// How many MicroChains the SCS serves at most.
    pub capability: usize,
    /// The longest pause before a lost connection is made again.
    pub reconnect_interval: Duration,
}

impl Default for UserConfig {
    fn default() -> Self {
        Self {
            vnode: "localhost:50062".to_owned(),
            data_directory: PathBuf::from("./scsdata"),
            beneficiary: None,
            chain_id: 101,
            log_level: 3,
            bond_max: ShaAmount::COIN,
            reward_min: ShaAmount(U256::from(100_000_000_000_000_u64)),
            capability: 10,
            reconnect_interval: Duration::from_secs(5),
        }
    }
}

impl UserConfig {
    /// Reads the settings from the file at `path`, or from `userconfig.json` in the working
    /// directory if `path` is `None`. If that file does not exist, the result has the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] if the file at `path` does not exist, or a file cannot be used.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        match read_text(path, FILE_NAME)? {
            Some((path, text)) => Self::parse(&path, &text),
            None => Ok(Self::default()),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        read_members(path, text, |key, entry| {
            match key {
                "vnodeservicecfg" => {
                    let vnode: String = entry.read("a string")?;
                    config.vnode = endpoint(&vnode).ok_or_else(|| entry.wrong("host:port or :port"))?;
                }
                "datadir" => config.data_directory = entry.read("a string")?,
                // The log goes to standard error.
                "logpath" => drop(entry.read::<String>("a string")?),
                "beneficiary" => config.beneficiary = entry.address_or_none()?,
                "vnodechainid" => config.chain_id = entry.read("a chain id")?,
                "loglevel" => {
                    let level = entry.read("a number from 0 to 5")?;
                    config.log_level = (level <= 5)
                        .then_some(level)
                        .ok_or_else(|| entry.wrong("a number from 0 to 5"))?;
                }
                "bondlimit" => config.bond_max = amount(entry)?,
                "rewardmin" => config.reward_min = amount(entry)?,
                "capability" => config.capability = entry.read("a number")?,
                "reconnectinterval" => {
                    let seconds: u64 = entry.read("seconds, 1 to 3600")?;
                    let is_right = (1..=RECONNECT_MAX_SECS).contains(&seconds);
                    let seconds = is_right.then_some(seconds);
                    config.reconnect_interval =
                        Duration::from_secs(seconds.ok_or_else(|| entry.wrong("seconds, 1 to 3600"))?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(config)
    }
}

/// `host:port`, for which `:port` is short if the VNODE is on this machine.
fn endpoint(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let host = if host.is_empty() { "localhost" } else { host };
    Some(format!("{host}:{port}"))
}

/// An amount in coins: a plain number or a text with at most 18 digits after the point.
fn amount(entry: &ConfigEntry<'_>) -> Result<ShaAmount, ConfigError> {
    let text = entry.text().trim_matches('"');
    coins(text).ok_or_else(|| entry.wrong("an amount in coins, such as 0.0001"))
}

fn coins(text: &str) -> Option<ShaAmount> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || fraction.len() > AMOUNT_PLACES || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digits = format!("{whole}{fraction:0<AMOUNT_PLACES$}");
    U256::from_str_radix(&digits, 10).ok().map(ShaAmount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<UserConfig, ConfigError> {
        UserConfig::parse(Path::new("u.json"), text)
    }

    #[test]
    fn the_published_file_is_read() {
        let text = r#"{"VnodeServiceCfg": "localhost:50062", "DataDir": "./scsdata", "LogPath": "./_logs",
            "Beneficiary": "", "VnodechainId": 101, "LogLevel": 4, "BondLimit": 1, "ReWardMin": 0.0001,
            "Capability": 10, "ReconnectInterval": 5}"#;
        let expected = UserConfig {
            log_level: 4,
            ..UserConfig::default()
        };
        assert_eq!(parse(text).expect("readable"), expected);
        assert_eq!(parse("{}").expect("readable"), UserConfig::default());
    }

    #[test]
    fn other_values() {
        let text = r#"{"vnodeservicecfg": ":7", "beneficiary": "0x71bef1a57901d4c73de7683edb830f0b9914311a",
            "bondlimit": "2.5", "VNODECHAINID": 99}"#;
        let config = parse(text).expect("readable");
        assert_eq!(config.vnode, "localhost:7");
        assert!(config.beneficiary.is_some());
        assert_eq!(config.bond_max.0, U256::from(2_500_000_000_000_000_000_u64));
        assert_eq!(config.chain_id, 99);
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, expected) in [
            (
                r#"{"BondLimit": -1}"#,
                "BondLimit: got -1, expected an amount in coins, such as 0.0001",
            ),
            (
                r#"{"ReWardMin": "1e-4"}"#,
                "ReWardMin: got \"1e-4\", expected an amount in coins",
            ),
            (
                r#"{"LogLevel": 6}"#,
                "LogLevel: got 6, expected a number from 0 to 5",
            ),
            (
                r#"{"VnodeServiceCfg": "x"}"#,
                "VnodeServiceCfg: got \"x\", expected host:port or :port",
            ),
            (
                r#"{"ReconnectInterval": 0}"#,
                "ReconnectInterval: got 0, expected seconds, 1 to 3600",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                error.starts_with("u.json: line 1, column ") && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn amounts_are_exact() {
        assert_eq!(
            coins("0.000000000000000001").map(|sha| sha.0),
            Some(U256::from(1))
        );
        assert_eq!(coins("3").map(|sha| sha.0), Some(ShaAmount::from_coins(3).0));
        for bad in ["", ".5", "1.0000000000000000001", "1,5", "0x1", "1e3"] {
            assert_eq!(coins(bad), None, "{bad}");
        }
        let huge = "9".repeat(100);
        assert_eq!(coins(&huge), None);
    }
}
