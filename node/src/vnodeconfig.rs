//! `vnodeconfig.json`: the settings of the service for SCS servers.
//!
//! The case of keys is ignored. `VnodeIP` is another name for `ip`; if both are given, `ip` is
//! used. If the file is invalid, the node does not start, and the error names the line and column.
//! A warning in the log names each unknown key.

use std::path::Path;

use primitives::Address;

use crate::config_file::{ConfigError, read_members, read_text, warn_of_unknown_keys};

/// Name of the file in the working directory that is read if `--vnodeconfig` is not given.
pub(crate) const FILE_NAME: &str = "vnodeconfig.json";

/// Default port of the service for SCS servers.
const SERVICE_PORT: u16 = 50062;

/// The settings of the service for SCS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeConfig {
    /// Whether SCS servers are served.
    pub scs_service: bool,
    /// Whether the service is announced to the public.
    pub show_to_public: bool,
    /// The address of the service: `host:port` or `:port`.
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

impl VnodeConfig {
    /// Reads the settings from the file at `path`, or from `vnodeconfig.json` in the working
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

    /// The port in `service_cfg`.
    pub fn service_port(&self) -> u16 {
        port(&self.service_cfg).unwrap_or(SERVICE_PORT)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut vnode_ip = None;
        let unknown = read_members(path, text, |key, entry| {
            match key {
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
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        warn_of_unknown_keys(&path.display().to_string(), &unknown);
        if let Some(ip) = vnode_ip
            && config.ip.is_empty()
        {
            config.ip = ip;
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
    fn nested_files_need_little_stack() {
        crate::system::on_small_stack(|| {
            for depth in [100, 126, 100_000] {
                let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
                for name in [
                    "SCSService",
                    "vnodeservicecfg",
                    "ForceSubnetP2P",
                    "VnodeBeneficialAddress",
                ] {
                    assert!(parse(&format!(r#"{{"{name}":{nested}}}"#)).is_err(), "{name}");
                }
                assert!(
                    parse(&format!(r#"{{"unknown":{nested}}}"#)).is_ok(),
                    "{depth} levels"
                );
            }
        });
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
