//! The endpoint at which a client reaches a running node: the path of its local socket, or a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hyper::Uri;

/// The endpoint at which a client reaches a running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEndpoint {
    /// The local socket at this path.
    Ipc(PathBuf),
    /// HTTP at this URL; over TLS if its scheme is `https`.
    Http(Uri),
    /// A WebSocket at this URL; over TLS if its scheme is `wss`.
    Ws(Uri),
}

/// A text that is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeEndpointError {
    /// The URL is invalid.
    #[error("URL: got {got:?}, expected one such as http://localhost:8545")]
    Url {
        /// The text.
        got: String,
    },
    /// The URL has a user name or a password. They are not shown.
    #[error("URL: got one with a user name, expected none: --token or VNODE_TOKEN has the token")]
    User,
    /// The URL has a scheme that is not supported.
    #[error("URL scheme: got {got}, expected http://, https://, ws://, wss:// or the path of a socket")]
    Scheme {
        /// The scheme.
        got: String,
    },
}

impl FromStr for NodeEndpoint {
    type Err = NodeEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((scheme, _)) = text.split_once("://") else {
            return Ok(Self::Ipc(text.into()));
        };
        let uri = text
            .parse::<Uri>()
            .ok()
            .filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        let has_user = |uri: &Uri| {
            let authority = uri.authority();
            authority.is_some_and(|authority| authority.as_str().contains('@'))
        };
        if uri.as_ref().is_some_and(has_user) {
            return Err(NodeEndpointError::User);
        }
        let uri = || uri.ok_or_else(|| NodeEndpointError::Url { got: text.to_owned() });
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => uri().map(Self::Http),
            "ws" | "wss" => uri().map(Self::Ws),
            _ => Err(NodeEndpointError::Scheme {
                got: scheme.to_owned(),
            }),
        }
    }
}

impl fmt::Display for NodeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipc(path) => path.display().fmt(f),
            Self::Http(uri) | Self::Ws(uri) => uri.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_parsed() {
        let uri = |text: &str| text.parse::<Uri>().expect("a URL");
        let check = |text: &str, expected| assert_eq!(text.parse::<NodeEndpoint>(), expected, "{text}");
        check("/a/vnode.ipc", Ok(NodeEndpoint::Ipc("/a/vnode.ipc".into())));
        check(
            r"\\.\pipe\vnode.ipc",
            Ok(NodeEndpoint::Ipc(r"\\.\pipe\vnode.ipc".into())),
        );
        check(
            "http://localhost:8545",
            Ok(NodeEndpoint::Http(uri("http://localhost:8545"))),
        );
        check(
            "WS://[::1]:8546/x",
            Ok(NodeEndpoint::Ws(uri("WS://[::1]:8546/x"))),
        );
        let scheme = |got: &str| Err(NodeEndpointError::Scheme { got: got.to_owned() });
        check("https://a.b:1/x", Ok(NodeEndpoint::Http(uri("https://a.b:1/x"))));
        check("wss://localhost", Ok(NodeEndpoint::Ws(uri("wss://localhost"))));
        check("https://a:b@localhost", Err(NodeEndpointError::User));
        check("ftp://localhost", scheme("ftp"));
        check("ipc://x", scheme("ipc"));
        for bad in ["http://", "http://a b", "ws://:80"] {
            check(bad, Err(NodeEndpointError::Url { got: bad.to_owned() }));
        }
    }
}
