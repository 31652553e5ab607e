//! One interface to routers with `UPnP`, with NAT-PMP, and to an address that is given.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::pin::Pin;
use std::time::Duration;

use crab_nat::{GatewayAddress, InternetProtocol, PortMappingOptions, TimeoutConfig, natpmp};
use igd_next::aio::Gateway;
use igd_next::aio::tokio::{Tokio, search_gateway};
use igd_next::{PortMappingProtocol, SearchOptions};

use crate::address::is_public;

/// The longest time for the search for a router.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The repetitions of NAT-PMP requests.
const PMP_TIMING: TimeoutConfig = TimeoutConfig {
    initial_timeout: Duration::from_millis(250),
    max_retries: 3,
    max_retry_timeout: None,
};
/// The name of a mapping, as the router shows it.
const DESCRIPTION: &str = "vnode";

/// The future of a request to a router.
pub(crate) type NatFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, NatError>> + Send + 'a>>;

/// A router refuses, or does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{gateway}: {cause}")]
pub(crate) struct NatError {
    /// The kind of router.
    pub gateway: &'static str,
    /// The cause, as the router said it.
    pub cause: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TransportProtocol {
    /// For discovery.
    Udp,
    /// For connections.
    Tcp,
}

/// A router, or what is known in its place.
pub(crate) trait NatGateway: Send + Sync {
    fn external_ip(&self) -> NatFuture<'_, IpAddr>;

    /// Whether its outside address can be this one. A router behind another one has an address of
    /// the other one's network, at which nobody reaches this node.
    fn can_be_at(&self, ip: IpAddr) -> bool {
        is_public(ip)
    }

    /// Passes an outside port on to the same port of this machine, for `lifetime`. Returns the
    /// outside port, which may be another one.
    fn map(&self, protocol: TransportProtocol, port: NonZeroU16, lifetime: Duration) -> NatFuture<'_, u16>;
    fn unmap(&self, protocol: TransportProtocol, port: NonZeroU16) -> NatFuture<'_, ()>;
}

/// An address that the user has given. The ports are passed on already.
pub(super) struct FixedAddress(pub(super) IpAddr);

impl NatGateway for FixedAddress {
    fn external_ip(&self) -> NatFuture<'_, IpAddr> {
        Box::pin(async { Ok(self.0) })
    }

    fn can_be_at(&self, _: IpAddr) -> bool {
        true
    }

    fn map(&self, _: TransportProtocol, port: NonZeroU16, _: Duration) -> NatFuture<'_, u16> {
        Box::pin(async move { Ok(port.get()) })
    }

    fn unmap(&self, _: TransportProtocol, _: NonZeroU16) -> NatFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// A router with `UPnP`.
pub(super) struct UpnpGateway {
    gateway: Gateway<Tokio>,
    /// The address of this machine that the router sees.
    local: IpAddr,
}

impl UpnpGateway {
    pub(super) async fn find() -> Option<Self> {
        Self::find_with(SearchOptions::default()).await
    }

    pub(super) async fn find_with(mut options: SearchOptions) -> Option<Self> {
        options.timeout = Some(SEARCH_TIMEOUT);
        let gateway = search_gateway(options).await.ok()?;
        let local = local_address_towards(gateway.addr)?;
        Some(Self { gateway, local })
    }

    fn error(error: impl std::fmt::Display) -> NatError {
        NatError {
            gateway: "UPnP",
            cause: error.to_string(),
        }
    }
}

const fn upnp_protocol(protocol: TransportProtocol) -> PortMappingProtocol {
    match protocol {
        TransportProtocol::Udp => PortMappingProtocol::UDP,
        TransportProtocol::Tcp => PortMappingProtocol::TCP,
    }
}

impl NatGateway for UpnpGateway {
    fn external_ip(&self) -> NatFuture<'_, IpAddr> {
        Box::pin(async { self.gateway.get_external_ip().await.map_err(Self::error) })
    }

    fn map(&self, protocol: TransportProtocol, port: NonZeroU16, lifetime: Duration) -> NatFuture<'_, u16> {
        let local = SocketAddr::new(self.local, port.get());
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        Box::pin(async move {
            self.gateway
                .add_port(upnp_protocol(protocol), port.get(), local, seconds, DESCRIPTION)
                .await
                .map_err(Self::error)?;
            Ok(port.get())
        })
    }

    fn unmap(&self, protocol: TransportProtocol, port: NonZeroU16) -> NatFuture<'_, ()> {
        Box::pin(async move {
            self.gateway
                .remove_port(upnp_protocol(protocol), port.get())
                .await
                .map_err(Self::error)
        })
    }
}

/// A router with NAT-PMP.
pub(super) struct PmpGateway {
    address: GatewayAddress,
}

const fn pmp_protocol(protocol: TransportProtocol) -> InternetProtocol {
    match protocol {
        TransportProtocol::Udp => InternetProtocol::Udp,
        TransportProtocol::Tcp => InternetProtocol::Tcp,
    }
}

impl PmpGateway {
    /// The first of `addresses` that answers.
    pub(super) async fn find(addresses: Vec<IpAddr>) -> Option<Self> {
        for address in addresses {
            let address = GatewayAddress::from(address);
            let asked = natpmp::external_address(address, Some(PMP_TIMING));
            if let Ok(Ok(_)) = tokio::time::timeout(SEARCH_TIMEOUT, asked).await {
                return Some(Self { address });
            }
        }
        None
    }

    fn error(error: impl std::fmt::Display) -> NatError {
        NatError {
            gateway: "NAT-PMP",
            cause: error.to_string(),
        }
    }
}

impl NatGateway for PmpGateway {
    fn external_ip(&self) -> NatFuture<'_, IpAddr> {
        Box::pin(async {
            let asked = natpmp::external_address(self.address, Some(PMP_TIMING)).await;
            asked.map(IpAddr::V4).map_err(Self::error)
        })
    }

    fn map(&self, protocol: TransportProtocol, port: NonZeroU16, lifetime: Duration) -> NatFuture<'_, u16> {
        let options = PortMappingOptions {
            external_port: Some(port),
            lifetime_seconds: Some(u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX)),
            timeout_config: Some(PMP_TIMING),
        };
        Box::pin(async move {
            let mapped = natpmp::port_mapping(self.address, pmp_protocol(protocol), port, options).await;
            mapped
                .map(|mapping| mapping.external_port().get())
                .map_err(Self::error)
        })
    }

    fn unmap(&self, protocol: TransportProtocol, port: NonZeroU16) -> NatFuture<'_, ()> {
        Box::pin(async move {
            natpmp::try_drop_mapping(self.address, pmp_protocol(protocol), Some(port), Some(PMP_TIMING))
                .await
                .map_err(Self::error)
        })
    }
}

/// The address of this machine on the way to `remote`. Nothing is sent.
fn local_address_towards(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        [0; 16].into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The routers that this machine may have: those of the routing table, and the first address of
/// the local network, which most routers have.
pub(super) fn default_gateways() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut gateways = gateways_of(&table);
    // An address for documentation: only the way to it counts.
    let outside = SocketAddr::from(([192, 0, 2, 1], 9));
    if let Some(IpAddr::V4(local)) = local_address_towards(outside).filter(|ip| crate::address::is_local(*ip))
    {
        let [a, b, c, _] = local.octets();
        let first = IpAddr::from([a, b, c, 1]);
        if !gateways.contains(&first) && !local.is_loopback() {
            gateways.push(first);
        }
    }
    gateways
}

/// The gateways of the default routes in Linux's table `/proc/net/route`.
pub(super) fn gateways_of(table: &str) -> Vec<IpAddr> {
    let gateway = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let number = u32::from_str_radix(gateway, 16).ok()?;
        // The kernel prints the bytes in the order of this machine's memory.
        let is_route = destination == "00000000" && number != 0;
        is_route.then(|| IpAddr::from(Ipv4Addr::from(number.to_ne_bytes())))
    };
    table.lines().skip(1).filter_map(gateway).collect()
}
