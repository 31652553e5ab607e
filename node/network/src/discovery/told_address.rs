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
/// The neighbourhoods of a kind of addresses whose words are kept. The oldest word goes for a new
/// one.
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
        let (teller, told) = (canonical(teller), canonical(told));
        if !is_public(teller) || !is_public(told) || teller.is_ipv4() != told.is_ipv4() {
            return;
        }
        self.words.retain(|_, (_, at)| now < *at + TOLD_LIFETIME);
        let teller = Neighbourhood::of(teller);
        self.words.insert(teller, (told, now));
        let is_of_kind = |(ip, _): &(IpAddr, Duration)| ip.is_ipv4() == told.is_ipv4();
        let of_kind = self.words.iter().filter(|(_, word)| is_of_kind(word));
        let mut count = of_kind.clone().count();
        if count > TELLERS_MAX
            && let Some((oldest, _)) = of_kind.min_by_key(|(_, (_, at))| *at)
        {
            let oldest = *oldest;
            self.words.remove(&oldest);
            count -= 1;
        }
        let same = self.words.values().filter(|(ip, _)| *ip == told).count();
        // Nodes with IPv6 see another address. Most nodes have none, so that of IPv4 comes first.
        let is_better = self
            .agreed
            .is_none_or(|agreed| told.is_ipv4() || agreed.is_ipv6());
        if is_better && same >= TELLERS_MIN && same * 2 > count {
            self.agreed = Some(told);
        }
    }
}
