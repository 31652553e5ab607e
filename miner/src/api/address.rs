//! The address of the API in the form of ethminer's `--api-bind`.

use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The place where the API listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// Address and port. Port 0 is any free port.
    pub socket: SocketAddr,
    /// Whether the port was negative: nobody changes anything, with or without a password.
    pub read_only: bool,
}

/// A text is no address of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "got {got:?}, expected ADDRESS:PORT or PORT, such as 127.0.0.1:3333 or 3333; a negative port is read-only"
)]
pub struct ApiAddressError {
    got: String,
}

impl ApiAddress {
    /// This machine only, at `port`. A negative one is read-only.
    ///
    /// # Errors
    /// If `port` is below -65535 or above 65535.
    pub fn local(port: i32) -> Result<Self, ApiAddressError> {
        Self::at(Ipv4Addr::LOCALHOST.into(), port).ok_or_else(|| ApiAddressError {
            got: port.to_string(),
        })
    }

    /// The same address with another port.
    ///
    /// # Errors
    /// If `port` is below -65535 or above 65535.
    pub fn with_port(self, port: i32) -> Result<Self, ApiAddressError> {
        Self::at(self.socket.ip(), port).ok_or_else(|| ApiAddressError {
            got: port.to_string(),
        })
    }

    fn at(address: IpAddr, port: i32) -> Option<Self> {
        let number = u16::try_from(port.unsigned_abs()).ok()?;
        Some(Self {
            socket: SocketAddr::new(address, number),
            read_only: port < 0,
        })
    }
}

impl FromStr for ApiAddress {
    type Err = ApiAddressError;

    fn from_str(text: &str) -> Result<Self, ApiAddressError> {
        let (address, port) = match text.rsplit_once(':') {
            None => (Some(Ipv4Addr::LOCALHOST.into()), text),
            Some((address, port)) => {
                let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                (bare.unwrap_or(address).parse().ok(), port)
            }
        };
        let port = Some(port).filter(|port| !port.starts_with('+'));
        let port = port.and_then(|port| port.parse().ok());
        (address.zip(port))
            .and_then(|(address, port)| Self::at(address, port))
            .ok_or_else(|| ApiAddressError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_form_of_ethminer() {
        let check = |text: &str, socket: &str, read_only| {
            let got: ApiAddress = text.parse().expect(text);
            assert_eq!(
                (got.socket.to_string(), got.read_only),
                (socket.to_owned(), read_only)
            );
        };
        check("3333", "127.0.0.1:3333", false);
        check("-3333", "127.0.0.1:3333", true);
        check("0.0.0.0:-3333", "0.0.0.0:3333", true);
        check("[::1]:3333", "[::1]:3333", false);
        check("::1:3333", "[::1]:3333", false);
        for bad in [
            "",
            "host:3333",
            "1.2.3.4:",
            "70000",
            "-70000",
            "+1",
            "127.0.0.1:x",
            "-",
        ] {
            assert!(bad.parse::<ApiAddress>().is_err(), "{bad}");
        }
        let moved = "10.0.0.1:1"
            .parse::<ApiAddress>()
            .and_then(|address| address.with_port(-2));
        assert_eq!(moved, "10.0.0.1:-2".parse());
        assert_eq!(ApiAddress::local(-5), "-5".parse());
        assert!(ApiAddress::local(65_536).is_err());
    }
}
