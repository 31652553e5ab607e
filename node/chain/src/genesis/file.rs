//! Makes a [`ChainSpec`] from a genesis file, which is JSON in geth's form.
//!
//! A file with a key of the public network's forks is of that network's family. There a fork
//! without a key is active from block 0 on. Any other file is of Ethereum's family, where a fork
//! without a key is never active. Numbers are hex with or without leading zeros, decimal strings,
//! or JSON numbers; addresses may begin with 0x. Unknown keys are ignored and returned, so that the
//! caller can warn.
//!
//! This module and [`record`](crate::genesis::record) are the only ones of this package that know
//! JSON. They are here because the store keeps the text of the genesis file, and a node reads its
//! rules from there at every start.

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{Address, B256, U256};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::genesis::file_accounts::accounts;
pub use crate::genesis::file_fields::GenesisFileError;
use crate::genesis::file_fields::{GenesisFields, uint};
use crate::spec::{
    ChainFamily, ChainIdChange, ChainSpec, DifficultyRule, EthereumForks, GAS_LIMIT_FLOOR, GAS_LIMIT_MIN,
    Genesis, MoacForks, NOTICE_LIST, NOTICE_LIST_CHAINS,
};

/// What a genesis file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisFile {
    /// The spec.
    pub spec: ChainSpec,
    /// The paths of the keys that were ignored because they are unknown.
    pub ignored_keys: Vec<String>,
}

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

/// Keys of Ethereum's forks that this program does not support. Blocks of such a fork are not
/// imported.
const UNSUPPORTED_FORKS: [&str; 11] = [
    "berlinBlock",
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

impl ChainSpec {
    /// Makes a spec from the text of a genesis file. `name` becomes the spec's name, for logs.
    ///
    /// # Errors
    /// [`GenesisFileError`] for the first value that cannot be read.
    pub fn from_genesis_file(name: &str, text: &str) -> Result<GenesisFile, GenesisFileError> {
        let json_error = |error: serde_json::Error| GenesisFileError::Json {
            line: error.line(),
            column: error.column(),
            reason: error.to_string(),
        };
        let mut raw: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(json_error)?;
        // There may be a million accounts, so they are read one by one.
        let alloc = raw.remove("alloc");
        let top = raw.into_iter().map(|(key, value)| {
            let value = serde_json::from_str(value.get()).map_err(json_error)?;
            Ok((key, value))
        });
        let mut top = GenesisFields {
            path: String::new(),
            map: top.collect::<Result<_, _>>()?,
        };
        let mut config = top.object("config")?;
        let chain_id = config.number("chainId")?.unwrap_or(1);
        let chain_id_changes = chain_id_changes(&mut config)?;
        let is_moac = MOAC_FORK_KEYS.iter().any(|key| config.map.contains_key(*key));
        let schedule = match config.number("ecip1099Block")? {
            Some(first) => Schedule::Etchash { fork_block: first },
            None => Schedule::Ethash,
        };
        config.map.remove("ethash");
        let family = if is_moac {
            // The public node reads this key, but removes empty accounts whatever it says.
            config.boolean("removeEmptyAccount", true)?;
            moac_forks(&mut config)?
        } else {
            ethereum_forks(&mut config)?
        };
        let genesis = genesis(&mut top, alloc)?;
        let spec = Self {
            name: name.to_owned(),
            chain_id,
            chain_id_changes,
            network_id: chain_id,
            difficulty: if is_moac {
                DifficultyRule::Moac
            } else {
                DifficultyRule::Ethereum
            },
            family,
            failed_calls_refund_gas: is_moac,
            system_contract: is_moac,
            notify_scs_always_exists: false,
            notice_list: (is_moac && NOTICE_LIST_CHAINS.contains(&chain_id)).then_some(NOTICE_LIST),
            application: None,
            schedule,
            gas_target_min: gas_target_min(chain_id, is_moac),
            gas_price_min: U256::from(1_000_000_000u64),
            genesis_hash: None,
            genesis,
        };
        let mut ignored_keys = config.unread_keys();
        ignored_keys.extend(top.unread_keys());
        Ok(GenesisFile { spec, ignored_keys })
    }
}

/// The later chain ids: a list of objects with the first block and the id, in ascending order.
fn chain_id_changes(config: &mut GenesisFields) -> Result<Vec<ChainIdChange>, GenesisFileError> {
    const EXPECTED: &str = r#"a list of {"block": number, "chainId": number}, by ascending block"#;
    let key = "chainIdChanges";
    let read = |value: &Value| {
        let number = |value: &Value| u64::try_from(uint(value)?).ok();
        let change = |value: &Value| {
            let fields = value.as_object().filter(|fields| fields.len() == 2)?;
            Some(ChainIdChange {
                first_block: number(fields.get("block")?)?,
                chain_id: number(fields.get("chainId")?)?,
            })
        };
        let changes: Vec<_> = value.as_array()?.iter().map(change).collect::<Option<_>>()?;
        let ascends = changes.is_sorted_by(|one, next| one.first_block < next.first_block);
        ascends.then_some(changes)
    };
    Ok(config.take(key, EXPECTED, read)?.unwrap_or_default())
}

/// The lowest gas limit that blocks made here steer to. Genesis files have no key for it. It is a
/// choice of miners, not a rule, and holds for the ids of the public networks.
fn gas_target_min(chain_id: u64, is_moac: bool) -> u64 {
    let is_public = |public: ChainSpec| public.chain_id == chain_id;
    if is_moac && [ChainSpec::main(), ChainSpec::test()].into_iter().any(is_public) {
        GAS_LIMIT_FLOOR
    } else {
        GAS_LIMIT_MIN
    }
}

/// The forks of the public network's family. A key that is missing means block 0.
fn moac_forks(config: &mut GenesisFields) -> Result<ChainFamily, GenesisFileError> {
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
    // The public node does not know this key, so a file without it has the public network's price.
    let create2_by_word = config.number("create2PerWordBlock")?;
    let mut fork = |key| Ok(Some(config.number(key)?.unwrap_or(0)));
    Ok(ChainFamily::Moac(MoacForks {
        pangu: fork("panguBlock")?,
        nuwa: fork("nuwaBlock")?,
        fuxi: fork("fuxiBlock")?,
        precompiles: fork("enableFuxiPrecompiled")?,
        classic_transactions: fork("enableClassicTx")?,
        bomb_defused: fork("diffBombDefuseBlock")?,
        create2_by_word,
    }))
}

fn ethereum_forks(config: &mut GenesisFields) -> Result<ChainFamily, GenesisFileError> {
    let mut unsupported: Option<(String, u64)> = None;
    for key in UNSUPPORTED_FORKS {
        // A key without `Block` has a time or a total difficulty. 0 means active from block 0 on;
        // for any other value the first block is not known.
        let first_block = match key {
            key if key.ends_with("Block") => config.number(key)?,
            _ => config
                .map
                .remove(key)
                .map(|value| if value == 0 { 0 } else { u64::MAX }),
        };
        if let Some(block) = first_block
            && unsupported.as_ref().is_none_or(|(_, first)| block < *first)
        {
            unsupported = Some((key.to_owned(), block));
        }
    }
    config.map.remove("terminalTotalDifficultyPassed");
    config.map.remove("blobSchedule");
    config.map.remove("eip150Hash");
    let dao_support = config.boolean("daoForkSupport", false)?;
    Ok(ChainFamily::Ethereum(EthereumForks {
        homestead: config.number("homesteadBlock")?,
        dao: config.number("daoForkBlock")?,
        dao_support,
        eip150: config.number("eip150Block")?,
        eip155: config.number("eip155Block")?,
        eip158: config.number("eip158Block")?,
        byzantium: config.number("byzantiumBlock")?,
        constantinople: config.number("constantinopleBlock")?,
        petersburg: config.number("petersburgBlock")?,
        istanbul: config.number("istanbulBlock")?,
        muir_glacier: config.number("muirGlacierBlock")?,
        unsupported,
    }))
}

fn genesis(top: &mut GenesisFields, alloc: Option<&RawValue>) -> Result<Genesis, GenesisFileError> {
    let difficulty = top
        .uint("difficulty")?
        .ok_or_else(|| GenesisFileError::Missing("difficulty".to_owned()))?;
    let gas_limit = top
        .number("gasLimit")?
        .ok_or_else(|| GenesisFileError::Missing("gasLimit".to_owned()))?;
    let nonce = top.uint("nonce")?.unwrap_or_default();
    let pow_nonce = u64::try_from(nonce).map_err(|_| GenesisFileError::Value {
        key: "nonce".to_owned(),
        got: nonce.to_string(),
        expected: "a number of at most 8 bytes",
    })?;
    top.map.remove("number");
    Ok(Genesis {
        difficulty,
        gas_limit,
        gas_used: top.number("gasUsed")?.unwrap_or(0),
        timestamp: top.number("timestamp")?.unwrap_or(0),
        extra_data: top.bytes("extraData")?.unwrap_or_default(),
        beneficiary: top
            .fixed::<20>("coinbase")?
            .map(Address::from)
            .unwrap_or_default(),
        mix_hash: top.fixed::<32>("mixHash")?.map(B256::from).unwrap_or_default(),
        parent_hash: top.fixed::<32>("parentHash")?.map(B256::from).unwrap_or_default(),
        pow_nonce,
        alloc: alloc.map(accounts).transpose()?.unwrap_or_default(),
        state_root: top.fixed::<32>("stateRoot")?.map(B256::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::EthereumFork;

    fn read(text: &str) -> Result<GenesisFile, GenesisFileError> {
        ChainSpec::from_genesis_file("file", text)
    }

    #[test]
    fn files_of_both_families_are_read() {
        let text = r#"{"config": {"chainId": "0x63", "panguBlock": 0, "nuwaBlock": "0x0a", "fuxiBlock": "12",
            "ethash": {}, "strange": 1}, "difficulty": "0x0200", "gasLimit": 9000000, "nonce": "0x0000000000000042",
            "alloc": {"0000000000000000000000000000000000000001": {"balance": "1"},
                      "0x0000000000000000000000000000000000000002": {"balance": "0x02", "code": "0x6001",
                       "storage": {"0x00": "0x05", "1": "0x00"}, "nonce": "0x03"}}, "other": {}}"#;
        let file = read(text).unwrap();
        assert_eq!(file.spec.chain_id, 99);
        let ChainFamily::Moac(forks) = &file.spec.family else {
            panic!("expected the public network's family")
        };
        assert_eq!(
            (forks.nuwa, forks.fuxi, forks.precompiles),
            (Some(10), Some(12), Some(0)),
            "a fork that is left out is active from block 0 on"
        );
        assert_eq!(file.ignored_keys, ["config.strange", "other"]);
        let second = &file.spec.genesis.alloc[&Address::with_last_byte(2)];
        assert_eq!(
            (second.balance, second.tx_nonce, second.storage.len()),
            (U256::from(2), 3, 1)
        );

        let text = r#"{"config": {"chainId": 1, "homesteadBlock": 0, "eip150Block": 5, "londonBlock": 9,
            "shanghaiTime": 1000}, "difficulty": "131072", "gasLimit": "0x1388"}"#;
        let ChainFamily::Ethereum(forks) = read(text).unwrap().spec.family else {
            panic!("expected Ethereum's family")
        };
        assert_eq!(
            (forks.at(4), forks.at(5)),
            (EthereumFork::Homestead, EthereumFork::Eip150)
        );
        assert_eq!(forks.unsupported, Some(("londonBlock".to_owned(), 9)));
    }

    #[test]
    fn one_key_of_its_forks_makes_a_file_one_of_the_public_networks_family() {
        for key in MOAC_FORK_KEYS {
            let first = if key == "panguBlock" { 0 } else { 7 };
            let text = format!(r#"{{"config": {{"{key}": {first}}}, "difficulty": 1, "gasLimit": 1}}"#);
            let spec = read(&text).unwrap().spec;
            let ChainFamily::Moac(forks) = &spec.family else {
                panic!("{key}: expected the public network's family")
            };
            let all = [
                forks.pangu,
                forks.nuwa,
                forks.fuxi,
                forks.precompiles,
                forks.classic_transactions,
                forks.bomb_defused,
            ];
            let at_first = all.iter().filter(|fork| **fork == Some(first)).count();
            let at_0 = all.iter().filter(|fork| **fork == Some(0)).count();
            let expected = match key {
                "panguBlock" => (6, 6),
                // No block of the public network has this rule, so a key left out means never.
                "create2PerWordBlock" => (0, 6),
                _ => (1, 5),
            };
            assert_eq!((at_first, at_0), expected, "{key}");
            let priced_from = (key == "create2PerWordBlock").then_some(7);
            assert_eq!(forks.create2_by_word, priced_from, "{key}");
            assert!(spec.failed_calls_refund_gas && spec.system_contract);
        }
        // In Ethereum's family a fork that is left out is never active.
        let text = r#"{"config": {"homesteadBlock": 0}, "difficulty": 1, "gasLimit": 1}"#;
        let spec = read(text).unwrap().spec;
        let ChainFamily::Ethereum(forks) = &spec.family else {
            panic!("expected Ethereum's family")
        };
        assert_eq!(forks.at(u64::MAX), EthereumFork::Homestead);
        assert!(!spec.failed_calls_refund_gas && !spec.system_contract);
    }

    #[test]
    fn a_file_says_the_later_chain_ids() {
        let text = r#"{"config": {"chainId": 101, "panguBlock": 0, "removeEmptyAccount": false,
            "chainIdChanges": [{"block": "0x10", "chainId": 201}, {"block": 32, "chainId": "7"}]},
            "difficulty": 1, "gasLimit": 1}"#;
        let file = read(text).unwrap();
        assert_eq!(file.ignored_keys, [""; 0]);
        let ids = [0, 15, 16, 31, 32].map(|number| file.spec.chain_id_at(number));
        assert_eq!(ids, [101, 101, 201, 201, 7]);
    }

    #[test]
    fn the_chain_id_says_whether_there_is_a_list_of_senders_of_notices() {
        for (id, expected) in [(99, true), (188, true), (101, false), (100, false)] {
            let file = |key: &str| {
                let config = format!(r#"{{"chainId": {id}, "{key}": 0}}"#);
                let text = format!(r#"{{"config": {config}, "difficulty": 1, "gasLimit": 1}}"#);
                read(&text).unwrap().spec.notice_list
            };
            assert_eq!(file("panguBlock"), expected.then_some(NOTICE_LIST), "{id}");
            assert_eq!(file("homesteadBlock"), None, "{id}");
        }
    }

    #[test]
    fn errors_name_the_key_and_the_value() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("{\n\"a\":}", "line 2");
        check("{}", "difficulty is missing");
        check(
            r#"{"difficulty": "x"}"#,
            "difficulty: got \"x\", expected a number",
        );
        check(
            r#"{"difficulty": 1, "gasLimit": "0x1ffffffffffffffff"}"#,
            "gasLimit",
        );
        check(
            r#"{"difficulty": 1, "gasLimit": 1, "alloc": {"0x12": {}}}"#,
            "alloc.0x12",
        );
        check(
            r#"{"difficulty": 1, "gasLimit": 1, "alloc": []}"#,
            "alloc: got []",
        );
        check(
            r#"{"difficulty": 1, "gasLimit": 1, "config": {"panguBlock": 5}}"#,
            "config.panguBlock: got 5, expected 0",
        );
        for changes in [
            "1",
            r#"[{"block": 1}]"#,
            r#"[{"block": 1, "chainId": -1}]"#,
            r#"[{"block": 1, "chainId": 1, "more": 1}]"#,
            r#"[{"block": 2, "chainId": 1}, {"block": 2, "chainId": 5}]"#,
        ] {
            let config = format!(r#"{{"chainIdChanges": {changes}}}"#);
            let text = format!(r#"{{"difficulty": 1, "gasLimit": 1, "config": {config}}}"#);
            check(&text, "config.chainIdChanges");
        }
        let account = r#"{"difficulty": 1, "gasLimit": 1,
            "alloc": {"0x0000000000000000000000000000000000000002": {"code": "0x1"}}}"#;
        check(account, "alloc.0x0000000000000000000000000000000000000002.code");
    }
}
