//! `vnodeconfig.json`: how this VNODE serves SCS servers.
//!
//! Key case is ignored; `ip` and `VnodeIP` are the same. A file that cannot be read stops
//! the start with its line and column; unknown keys are named in a warning.

use primitives::Address;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Name of the file that is read without `--vnodeconfig`, from the working directory.
pub(crate) const FILE_NAME: &str = "vnodeconfig.json";

/// The port of the service for SCS servers.
const SERVICE_PORT: u16 = 50062;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeConfig {
    /// Whether SCS servers are served.
    pub scs_service: bool,
    /// Whether the service is announced to the public.
    pub show_to_public: bool,
    /// Where the service listens.
    pub service_cfg: String,
    /// Who is paid for relaying.
    pub beneficial_address: Option<Address>,
    /// Address under which users reach this node.
    pub ip: String,
    /// Application chains whose subnets are always joined.
    pub force_subnet_p2p: Vec<String>,
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
        /// The system's words.
        source: std::io::Error,
    },
    /// Not JSON.
    #[error("{}: line {line}, column {column}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A value of the wrong kind.
    #[error("{}: {key} is {got}, want {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key as written.
        key: String,
        /// The value as written.
        got: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl VnodeConfig {
    /// Reads the file at `path`, or `vnodeconfig.json` in the working directory where none is given and one is there.
    ///
    /// # Errors
    /// [`ConfigError`] when a file is there and cannot be used.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let implied = Path::new(FILE_NAME);
        match path {
            Some(path) => Self::read(path),
            None if implied.exists() => Self::read(implied),
            None => Ok(Self::default()),
        }
    }

    /// The port of the service.
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
        let object: serde_json::Map<String, Value> =
            serde_json::from_str(text).map_err(|error| ConfigError::Json {
                path: path.to_owned(),
                line: error.line(),
                column: error.column(),
                reason: error.to_string(),
            })?;
        let mut config = Self::default();
        for (key, value) in object {
            let wrong = |expected| ConfigError::Value {
                path: path.to_owned(),
                key: key.clone(),
                got: value.to_string(),
                expected,
            };
            let boolean = || value.as_bool().ok_or_else(|| wrong("true or false"));
            let string = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a string"));
            match key.to_ascii_lowercase().as_str() {
                "scsservice" => config.scs_service = boolean()?,
                "showtopublic" => config.show_to_public = boolean()?,
                "vnodeservicecfg" => {
                    config.service_cfg = string()?;
                    port(&config.service_cfg).ok_or_else(|| wrong("host:port or :port"))?;
                }
                "ip" | "vnodeip" => config.ip = string()?,
                "vnodebeneficialaddress" => {
                    let text = string()?;
                    let address = || text.parse().map_err(|_| wrong("an address of 20 bytes, or \"\""));
                    config.beneficial_address = if text.is_empty() { None } else { Some(address()?) };
                }
                "forcesubnetp2p" => {
                    let list = || value.as_array().ok_or_else(|| wrong("a list of strings"));
                    config.force_subnet_p2p = list()?
                        .iter()
                        .map(|one| {
                            one.as_str()
                                .map(str::to_owned)
                                .ok_or_else(|| wrong("a list of strings"))
                        })
                        .collect::<Result<_, _>>()?;
                }
                _ => tracing::warn!(key, file = %path.display(), "unknown key ignored"),
            }
        }
        Ok(config)
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
    fn keys_in_any_case_and_both_names_of_the_address() {
        let text = r#"{"SCSService": true, "showToPublic": true, "vnodeservicecfg": ":1",
            "VnodeBeneficialAddress": "0x71bef1a57901d4c73de7683edb830f0b9914311a", "VNODEIP": "1.2.3.4",
            "ForceSubnetP2P": ["a"], "other": 1}"#;
        let config = parse(text).unwrap();
        assert!(config.scs_service && config.show_to_public);
        assert_eq!(
            (config.service_cfg.as_str(), config.ip.as_str()),
            (":1", "1.2.3.4")
        );
        assert_eq!(config.service_port(), 1);
        assert_eq!(VnodeConfig::default().service_port(), 50062);
        assert!(config.beneficial_address.is_some());
        assert_eq!(config.force_subnet_p2p, ["a"]);
        assert_eq!(parse(r#"{"ip": "5.6.7.8"}"#).unwrap().ip, "5.6.7.8");
        assert_eq!(parse("{}").unwrap(), VnodeConfig::default());
    }

    #[test]
    fn faults_are_placed() {
        let error = parse("{\n  \"SCSService\": true\n  \"ip\": \"\"\n}").unwrap_err();
        assert!(matches!(error, ConfigError::Json { line: 3, .. }), "{error}");
        let error = parse(r#"{"SCSService": "yes"}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "v.json: SCSService is \"yes\", want true or false"
        );
        assert!(matches!(
            parse(r#"{"VnodeBeneficialAddress": "0x1"}"#),
            Err(ConfigError::Value { .. })
        ));
        for bad in ["50062", "localhost:", "localhost:65536"] {
            let error = parse(&format!(r#"{{"VnodeServiceCfg": "{bad}"}}"#)).unwrap_err();
            let want = format!("v.json: VnodeServiceCfg is \"{bad}\", want host:port or :port");
            assert_eq!(error.to_string(), want);
        }
        assert!(matches!(parse("[]"), Err(ConfigError::Json { .. })));
        assert!(matches!(
            VnodeConfig::load(Some(Path::new("/no/such/file"))),
            Err(ConfigError::Read { .. })
        ));
    }
}
