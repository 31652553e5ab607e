//! The address of this node, as other nodes see it.
//!
//! A PONG names the address from which its PING came. Any node may lie, and one owner may have many
//! nodes. So an address counts if nodes of many neighbourhoods have named it in a short time, and
//! more of them than have named others. A node that is reached by IPv6 cannot see an address of
//! IPv4, nor the other way round. Source: go-ethereum, `p2p/netutil/iptrack.go`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::{Neighbourhood, canonical, is_public};

/// The fewest neighbourhoods that must name an address.
pub(crate) const TELLERS_MIN: usize = 10;
/// The most words that are kept of nodes with IPv4, and of nodes with IPv6. A new word takes the
/// place of the oldest one.
const TELLERS_MAX: usize = 256;
/// The word of a neighbourhood counts for this long.
pub(crate) const TOLD_LIFETIME: Duration = Duration::from_secs(300);

/// The public addresses that others have named.
#[derive(Debug, Default)]
pub(super) struct ToldAddresses {
    /// The last word of each neighbourhood of IPv4, and its time.
    words_v4: BTreeMap<Neighbourhood, (IpAddr, Duration)>,
    /// The same of IPv6.
    words_v6: BTreeMap<Neighbourhood, (IpAddr, Duration)>,
    agreed: Option<IpAddr>,
}

impl ToldAddresses {
    /// The address that was named by enough neighbourhoods at last.
    pub(super) const fn agreed(&self) -> Option<IpAddr> {
        self.agreed
    }

    /// Notes that the node at `teller`, which has proven its address, sees this node at `told`.
    pub(super) fn put(&mut self, teller: IpAddr, told: IpAddr, now: Duration) {
        let (teller, told) = (canonical(teller), canonical(told));
        if !is_public(teller) || !is_public(told) || teller.is_ipv4() != told.is_ipv4() {
            return;
        }
        let words = if told.is_ipv4() {
            &mut self.words_v4
        } else {
            &mut self.words_v6
        };
        words.retain(|_, (_, at)| now < *at + TOLD_LIFETIME);
        words.insert(Neighbourhood::of(teller), (told, now));
        if words.len() > TELLERS_MAX {
            let oldest = words.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(teller, _)| *teller) {
                words.remove(&oldest);
            }
        }
        let same = words.values().filter(|(ip, _)| *ip == told).count();
        // Nodes with IPv6 see another address. Most nodes have none, so that of IPv4 comes first.
        let is_better = self
            .agreed
            .is_none_or(|agreed| told.is_ipv4() || agreed.is_ipv6());
        if is_better && same >= TELLERS_MIN && same * 2 > words.len() {
            self.agreed = Some(told);
        }
    }
}
