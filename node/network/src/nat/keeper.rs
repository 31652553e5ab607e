//! Keeps the ports of a node open on its router, and follows its outside address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::gateway::{NatGateway, TransportProtocol};

/// A mapping that is not renewed lasts for this long.
pub(crate) const MAPPING_LIFETIME: Duration = Duration::from_secs(20 * 60);
pub(crate) const MAPPING_RENEWAL: Duration = Duration::from_secs(15 * 60);
/// A router that has refused something is asked again after this time.
pub(crate) const MAPPING_RETRY: Duration = Duration::from_secs(60);

/// A port that others should reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The last answers of a router, each with the time at which it ends unless it is renewed.
#[derive(Debug, Default)]
pub(super) struct RouterAnswers {
    external_ip: Option<(IpAddr, Instant)>,
    ports: BTreeMap<PortRequest, (u16, Instant)>,
}

impl RouterAnswers {
    /// Asks the router once for its address and for all ports. What it refuses is logged, and its
    /// answer before stays until that ends. Returns the time until the router is to be asked again.
    pub(super) async fn renew(
        &mut self,
        gateway: &dyn NatGateway,
        requests: &[PortRequest],
        now: Instant,
    ) -> Duration {
        let (mut wait, end) = (MAPPING_RENEWAL, now + MAPPING_LIFETIME);
        match gateway.external_ip().await {
            Ok(ip) if gateway.can_be_at(ip) => self.external_ip = Some((ip, end)),
            Ok(ip) => {
                self.external_ip = None;
                tracing::debug!(%ip, "the router is behind another one");
            }
            Err(error) => {
                wait = MAPPING_RETRY;
                tracing::debug!(%error, "the router does not tell its address");
            }
        }
        for request in requests {
            let PortRequest { protocol, port } = *request;
            match gateway.map(protocol, port, MAPPING_LIFETIME).await {
                Ok(outside) => {
                    self.ports.insert(*request, (outside, end));
                }
                Err(error) => {
                    wait = MAPPING_RETRY;
                    tracing::debug!(%error, port, "the router does not pass a port on");
                }
            }
        }
        wait
    }

    /// The answers that have not ended.
    pub(super) fn status(&self, now: Instant) -> NatStatus {
        let ports = self.ports.iter().filter(|(_, (_, end))| *end > now);
        NatStatus {
            external_ip: self.external_ip.filter(|(_, end)| *end > now).map(|(ip, _)| ip),
            ports: ports
                .map(|(request, (outside, _))| (*request, *outside))
                .collect(),
        }
    }
}

pub(crate) async fn remove_mappings(gateway: &dyn NatGateway, requests: &[PortRequest]) {
    for request in requests {
        if let Err(error) = gateway.unmap(request.protocol, request.port).await {
            tracing::debug!(%error, port = request.port, "the router does not end a mapping");
        }
    }
}

/// Renews the mappings until `stop` says so, or its sender is gone. Then they end.
pub(crate) async fn keep_mapped(
    gateway: Arc<dyn NatGateway>,
    requests: Vec<PortRequest>,
    status: watch::Sender<NatStatus>,
    mut stop: watch::Receiver<bool>,
) {
    let mut answers = RouterAnswers::default();
    loop {
        let wait = tokio::select! {
            wait = answers.renew(&*gateway, &requests, Instant::now()) => wait,
            _ = stop.changed() => break,
        };
        let new = answers.status(Instant::now());
        status.send_if_modified(|old| {
            let is_changed = *old != new;
            *old = new;
            is_changed
        });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = stop.changed() => break,
        }
    }
    remove_mappings(&*gateway, &requests).await;
}
