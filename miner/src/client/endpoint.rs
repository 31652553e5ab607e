//! Addresses of nodes and pools, in the form that other miners use too:
//! `scheme://[user[.worker][:password]@]host[:port][/path]`.

use core::fmt;
use core::str::FromStr;

use stratum::Dialect;

/// Port of a node that none is given for.
const PORT_NODE: u16 = 8545;
/// Port of HTTP by TLS.
const PORT_HTTPS: u16 = 443;
/// Port of a pool that none is given for: a node's own.
const PORT_POOL: u16 = 8008;

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// JSON-RPC over HTTP: work is asked for.
    GetWork,
    /// Stratum: work is pushed. Without a dialect, what the pool speaks is found out.
    Stratum(Option<Dialect>),
}

/// A node or a pool.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Whether the connection is by TLS.
    pub tls: bool,
    /// The wallet or account; empty where none is given.
    pub user: String,
    /// The rig's name.
    pub worker: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query, `/` at least.
    pub path: String,
}

/// Why a text is no address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no endpoint {got:?}: {reason}")]
pub struct EndpointError {
    /// The text, without its password.
    pub got: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Endpoint {
    /// Reads an address; `bare` is the scheme of one that has none.
    ///
    /// # Errors
    /// [`EndpointError`] naming what is wrong.
    pub fn parse(text: &str, bare: &str) -> Result<Self, EndpointError> {
        let error = |reason: String| EndpointError {
            got: without_password(text),
            reason,
        };
        let (scheme, rest) = text.split_once("://").unwrap_or((bare, text));
        let (protocol, tls) = read_scheme(scheme).ok_or_else(|| {
            error(format!(
                "scheme {scheme:?}, expected http, https, stratum+tcp, stratum1+tcp (eth-proxy), stratum2+tcp \
                 (EthereumStratum/1.0.0), stratum3+tcp (EthereumStratum/2.0.0), or +ssl in place of +tcp"
            ))
        })?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (host, port) = split_port(place).map_err(error)?;
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(error("no host".into()));
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error("a path of other than printable characters".into()));
        }
        if matches!(protocol, Protocol::Stratum(_)) && path != "/" {
            return Err(error(format!("path {path:?}, expected none for Stratum")));
        }
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (String::new(), None),
            Some((user, password)) => (
                unescape(user).map_err(error)?,
                Some(unescape(password).map_err(error)?).filter(|password| !password.is_empty()),
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
                (Protocol::Stratum(_), _) => PORT_POOL,
                (Protocol::GetWork, true) => PORT_HTTPS,
                (Protocol::GetWork, false) => PORT_NODE,
            }),
            path: path.to_owned(),
        };
        endpoint.set_account(&user);
        Ok(endpoint)
    }

    /// Sets user and worker from `user.worker`. A node's user has no worker: its name may have
    /// dots.
    pub fn set_account(&mut self, account: &str) {
        let (user, worker) = match account.rsplit_once('.') {
            Some((user, worker))
                if matches!(self.protocol, Protocol::Stratum(_))
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

    /// The host as it stands in a URL.
    pub fn bracketed_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

/// Without user and password: this goes into logs.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.protocol, self.tls) {
            (Protocol::GetWork, false) => "http",
            (Protocol::GetWork, true) => "https",
            (Protocol::Stratum(dialect), tls) => {
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

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.to_string())
            .field("user", &self.user)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::parse(text, "http")
    }
}

fn read_scheme(scheme: &str) -> Option<(Protocol, bool)> {
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "getwork" => return Some((Protocol::GetWork, false)),
        "https" => return Some((Protocol::GetWork, true)),
        "stratum" => return Some((Protocol::Stratum(None), false)),
        "stratums" | "stratumss" => return Some((Protocol::Stratum(None), true)),
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
    Some((Protocol::Stratum(dialect), tls))
}

/// Host and port; an IPv6 address stands in brackets.
fn split_port(place: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("a bracket that is not closed")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("{after:?} after the address, expected a port")),
            }
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map(|port| {
        let number = port.parse::<u16>().ok().filter(|number| *number != 0);
        number.ok_or_else(|| format!("port {port:?}, expected a number from 1 to 65535"))
    });
    Ok((host, port.transpose()?))
}

/// Replaces `%40` and its like.
fn unescape(text: &str) -> Result<String, String> {
    let bad = || format!("an escape in {text:?} that is none");
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
        bytes.push(u8::from_str_radix(digits.ok_or_else(bad)?, 16).map_err(|_| bad())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// The text for an error message: a password has no place there.
fn without_password(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((login, place)) => {
            let (scheme, login) = login.split_once("://").map_or(("", login), |(s, l)| (s, l));
            let user = login.split(':').next().unwrap_or_default();
            let separator = if scheme.is_empty() { "" } else { "://" };
            format!("{scheme}{separator}{user}:…@{place}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, user: &str, worker: Option<&str>, password: Option<&str>) {
        let endpoint: Endpoint = text.parse().unwrap_or_else(|error| panic!("{error}"));
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
            ("ftp://x", "scheme \"ftp\""),
            ("stratum4+tcp://x", "scheme"),
            ("stratum+udp://x", "scheme"),
            ("http://", "no host"),
            ("http://x:0", "port \"0\""),
            ("http://x:99999", "port"),
            ("http://[::1", "bracket"),
            ("http://[::1]8", "after the address"),
            ("stratum+tcp://x/y", "path"),
            ("stratum+tcp://a%4:secret@x", "escape"),
            ("http://x/\u{7}", "path"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text);
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let endpoint: Endpoint = "stratum+tcp://a.b:secret@x".parse().expect("good");
        assert!(!format!("{endpoint} {endpoint:?}").contains("secret"));
    }
}
