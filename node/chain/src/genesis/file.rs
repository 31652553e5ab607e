//! Makes a [`ChainSpec`] from a genesis file, which is JSON in the form of geth or of core-geth.
//!
//! The rules in the file are read by `file_rules`. Numbers are hex with or without leading zeros,
//! decimal strings, or JSON numbers; addresses may begin with 0x. Unknown keys are ignored and
//! returned, so that the caller can warn.
//!
//! This module, `config` and [`record`](crate::genesis::record) are the only ones of this package
//! that know JSON. They are here because the store keeps the text of the genesis file, and a node
//! reads its rules from there at every start.

use std::collections::BTreeMap;

use primitives::{Address, B256, U256};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::genesis::file_accounts::accounts;
pub use crate::genesis::file_fields::GenesisFileError;
use crate::genesis::file_fields::{GenesisFields, uint};
use crate::genesis::file_rules::rules;
use crate::spec::{
    ChainFamily, ChainIdChange, ChainSpec, DifficultyRule, GAS_LIMIT_FLOOR, GAS_LIMIT_MIN, Genesis,
    NOTICE_LIST, NOTICE_LIST_CHAINS,
};

/// The content of a genesis file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisFile {
    /// The spec.
    pub spec: ChainSpec,
    /// The paths of the keys that were ignored because they are unknown.
    pub ignored_keys: Vec<String>,
}

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
        let rules = rules(&mut config)?;
        config.map.remove("ethash");
        let genesis = genesis(&mut top, alloc)?;
        let is_moac = rules.family == ChainFamily::Moac;
        let spec = Self {
            name: name.to_owned(),
            chain_id,
            chain_id_changes,
            network_id: rules.network_id.unwrap_or(chain_id),
            difficulty: if is_moac {
                DifficultyRule::Moac
            } else {
                DifficultyRule::Ethereum
            },
            family: rules.family,
            rules: rules.table,
            dao: rules.dao,
            unsupported: rules.unsupported,
            bomb_pause_blocks: rules.bomb_pause_blocks,
            era_blocks: rules.era_blocks,
            required_hashes: rules.required_hashes,
            failed_calls_refund_gas: is_moac,
            system_contract: is_moac,
            notify_scs_always_exists: false,
            developer: false,
            notice_list: (is_moac && NOTICE_LIST_CHAINS.contains(&chain_id)).then_some(NOTICE_LIST),
            application: None,
            schedule: rules.schedule,
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

    fn read(text: &str) -> Result<GenesisFile, GenesisFileError> {
        ChainSpec::from_genesis_file("file", text)
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
    fn of_an_account_that_comes_twice_the_last_one_counts() {
        let address = Address::with_last_byte(1);
        let digits = format!("{address:#x}");
        let account = |key: &str, balance: u8| format!(r#""{key}": {{"balance": "{balance}"}}"#);
        let alloc = [account(&digits, 5), account(&digits[2..], 6)].join(", ");
        let file = read(&format!(
            r#"{{"difficulty": 1, "gasLimit": 1, "alloc": {{{alloc}}}}}"#
        ));
        let alloc = file.unwrap().spec.genesis.alloc;
        assert_eq!((alloc.len(), alloc[&address].balance), (1, U256::from(6)));
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
        let address = "0000000000000000000000000000000000000003";
        for (account, expected) in [
            ("7", ": got 7, expected an object"),
            (r#"{"nonce": "-1"}"#, ".nonce: got \"-1\""),
            (r#"{"storage": {"0x1": "y"}}"#, ".storage.0x1: got \"y\""),
        ] {
            let text = format!(r#"{{"difficulty": 1, "gasLimit": 1, "alloc": {{"{address}": {account}}}}}"#);
            check(&text, &format!("alloc.{address}{expected}"));
        }
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
