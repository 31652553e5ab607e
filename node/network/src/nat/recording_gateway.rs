//! A router of tests: it remembers what it was asked for, can refuse everything, and can be silent
//! about its address.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::gateway::{NatError, NatFuture, NatGateway, TransportProtocol};

/// Passes each port on to the same one.
#[derive(Default)]
pub(crate) struct RecordingGateway {
    /// The address that it tells; `None` if it tells none.
    external_ip: Option<IpAddr>,
    /// Whether it refuses everything for now.
    pub(crate) refuses: AtomicBool,
    /// Whether a question for its address gets no answer.
    is_silent: bool,
    asked: Mutex<Vec<String>>,
}

impl RecordingGateway {
    /// A router with this outside address.
    pub(crate) fn at(ip: IpAddr) -> Self {
        Self {
            external_ip: Some(ip),
            ..Self::default()
        }
    }

    /// A router that does not answer to a question for its address.
    pub(super) fn silent() -> Self {
        Self {
            is_silent: true,
            ..Self::default()
        }
    }

    /// The mappings and the ends of mappings that it was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    fn answer<T: Send + 'static>(&self, answer: Option<T>) -> NatFuture<'_, T> {
        let answer = answer.filter(|_| !self.refuses.load(Ordering::Relaxed));
        Box::pin(std::future::ready(answer.ok_or_else(|| NatError {
            gateway: "recording",
            cause: "not known".to_owned(),
        })))
    }
}

impl NatGateway for RecordingGateway {
    fn external_ip(&self) -> NatFuture<'_, IpAddr> {
        if self.is_silent {
            return Box::pin(std::future::pending());
        }
        self.answer(self.external_ip)
    }

    fn map(&self, protocol: TransportProtocol, port: NonZeroU16, lifetime: Duration) -> NatFuture<'_, u16> {
        let text = format!("map {protocol:?} {port} {}", lifetime.as_secs());
        self.asked.lock().push(text);
        self.answer(Some(port.get()))
    }

    fn unmap(&self, protocol: TransportProtocol, port: NonZeroU16) -> NatFuture<'_, ()> {
        self.asked.lock().push(format!("unmap {protocol:?} {port}"));
        self.answer(Some(()))
    }
}
