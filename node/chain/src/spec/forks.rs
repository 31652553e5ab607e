//! Forks: the rules that begin together on a network.
//!
//! Ethereum's forks have names that genesis files and test vectors use. The table of
//! [`ETHEREUM_FORKS`] says which rules they bring; [`MoacForks`] does so for the public network's
//! family. Sources: docs/base-chain.md, 2; docs/etc.md, 1.

use super::rule::Rule::{self, *};
use super::rule::{ForkBlock, RuleTable};

/// A fork of Ethereum.
#[derive(Clone, Copy, Debug)]
pub struct EthereumFork {
    /// The name in test vectors.
    pub name: &'static str,
    /// The key of its first block in genesis files in geth's form; `None` for a fork whose blocks
    /// this program does not read.
    pub key: Option<&'static str>,
    /// The rules that begin with the fork.
    pub rules: &'static [Rule],
    /// A chain with a later fork has these rules, too, even if its genesis file leaves the fork
    /// out.
    pub implied: bool,
}

/// Ethereum's forks, in their order.
pub const ETHEREUM_FORKS: [EthereumFork; 12] = [
    fork("Homestead", Some("homesteadBlock"), &[Eip2, Eip7]),
    fork("EIP150", Some("eip150Block"), &[Eip150]),
    alone("EIP155", Some("eip155Block"), &[Eip155]),
    fork("EIP158", Some("eip158Block"), &[Eip160, Eip161, Eip170]),
    fork(
        "Byzantium",
        Some("byzantiumBlock"),
        &[
            Eip100, Eip140, Eip196, Eip197, Eip198, Eip211, Eip214, Eip649, Eip658,
        ],
    ),
    fork(
        "Constantinople",
        Some("constantinopleBlock"),
        &[Eip145, Eip1014, Eip1052, Eip1234, Eip1283],
    ),
    fork("ConstantinopleFix", Some("petersburgBlock"), &[Eip1716]),
    fork(
        "Istanbul",
        Some("istanbulBlock"),
        &[Eip152, Eip1108, Eip1344, Eip1884, Eip2028, Eip2200],
    ),
    alone("MuirGlacier", Some("muirGlacierBlock"), &[Eip2384]),
    fork(
        "Berlin",
        Some("berlinBlock"),
        &[Eip2565, Eip2718, Eip2929, Eip2930],
    ),
    fork("London", None, &[Eip1559, Eip3198, Eip3529, Eip3541]),
    fork("Shanghai", None, &[Eip4399, Eip3651, Eip3855, Eip3860]),
];

const fn fork(name: &'static str, key: Option<&'static str>, rules: &'static [Rule]) -> EthereumFork {
    EthereumFork {
        name,
        key,
        rules,
        implied: true,
    }
}

const fn alone(name: &'static str, key: Option<&'static str>, rules: &'static [Rule]) -> EthereumFork {
    EthereumFork {
        implied: false,
        ..fork(name, key, rules)
    }
}

impl RuleTable {
    /// The rules of a chain of Ethereum's forks, whose first blocks are given in the order of
    /// [`ETHEREUM_FORKS`].
    pub fn ethereum(first_blocks: [ForkBlock; ETHEREUM_FORKS.len()]) -> Self {
        let mut table = Self::default();
        for (index, (fork, first)) in ETHEREUM_FORKS.iter().zip(first_blocks).enumerate() {
            let Some(first) = first else { continue };
            table = table.with(first, fork.rules);
            let earlier = ETHEREUM_FORKS[..index].iter().filter(|earlier| earlier.implied);
            for earlier in earlier.filter(|_| fork.implied) {
                table = table.with(first, earlier.rules);
            }
        }
        table
    }

    /// All of Ethereum's rules up to the fork of this name, active from block 0 on. `Frontier` has
    /// none. `None` if there is no such fork.
    pub fn up_to(name: &str) -> Option<Self> {
        let forks = match name {
            "Frontier" => 0,
            name => ETHEREUM_FORKS.iter().position(|fork| fork.name == name)? + 1,
        };
        let rules = ETHEREUM_FORKS[..forks].iter();
        Some(rules.fold(Self::default(), |table, fork| table.with(0, fork.rules)))
    }

    /// The rules of a development network with Ethereum's rules up to the fork of this name, from
    /// block 0 on. Rules that need other blocks than those of proof of work here are left out: the
    /// base fee, its opcode and the random value. Signatures may have a chain id under each fork,
    /// because today's wallets make no others. `None` if there is no such fork.
    pub fn developer(name: &str) -> Option<Self> {
        let mut table = Self::up_to(name)?.with(0, &[Eip155]);
        for rule in [Eip1559, Eip3198, Eip4399] {
            table.set(rule, None);
        }
        Some(table)
    }

    /// The table with the rules of one of Ethereum's forks from block `first` on.
    #[must_use]
    pub fn with_fork(self, name: &str, first: u64) -> Self {
        let fork = ETHEREUM_FORKS.iter().find(|fork| fork.name == name);
        self.with(first, fork.map_or(&[], |fork| fork.rules))
    }
}

/// The first blocks of the forks of the public network's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoacForks {
    /// The contracts 0x0d and 0x0e return a word.
    pub nuwa: ForkBlock,
    /// Opcodes for shifts, EXTCODEHASH, CREATE2, CHAINID, SELFBALANCE.
    pub fuxi: ForkBlock,
    /// Precompiled contracts for modular exponentiation and for curves.
    pub precompiles: ForkBlock,
    /// Blocks may contain transactions of 9 fields.
    pub classic_transactions: ForkBlock,
    /// The difficulty bomb is switched off.
    pub bomb_defused: ForkBlock,
    /// CREATE2 pays for memory and for each word of its code (EIP-1014). The public network never
    /// does, so a genesis file that leaves this fork out has no such block.
    pub create2_by_word: ForkBlock,
}

impl MoacForks {
    /// All forks but the price of CREATE2 from block 0 on.
    pub const ALL_AT_0: Self = Self {
        nuwa: Some(0),
        fuxi: Some(0),
        precompiles: Some(0),
        classic_transactions: Some(0),
        bomb_defused: Some(0),
        create2_by_word: None,
    };

    /// The rules of a chain with these forks. Its block 0 has the rules of Pangu.
    pub fn rules(self) -> RuleTable {
        const PANGU: &[Rule] = &[
            Eip2, Eip7, Eip150, Eip155, Eip160, Eip161, Eip100, Eip140, Eip211, Eip214, Eip658,
        ];
        const FUXI: &[Rule] = &[Eip145, Eip1344, SelfBalance, Subroutines, FlatCreate2];
        let forks: [(ForkBlock, &[Rule]); 6] = [
            (self.nuwa, &[NoticeWord]),
            (self.fuxi, FUXI),
            (self.precompiles, &[MoacCurves]),
            (self.classic_transactions, &[ClassicTransactions]),
            (self.bomb_defused, &[BombDefused]),
            (self.create2_by_word, &[Eip1014]),
        ];
        let begin = RuleTable::default().with(0, PANGU);
        forks
            .into_iter()
            .fold(begin, |table, (first, rules)| match first {
                Some(first) => table.with(first, rules),
                None => table,
            })
    }
}

/// The family of a chain: the forms of its transactions and receipts, and whose gas table and
/// contracts it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFamily {
    /// The public network's: transactions have 12 fields and cost at least 1000 gas, receipts have
    /// 5 fields.
    Moac,
    /// Ethereum's: transactions have 9 fields and cost at least 21000 gas, receipts have 4 fields.
    Ethereum,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_fork_brings_the_rules_of_those_before_it() {
        let mut first_blocks = [None; ETHEREUM_FORKS.len()];
        let index = |name| ETHEREUM_FORKS.iter().position(|fork| fork.name == name).unwrap();
        first_blocks[index("Byzantium")] = Some(5);
        first_blocks[index("Homestead")] = Some(2);
        first_blocks[index("MuirGlacier")] = Some(1);
        let table = RuleTable::ethereum(first_blocks);
        let firsts = [Eip2, Eip150, Eip155, Eip161, Eip658, Eip1234, Eip2384].map(|rule| table.first(rule));
        assert_eq!(firsts, [Some(2), Some(5), None, Some(5), Some(5), None, Some(1)]);
    }

    #[test]
    fn forks_of_test_vectors() {
        let has = |name: &str, rule| RuleTable::up_to(name).unwrap().first(rule) == Some(0);
        assert!(!has("Frontier", Eip2) && has("Homestead", Eip2));
        assert!(!has("EIP150", Eip155) && has("EIP158", Eip155));
        assert!(!has("Istanbul", Eip2384) && has("Berlin", Eip2384));
        assert!(has("Constantinople", Eip1283) && !has("Constantinople", Eip1716));
        assert_eq!(RuleTable::up_to("Prague"), None);
        let later = RuleTable::up_to("Frontier").unwrap().with_fork("Homestead", 5);
        assert_eq!(later.first(Eip7), Some(5));
    }
}
