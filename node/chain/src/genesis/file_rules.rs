//! The rules that a genesis file gives: which keys name them, in the three forms of such files.
//!
//! | a file with | is of the family of | a key that is missing means |
//! |---|---|---|
//! | a key of [`MOAC_FORK_KEYS`] | the public network | block 0 |
//! | a key of [`RULE_KEYS`] that ends in `FBlock` | Ethereum, in core-geth's form | never |
//! | neither | Ethereum, in geth's form | never |
//!
//! This module knows keys and blocks, but not the meaning of rules.

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{B256, U256, hex};
use serde_json::Value;

use crate::genesis::file_fields::{GenesisFields, GenesisFileError, uint};
use crate::spec::{ChainFamily, DaoFork, ETHEREUM_FORKS, ForkBlock, MoacForks, Rule, RuleTable};

/// Keys of the forks of the public network's family. A file with one of them is of that family.
const MOAC_FORK_KEYS: [&str; 7] = [
    "panguBlock",
    "nuwaBlock",
    "fuxiBlock",
    "enableFuxiPrecompiled",
    "enableClassicTx",
    "diffBombDefuseBlock",
    "create2PerWordBlock",
];

/// Keys of single rules. A file with one that ends in `FBlock` is of core-geth's form.
pub(super) const RULE_KEYS: [(&str, Rule); 45] = [
    ("eip2FBlock", Rule::Eip2),
    ("eip7FBlock", Rule::Eip7),
    ("eip150Block", Rule::Eip150),
    ("eip150FBlock", Rule::Eip150),
    ("eip155Block", Rule::Eip155),
    ("eip155FBlock", Rule::Eip155),
    ("eip160Block", Rule::Eip160),
    ("eip160FBlock", Rule::Eip160),
    ("eip161FBlock", Rule::Eip161),
    ("eip170FBlock", Rule::Eip170),
    ("eip100FBlock", Rule::Eip100),
    ("eip140FBlock", Rule::Eip140),
    ("eip198FBlock", Rule::Eip198),
    ("eip211FBlock", Rule::Eip211),
    // Two keys have the numbers of the drafts.
    ("eip212FBlock", Rule::Eip197),
    ("eip213FBlock", Rule::Eip196),
    ("eip214FBlock", Rule::Eip214),
    ("eip649FBlock", Rule::Eip649),
    ("eip658FBlock", Rule::Eip658),
    ("eip145FBlock", Rule::Eip145),
    ("eip1014FBlock", Rule::Eip1014),
    ("eip1052FBlock", Rule::Eip1052),
    ("eip1234FBlock", Rule::Eip1234),
    ("eip1283FBlock", Rule::Eip1283),
    ("eip1706FBlock", Rule::Eip1716),
    ("petersburgBlock", Rule::Eip1716),
    ("eip152FBlock", Rule::Eip152),
    ("eip1108FBlock", Rule::Eip1108),
    ("eip1344FBlock", Rule::Eip1344),
    ("eip1884FBlock", Rule::Eip1884),
    ("eip2028FBlock", Rule::Eip2028),
    ("eip2200FBlock", Rule::Eip2200),
    ("eip2384FBlock", Rule::Eip2384),
    ("eip2565FBlock", Rule::Eip2565),
    ("eip2718FBlock", Rule::Eip2718),
    ("eip2929FBlock", Rule::Eip2929),
    ("eip2930FBlock", Rule::Eip2930),
    ("eip3529FBlock", Rule::Eip3529),
    ("eip3541FBlock", Rule::Eip3541),
    ("eip3651FBlock", Rule::Eip3651),
    ("eip3855FBlock", Rule::Eip3855),
    ("eip3860FBlock", Rule::Eip3860),
    ("ecip1010PauseBlock", Rule::Ecip1010),
    ("ecip1017FBlock", Rule::Ecip1017),
    ("disposalBlock", Rule::Ecip1041),
];

/// Keys of core-geth's form that change no rule of blocks: an announcement (EIP-6049), and a choice
/// between branches that is off by default (MESS).
const KEYS_WITHOUT_RULES: [&str; 4] = [
    "eip6049FBlock",
    "ecbp1100FBlock",
    "ecbp1100DeactivateFBlock",
    "ecbp1100DeactivateFBlockFBlock",
];

/// Keys of Ethereum's forks that this program does not support. Blocks of such a fork are not
/// imported.
const UNSUPPORTED_FORKS: [&str; 10] = [
    "londonBlock",
    "arrowGlacierBlock",
    "grayGlacierBlock",
    "mergeNetsplitBlock",
    "shanghaiTime",
    "cancunTime",
    "pragueTime",
    "osakaTime",
    "verkleTime",
    "terminalTotalDifficulty",
];

/// The length of a reward era where the file does not say it.
const ERA_BLOCKS_DEFAULT: u64 = 5_000_000;

/// The rules in a genesis file.
pub(super) struct FileRules {
    pub(super) family: ChainFamily,
    pub(super) table: RuleTable,
    pub(super) dao: Option<DaoFork>,
    pub(super) unsupported: Option<(String, u64)>,
    pub(super) schedule: Schedule,
    pub(super) network_id: Option<u64>,
    pub(super) bomb_pause_blocks: u64,
    pub(super) era_blocks: u64,
    pub(super) required_hashes: BTreeMap<u64, B256>,
}

impl FileRules {
    const fn new(family: ChainFamily, table: RuleTable) -> Self {
        Self {
            family,
            table,
            dao: None,
            unsupported: None,
            schedule: Schedule::Ethash,
            network_id: None,
            bomb_pause_blocks: 0,
            era_blocks: 0,
            required_hashes: BTreeMap::new(),
        }
    }

    /// Notes a fork that this program does not support. The first one counts.
    fn unsupported(&mut self, key: &str, first: ForkBlock) {
        if let Some(block) = first
            && self.unsupported.as_ref().is_none_or(|(_, first)| block < *first)
        {
            self.unsupported = Some((key.to_owned(), block));
        }
    }
}

/// Reads the rules from the object `config`.
pub(super) fn rules(config: &mut GenesisFields) -> Result<FileRules, GenesisFileError> {
    let schedule = match config
        .number("ecip1099Block")?
        .or(config.number("ecip1099FBlock")?)
    {
        Some(first) => Schedule::Etchash { fork_block: first },
        None => Schedule::Ethash,
    };
    let is_moac = MOAC_FORK_KEYS.iter().any(|key| config.map.contains_key(*key));
    let names_rules = || {
        let mut keys = RULE_KEYS.iter().filter(|(key, _)| key.ends_with("FBlock"));
        keys.any(|(key, _)| config.map.contains_key(*key))
    };
    let rules = if is_moac {
        moac(config)?
    } else if names_rules() {
        single_rules(config)?
    } else {
        ethereum(config)?
    };
    Ok(FileRules { schedule, ..rules })
}

/// The forks of the public network's family. A key that is missing means block 0.
fn moac(config: &mut GenesisFields) -> Result<FileRules, GenesisFileError> {
    // The public node reads this key, but removes empty accounts whatever it says.
    config.boolean("removeEmptyAccount", true)?;
    if let Some(later) = config
        .map
        .get("panguBlock")
        .filter(|first| uint(first) != Some(U256::ZERO))
    {
        return Err(config.wrong(
            "panguBlock",
            later,
            "0, since the rules before Pangu are not supported",
        ));
    }
    config.map.remove("panguBlock");
    // The public node does not know this key, so a file without it has the public network's price.
    let create2_by_word = config.number("create2PerWordBlock")?;
    let mut fork = |key| Ok(Some(config.number(key)?.unwrap_or(0)));
    let forks = MoacForks {
        nuwa: fork("nuwaBlock")?,
        fuxi: fork("fuxiBlock")?,
        precompiles: fork("enableFuxiPrecompiled")?,
        classic_transactions: fork("enableClassicTx")?,
        bomb_defused: fork("diffBombDefuseBlock")?,
        create2_by_word,
    };
    Ok(FileRules::new(ChainFamily::Moac, forks.rules()))
}

/// The forks of Ethereum, in geth's form.
fn ethereum(config: &mut GenesisFields) -> Result<FileRules, GenesisFileError> {
    let mut first_blocks = [None; ETHEREUM_FORKS.len()];
    for (fork, first) in ETHEREUM_FORKS.iter().zip(&mut first_blocks) {
        if let Some(key) = fork.key {
            *first = config.number(key)?;
        }
    }
    let mut rules = FileRules::new(ChainFamily::Ethereum, RuleTable::ethereum(first_blocks));
    for key in UNSUPPORTED_FORKS {
        let first = unsupported_block(config, key)?;
        rules.unsupported(key, first);
    }
    config.map.remove("terminalTotalDifficultyPassed");
    config.map.remove("blobSchedule");
    config.map.remove("eip150Hash");
    let support = config.boolean("daoForkSupport", false)?;
    let dao = config.number("daoForkBlock")?;
    rules.dao = dao.map(|block| DaoFork { block, support });
    Ok(rules)
}

/// Single rules, in core-geth's form.
fn single_rules(config: &mut GenesisFields) -> Result<FileRules, GenesisFileError> {
    let mut table = RuleTable::default();
    for (key, rule) in RULE_KEYS {
        if let Some(first) = config.number(key)? {
            table = table.with(first, &[rule]);
        }
    }
    table.check_bundles().map_err(GenesisFileError::Rules)?;
    let mut rules = FileRules::new(ChainFamily::Ethereum, table);
    rules.network_id = config.number("networkId")?;
    rules.bomb_pause_blocks = config.number("ecip1010Length")?.unwrap_or(0);
    rules.era_blocks = config.number("ecip1017EraRounds")?.unwrap_or(ERA_BLOCKS_DEFAULT);
    // A chain of this form that knows the fork makes it.
    let dao = config.number("daoForkBlock")?;
    rules.dao = dao.map(|block| DaoFork { block, support: true });
    rules.required_hashes = required_hashes(config)?;
    for key in KEYS_WITHOUT_RULES {
        config.map.remove(key);
    }
    // Schedules that other chains have instead of rules by number.
    for key in ["blockReward", "difficultyBombDelays"] {
        if let Some(got) = config.map.get(key).filter(|value| !value.is_null()) {
            return Err(config.wrong(key, got, "no such schedule"));
        }
    }
    // Any other rule is one that this program does not know.
    let is_rule = |key: &String| {
        (key.starts_with("eip") || key.starts_with("ecip"))
            && (key.ends_with("Block") || key.ends_with("Time"))
    };
    let others: Vec<String> = config.map.keys().filter(|key| is_rule(key)).cloned().collect();
    for key in others.iter().map(String::as_str).chain(UNSUPPORTED_FORKS) {
        let first = unsupported_block(config, key)?;
        rules.unsupported(key, first);
    }
    Ok(rules)
}

/// The first block of a fork that this program does not support. A key that does not end in
/// `Block` has a time or a total difficulty. 0 means active from block 0 on; for any other value
/// the first block is not known.
fn unsupported_block(config: &mut GenesisFields, key: &str) -> Result<ForkBlock, GenesisFileError> {
    if key.ends_with("Block") {
        return config.number(key);
    }
    let value = config.map.remove(key).filter(|value| !value.is_null());
    Ok(value.map(|value| if value == 0 { 0 } else { u64::MAX }))
}

/// The blocks that must have a hash: an object with the hashes by number.
fn required_hashes(config: &mut GenesisFields) -> Result<BTreeMap<u64, B256>, GenesisFileError> {
    let read = |value: &Value| {
        let fields = value.as_object()?.iter();
        let hash = |(number, hash): (&String, &Value)| {
            let number = u64::try_from(uint(&Value::String(number.clone()))?).ok()?;
            let hash: [u8; 32] = hex::decode(hash.as_str()?).ok()?.try_into().ok()?;
            Some((number, B256::from(hash)))
        };
        fields.map(hash).collect()
    };
    let hashes = config.take(
        "requireBlockHashes",
        "an object with block hashes by number",
        read,
    )?;
    Ok(hashes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::file::GenesisFile;
    use crate::spec::ChainSpec;

    fn read(text: &str) -> Result<GenesisFile, GenesisFileError> {
        ChainSpec::from_genesis_file("file", text)
    }

    fn of_config(config: &str) -> Result<GenesisFile, GenesisFileError> {
        read(&format!(
            r#"{{"config": {{{config}}}, "difficulty": 1, "gasLimit": 1}}"#
        ))
    }

    #[test]
    fn files_of_both_families_are_read() {
        let text = r#"{"config": {"chainId": "0x63", "panguBlock": 0, "nuwaBlock": "0x0a", "fuxiBlock": "12",
            "ethash": {}, "strange": 1}, "difficulty": "0x0200", "gasLimit": 9000000, "nonce": "0x0000000000000042",
            "alloc": {"0000000000000000000000000000000000000001": {"balance": "1"},
                      "0x0000000000000000000000000000000000000002": {"balance": "0x02", "code": "0x6001",
                       "storage": {"0x00": "0x05", "1": "0x00"}, "nonce": "0x03"}}, "other": {}}"#;
        let file = read(text).unwrap();
        assert_eq!((file.spec.chain_id, file.spec.family), (99, ChainFamily::Moac));
        let firsts =
            [Rule::NoticeWord, Rule::Eip145, Rule::MoacCurves].map(|rule| file.spec.rules.first(rule));
        assert_eq!(
            firsts,
            [Some(10), Some(12), Some(0)],
            "a fork that is left out is active from block 0 on"
        );
        assert_eq!(file.ignored_keys, ["config.strange", "other"]);
        let second = &file.spec.genesis.alloc[&primitives::Address::with_last_byte(2)];
        assert_eq!(
            (second.balance, second.tx_nonce, second.storage.len()),
            (U256::from(2), 3, 1)
        );

        let spec = of_config(
            r#""chainId": 1, "homesteadBlock": 0, "eip150Block": 5, "londonBlock": 9, "shanghaiTime": 1000"#,
        )
        .unwrap()
        .spec;
        assert_eq!(spec.family, ChainFamily::Ethereum);
        let firsts = [Rule::Eip7, Rule::Eip150, Rule::Eip161].map(|rule| spec.rules.first(rule));
        assert_eq!(firsts, [Some(0), Some(5), None]);
        assert_eq!(spec.unsupported, Some(("londonBlock".to_owned(), 9)));
    }

    #[test]
    fn one_key_of_its_forks_makes_a_file_one_of_the_public_networks_family() {
        for key in MOAC_FORK_KEYS {
            let first = if key == "panguBlock" { 0 } else { 7 };
            let spec = of_config(&format!(r#""{key}": {first}"#)).unwrap().spec;
            assert_eq!(spec.family, ChainFamily::Moac, "{key}");
            let rules = [
                Rule::Eip2,
                Rule::NoticeWord,
                Rule::FlatCreate2,
                Rule::MoacCurves,
                Rule::ClassicTransactions,
                Rule::BombDefused,
            ];
            let at = |block| {
                let firsts = rules.into_iter().map(|rule| spec.rules.first(rule));
                firsts.filter(|first| *first == Some(block)).count()
            };
            let expected = match key {
                "panguBlock" => (6, 6),
                // No block of the public network has this rule, so a key left out means never.
                "create2PerWordBlock" => (0, 6),
                _ => (1, 5),
            };
            assert_eq!((at(first), at(0)), expected, "{key}");
            let priced_from = (key == "create2PerWordBlock").then_some(7);
            assert_eq!(spec.rules.first(Rule::Eip1014), priced_from, "{key}");
            assert!(spec.failed_calls_refund_gas && spec.system_contract);
        }
        // In Ethereum's family a fork that is left out is never active.
        let spec = of_config(r#""homesteadBlock": 0"#).unwrap().spec;
        assert_eq!(spec.family, ChainFamily::Ethereum);
        assert_eq!(spec.rules.blocks(), [0]);
        assert!(!spec.rules_at(u64::MAX).has(Rule::Eip150));
        assert!(!spec.failed_calls_refund_gas && !spec.system_contract);
    }

    #[test]
    fn files_with_single_rules_are_read() {
        let file = of_config(
            r#""networkId": 1, "chainId": 61, "eip2FBlock": 10, "eip7FBlock": 10, "eip150Block": 20,
            "eip155Block": 30, "eip160FBlock": 30, "ecip1010PauseBlock": 30, "ecip1010Length": 20,
            "ecip1017FBlock": 50, "ecip1017EraRounds": 50, "disposalBlock": 59, "ecip1099FBlock": 70,
            "ecbp1100FBlock": 5, "eip4844FBlock": 90, "eip4895FTime": 5,
            "requireBlockHashes": {"20": "0x1111111111111111111111111111111111111111111111111111111111111111"}"#,
        )
        .unwrap();
        let spec = file.spec;
        assert_eq!(file.ignored_keys, [""; 0]);
        assert_eq!((spec.chain_id, spec.network_id), (61, 1));
        assert_eq!(spec.rules.blocks(), [10, 20, 30, 50, 59]);
        assert_eq!((spec.bomb_pause_blocks, spec.era_blocks), (20, 50));
        assert_eq!(spec.schedule, Schedule::Etchash { fork_block: 70 });
        assert_eq!(spec.required_hashes[&20], B256::repeat_byte(0x11));
        assert_eq!(spec.unsupported, Some(("eip4844FBlock".to_owned(), 90)));
        assert!(!spec.rules_at(40).has(Rule::Eip161) && spec.rules_at(40).has(Rule::Eip160));
    }

    #[test]
    fn single_rules_that_do_not_go_together_are_errors() {
        for (config, expected) in [
            (r#""eip2FBlock": 1"#, "Eip2: got block 1, expected never as Eip7"),
            (
                r#""eip161FBlock": 1, "eip170FBlock": 1"#,
                "expected none before Eip160 (never)",
            ),
            (
                r#""eip2FBlock": 1, "eip7FBlock": 1, "blockReward": {"0x0": "0x1"}"#,
                "no such schedule",
            ),
            (
                r#""eip2FBlock": 1, "eip7FBlock": 1, "requireBlockHashes": {"1": "0x12"}"#,
                "requireBlockHashes",
            ),
        ] {
            let error = of_config(config).unwrap_err().to_string();
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
