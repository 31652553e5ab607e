//! `userconfig.json`: the settings of an SCS (docs/microchain.md, 6).
//!
//! The case of keys is ignored. If the file is invalid, the SCS does not start, and the error names
//! the line and column. A warning in the log names each unknown key.

use std::path::{Path, PathBuf};
use std::time::Duration;

use primitives::{Address, ShaAmount, U256};

use node::config_file::{ConfigEntry, ConfigError, read_members, read_text};

/// Name of the file in the working directory that is read if `--userconfig` is not given.
pub(super) const FILE_NAME: &str = "userconfig.json";
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
    /// The address that gets the rewards; without one the SCS itself.
    pub beneficiary: Option<Address>,
    /// The chain id of the base chain.
    pub chain_id: u64,
    /// The amount of the log, 0 to 5.
    pub log_level: u8,
    /// The largest bond of a MicroChain that the SCS joins.
    pub bond_max: ShaAmount,
    /// The smallest reward for a block of a MicroChain that the SCS joins.
    pub reward_min: ShaAmount,
    /// The most MicroChains that the SCS serves.
    pub capability: usize,
    /// The longest pause before a lost connection is made again.
    pub reconnect_interval: Duration,
    /// The keys of the file that nothing reads, as they are written.
    pub unknown_keys: Vec<String>,
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
            unknown_keys: Vec::new(),
        }
    }
}

impl UserConfig {
    /// Reads the settings from the file at `path`, or from `userconfig.json` in the working
    /// directory if `path` is `None`. If that file does not exist, the result has the defaults.
    /// Nothing is logged, because the settings say what is logged.
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
        let unknown_keys = read_members(path, text, |key, entry| {
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
        Ok(Self {
            unknown_keys,
            ..config
        })
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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::Value;

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

    const KEYS: [&str; 10] = [
        "VnodeServiceCfg",
        "DataDir",
        "LogPath",
        "Beneficiary",
        "VnodechainId",
        "LogLevel",
        "BondLimit",
        "ReWardMin",
        "Capability",
        "ReconnectInterval",
    ];

    /// A key of the file, in letters of either size.
    fn any_key() -> impl Strategy<Value = String> {
        (select(&KEYS[..]), any::<u32>()).prop_map(|(key, sizes)| in_sizes(key, sizes))
    }

    /// The key with a capital letter where `sizes` has a bit.
    fn in_sizes(key: &str, sizes: u32) -> String {
        let letter = |(index, letter): (usize, char)| match sizes >> (index % 32) & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter.to_ascii_lowercase(),
        };
        key.chars().enumerate().map(letter).collect()
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
            select(&["1.5", ":7", "host:99", "0", ""][..]).prop_map(Value::from),
            (0u64..10).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                vec((".{0,8}", inner), 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    /// An amount as it is written: coins with all 18 places.
    fn written(amount: ShaAmount) -> String {
        let (coins, rest) = amount.0.div_rem(ShaAmount::COIN.0);
        format!("{coins}.{rest:018}")
    }

    fn any_amount() -> impl Strategy<Value = ShaAmount> {
        any::<u128>().prop_map(|sha| ShaAmount(U256::from(sha)))
    }

    fn any_config() -> impl Strategy<Value = UserConfig> {
        let names = (
            "[a-z0-9.-]{1,20}",
            any::<u16>(),
            ".{0,20}",
            any::<Option<[u8; 20]>>(),
        );
        let numbers = (any::<u64>(), 0u8..=5, any::<usize>(), 1..=RECONNECT_MAX_SECS);
        (names, numbers, any_amount(), any_amount()).prop_map(|(names, numbers, bond_max, reward_min)| {
            let (host, port, directory, beneficiary) = names;
            let (chain_id, log_level, capability, seconds) = numbers;
            UserConfig {
                vnode: format!("{host}:{port}"),
                data_directory: directory.into(),
                beneficiary: beneficiary.map(Address::from),
                chain_id,
                log_level,
                bond_max,
                reward_min,
                capability,
                reconnect_interval: Duration::from_secs(seconds),
                unknown_keys: Vec::new(),
            }
        })
    }

    /// The file of these settings. Amounts are texts: a JSON number has too few digits here.
    fn file_of(config: &UserConfig, sizes: u32) -> String {
        let beneficiary = config
            .beneficiary
            .map_or_else(String::new, |address| format!("{address:#x}"));
        let values: [Value; 10] = [
            config.vnode.as_str().into(),
            config.data_directory.to_string_lossy().into(),
            "./_logs".into(),
            beneficiary.into(),
            config.chain_id.into(),
            config.log_level.into(),
            written(config.bond_max).into(),
            written(config.reward_min).into(),
            config.capability.into(),
            config.reconnect_interval.as_secs().into(),
        ];
        let keys = KEYS.map(|key| in_sizes(key, sizes));
        keys.into_iter().zip(values).collect::<Value>().to_string()
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_json_is_read_or_refused(json in any_json()) {
            if let Err(error) = parse(&json.to_string()) {
                prop_assert!(error.to_string().starts_with("u.json: line 1, column "), "{}", error);
            }
        }

        #[test]
        fn settings_are_read_as_they_were_written(config in any_config(), sizes in any::<u32>()) {
            let text = file_of(&config, sizes);
            prop_assert_eq!(parse(&text).expect("it is right"), config);
        }

        #[test]
        fn any_value_is_within_bounds_or_its_key_is_named(key in any_key(), value in any_json()) {
            let written = Value::from(key.as_str());
            match parse(&format!("{{{written}: {value}}}")) {
                Ok(config) => {
                    prop_assert!(config.log_level <= 5);
                    prop_assert!((1..=RECONNECT_MAX_SECS).contains(&config.reconnect_interval.as_secs()));
                    let port = config.vnode.rsplit_once(':').map(|(_, port)| port.parse::<u16>().is_ok());
                    prop_assert_eq!(port, Some(true));
                    prop_assert!(!value.is_array() && !value.is_object() && !value.is_null());
                }
                Err(error) => {
                    let got = error.to_string();
                    prop_assert!(got.contains(&format!(": {key}: got ")), "{}", got);
                    prop_assert!(got.contains(", expected "), "{}", got);
                }
            }
        }

        #[test]
        fn unknown_keys_are_named_and_harm_nothing(
            key in ".{0,12}", value in any_json(), config in any_config(),
        ) {
            prop_assume!(KEYS.iter().all(|known| !known.eq_ignore_ascii_case(&key)));
            let written = Value::from(key.as_str());
            let text = file_of(&config, 0).replacen('{', &format!("{{{written}: {value}, "), 1);
            let read = parse(&text).expect("the rest is right");
            prop_assert_eq!(read, UserConfig { unknown_keys: vec![key], ..config });
        }

        #[test]
        fn a_key_that_is_given_twice_is_named(config in any_config(), key in any_key()) {
            let mut file: Value = serde_json::from_str(&file_of(&config, 0)).expect("it is JSON");
            let value = file[key.to_ascii_lowercase()].take();
            let twice = format!("{{\"{key}\": {value}, \"{}\": {value}}}", key.to_ascii_lowercase());
            let error = parse(&twice).expect_err("it is there twice").to_string();
            prop_assert!(error.contains("expected a key that is given once"), "{}", error);
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
