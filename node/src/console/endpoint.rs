//! Where a node is spoken to: the path of its local socket, or a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hyper::Uri;

/// Where a node is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Its local socket.
    Ipc(PathBuf),
    /// HTTP.
    Http(Uri),
    /// WebSockets.
    Ws(Uri),
}

/// Why a text names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// A URL that cannot be read.
    #[error("invalid URL {got:?}, want one such as http://localhost:8545")]
    Url {
        /// The text given.
        got: String,
    },
    /// A URL of something that is not spoken here.
    #[error("cannot speak {got}: want http://, ws:// or the path of a socket")]
    Scheme {
        /// Its scheme.
        got: String,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((scheme, _)) = text.split_once("://") else {
            return Ok(Self::Ipc(text.into()));
        };
        let uri = text
            .parse::<Uri>()
            .ok()
            .filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        let uri = || uri.ok_or_else(|| EndpointError::Url { got: text.to_owned() });
        match scheme.to_ascii_lowercase().as_str() {
            "http" => uri().map(Self::Http),
            "ws" => uri().map(Self::Ws),
            _ => Err(EndpointError::Scheme {
                got: scheme.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Endpoint {
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
    fn texts() {
        let uri = |text: &str| text.parse::<Uri>().expect("a URL");
        let check = |text: &str, expected| assert_eq!(text.parse::<Endpoint>(), expected, "{text}");
        check("/a/vnode.ipc", Ok(Endpoint::Ipc("/a/vnode.ipc".into())));
        check(
            r"\\.\pipe\vnode.ipc",
            Ok(Endpoint::Ipc(r"\\.\pipe\vnode.ipc".into())),
        );
        check(
            "http://localhost:8545",
            Ok(Endpoint::Http(uri("http://localhost:8545"))),
        );
        check("WS://[::1]:8546/x", Ok(Endpoint::Ws(uri("WS://[::1]:8546/x"))));
        let scheme = |got: &str| Err(EndpointError::Scheme { got: got.to_owned() });
        check("https://localhost", scheme("https"));
        check("ipc://x", scheme("ipc"));
        for bad in ["http://", "http://a b", "ws://:80"] {
            check(bad, Err(EndpointError::Url { got: bad.to_owned() }));
        }
    }
}
