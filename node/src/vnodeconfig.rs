//! `vnodeconfig.json`: the settings of the service for SCS servers.
//!
//! The case of keys is ignored. `VnodeIP` is another name for `ip`; if both are given, `ip` is
//! used. If the file is invalid, the node does not start, and the error names the line and column.
//! A warning in the log names each unknown key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use primitives::Address;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Name of the file in the working directory that is read if `--vnodeconfig` is not given.
pub(crate) const FILE_NAME: &str = "vnodeconfig.json";

/// Default port of the service for SCS servers.
const SERVICE_PORT: u16 = 50062;
/// Most characters of a value that an error shows.
const SHOWN_LEN_MAX: usize = 64;

/// The settings of the service for SCS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeConfig {
    /// Whether SCS servers are served.
    pub scs_service: bool,
    /// Whether the service is announced to the public.
    pub show_to_public: bool,
    /// Where the service listens: `host:port` or `:port`.
    pub service_cfg: String,
    /// Address that is paid for relaying.
    pub beneficial_address: Option<Address>,
    /// Network address at which users reach this node.
    pub ip: String,
    /// Application chains whose subnets are always joined.
    pub force_subnet_p2p: Vec<Address>,
}

impl Default for VnodeConfig {
    fn default() -> Self {
        Self {
            scs_service: false,
            show_to_public: false,
            service_cfg: format!("localhost:{SERVICE_PORT}"),
            beneficial_address: None,
            ip: String::new(),
            force_subnet_p2p: Vec::new(),
        }
    }
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not valid JSON.
    #[error("{}: {position}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where the fault is.
        position: FilePosition,
        /// What is wrong.
        reason: String,
    },
    /// A value is of the wrong kind.
    #[error("{}: {position}: {key}: got {got}, expected {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where the value begins.
        position: FilePosition,
        /// The key as written, with an index if the value is in a list.
        key: String,
        /// The value as written, shortened if it is long.
        got: String,
        /// What the value should be.
        expected: &'static str,
    },
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The byte in the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl VnodeConfig {
    /// Reads the settings from the file at `path`, or from `vnodeconfig.json` in the working
    /// directory if `path` is `None`. If that file does not exist, the result has the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] if the file at `path` does not exist, or a file cannot be used.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let default_path = Path::new(FILE_NAME);
        match path {
            Some(path) => Self::read(path),
            None if default_path.exists() => Self::read(default_path),
            None => Ok(Self::default()),
        }
    }

    /// The port in `service_cfg`.
    pub fn service_port(&self) -> u16 {
        port(&self.service_cfg).unwrap_or(SERVICE_PORT)
    }

    fn read(path: &Path) -> Result<Self, ConfigError> {
        let read_error = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let text = std::fs::read_to_string(path).map_err(read_error)?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let file = ConfigFile { path, text };
        let OrderedMembers(members) = serde_json::from_str(text).map_err(|error| file.json_error(&error))?;
        let mut config = Self::default();
        let mut vnode_ip = None;
        let mut known: Vec<String> = Vec::new();
        for (key, value) in &members {
            let entry = ConfigEntry { file, key, value };
            let name = key.to_ascii_lowercase();
            match name.as_str() {
                "scsservice" => config.scs_service = entry.read("true or false")?,
                "showtopublic" => config.show_to_public = entry.read("true or false")?,
                "vnodeservicecfg" => {
                    config.service_cfg = entry.read("a string")?;
                    port(&config.service_cfg).ok_or_else(|| entry.wrong("host:port or :port"))?;
                }
                "ip" => config.ip = entry.read("a string")?,
                "vnodeip" => vnode_ip = Some(entry.read("a string")?),
                "vnodebeneficialaddress" => config.beneficial_address = entry.address_or_none()?,
                "forcesubnetp2p" => config.force_subnet_p2p = entry.addresses()?,
                _ => {
                    tracing::warn!(key, file = %path.display(), "unknown key ignored");
                    continue;
                }
            }
            if known.contains(&name) {
                return Err(entry.wrong("a key that is given once"));
            }
            known.push(name);
        }
        if let Some(ip) = vnode_ip
            && config.ip.is_empty()
        {
            config.ip = ip;
        }
        Ok(config)
    }
}

/// The text of the file and its path, for errors.
#[derive(Clone, Copy)]
struct ConfigFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl ConfigFile<'_> {
    /// Converts an error of the JSON parser.
    fn json_error(self, error: &serde_json::Error) -> ConfigError {
        let reason = error.to_string();
        // The position is a field of its own. For the beginning of a line the parser reports column
        // 0.
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        ConfigError::Json {
            path: self.path.to_owned(),
            position: FilePosition {
                line: error.line().max(1),
                column: error.column().max(1),
            },
            reason,
        }
    }

    /// Where `value` begins. It must be a part of `self.text`.
    fn position(self, value: &RawValue) -> FilePosition {
        let offset = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line_begin = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        FilePosition {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: before.len() - line_begin + 1,
        }
    }
}

/// A member of the JSON object: a key and its value.
struct ConfigEntry<'a> {
    file: ConfigFile<'a>,
    key: &'a str,
    value: &'a RawValue,
}

impl ConfigEntry<'_> {
    /// The error for a value of the wrong kind.
    fn wrong(&self, expected: &'static str) -> ConfigError {
        let text = self.value.get();
        let got = match text.char_indices().nth(SHOWN_LEN_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        ConfigError::Value {
            path: self.file.path.to_owned(),
            position: self.file.position(self.value),
            key: self.key.to_owned(),
            got,
            expected,
        }
    }

    fn read<T: DeserializeOwned>(&self, expected: &'static str) -> Result<T, ConfigError> {
        serde_json::from_str(self.value.get()).map_err(|_| self.wrong(expected))
    }

    fn parse<T: FromStr>(&self, expected: &'static str) -> Result<T, ConfigError> {
        let text: String = self.read(expected)?;
        text.parse().map_err(|_| self.wrong(expected))
    }

    fn address_or_none(&self) -> Result<Option<Address>, ConfigError> {
        match self.value.get() {
            "\"\"" => Ok(None),
            _ => self.parse("an address of 20 bytes, or \"\"").map(Some),
        }
    }

    fn addresses(&self) -> Result<Vec<Address>, ConfigError> {
        let list: Vec<&RawValue> =
            serde_json::from_str(self.value.get()).map_err(|_| self.wrong("a list of addresses"))?;
        let one = |(index, value): (usize, &&RawValue)| {
            let key = format!("{}[{index}]", self.key);
            let member = ConfigEntry {
                file: self.file,
                key: &key,
                value,
            };
            member.parse("an address of 20 bytes")
        };
        list.iter().enumerate().map(one).collect()
    }
}

/// The members of a JSON object in their order. The values borrow from the text, so that the
/// position of each can be found.
struct OrderedMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for OrderedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = OrderedMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The port of `host:port` or `:port`.
fn port(service_cfg: &str) -> Option<u16> {
    service_cfg.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<VnodeConfig, ConfigError> {
        VnodeConfig::parse(Path::new("v.json"), text)
    }

    #[test]
    fn keys_have_any_case_and_the_address_two_names() {
        let text = r#"{"SCSService": true, "showToPublic": true, "vnodeservicecfg": ":1",
            "VnodeBeneficialAddress": "0x71bef1a57901d4c73de7683edb830f0b9914311a", "VNODEIP": "1.2.3.4",
            "ForceSubnetP2P": ["0x71bef1a57901d4c73de7683edb830f0b9914311a"], "//": 1, "//": 2}"#;
        let config = parse(text).unwrap();
        assert!(config.scs_service && config.show_to_public);
        assert_eq!(
            (config.service_cfg.as_str(), config.ip.as_str()),
            (":1", "1.2.3.4")
        );
        assert_eq!(config.service_port(), 1);
        assert_eq!(VnodeConfig::default().service_port(), 50062);
        assert!(config.beneficial_address.is_some());
        assert_eq!(Some(config.force_subnet_p2p[0]), config.beneficial_address);
        assert_eq!(parse(r#"{"ip": "5.6.7.8"}"#).unwrap().ip, "5.6.7.8");
        for both in [r#"{"ip": "a", "VnodeIP": "b"}"#, r#"{"VnodeIP": "b", "ip": "a"}"#] {
            assert_eq!(parse(both).unwrap().ip, "a");
        }
        assert_eq!(parse("{}").unwrap(), VnodeConfig::default());
        let none = r#"{"VnodeBeneficialAddress": "", "ForceSubnetP2P": []}"#;
        assert_eq!(parse(none).unwrap(), VnodeConfig::default());
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(text).expect_err(text).to_string();
        assert_eq!(error, format!("v.json: {expected}"), "{text}");
    }

    #[test]
    fn json_errors_have_a_position() {
        check_error(
            "{\n  \"SCSService\": true\n  \"ip\": \"\"\n}",
            "line 3, column 3: expected `,` or `}`",
        );
        check_error("", "line 1, column 1: EOF while parsing a value");
        check_error("{\n", "line 2, column 1: EOF while parsing an object");
        check_error("{}\n {}", "line 2, column 2: trailing characters");
        check_error(
            "[]",
            "line 1, column 1: invalid type: sequence, expected an object",
        );
        assert!(matches!(
            VnodeConfig::load(Some(Path::new("/no/such/file"))),
            Err(ConfigError::Read { .. })
        ));
    }

    #[test]
    fn value_errors_have_a_position() {
        check_error(
            r#"{"SCSService": "yes"}"#,
            r#"line 1, column 16: SCSService: got "yes", expected true or false"#,
        );
        check_error(
            "{\n\t\"ip\":\n\t\t1.5,\n\"x\": 1}",
            "line 3, column 3: ip: got 1.5, expected a string",
        );
        check_error(
            r#"{"ip": "", "VnodeBeneficialAddress": "0x1"}"#,
            r#"line 1, column 38: VnodeBeneficialAddress: got "0x1", expected an address of 20 bytes, or """#,
        );
        for bad in ["50062", "localhost:", "localhost:65536"] {
            check_error(
                &format!(r#"{{"VnodeServiceCfg": "{bad}"}}"#),
                &format!(r#"line 1, column 21: VnodeServiceCfg: got "{bad}", expected host:port or :port"#),
            );
        }
        check_error(
            r#"{"ForceSubnetP2P": "0x1"}"#,
            r#"line 1, column 20: ForceSubnetP2P: got "0x1", expected a list of addresses"#,
        );
        check_error(
            "{\"forceSubnetP2P\": [\n \"0x71bef1a57901d4c73de7683edb830f0b9914311a\",\n \"0x12\"]}",
            r#"line 3, column 2: forceSubnetP2P[1]: got "0x12", expected an address of 20 bytes"#,
        );
        check_error(
            "{\"ip\": \"a\",\n\"IP\": \"b\"}",
            r#"line 2, column 7: IP: got "b", expected a key that is given once"#,
        );
        let long = format!(r#"{{"ip": [{}]}}"#, "1,".repeat(1000) + "1");
        let error = parse(&long).unwrap_err().to_string();
        assert!(
            error.ends_with("1,1…, expected a string") && error.len() < 200,
            "{error}"
        );
    }
}
