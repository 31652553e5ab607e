//! The host names that requests may name.
//!
//! A web page can point a host name of its own at this machine. A browser then treats this node as
//! part of that page's site (DNS rebinding). The `Host` header still carries the page's name, so
//! unknown names are refused. Numeric addresses always pass, because nobody can point them
//! elsewhere. Requests without a `Host` header pass too, because no browser sends them.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;

/// The allowed names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    any: bool,
    names: Vec<String>,
}

/// An entry of the list is not a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid host: got {got:?}, expected * or a name without scheme and port such as node.example.org")]
pub struct BadHost {
    /// The entry as the user gave it.
    pub got: String,
}

/// `localhost` alone.
impl Default for Hosts {
    fn default() -> Self {
        Self {
            any: false,
            names: vec!["localhost".to_owned()],
        }
    }
}

impl Hosts {
    /// Whether a request with this target and these headers names an allowed host.
    pub fn allows_request(&self, target: &Uri, headers: &HeaderMap) -> bool {
        if self.any {
            return true;
        }
        // A host in the target takes precedence over the header.
        if let Some(authority) = target.authority() {
            return self.allows(authority);
        }
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) => true,
            (Some(host), None) => host
                .to_str()
                .ok()
                .and_then(|host| host.parse().ok())
                .is_some_and(|host| self.allows(&host)),
            (Some(_), Some(_)) => false,
        }
    }

    fn allows(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        host.parse::<Ipv4Addr>().is_ok()
            || bare.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Reads a comma-separated list of names. `*` allows all names, an empty list none.
impl std::str::FromStr for Hosts {
    type Err = BadHost;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut hosts = Self {
            any: false,
            names: Vec::new(),
        };
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let is_name = |text: &str| {
                text.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            };
            match entry {
                "*" => hosts.any = true,
                name if is_name(name) => hosts.names.push(name.to_owned()),
                _ => {
                    return Err(BadHost {
                        got: entry.to_owned(),
                    });
                }
            }
        }
        Ok(hosts)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(list: &str, host: Option<&str>, expected: bool) {
        let hosts: Hosts = list.parse().expect("a list");
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_str(host).expect("a header"));
        }
        let got = hosts.allows_request(&Uri::from_static("/"), &headers);
        assert_eq!(got, expected, "{list:?} {host:?}");
    }

    #[test]
    fn names() {
        assert_eq!("localhost".parse(), Ok(Hosts::default()));
        for host in [
            "localhost",
            "LocalHost:8545",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]:8545",
            "[fe80::1]",
        ] {
            check("localhost", Some(host), true);
        }
        check("localhost", None, true);
        for host in [
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "",
            "a b",
            "user@",
        ] {
            check("localhost", Some(host), false);
            check("*", Some(host), true);
        }
        check("a.example, b.example", Some("b.example:1"), true);
        check("a.example", Some("localhost"), false);
        check("", Some("localhost"), false);
        check("", Some("127.0.0.1"), true);
    }

    #[test]
    fn a_request_names_one_host() {
        let hosts = Hosts::default();
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("localhost"));
        let absolute = Uri::from_static("http://example.org/");
        assert!(
            !hosts.allows_request(&absolute, &headers),
            "the target names another host"
        );
        headers.append(HOST, HeaderValue::from_static("localhost"));
        assert!(
            !hosts.allows_request(&Uri::from_static("/"), &headers),
            "two Host headers"
        );
    }

    #[test]
    fn entries_are_names() {
        for bad in ["http://a", "a:80", "a/b", "a b"] {
            assert_eq!(bad.parse::<Hosts>(), Err(BadHost { got: bad.into() }));
        }
    }
}
