//! Routers that translate addresses (`--nat`): which one, its outside address, and ports that it
//! passes on.
//!
//! Source: docs/p2p.md, 4.

mod gateway;
mod keeper;
#[cfg(test)]
pub(crate) mod recording_gateway;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gateway::{FixedAddress, PmpGateway, UpnpGateway, default_gateways};

pub(crate) use gateway::{NatGateway, TransportProtocol};
pub(crate) use keeper::{NatStatus, PortRequest, keep_mapped};

/// The value of the option `--nat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatOption {
    /// Look for a router of any kind.
    #[default]
    Any,
    /// There is none.
    None,
    /// A router with `UPnP`.
    Upnp,
    /// A router with NAT-PMP.
    Pmp,
    /// The outside address is this one; the ports are passed on already.
    ExternalIp(IpAddr),
}

/// A text is no value of `--nat`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--nat: got {0:?}, expected any, none, upnp, pmp or extip:IP")]
pub struct NatOptionError(String);

impl FromStr for NatOption {
    type Err = NatOptionError;

    fn from_str(text: &str) -> Result<Self, NatOptionError> {
        let lower = text.to_ascii_lowercase();
        let refused = || NatOptionError(text.to_owned());
        match lower.as_str() {
            "any" | "auto" | "on" => Ok(Self::Any),
            "none" | "off" | "" => Ok(Self::None),
            "upnp" => Ok(Self::Upnp),
            "pmp" | "natpmp" | "nat-pmp" => Ok(Self::Pmp),
            other => {
                let ip = other.strip_prefix("extip:").or_else(|| other.strip_prefix("ip:"));
                let ip = ip.and_then(|ip| ip.parse().ok()).ok_or_else(refused)?;
                Ok(Self::ExternalIp(ip))
            }
        }
    }
}

impl fmt::Display for NatOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::None => f.write_str("none"),
            Self::Upnp => f.write_str("upnp"),
            Self::Pmp => f.write_str("pmp"),
            Self::ExternalIp(ip) => write!(f, "extip:{ip}"),
        }
    }
}

/// A search for a router.
pub(crate) type RouterSearch = BoxFuture<'static, Option<Arc<dyn NatGateway>>>;

/// Looks for the router that the option names. `None` if there is none. This takes some seconds.
pub(crate) async fn find_gateway(option: NatOption) -> Option<Arc<dyn NatGateway>> {
    let upnp = async {
        let found = UpnpGateway::find().await;
        found.map(|gateway| Arc::new(gateway) as Arc<dyn NatGateway>)
    };
    let pmp = async {
        let found = PmpGateway::find(default_gateways()).await;
        found.map(|gateway| Arc::new(gateway) as Arc<dyn NatGateway>)
    };
    match option {
        NatOption::None => None,
        NatOption::ExternalIp(ip) => Some(Arc::new(FixedAddress(ip))),
        NatOption::Upnp => upnp.await,
        NatOption::Pmp => pmp.await,
        NatOption::Any => {
            let (mut upnp, mut pmp) = (std::pin::pin!(upnp), std::pin::pin!(pmp));
            tokio::select! {
                Some(gateway) = &mut upnp => Some(gateway),
                Some(gateway) = &mut pmp => Some(gateway),
                else => None,
            }
        }
    }
}
