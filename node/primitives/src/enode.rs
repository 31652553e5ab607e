//! Enode URLs: a node's public key, and where it is reached.
//!
//! `enode://<128 hex digits>@<host>:<port>?discport=<port>&…`. Members of the query beside
//! `discport` are kept as they came. Knows no sockets: a host is text.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::B512;

use crate::hex;

/// What every enode URL begins with.
const SCHEME: &str = "enode://";
/// The member of the query that names the discovery port, where that is another.
const DISCOVERY_PORT: &str = "discport";

/// A node's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enode {
    /// The public key, without its leading 4.
    pub id: B512,
    /// An address or a name; an IPv6 address in brackets.
    pub host: String,
    /// Port for connections.
    pub port: u16,
    /// Port for discovery.
    pub discovery_port: u16,
    /// Other members of the query, in order.
    pub query: Vec<(String, String)>,
}

/// Why a text is no enode URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnodeError {
    /// Another scheme, or none.
    #[error("want enode://ID@HOST:PORT, got {0:?}")]
    Form(String),
    /// The id is no public key.
    #[error("node id {got:?}, want 128 hex digits")]
    Id {
        /// What stands in its place.
        got: String,
    },
    /// A port is no number of 16 bits.
    #[error("port {got:?}, want a number up to 65535")]
    Port {
        /// What stands in its place.
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
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port_text) = place.trim_end_matches('/').rsplit_once(':').ok_or_else(form)?;
        // A colon within a host means an IPv6 address, and that has brackets around it.
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
        for member in query.split('&').filter(|member| !member.is_empty()) {
            match member.split_once('=').unwrap_or((member, "")) {
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

/// The URL; the discovery port is named where it is another.
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
    fn what_is_no_url() {
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
