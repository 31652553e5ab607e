//! The versions of the capabilities `eth` and `mc`, and in what they differ.
//!
//! One codec serves all of them. It asks a [`WireProtocol`] for five switches. Source:
//! docs/p2p.md, 2 and 6.

use std::fmt;

use primitives::{ReceiptForm, TxRules};

use crate::rlpx::{ETH_MESSAGE_BYTES_MAX, MC_MESSAGE_BYTES_MAX, OfferedCapability};

/// The versions of `eth` that the codec knows.
pub const ETH_VERSIONS: [u64; 7] = [62, 63, 64, 65, 66, 67, 68];
/// The versions of `eth` that a node offers.
pub const ETH_VERSIONS_OFFERED: [u64; 6] = [63, 64, 65, 66, 67, 68];
/// The versions of `mc` that the codec knows and a node offers.
pub const MC_VERSIONS: [u64; 2] = [62, 63];

/// The capability of a family of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireFamily {
    /// `eth`, on Ethereum's networks.
    Eth,
    /// `mc`, on the public network's.
    Mc,
}

/// One version of one capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireProtocol {
    family: WireFamily,
    version: u64,
}

impl WireFamily {
    /// The name of the capability.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eth => "eth",
            Self::Mc => "mc",
        }
    }

    /// The version `version`. `None` if the codec does not know it.
    pub fn protocol(self, version: u64) -> Option<WireProtocol> {
        let known = match self {
            Self::Eth => &ETH_VERSIONS[..],
            Self::Mc => &MC_VERSIONS,
        };
        known.contains(&version).then_some(WireProtocol {
            family: self,
            version,
        })
    }

    /// The capabilities that a node of this family offers in its Hello.
    pub fn offers(self) -> Vec<OfferedCapability> {
        let versions = match self {
            Self::Eth => &ETH_VERSIONS_OFFERED[..],
            Self::Mc => &MC_VERSIONS,
        };
        let offer = |version: &u64| self.protocol(*version).map(WireProtocol::offer);
        versions.iter().filter_map(offer).collect()
    }

    /// The largest message, in bytes.
    pub const fn message_bytes_max(self) -> usize {
        match self {
            Self::Eth => ETH_MESSAGE_BYTES_MAX,
            Self::Mc => MC_MESSAGE_BYTES_MAX,
        }
    }

    /// The form of the transactions in blocks.
    pub const fn tx_rules(self) -> TxRules {
        match self {
            Self::Eth => TxRules::Ethereum,
            Self::Mc => TxRules::Moac,
        }
    }

    /// The form of the receipts.
    pub const fn receipt_form(self) -> ReceiptForm {
        match self {
            Self::Eth => ReceiptForm::Four,
            Self::Mc => ReceiptForm::Five,
        }
    }
}

impl WireProtocol {
    /// The capability.
    pub const fn family(self) -> WireFamily {
        self.family
    }

    /// The version.
    pub const fn version(self) -> u64 {
        self.version
    }

    /// The protocol as it is offered in a Hello.
    pub const fn offer(self) -> OfferedCapability {
        OfferedCapability {
            name: self.family.name(),
            version: self.version,
            length: self.length(),
        }
    }

    /// The number of its codes.
    pub const fn length(self) -> u64 {
        match (self.family, self.version) {
            (_, 62) => 8,
            (WireFamily::Eth, _) => 17,
            (WireFamily::Mc, _) => 52,
        }
    }

    const fn is_eth_from(self, first: u64) -> bool {
        matches!(self.family, WireFamily::Eth) && self.version >= first
    }

    /// Status ends in a fork id.
    pub const fn has_fork_id(self) -> bool {
        self.is_eth_from(64)
    }

    /// Hashes of transactions are announced, and pooled transactions can be asked for.
    pub(crate) const fn has_pooled_transactions(self) -> bool {
        self.is_eth_from(65)
    }

    /// Requests and answers have an id.
    pub const fn has_request_ids(self) -> bool {
        self.is_eth_from(66)
    }

    /// State nodes can be asked for.
    pub(crate) const fn has_node_data(self) -> bool {
        self.version >= 63 && !self.is_eth_from(67)
    }

    /// Receipts can be asked for.
    pub(crate) const fn has_receipts(self) -> bool {
        self.version >= 63
    }

    /// Announced transactions have a type and a size.
    pub(crate) const fn has_typed_announcements(self) -> bool {
        self.is_eth_from(68)
    }

    /// Messages of application chains are passed on.
    pub const fn has_application_chains(self) -> bool {
        matches!(self.family, WireFamily::Mc) && self.version >= 63
    }
}

impl fmt::Display for WireProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.family.name(), self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_switches() {
        let rows = [
            (62, [false, false, false, false, false]),
            (63, [false, false, false, true, false]),
            (64, [true, false, false, true, false]),
            (65, [true, true, false, true, false]),
            (66, [true, true, true, true, false]),
            (67, [true, true, true, false, false]),
            (68, [true, true, true, false, true]),
        ];
        let switches = |protocol: WireProtocol| {
            [
                protocol.has_fork_id(),
                protocol.has_pooled_transactions(),
                protocol.has_request_ids(),
                protocol.has_node_data(),
                protocol.has_typed_announcements(),
            ]
        };
        for (version, expected) in rows {
            let protocol = WireFamily::Eth.protocol(version).expect("known");
            assert_eq!(switches(protocol), expected, "{protocol}");
            assert_eq!(protocol.length(), if version == 62 { 8 } else { 17 });
        }
        for (version, node_data, length) in [(62, false, 8), (63, true, 52)] {
            let protocol = WireFamily::Mc.protocol(version).expect("known");
            assert_eq!(switches(protocol), [false, false, false, node_data, false]);
            assert_eq!(protocol.length(), length);
        }
        assert_eq!(WireFamily::Mc.protocol(64), None);
        assert_eq!(WireFamily::Eth.protocol(69), None);
        assert_eq!(WireFamily::Eth.offers().len(), 6);
        assert_eq!(WireFamily::Mc.offers()[1].length, 52);
    }
}
