//! Tells the service manager (systemd) that the node is ready, alive, or stopping.
//!
//! Outside a service, and on other systems than Linux, nothing is told. See
//! `packaging/vnode.service`.

use std::convert::Infallible;
use std::time::Duration;

use chain::Chain;

/// A notice for the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceNotice {
    /// The node has started, and its servers answer.
    Ready,
    /// The node stops.
    Stopping,
    /// The node is alive.
    Alive,
}

/// Tells the service manager, if there is one.
pub(crate) fn tell(state: ServiceNotice) {
    #[cfg(target_os = "linux")]
    {
        use sd_notify::NotifyState;
        let state = match state {
            ServiceNotice::Ready => NotifyState::Ready,
            ServiceNotice::Stopping => NotifyState::Stopping,
            ServiceNotice::Alive => NotifyState::Watchdog,
        };
        if let Err(error) = sd_notify::notify(&[state]) {
            tracing::warn!(%error, "the service manager cannot be told");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = state;
}

/// Tells the service manager again and again that the node is alive: that its tasks run and its
/// store can be read. Does nothing if the service has no watchdog.
pub(crate) async fn tell_alive(chain: &Chain) -> Infallible {
    let Some(interval) = watchdog_interval() else {
        return std::future::pending().await;
    };
    loop {
        let chain = chain.clone();
        let read = tokio::task::spawn_blocking(move || chain.view().map(drop));
        match read.await {
            Ok(Ok(())) => tell(ServiceNotice::Alive),
            Ok(Err(error)) => {
                tracing::error!(%error, "the watchdog is not told, because the store cannot be read")
            }
            Err(_) => tracing::error!("the watchdog is not told, because reading the store panicked"),
        }
        tokio::time::sleep(interval).await;
    }
}

/// Half of the time after which the service manager takes a silent service for dead.
fn watchdog_interval() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return sd_notify::watchdog_enabled().map(|timeout| timeout / 2);
    #[cfg(not(target_os = "linux"))]
    None
}
