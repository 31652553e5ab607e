//! The rate at which each client may do something: a bucket of tokens for each.
//!
//! The memory is bounded: the clients that came last are remembered. Whoever has so many addresses
//! that the others are forgotten gets the tokens of so many new clients in any case.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use crate::{ClientId, TokenBucket, TokenRate};

/// Clients that are remembered: some 6 MiB.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("not zero");

/// A bucket of tokens for each client.
#[derive(Debug)]
pub struct ClientRates {
    rate: TokenRate,
    buckets: Mutex<LruCache<ClientId, TokenBucket>>,
}

impl ClientRates {
    /// Every client has a full bucket of this rate.
    pub fn new(rate: TokenRate) -> Self {
        Self::with_memory(rate, CLIENTS_MAX)
    }

    fn with_memory(rate: TokenRate, clients_max: NonZeroUsize) -> Self {
        // A cache that is made with its bound takes all of its memory at once.
        let mut buckets = LruCache::unbounded();
        buckets.resize(clients_max);
        Self {
            rate,
            buckets: Mutex::new(buckets),
        }
    }

    /// The rate of each client.
    pub const fn rate(&self) -> TokenRate {
        self.rate
    }

    /// Takes up to `count` tokens of `client`. Returns how many it has taken.
    pub fn take_up_to(&self, client: ClientId, count: usize, now: Instant) -> usize {
        let full = || TokenBucket::new(self.rate, now);
        self.buckets
            .lock()
            .get_or_insert_mut(client, full)
            .take_up_to(count, now)
    }

    /// The time until `client` has a token.
    pub fn until_token(&self, client: ClientId, now: Instant) -> Duration {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.get_mut(&client);
        bucket.map_or(Duration::ZERO, |bucket| bucket.until_token(now))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const RATE: TokenRate = TokenRate {
        burst: 3.0,
        per_second: 1.0,
    };

    fn client(address: &str) -> ClientId {
        address.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn each_client_has_tokens_of_its_own() {
        let (rates, now) = (ClientRates::new(RATE), Instant::now());
        let (one, two) = (client("192.0.2.1"), client("2001:db8::1"));
        assert_eq!(rates.until_token(one, now), Duration::ZERO);
        assert_eq!(rates.take_up_to(one, 5, now), 3);
        assert_eq!(rates.until_token(one, now), Duration::from_secs(1));
        assert_eq!(rates.take_up_to(two, 2, now), 2);
        let same_network = client("2001:db8::2");
        assert_eq!(rates.take_up_to(same_network, 2, now), 1);
        let later = now + Duration::from_secs(2);
        assert_eq!(rates.take_up_to(one, 5, later), 2);
    }

    #[test]
    fn the_clients_that_came_last_are_remembered() {
        let now = Instant::now();
        let rates = ClientRates::with_memory(RATE, NonZeroUsize::MIN.saturating_add(1));
        for address in ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"] {
            rates.take_up_to(client(address), 1, now);
        }
        assert_eq!(rates.buckets.lock().len(), 2);
        assert_eq!(rates.take_up_to(client("192.0.2.1"), 5, now), 1, "remembered");
        assert_eq!(rates.take_up_to(client("192.0.2.2"), 5, now), 3, "forgotten");
    }
}
