//! Keeps the ports of a node open on its router, and follows its outside address.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::gateway::{NatGateway, TransportProtocol};

/// A mapping that is not renewed lasts for this long.
pub(crate) const MAPPING_LIFETIME: Duration = Duration::from_secs(20 * 60);
pub(crate) const MAPPING_RENEWAL: Duration = Duration::from_secs(15 * 60);

/// A port that others should reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortRequest {
    /// UDP or TCP.
    pub protocol: TransportProtocol,
    /// The port of this machine.
    pub port: NonZeroU16,
}

/// The router's services for this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NatStatus {
    /// The outside address, if the router tells it.
    pub external_ip: Option<IpAddr>,
    /// The ports that are passed on, with their outside ports.
    pub ports: Vec<(PortRequest, u16)>,
}

impl NatStatus {
    /// The outside port of `port`; the same port if the router passes none on.
    pub(crate) fn outside_port(&self, protocol: TransportProtocol, port: u16) -> u16 {
        let mapped = self.ports.iter();
        let mut mapped = mapped.filter(|(request, _)| request.protocol == protocol);
        mapped.next().map_or(port, |(_, outside)| *outside)
    }
}

/// Asks the router once for its address and for all ports. What it refuses is logged.
pub(crate) async fn refresh_mappings(gateway: &dyn NatGateway, requests: &[PortRequest]) -> NatStatus {
    let mut status = NatStatus::default();
    match gateway.external_ip().await {
        Ok(ip) => status.external_ip = Some(ip),
        Err(error) => tracing::debug!(%error, "the router does not tell its address"),
    }
    for request in requests {
        match gateway
            .map(request.protocol, request.port, MAPPING_LIFETIME)
            .await
        {
            Ok(outside) => status.ports.push((*request, outside)),
            Err(error) => tracing::debug!(%error, port = request.port, "the router does not pass a port on"),
        }
    }
    status
}

pub(crate) async fn remove_mappings(gateway: &dyn NatGateway, requests: &[PortRequest]) {
    for request in requests {
        if let Err(error) = gateway.unmap(request.protocol, request.port).await {
            tracing::debug!(%error, port = request.port, "the router does not end a mapping");
        }
    }
}

/// Renews the mappings until nobody reads `status` any more. Then they end.
pub(crate) async fn keep_mapped(
    gateway: Arc<dyn NatGateway>,
    requests: Vec<PortRequest>,
    status: watch::Sender<NatStatus>,
) {
    loop {
        let new = refresh_mappings(&*gateway, &requests).await;
        status.send_if_modified(|old| {
            let is_changed = *old != new;
            *old = new;
            is_changed
        });
        tokio::select! {
            () = tokio::time::sleep(MAPPING_RENEWAL) => {}
            () = status.closed() => break,
        }
    }
    remove_mappings(&*gateway, &requests).await;
}
