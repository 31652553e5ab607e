//! Bounds of the work in a second for nodes that send packets: in all, for each neighbourhood and
//! for each host. So a flood from one network leaves room for others.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::{self, Neighbourhood};

/// The addresses of the local network get one of this many parts together. Outside, somebody
/// may forge them.
const LOCAL_RATIO: u32 = 2;

/// The amount that is allowed in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecondLimits {
    /// In all.
    pub total: u32,
    /// For a neighbourhood.
    pub neighbourhood: u32,
    /// For a host.
    pub host: u32,
}

/// The part of [`SecondLimits`] that was taken in the current second. The number of entries is at
/// most [`SecondLimits::total`].
#[derive(Debug)]
pub(super) struct SecondBudget {
    limits: SecondLimits,
    second: u64,
    total: u32,
    local: u32,
    neighbourhoods: HashMap<Neighbourhood, u32>,
    hosts: HashMap<IpAddr, u32>,
}

impl SecondBudget {
    pub(super) fn new(limits: SecondLimits) -> Self {
        Self {
            limits,
            second: 0,
            total: 0,
            local: 0,
            neighbourhoods: HashMap::new(),
            hosts: HashMap::new(),
        }
    }

    /// Takes one for `ip`. `false` if nothing is left for it in this second.
    pub(super) fn take(&mut self, ip: IpAddr, now: Duration) -> bool {
        if self.second != now.as_secs() {
            self.second = now.as_secs();
            (self.total, self.local) = (0, 0);
            self.neighbourhoods.clear();
            self.hosts.clear();
        }
        if self.total >= self.limits.total {
            return false;
        }
        if let Some(neighbourhood) = Neighbourhood::of_stranger(ip) {
            let host = address::host(ip);
            if count(&self.hosts, &host) >= self.limits.host
                || count(&self.neighbourhoods, &neighbourhood) >= self.limits.neighbourhood
            {
                return false;
            }
            *self.hosts.entry(host).or_default() += 1;
            *self.neighbourhoods.entry(neighbourhood).or_default() += 1;
        } else {
            if self.local >= self.limits.total / LOCAL_RATIO {
                return false;
            }
            self.local += 1;
        }
        self.total += 1;
        true
    }
}

fn count<K: Eq + Hash>(counts: &HashMap<K, u32>, key: &K) -> u32 {
    counts.get(key).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LIMITS: SecondLimits = SecondLimits {
        total: 40,
        neighbourhood: 10,
        host: 3,
    };

    #[test]
    fn a_flood_leaves_room_for_others() {
        let mut budget = SecondBudget::new(LIMITS);
        let now = Duration::from_millis(5500);
        let mut taken = |ip: &str| budget.take(ip.parse().expect("an address"), now);
        assert_eq!((0..100).filter(|_| taken("50.0.0.1")).count(), 3);
        assert_eq!(
            (0..100).filter(|host| taken(&format!("50.0.0.{host}"))).count(),
            7
        );
        assert_eq!(
            (0..100).filter(|host| taken(&format!("2a00::{host:x}"))).count(),
            3
        );
        assert_eq!(
            (0..100)
                .filter(|net| taken(&format!("2a00:0:0:{net:x}::1")))
                .count(),
            7
        );
        assert_eq!((0..100).filter(|_| taken("127.0.0.1")).count(), 20, "half of all");
        assert!(!taken("51.0.0.1"), "nothing is left");
        assert!(
            budget.take([50, 0, 0, 1].into(), Duration::from_secs(6)),
            "the next second"
        );
        assert_eq!(budget.hosts.len(), 1);
    }

    proptest! {
        #[test]
        fn limits_hold_whoever_sends(
            packets in proptest::collection::vec((0..4_u8, 0..8_u8, 0..3_u64), 1..600)
        ) {
            let mut budget = SecondBudget::new(LIMITS);
            let mut packets = packets;
            packets.sort_by_key(|(_, _, second)| *second);
            let mut counts = BTreeMap::<(u64, Option<u8>, Option<u8>), u32>::new();
            for (network, host, second) in packets {
                if budget.take([50, 0, network, host].into(), Duration::from_secs(second)) {
                    for key in [(None, None), (Some(network), None), (Some(network), Some(host))] {
                        *counts.entry((second, key.0, key.1)).or_default() += 1;
                    }
                }
                prop_assert!(budget.hosts.len() <= LIMITS.total as usize);
            }
            for ((_, network, host), count) in counts {
                let limit = match (network, host) {
                    (None, _) => LIMITS.total,
                    (Some(_), None) => LIMITS.neighbourhood,
                    (Some(_), Some(_)) => LIMITS.host,
                };
                prop_assert!(count <= limit);
            }
        }
    }
}
