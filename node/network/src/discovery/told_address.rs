//! The address of this node, as other nodes see it.
//!
//! A PONG names the address from which its PING came. Any node may lie, and one owner may have many
//! nodes. So an address counts if nodes of many neighbourhoods have named it in a short time, and
//! more of them than have named others. Source: go-ethereum, `p2p/netutil/iptrack.go`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::{Neighbourhood, is_public};

/// The fewest neighbourhoods that must name an address.
pub(crate) const TELLERS_MIN: usize = 10;
/// The neighbourhoods that are listened to at a time.
const TELLERS_MAX: usize = 256;
/// The word of a neighbourhood counts for this long.
pub(crate) const TOLD_LIFETIME: Duration = Duration::from_secs(300);

/// The public addresses that others have named.
#[derive(Debug, Default)]
pub(super) struct ToldAddresses {
    /// The last word of each neighbourhood, and its time.
    words: BTreeMap<Neighbourhood, (IpAddr, Duration)>,
    agreed: Option<IpAddr>,
}

impl ToldAddresses {
    /// The address that was named by enough neighbourhoods at last.
    pub(super) const fn agreed(&self) -> Option<IpAddr> {
        self.agreed
    }

    /// Notes that the node at `teller`, which has proven its address, sees this node at `told`.
    pub(super) fn put(&mut self, teller: IpAddr, told: IpAddr, now: Duration) {
        if !is_public(teller) || !is_public(told) {
            return;
        }
        self.words.retain(|_, (_, at)| now < *at + TOLD_LIFETIME);
        let teller = Neighbourhood::of(teller);
        if self.words.len() >= TELLERS_MAX && !self.words.contains_key(&teller) {
            return;
        }
        self.words.insert(teller, (told, now));
        // Nodes with IPv6 see another address. Most nodes have none, so that of IPv4 comes first.
        let of_kind = self
            .words
            .values()
            .filter(|(ip, _)| ip.is_ipv4() == told.is_ipv4());
        let count = of_kind.clone().count();
        let same = of_kind.filter(|(ip, _)| *ip == told).count();
        let is_better = self
            .agreed
            .is_none_or(|agreed| told.is_ipv4() || agreed.is_ipv6());
        if is_better && same >= TELLERS_MIN && same * 2 > count {
            self.agreed = Some(told);
        }
    }
}
