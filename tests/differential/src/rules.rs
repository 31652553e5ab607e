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

/// The name of the same rules in `@ethereumjs/common`.
#[derive(Clone, Copy, Debug)]
pub struct ClientRules {
    /// The hardfork.
    pub hardfork: &'static str,
    /// The EIPs that are active besides those of the hardfork.
    pub eips: &'static [u16],
}

/// The rules of a fork.
#[derive(Clone, Copy, Debug)]
pub struct ForkRules {
    /// The fork, as `vnode testvec` calls it.
    pub name: &'static str,
    /// The features that programs and transactions use often. They use others rarely.
    pub features: &'static [ForkFeature],
    /// The same rules for `@ethereumjs/vm`; `None` if it does not have them.
    pub client: Option<ClientRules>,
    /// The package of the same rules in the specification in Python; `None` if it does not have
    /// them. Its Constantinople is Petersburg's.
    pub specification: Option<&'static str>,
    /// Ethereum Classic's reward for a block in wei. Its forks have no bomb and no base fee,
    /// either.
    pub classic_reward: Option<u64>,
    /// Whether blocks have a base fee. Their headers are Berlin's here, so such a case is one block
    /// that is executed and not imported.
    pub base_fee: bool,
    /// Whether transactions have twelve fields, as the public network's do.
    pub native_transactions: bool,
}

impl ForkRules {
    /// Whether the fork has this feature.
    pub fn has(&self, feature: ForkFeature) -> bool {
        self.features.contains(&feature)
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

/// A row for a fork of Ethereum Classic. `@ethereumjs/vm` gets the EIPs of the later ones one by
/// one, beside Berlin's rules.
const fn classic(
    name: &'static str,
    hardfork: &'static str,
    eips: &'static [u16],
    specification: &'static str,
    features: usize,
) -> ForkRules {
    ForkRules {
        client: Some(ClientRules { hardfork, eips }),
        classic_reward: Some(CLASSIC_REWARD),
        ..ethereum(name, hardfork, specification, features)
    }
}

/// A row for a fork of Ethereum, which has the first `features` of [`ALL_FEATURES`].
const fn ethereum(
    name: &'static str,
    hardfork: &'static str,
    specification: &'static str,
    features: usize,
) -> ForkRules {
    ForkRules {
        name,
        features: ALL_FEATURES.split_at(features).0,
        client: Some(ClientRules { hardfork, eips: &[] }),
        specification: Some(specification),
        classic_reward: None,
        base_fee: false,
        native_transactions: false,
    }
}

/// The rules that programs can be run by.
pub const RULES: [ForkRules; 17] = [
    ethereum("Frontier", "chainstart", "frontier", 0),
    ethereum("Homestead", "homestead", "homestead", 1),
    ethereum("EIP150", "tangerineWhistle", "tangerine_whistle", 2),
    ethereum("EIP158", "spuriousDragon", "spurious_dragon", 3),
    ethereum("Byzantium", "byzantium", "byzantium", 4),
    ForkRules {
        specification: None,
        ..ethereum("Constantinople", "constantinople", "", 7)
    },
    ethereum("ConstantinopleFix", "petersburg", "constantinople", 7),
    ethereum("Istanbul", "istanbul", "istanbul", ISTANBUL),
    ForkRules {
        client: None,
        specification: None,
        native_transactions: true,
        ..ethereum("Moac", "", "", ISTANBUL)
    },
    ethereum("Berlin", "berlin", "berlin", ISTANBUL + 1),
    ForkRules {
        client: None,
        base_fee: true,
        ..ethereum("London", "", "london", ISTANBUL + 1)
    },
    classic("ETC_Atlantis", "byzantium", &[], "byzantium", 4),
    classic("ETC_Agharta", "petersburg", &[], "constantinople", 7),
    classic("ETC_Phoenix", "istanbul", &[], "istanbul", ISTANBUL),
    // The hardfork Berlin is Istanbul with EIP-2565, 2718, 2929 and 2930.
    classic("ETC_Magneto", "berlin", &[], "berlin", ISTANBUL + 1),
    classic("ETC_Mystique", "berlin", &[3529, 3541], "london", ISTANBUL + 1),
    classic(
        "ETC_Spiral",
        "berlin",
        &[3529, 3541, 3651, 3855, 3860],
        "shanghai",
        ISTANBUL + 2,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_fork_of_the_node() {
        for rules in &RULES {
            assert!(testvec::spec_of_fork(rules.name).is_ok(), "{}", rules.name);
            assert_eq!(
                ForkRules::named(rules.name).map(|found| found.name),
                Some(rules.name)
            );
        }
        assert!(ForkRules::named("none").is_none());
    }
}
