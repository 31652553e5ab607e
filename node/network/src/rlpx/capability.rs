//! The capabilities that two nodes share, and their codes on the connection.
//!
//! Source: docs/p2p.md, 1.

use super::hello::{CAPABILITY_CODE_BASE, Capability};

/// A capability that this node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedCapability {
    /// The name, such as `eth`.
    pub name: &'static str,
    /// The version.
    pub version: u64,
    /// The number of codes of its messages.
    pub length: u64,
}

/// A capability that both sides of a connection have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCapability {
    /// Name, version and length.
    pub offered: OfferedCapability,
    /// The first code on the connection.
    pub offset: u64,
}

/// The highest shared version of each name, in alphabetical order, with their offsets.
pub(crate) fn shared_capabilities(own: &[OfferedCapability], remote: &[Capability]) -> Vec<SharedCapability> {
    let is_shared = |offer: &&OfferedCapability| {
        remote
            .iter()
            .any(|other| other.name == offer.name && other.version == offer.version)
    };
    let mut shared: Vec<_> = own.iter().filter(is_shared).copied().collect();
    shared.sort_by(|one, two| (one.name, two.version).cmp(&(two.name, one.version)));
    shared.dedup_by_key(|offer| offer.name);
    let mut offset = CAPABILITY_CODE_BASE;
    let place = |offered: OfferedCapability| {
        let first = offset;
        offset += offered.length;
        SharedCapability {
            offered,
            offset: first,
        }
    };
    shared.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::snap::SNAP_OFFER;

    fn own(name: &'static str, version: u64, length: u64) -> OfferedCapability {
        OfferedCapability {
            name,
            version,
            length,
        }
    }

    #[track_caller]
    fn check(own: &[OfferedCapability], remote: &[(&str, u64)], expected: &[(&str, u64, u64)]) {
        let remote: Vec<_> = remote
            .iter()
            .map(|(name, version)| Capability {
                name: (*name).to_owned(),
                version: *version,
            })
            .collect();
        let got: Vec<_> = shared_capabilities(own, &remote)
            .iter()
            .map(|shared| (shared.offered.name, shared.offered.version, shared.offset))
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn the_highest_version_of_each_name_counts() {
        let eth = [own("eth", 63, 17), own("eth", 68, 17), own("eth", 64, 17)];
        check(&eth, &[("eth", 62), ("eth", 63)], &[("eth", 63, 16)]);
        check(&eth, &[("eth", 64), ("eth", 68), ("eth", 63)], &[("eth", 68, 16)]);
        check(&eth, &[("eth", 99), ("les", 1)], &[]);
        check(&eth, &[], &[]);
    }

    #[test]
    fn offsets_follow_the_alphabet() {
        let three = [own("mc", 63, 52), own("eth", 63, 17), own("abc", 1, 5)];
        let all = [("eth", 63), ("mc", 63), ("abc", 1), ("bzz", 3)];
        check(&three, &all, &[("abc", 1, 16), ("eth", 63, 21), ("mc", 63, 38)]);
        check(&three, &all[..2], &[("eth", 63, 16), ("mc", 63, 33)]);
        let eth = own("eth", 68, 17);
        let remote = [("snap", 1), ("eth", 68), ("eth", 67)];
        check(&[eth, SNAP_OFFER], &remote, &[("eth", 68, 16), ("snap", 1, 33)]);
    }
}
