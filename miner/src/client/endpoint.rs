//! Addresses of nodes and pools: `scheme://[user[.worker][:password]@]host[:port][/path]`.
//!
//! Other miners use the same form.

use core::fmt;
use core::str::FromStr;

use stratum::Dialect;

/// The default port of a node.
const PORT_NODE: u16 = 8545;
/// The default port of a node over HTTPS.
const PORT_HTTPS: u16 = 443;
/// The default port of a pool: that of this project's node.
const PORT_POOL: u16 = 8008;

/// The protocol of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MiningProtocol {
    /// JSON-RPC over HTTP: the miner polls for work.
    GetWork,
    /// Stratum: the pool sends work. `None`: the client finds out the dialect.
    Stratum(Option<Dialect>),
}

/// The address of a node or a pool.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MiningEndpoint {
    /// The protocol.
    pub protocol: MiningProtocol,
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// The wallet or account; empty if there is none.
    pub user: String,
    /// The name of the rig.
    pub worker: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A host name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query; `/` if there is no path.
    pub path: String,
}

/// The reasons why a text is not the address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {got:?}: {reason}")]
pub struct MiningEndpointError {
    /// The text, without its password.
    pub got: String,
    /// The reason.
    pub reason: String,
}

/// A part of an address that cannot be read.
#[derive(Debug, thiserror::Error)]
enum AddressFault {
    #[error("the closing bracket is missing")]
    NoBracket,
    #[error("after the address: got {0:?}, expected a port")]
    AfterAddress(String),
    #[error("port: got {0:?}, expected a number from 1 to 65535")]
    Port(String),
    /// Without the text, which may be a password.
    #[error("invalid percent-encoding in the user or the password")]
    Escape,
}

impl MiningEndpoint {
    /// Reads an address. `default_scheme` is used if the address has no scheme.
    ///
    /// # Errors
    /// [`MiningEndpointError`] with the reason.
    pub fn parse(text: &str, default_scheme: &str) -> Result<Self, MiningEndpointError> {
        let error = |reason: String| MiningEndpointError {
            got: without_password(text),
            reason,
        };
        let fault = |fault: AddressFault| error(fault.to_string());
        let (scheme, rest) = text.split_once("://").unwrap_or((default_scheme, text));
        let (protocol, tls) = read_scheme(scheme).ok_or_else(|| {
            error(format!(
                "scheme: got {scheme:?}, expected http, https, stratum+tcp, stratum1+tcp (eth-proxy), stratum2+tcp \
                 (EthereumStratum/1.0.0), stratum3+tcp (EthereumStratum/2.0.0), or +ssl in place of +tcp"
            ))
        })?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address).map_err(fault)?;
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(error("the host is missing or contains white space".into()));
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error(
                "the path contains characters that are not printable ASCII".into(),
            ));
        }
        if matches!(protocol, MiningProtocol::Stratum(_)) && path != "/" {
            return Err(error(format!("path: got {path:?}, expected none for Stratum")));
        }
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (String::new(), None),
            Some((user, password)) => (
                unescape(user).map_err(fault)?,
                Some(unescape(password).map_err(fault)?).filter(|password| !password.is_empty()),
            ),
        };
        let mut endpoint = Self {
            protocol,
            tls,
            user: String::new(),
            worker: None,
            password,
            host: host.to_owned(),
            port: port.unwrap_or(match (protocol, tls) {
                (MiningProtocol::Stratum(_), _) => PORT_POOL,
                (MiningProtocol::GetWork, true) => PORT_HTTPS,
                (MiningProtocol::GetWork, false) => PORT_NODE,
            }),
            path: path.to_owned(),
        };
        endpoint.set_account(&user);
        Ok(endpoint)
    }

    /// Sets user and worker from `user.worker`.
    ///
    /// A user of a node has no worker, so the name may contain dots.
    pub fn set_account(&mut self, account: &str) {
        let (user, worker) = match account.rsplit_once('.') {
            Some((user, worker))
                if matches!(self.protocol, MiningProtocol::Stratum(_))
                    && !user.is_empty()
                    && !worker.is_empty() =>
            {
                (user, Some(worker.to_owned()))
            }
            _ => (account, None),
        };
        self.user = user.to_owned();
        self.worker = worker;
    }

    /// The host in the form for a URL: an IPv6 address is in brackets.
    pub(crate) fn bracketed_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

/// The address without user and password, so that it can be logged.
impl fmt::Display for MiningEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.protocol, self.tls) {
            (MiningProtocol::GetWork, false) => "http",
            (MiningProtocol::GetWork, true) => "https",
            (MiningProtocol::Stratum(dialect), tls) => {
                let number = match dialect {
                    None => "",
                    Some(Dialect::EthProxy) => "1",
                    Some(Dialect::EthereumStratum1) => "2",
                    Some(Dialect::EthereumStratum2) => "3",
                };
                let carrier = if tls { "ssl" } else { "tcp" };
                return write!(
                    f,
                    "stratum{number}+{carrier}://{}:{}",
                    self.bracketed_host(),
                    self.port
                );
            }
        };
        let path = self.path.trim_end_matches('/');
        write!(f, "{scheme}://{}:{}{path}", self.bracketed_host(), self.port)
    }
}

impl fmt::Debug for MiningEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiningEndpoint")
            .field("url", &self.to_string())
            .field("user", &self.user)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl FromStr for MiningEndpoint {
    type Err = MiningEndpointError;

    fn from_str(text: &str) -> Result<Self, MiningEndpointError> {
        Self::parse(text, "http")
    }
}

fn read_scheme(scheme: &str) -> Option<(MiningProtocol, bool)> {
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "getwork" => return Some((MiningProtocol::GetWork, false)),
        "https" => return Some((MiningProtocol::GetWork, true)),
        "stratum" => return Some((MiningProtocol::Stratum(None), false)),
        "stratums" | "stratumss" => return Some((MiningProtocol::Stratum(None), true)),
        _ => {}
    }
    let (name, carrier) = scheme.split_once('+')?;
    let dialect = match name {
        "stratum" => None,
        "stratum1" => Some(Dialect::EthProxy),
        "stratum2" => Some(Dialect::EthereumStratum1),
        "stratum3" => Some(Dialect::EthereumStratum2),
        _ => return None,
    };
    let tls = match carrier {
        "tcp" => false,
        "ssl" | "tls" | "tls12" => true,
        _ => return None,
    };
    Some((MiningProtocol::Stratum(dialect), tls))
}

/// Splits an address into host and port. An IPv6 address is in brackets.
fn split_port(address: &str) -> Result<(&str, Option<u16>), AddressFault> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(AddressFault::NoBracket)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(AddressFault::AfterAddress(after.to_owned())),
            }
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = port.map(|port| {
        let number = port.parse::<u16>().ok().filter(|number| *number != 0);
        number.ok_or_else(|| AddressFault::Port(port.to_owned()))
    });
    Ok((host, port.transpose()?))
}

/// Decodes percent-encoded bytes, such as `%40`.
fn unescape(text: &str) -> Result<String, AddressFault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        bytes.push(
            u8::from_str_radix(digits.ok_or(AddressFault::Escape)?, 16).map_err(|_| AddressFault::Escape)?,
        );
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| AddressFault::Escape)
}

/// The address for an error message, without its password.
fn without_password(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((login, address)) => {
            let (scheme, login) = login.split_once("://").map_or(("", login), |(s, l)| (s, l));
            let user = login.split(':').next().unwrap_or_default();
            let separator = if scheme.is_empty() { "" } else { "://" };
            format!("{scheme}{separator}{user}:…@{address}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, user: &str, worker: Option<&str>, password: Option<&str>) {
        let endpoint: MiningEndpoint = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(endpoint.to_string(), expected, "{text}");
        assert_eq!(
            (
                endpoint.user.as_str(),
                endpoint.worker.as_deref(),
                endpoint.password.as_deref()
            ),
            (user, worker, password),
            "{text}"
        );
    }

    #[test]
    fn addresses_in_use_are_read() {
        check("localhost", "http://localhost:8545", "", None, None);
        check("http://node:1/x?y=1", "http://node:1/x?y=1", "", None, None);
        check(
            "https://a.b:c@[::1]/rpc",
            "https://[::1]:443/rpc",
            "a.b",
            None,
            Some("c"),
        );
        check(
            "stratum://0xw.rig@pool",
            "stratum+tcp://pool:8008",
            "0xw",
            Some("rig"),
            None,
        );
        check(
            "stratum1+tcp://0xw.rig:x@eu.pool.example:4444",
            "stratum1+tcp://eu.pool.example:4444",
            "0xw",
            Some("rig"),
            Some("x"),
        );
        check(
            "STRATUM2+SSL://a%40b.c@p:5",
            "stratum2+ssl://p:5",
            "a@b",
            Some("c"),
            None,
        );
        check("stratum3+tls12://w@p:5/", "stratum3+ssl://p:5", "w", None, None);
        check("stratums://w@p", "stratum+ssl://p:8008", "w", None, None);
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for (text, reason) in [
            ("ftp://x", "scheme: got \"ftp\""),
            ("stratum4+tcp://x", "scheme"),
            ("stratum+udp://x", "scheme"),
            ("http://", "host is missing"),
            ("http://x:0", "port: got \"0\""),
            ("http://x:99999", "port"),
            ("http://[::1", "bracket"),
            ("http://[::1]8", "after the address"),
            ("stratum+tcp://x/y", "path"),
            ("stratum+tcp://a%4:secret@x", "percent-encoding"),
            ("http://x/\u{7}", "path"),
        ] {
            let error = text.parse::<MiningEndpoint>().expect_err(text);
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let endpoint: MiningEndpoint = "stratum+tcp://a.b:secret@x".parse().expect("good");
        assert!(!format!("{endpoint} {endpoint:?}").contains("secret"));
    }
}
