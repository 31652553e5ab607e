//! The rules that begin at a block, and the table that says at which: EIPs, ECIPs, and rules of the
//! public network.
//!
//! Networks bundle rules in forks, each in its own way. Only the specs of networks and the readers
//! of genesis files know these bundles. All other code asks for single rules. This module has names
//! and block numbers only: [`crate::evm`] knows what a rule means for gas and opcodes,
//! [`crate::rules`] what it means for headers and rewards.

use super::ChainFamily;

/// The first block with a rule; `None` if the rule never becomes active.
pub type ForkBlock = Option<u64>;

/// Makes [`Rule`] and the list of all rules.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule that becomes active at a block and stays active.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }
    };
}

rules! {
    /// Low S in signatures, the price of creations, and a difficulty that follows the seconds
    /// between blocks.
    Eip2,
    /// DELEGATECALL.
    Eip7,
    /// Prices of calls and of reading the state.
    Eip150,
    /// Signatures may have a chain id.
    Eip155,
    /// The price of EXP.
    Eip160,
    /// Touched empty accounts are removed.
    Eip161,
    /// Contract code is limited to 24,576 bytes.
    Eip170,
    /// Uncles raise the difficulty.
    Eip100,
    /// REVERT.
    Eip140,
    /// Precompiled contracts 6 and 7: additions and multiplications on the bn256 curve.
    Eip196,
    /// Precompiled contract 8: pairings on the bn256 curve.
    Eip197,
    /// Precompiled contract 5: modular exponentiation.
    Eip198,
    /// RETURNDATASIZE and RETURNDATACOPY.
    Eip211,
    /// STATICCALL.
    Eip214,
    /// The difficulty bomb is delayed, and the reward is 3.
    Eip649,
    /// Receipts have a status instead of a state root.
    Eip658,
    /// Shifts.
    Eip145,
    /// CREATE2 with the price of its words.
    Eip1014,
    /// EXTCODEHASH.
    Eip1052,
    /// The difficulty bomb is delayed, and the reward is 2.
    Eip1234,
    /// Net gas metering of SSTORE, as first specified.
    Eip1283,
    /// EIP-1283 is withdrawn (Petersburg).
    Eip1716,
    /// Precompiled contract 9: BLAKE2.
    Eip152,
    /// Lower prices of the bn256 curve.
    Eip1108,
    /// CHAINID.
    Eip1344,
    /// Higher prices of reading the state, and SELFBALANCE.
    Eip1884,
    /// A lower price of call data.
    Eip2028,
    /// Net gas metering of SSTORE.
    Eip2200,
    /// The difficulty bomb is delayed.
    Eip2384,
    /// A lower price of modular exponentiation.
    Eip2565,
    /// Transactions and receipts may have a type.
    Eip2718,
    /// The first access of a transaction to an account or a slot costs more.
    Eip2929,
    /// Transactions of type 1, with access lists.
    Eip2930,
    /// A base fee, which is burned.
    Eip1559,
    /// BASEFEE.
    Eip3198,
    /// Smaller refunds.
    Eip3529,
    /// New code must not begin with the byte 0xef.
    Eip3541,
    /// Opcode 0x44 gives a random value instead of the difficulty.
    Eip4399,
    /// The beneficiary is warm from the begin of a transaction on.
    Eip3651,
    /// PUSH0.
    Eip3855,
    /// Init code is limited, and its words have a price.
    Eip3860,
    /// The difficulty bomb pauses for [`super::ChainSpec::bomb_pause_blocks`] blocks.
    Ecip1010,
    /// The reward falls by a fifth with each era of [`super::ChainSpec::era_blocks`] blocks.
    Ecip1017,
    /// The difficulty bomb is removed.
    Ecip1041,
    /// The contracts 0x0d and 0x0e of the public network return a word; before, they return
    /// nothing.
    NoticeWord,
    /// SELFBALANCE, without the other prices of EIP-1884.
    SelfBalance,
    /// Opcodes for subroutines, as an early draft of EIP-2315 has them.
    Subroutines,
    /// CREATE2 with one price for any length of code.
    FlatCreate2,
    /// The public network's precompiled contracts for modular exponentiation and for the curves
    /// bn256 and BLS12-381.
    MoacCurves,
    /// Blocks of the public network may have transactions of 9 fields.
    ClassicTransactions,
    /// The public network's difficulty bomb is switched off.
    BombDefused,
}

// The rules of a height are bits of a number.
const _: () = assert!(Rule::ALL.len() <= 64);

impl Rule {
    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// Rules of Ethereum's family that the EVM can only follow together. A bundle begins no earlier
/// than the one before it.
const BUNDLES: [&[Rule]; 10] = [
    &[Rule::Eip7, Rule::Eip2],
    &[Rule::Eip150],
    &[Rule::Eip160],
    &[Rule::Eip161, Rule::Eip170],
    &[
        Rule::Eip140,
        Rule::Eip196,
        Rule::Eip197,
        Rule::Eip198,
        Rule::Eip211,
        Rule::Eip214,
    ],
    &[Rule::Eip145, Rule::Eip1014, Rule::Eip1052],
    &[
        Rule::Eip2200,
        Rule::Eip152,
        Rule::Eip1108,
        Rule::Eip1344,
        Rule::Eip1884,
        Rule::Eip2028,
    ],
    &[Rule::Eip2929, Rule::Eip2565, Rule::Eip2718, Rule::Eip2930],
    &[Rule::Eip3541, Rule::Eip3529],
    &[Rule::Eip3855, Rule::Eip3651, Rule::Eip3860],
];

/// Two rules begin at blocks that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the got and expected values that the error texts name"
)]
pub enum RuleBundleError {
    /// A rule begins apart from one that it needs.
    #[error("{rule:?}: got {}, expected {} as {with:?}", Shown(*got), Shown(*expected))]
    Apart {
        rule: Rule,
        got: ForkBlock,
        with: Rule,
        expected: ForkBlock,
    },
    /// A rule begins before one that it needs.
    #[error("{rule:?}: got block {got}, expected none before {earlier:?} ({})", Shown(*expected))]
    Order {
        rule: Rule,
        got: u64,
        earlier: Rule,
        expected: ForkBlock,
    },
}

/// A first block as errors show it.
struct Shown(ForkBlock);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(block) => write!(f, "block {block}"),
            None => f.write_str("never"),
        }
    }
}

/// The first block of each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTable {
    first: [ForkBlock; Rule::ALL.len()],
}

impl Default for RuleTable {
    fn default() -> Self {
        Self {
            first: [None; Rule::ALL.len()],
        }
    }
}

impl RuleTable {
    /// The first block of a rule.
    pub const fn first(&self, rule: Rule) -> ForkBlock {
        self.first[rule as usize]
    }

    /// Sets the first block of a rule.
    pub const fn set(&mut self, rule: Rule, first: ForkBlock) {
        self.first[rule as usize] = first;
    }

    /// The table with these rules from block `first` on, or from where they began before if that is
    /// earlier.
    #[must_use]
    pub fn with(mut self, first: u64, rules: &[Rule]) -> Self {
        for rule in rules {
            let earlier = self.first(*rule).map_or(first, |before| before.min(first));
            self.set(*rule, Some(earlier));
        }
        self
    }

    /// The rules that are active at block `number`, for a chain of this family.
    pub fn at(&self, family: ChainFamily, number: u64) -> BlockRules {
        let active = Rule::ALL
            .into_iter()
            .filter(|rule| self.first(*rule).is_some_and(|first| number >= first));
        BlockRules {
            family,
            active: active.fold(0, |bits, rule| bits | rule.bit()),
        }
    }

    /// Checks that rules begin together, and in the order, in which this program can follow them.
    ///
    /// # Errors
    /// [`RuleBundleError`] for the first two rules that begin at the wrong blocks.
    pub fn check_bundles(&self) -> Result<(), RuleBundleError> {
        let mut before: Option<Rule> = None;
        for bundle in BUNDLES {
            for rule in bundle {
                let (got, with) = (self.first(*rule), bundle[0]);
                if got != self.first(with) {
                    return Err(RuleBundleError::Apart {
                        rule: *rule,
                        got,
                        with,
                        expected: self.first(with),
                    });
                }
            }
            let (rule, got) = (bundle[0], self.first(bundle[0]));
            if let Some(earlier) = before
                && let Some(got) = got
            {
                let expected = self.first(earlier);
                if expected.is_none_or(|expected| expected > got) {
                    return Err(RuleBundleError::Order {
                        rule,
                        got,
                        earlier,
                        expected,
                    });
                }
            }
            before = Some(rule);
        }
        Ok(())
    }

    /// The blocks at which rules begin, ascending, each once.
    pub fn blocks(&self) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.first.into_iter().flatten().collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// The first block for which two tables have different rules; `None` if there is none.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        let different = Rule::ALL
            .into_iter()
            .filter(|rule| self.first(*rule) != other.first(*rule));
        different
            .flat_map(|rule| self.first(rule).into_iter().chain(other.first(rule)))
            .min()
    }
}

/// The rules that are active at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRules {
    /// The family of the chain.
    pub family: ChainFamily,
    active: u64,
}

impl BlockRules {
    /// Whether a rule is active.
    pub const fn has(self, rule: Rule) -> bool {
        self.active & rule.bit() != 0
    }

    /// Whether the chain is of the public network's family.
    pub(crate) const fn is_moac(self) -> bool {
        matches!(self.family, ChainFamily::Moac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_begin_at_their_blocks() {
        let table = RuleTable::default()
            .with(7, &[Rule::Eip2, Rule::Eip7])
            .with(3, &[Rule::Eip7])
            .with(9, &[Rule::Eip2]);
        let at = |number| {
            let rules = table.at(ChainFamily::Ethereum, number);
            [
                rules.has(Rule::Eip2),
                rules.has(Rule::Eip7),
                rules.has(Rule::BombDefused),
            ]
        };
        assert_eq!(at(2), [false, false, false]);
        assert_eq!(at(3), [false, true, false]);
        assert_eq!(at(7), [true, true, false]);
        assert_eq!(at(u64::MAX), [true, true, false]);
        assert_eq!(table.blocks(), [3, 7]);
    }

    #[test]
    fn the_first_difference_of_two_tables() {
        let one = RuleTable::default().with(7, &[Rule::Eip2]);
        assert_eq!(one.first_difference(&one), None);
        let later = RuleTable::default().with(9, &[Rule::Eip2]);
        assert_eq!(one.first_difference(&later), Some(7));
        let more = one.clone().with(5, &[Rule::Eip7]);
        assert_eq!(one.first_difference(&more), Some(5));
        assert_eq!(more.first_difference(&one), Some(5));
    }

    #[test]
    fn rules_that_need_each_other_begin_in_order() {
        let good = RuleTable::up_to("Shanghai").unwrap();
        assert_eq!(good.check_bundles(), Ok(()));
        let mut apart = RuleTable::up_to("Byzantium").unwrap();
        apart.set(Rule::Eip214, Some(9));
        let error = apart.check_bundles().unwrap_err().to_string();
        assert_eq!(error, "Eip214: got block 9, expected block 0 as Eip140");
        let early = RuleTable::default().with(3, &[Rule::Eip150]);
        let error = early.check_bundles().unwrap_err().to_string();
        assert_eq!(error, "Eip150: got block 3, expected none before Eip7 (never)");
    }

    #[test]
    fn each_rule_has_a_bit_of_its_own() {
        let bits = Rule::ALL.into_iter().fold(0u64, |bits, rule| {
            assert_eq!(bits & rule.bit(), 0, "{rule:?}");
            bits | rule.bit()
        });
        assert_eq!(bits.count_ones() as usize, Rule::ALL.len());
    }
}
