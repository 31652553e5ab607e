//! Enode URLs: the public key and the network address of a node.
//!
//! The form is `enode://<128 hex digits>@<host>:<port>?discport=<port>&…`. Query parameters other
//! than `discport` are kept unchanged. Knows no sockets: a host is text.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::B512;

use crate::hex;

/// The beginning of every enode URL.
const SCHEME: &str = "enode://";
/// The query parameter with the discovery port, if that differs from the port.
const DISCOVERY_PORT: &str = "discport";

/// The public key and the network address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enode {
    /// The public key: x and y of the point, 64 bytes without the prefix 4.
    pub id: B512,
    /// An IP address or a name. An IPv6 address is in brackets.
    pub host: String,
    /// TCP port for connections.
    pub port: u16,
    /// UDP port for discovery.
    pub discovery_port: u16,
    /// The other query parameters, in order: name and value.
    pub query: Vec<(String, String)>,
}

/// The reason why a text is not an enode URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnodeError {
    /// The text does not have the form `enode://ID@HOST:PORT`.
    #[error("got {0:?}, expected enode://ID@HOST:PORT")]
    Form(String),
    /// The id does not have 128 hexadecimal digits.
    #[error("node id: got {got:?}, expected 128 hexadecimal digits")]
    Id {
        /// The text in the place of the id.
        got: String,
    },
    /// A port is not a number below 65536.
    #[error("port: got {got:?}, expected a number up to 65535")]
    Port {
        /// The text in the place of the port.
        got: String,
    },
}

impl FromStr for Enode {
    type Err = EnodeError;

    fn from_str(text: &str) -> Result<Self, EnodeError> {
        let form = || EnodeError::Form(text.to_owned());
        let (id, rest) = text
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('@'))
            .ok_or_else(form)?;
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port_text) = address.trim_end_matches('/').rsplit_once(':').ok_or_else(form)?;
        // A host that contains a colon is an IPv6 address and must be in brackets.
        if host.is_empty() || host.contains(':') != (host.starts_with('[') && host.ends_with(']')) {
            return Err(form());
        }
        let mut bytes = [0; 64];
        hex::decode_to_slice(id, &mut bytes)
            .ok()
            .filter(|()| id.len() == 128)
            .ok_or_else(|| EnodeError::Id { got: id.to_owned() })?;
        let port = port(port_text)?;
        let mut discovery_port = port;
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                (DISCOVERY_PORT, value) => discovery_port = self::port(value)?,
                (name, value) => others.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(Self {
            id: B512::from(bytes),
            host: host.to_owned(),
            port,
            discovery_port,
            query: others,
        })
    }
}

fn port(text: &str) -> Result<u16, EnodeError> {
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| EnodeError::Port { got: text.to_owned() })
}

/// The URL. The discovery port is written only if it differs from the port.
impl fmt::Display for Enode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, host, port, .. } = self;
        write!(f, "{SCHEME}{}@{host}:{port}", hex::encode(id))?;
        let mut mark = '?';
        if self.discovery_port != self.port {
            write!(f, "{mark}{DISCOVERY_PORT}={}", self.discovery_port)?;
            mark = '&';
        }
        for (name, value) in &self.query {
            write!(f, "{mark}{name}={value}")?;
            mark = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0";

    #[track_caller]
    fn check(rest: &str, host: &str, port: u16, discovery_port: u16, query: &[(&str, &str)]) {
        let text = format!("enode://{ID}@{rest}");
        let node: Enode = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let want = (host, port, discovery_port, query.iter().map(own).collect());
        assert_eq!(
            (
                node.host.as_str(),
                node.port,
                node.discovery_port,
                node.query.clone()
            ),
            want
        );
        assert_eq!(node.to_string(), text);
    }

    #[test]
    fn urls() {
        check("10.3.58.6:30333", "10.3.58.6", 30333, 30333, &[]);
        check("[::]:30333?discport=30301", "[::]", 30333, 30301, &[]);
        let query = [("servicecfgport", "50062"), ("showtopublic", "true"), ("ip", "")];
        check(
            "node.example:1?discport=0&servicecfgport=50062&showtopublic=true&ip=",
            "node.example",
            1,
            0,
            &query,
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let parse = |text: String| text.parse::<Enode>();
        for bad in ["", "enode://", "http://a@b:1", ID] {
            assert_eq!(parse(bad.to_owned()), Err(EnodeError::Form(bad.to_owned())));
        }
        for rest in ["host", ":1", "::1:30333", "[::1:30333", ""] {
            let text = format!("enode://{ID}@{rest}");
            assert_eq!(parse(text.clone()), Err(EnodeError::Form(text)));
        }
        for id in [
            "",
            "12",
            &ID[1..],
            &format!("0x{}", &ID[2..]),
            &ID.replace('6', "g"),
        ] {
            let got = parse(format!("enode://{id}@a:1"));
            assert_eq!(got, Err(EnodeError::Id { got: id.to_owned() }));
        }
        for port in ["", "65536", "-1", "+1", "1x"] {
            let want = Err(EnodeError::Port { got: port.to_owned() });
            assert_eq!(parse(format!("enode://{ID}@a:{port}")), want);
            assert_eq!(parse(format!("enode://{ID}@a:1?discport={port}")), want);
        }
    }
}
