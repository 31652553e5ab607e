//! Claims of peers: which are too high to be true, and who has made claims that were not fulfilled.
//!
//! A node that has lied can come back under a new key at once. So its claims are remembered against
//! its neighbourhood, too ([`Neighbourhood`]). What is remembered only moves a claim behind those
//! of others: an honest peer in the same neighbourhood is still asked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use primitives::{B512, Header, U256};

use crate::address::Neighbourhood;

/// The most bits of a total difficulty. Ethereum's main network never needed more than 76. geth has
/// the same bound.
pub(super) const CLAIM_BITS_MAX: usize = 100;
/// The mean difficulty of the blocks that a claim adds may be so many times that of its head, as a
/// power of two. The difficulty of a living chain does not fall to a millionth.
const CLAIM_FALL_BITS: usize = 20;
/// The time for which an unfulfilled claim is remembered.
const REMEMBERED_TIME: Duration = Duration::from_secs(3600);
/// The most nodes and networks that are remembered. Of more, the oldest is forgotten.
const REMEMBERED_MAX: usize = 4096;

/// Returns the fault of a claim of `total_difficulty`, whatever the peer has. `None` if it may be
/// true.
pub(super) fn impossible(total_difficulty: U256) -> Option<String> {
    let got = total_difficulty.bit_len();
    (got > CLAIM_BITS_MAX)
        .then(|| format!("total difficulty of its head: got {got} bits, expected at most {CLAIM_BITS_MAX}"))
}

/// Returns the fault of a claim of `total_difficulty` for the block with this header. `None` if it
/// may be true. `best` is the total difficulty of the best header here.
pub(super) fn implausible(total_difficulty: U256, head: &Header, best: U256) -> Option<String> {
    let blocks = U256::from(head.number);
    let added = head.difficulty.saturating_mul(blocks);
    // A product that does not fit would be more than any claim.
    let most = if added.bit_len() + CLAIM_FALL_BITS > 256 {
        U256::MAX
    } else {
        best.saturating_add(added << CLAIM_FALL_BITS)
    };
    (total_difficulty > most).then(|| {
        let (number, difficulty) = (head.number, head.difficulty);
        format!(
            "total difficulty of its head: got {total_difficulty}, expected at most {most}, \
             since its block {number} has difficulty {difficulty}"
        )
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimSource {
    Node(B512),
    Neighbourhood(Neighbourhood),
}

/// Claims that were not fulfilled.
#[derive(Clone, Debug, Default)]
pub(super) struct UnfulfilledClaims {
    /// The number of such claims, and the time of the last one.
    counts: BTreeMap<ClaimSource, (u32, Duration)>,
}

impl UnfulfilledClaims {
    /// A claim of this node was not fulfilled.
    pub(super) fn add(&mut self, node: B512, address: IpAddr, now: Duration) {
        for source in [
            ClaimSource::Node(node),
            ClaimSource::Neighbourhood(Neighbourhood::of(address)),
        ] {
            let count = self.count_of(&source, now).saturating_add(1);
            self.counts.insert(source, (count, now));
        }
        if self.counts.len() > REMEMBERED_MAX {
            self.counts
                .retain(|_, (_, last)| now.saturating_sub(*last) < REMEMBERED_TIME);
        }
        while self.counts.len() > REMEMBERED_MAX {
            let oldest = self.counts.iter().min_by_key(|(_, (_, last))| *last);
            let Some(oldest) = oldest.map(|(source, _)| *source) else {
                return;
            };
            self.counts.remove(&oldest);
        }
    }

    fn count_of(&self, source: &ClaimSource, now: Duration) -> u32 {
        match self.counts.get(source) {
            Some((count, last)) if now.saturating_sub(*last) < REMEMBERED_TIME => *count,
            _ => 0,
        }
    }

    /// The number of claims of this node or its neighbourhood that were not fulfilled.
    pub(super) fn count(&self, node: B512, address: IpAddr, now: Duration) -> u32 {
        let of_node = self.count_of(&ClaimSource::Node(node), now);
        of_node.max(self.count_of(&ClaimSource::Neighbourhood(Neighbourhood::of(address)), now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(mark: u64) -> B512 {
        let mut node = B512::ZERO;
        node.0[..8].copy_from_slice(&mark.to_be_bytes());
        node
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_claim_that_cannot_be_true_is_named() {
        let hundred = U256::from(1) << 100;
        assert_eq!(impossible(hundred - U256::from(1)), None);
        let error = impossible(hundred).expect("too many bits");
        assert!(error.contains("got 101 bits, expected at most 100"), "{error}");
        let head = |number, difficulty: u64| Header {
            number,
            difficulty: U256::from(difficulty),
            ..Header::default()
        };
        let best = U256::from(1u64 << 40);
        // The difficulty may have fallen, but not without end.
        let check = |claimed: U256, head: &Header| implausible(claimed, head, best).is_none();
        assert!(check(best + U256::from(3000u64 * 131_072), &head(3000, 131_072)));
        assert!(check(
            best + U256::from(3000u64 * 131_072 * 1_000_000),
            &head(3000, 131_072)
        ));
        assert!(!check(U256::from(1) << 99, &head(3000, 131_072)));
        assert!(!check(best + U256::from(1), &head(0, 131_072)));
        let huge = Header {
            number: u64::MAX,
            difficulty: U256::MAX,
            ..Header::default()
        };
        assert!(check(hundred, &huge), "nothing overflows");
    }

    #[test]
    fn a_new_key_from_the_same_neighbourhood_is_known() {
        let mut claims = UnfulfilledClaims::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        claims.add(node(1), ip("203.0.113.7"), seconds(10));
        claims.add(node(2), ip("::ffff:203.0.113.9"), seconds(20));
        claims.add(node(3), ip("2001:db8:1:2::1"), seconds(30));
        let count = |mark, address: &str, at| claims.count(node(mark), ip(address), seconds(at));
        assert_eq!(count(9, "203.0.113.200", 40), 2, "another key");
        assert_eq!(count(1, "192.0.2.1", 40), 1, "another address");
        assert_eq!(count(9, "203.0.114.7", 40), 0);
        assert_eq!(count(9, "2001:db8:1:2:ffff::", 40), 1);
        assert_eq!(count(9, "2001:db8:2:2::1", 40), 0);
        assert_eq!(count(9, "203.0.113.200", 20 + 3600), 0, "an hour later");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut claims = UnfulfilledClaims::default();
        for mark in 0..REMEMBERED_MAX as u64 + 10 {
            let address = IpAddr::from([10, (mark >> 8) as u8, mark as u8, 1]);
            claims.add(node(mark), address, Duration::from_millis(mark));
        }
        assert_eq!(claims.counts.len(), REMEMBERED_MAX);
        let now = seconds(10);
        assert_eq!(
            claims.count(node(0), IpAddr::from([10, 0, 0, 1]), now),
            0,
            "the oldest"
        );
        let last = REMEMBERED_MAX as u64 + 9;
        assert_eq!(claims.count(node(last), IpAddr::from([127, 0, 0, 1]), now), 1);
    }
}
