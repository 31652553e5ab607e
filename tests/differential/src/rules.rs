//! The rules that programs are run by. A fork is one row of [`RULES`].

/// Instructions and transactions that a fork brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkFeature {
    /// DELEGATECALL.
    Delegatecall,
    /// A call gets at most 63/64 of the gas, instead of ending the frame (EIP-150).
    GasReserve,
    /// REVERT, STATICCALL, RETURNDATASIZE and RETURNDATACOPY.
    Returndata,
    /// SHL, SHR and SAR.
    Shifts,
    /// CREATE2.
    Create2,
    /// EXTCODEHASH.
    Extcodehash,
    /// CHAINID and SELFBALANCE.
    Chainid,
    /// Signatures with a chain id (EIP-155).
    ProtectedSignatures,
    /// Transactions with access lists (EIP-2930).
    AccessLists,
    /// PUSH0.
    Push0,
}

/// The independent executor's name of the same rules.
#[derive(Clone, Copy, Debug)]
pub struct ClientRules {
    /// The hardfork in `@ethereumjs/common`.
    pub hardfork: &'static str,
    /// The EIPs that are active besides those of the hardfork.
    pub eips: &'static [u16],
    /// The reward for a block in wei, where it is not the hardfork's.
    pub miner_reward: Option<u64>,
}

/// The rules of a fork.
#[derive(Clone, Copy, Debug)]
pub struct ForkRules {
    /// The fork, as `vnode testvec` calls it.
    pub name: &'static str,
    /// The features that programs and transactions use often. They use others rarely.
    pub features: &'static [ForkFeature],
    /// The same rules for the independent executor; `None` if it does not have them.
    pub client: Option<ClientRules>,
    /// Whether transactions have twelve fields, as the public network's do.
    pub native_transactions: bool,
}

impl ForkRules {
    /// Whether the fork has this feature.
    pub fn has(&self, feature: ForkFeature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether the specification in Python has the rules. It takes no single EIPs, and its
    /// Constantinople is Petersburg's.
    pub fn is_specified(&self) -> bool {
        self.client
            .is_some_and(|client| client.eips.is_empty() && client.hardfork != "constantinople")
    }

    /// The rules with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        RULES.iter().find(|rules| rules.name.eq_ignore_ascii_case(name))
    }
}

/// Every feature, in the order in which Ethereum's forks brought them.
pub const ALL_FEATURES: [ForkFeature; 10] = [
    ForkFeature::Delegatecall,
    ForkFeature::GasReserve,
    ForkFeature::ProtectedSignatures,
    ForkFeature::Returndata,
    ForkFeature::Shifts,
    ForkFeature::Create2,
    ForkFeature::Extcodehash,
    ForkFeature::Chainid,
    ForkFeature::AccessLists,
    ForkFeature::Push0,
];
/// The number of [`ALL_FEATURES`] that Istanbul has.
const ISTANBUL: usize = 8;

/// The reward of Ethereum Classic's first era, in wei.
const CLASSIC_REWARD: u64 = 5_000_000_000_000_000_000;

/// A row for a fork of Ethereum Classic. The other executor gets the EIPs of the later ones one by
/// one, beside Istanbul's rules.
const fn classic(
    name: &'static str,
    hardfork: &'static str,
    eips: &'static [u16],
    features: usize,
) -> ForkRules {
    ForkRules {
        client: Some(ClientRules {
            hardfork,
            eips,
            miner_reward: Some(CLASSIC_REWARD),
        }),
        ..ethereum(name, hardfork, features)
    }
}

/// A row for a fork of Ethereum, which has the first `features` of [`ALL_FEATURES`].
const fn ethereum(name: &'static str, hardfork: &'static str, features: usize) -> ForkRules {
    ForkRules {
        name,
        features: ALL_FEATURES.split_at(features).0,
        client: Some(ClientRules {
            hardfork,
            eips: &[],
            miner_reward: None,
        }),
        native_transactions: false,
    }
}

/// The rules that programs can be run by.
pub const RULES: [ForkRules; 16] = [
    ethereum("Frontier", "chainstart", 0),
    ethereum("Homestead", "homestead", 1),
    ethereum("EIP150", "tangerineWhistle", 2),
    ethereum("EIP158", "spuriousDragon", 3),
    ethereum("Byzantium", "byzantium", 4),
    ethereum("Constantinople", "constantinople", 7),
    ethereum("ConstantinopleFix", "petersburg", 7),
    ethereum("Istanbul", "istanbul", 8),
    ForkRules {
        name: "Moac",
        features: ALL_FEATURES.split_at(ISTANBUL).0,
        client: None,
        native_transactions: true,
    },
    ethereum("Berlin", "berlin", ISTANBUL + 1),
    classic("ETC_Atlantis", "byzantium", &[], 4),
    classic("ETC_Agharta", "petersburg", &[], 7),
    classic("ETC_Phoenix", "istanbul", &[], ISTANBUL),
    // The hardfork Berlin is Istanbul with EIP-2565, 2718, 2929 and 2930.
    classic("ETC_Magneto", "berlin", &[], ISTANBUL + 1),
    classic("ETC_Mystique", "berlin", &[3529, 3541], ISTANBUL + 1),
    classic(
        "ETC_Spiral",
        "berlin",
        &[3529, 3541, 3651, 3855, 3860],
        ISTANBUL + 2,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_fork_of_the_node() {
        for rules in &RULES {
            assert!(node::testvec::spec_of_fork(rules.name).is_ok(), "{}", rules.name);
            assert_eq!(
                ForkRules::named(rules.name).map(|found| found.name),
                Some(rules.name)
            );
        }
        assert!(ForkRules::named("none").is_none());
    }
}
