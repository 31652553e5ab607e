//! The share of one address in the service, for all its connections: calls that are answered,
//! broadcasts that are taken, and whether an SCS that is allowed has shaken hands there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use daemon::{ClientAddress, TokenBucket, TokenRate};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;

use super::limits::ServiceLimits;

/// The seconds' worth of broadcasts that may come at once.
const BROADCAST_BURST_SECS: f64 = 2.0;

/// The share of one address.
#[derive(Debug)]
pub(super) struct ClientShare {
    pub(super) address: ClientAddress,
    /// Permits for calls.
    pub(super) calls: Arc<Semaphore>,
    broadcasts: Mutex<TokenBucket>,
    registered: AtomicUsize,
    /// Streams and calls that are open.
    open: AtomicUsize,
    open_max: usize,
}

impl ClientShare {
    /// Takes the right to broadcast.
    ///
    /// # Errors
    /// If there is none, the time after which to try again.
    pub(super) fn take_broadcast(&self, now: Instant) -> Result<(), Duration> {
        self.broadcasts.lock().try_take(now)
    }

    /// Whether an SCS at this address has shaken hands and is connected.
    pub(super) fn has_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed) > 0
    }

    /// Counts an SCS that has shaken hands.
    pub(super) fn add_registered(&self) {
        self.registered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an SCS that is gone.
    pub(super) fn remove_registered(&self) {
        self.registered.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a stream or a call that is opened.
    ///
    /// # Errors
    /// If the address has too many. The one that is opened counts until it ends all the same.
    pub(super) fn add_open(&self) -> Result<(), Status> {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        if open <= self.open_max {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "streams and calls of this address: got {open}, expected at most {}",
            self.open_max
        )))
    }

    /// Counts a stream or a call that has ended.
    pub(super) fn remove_open(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The shares of all addresses that are connected.
#[derive(Debug, Default)]
pub(super) struct ClientShares(Mutex<HashMap<ClientAddress, Weak<ClientShare>>>);

impl ClientShares {
    /// The share of an address. It ends when the last connection drops it.
    pub(super) fn get(
        &self,
        address: ClientAddress,
        limits: &ServiceLimits,
        now: Instant,
    ) -> Arc<ClientShare> {
        let shares = &mut *self.0.lock();
        if let Some(share) = shares.get(&address).and_then(Weak::upgrade) {
            return share;
        }
        if shares.len() > 2 * limits.connections_max {
            shares.retain(|_, share| share.strong_count() > 0);
        }
        let per_second = f64::from(limits.broadcasts_per_second.max(1));
        let rate = TokenRate {
            burst: per_second * BROADCAST_BURST_SECS,
            per_second,
        };
        let share = Arc::new(ClientShare {
            address,
            calls: Arc::new(Semaphore::new(limits.address_calls_max.max(1))),
            broadcasts: Mutex::new(TokenBucket::new(rate, now)),
            registered: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            open_max: limits.address_streams_max,
        });
        shares.insert(address, Arc::downgrade(&share));
        share
    }
}
