//! The object `config` of a genesis file, made from a spec: the reverse of `file_rules`, for
//! networks of Ethereum's family.
//!
//! A chain whose rules begin fork by fork, as Ethereum's do, has geth's form. Any other has
//! core-geth's form, which names single rules.

use ethash::Schedule;
use primitives::B256;
use serde_json::{Map, Value, json};

use crate::genesis::file_rules::RULE_KEYS;
use crate::spec::{ChainSpec, ETHEREUM_FORKS, ForkBlock, Rule, RuleTable};

/// The rules of a chain of Ethereum's family, as geth shows them (`admin_nodeInfo`).
pub fn chain_config(spec: &ChainSpec) -> Value {
    let first_blocks = ETHEREUM_FORKS.map(|fork| all_active_from(&spec.rules, fork.rules));
    let mut config = Map::new();
    config.insert("chainId".to_owned(), json!(spec.chain_id));
    if RuleTable::ethereum(first_blocks) == spec.rules {
        add_forks(&mut config, spec, &first_blocks);
    } else {
        add_rules(&mut config, spec);
    }
    if let Some((key, first)) = &spec.unsupported
        && key.ends_with("Block")
    {
        config.insert(key.clone(), json!(first));
    }
    if let Schedule::Etchash { fork_block } = spec.schedule {
        config.insert("ecip1099FBlock".to_owned(), json!(fork_block));
    }
    config.insert("ethash".to_owned(), json!({}));
    Value::Object(config)
}

/// The block from which on all of these rules are active; `None` if one never is.
fn all_active_from(table: &RuleTable, rules: &[Rule]) -> ForkBlock {
    let firsts: Option<Vec<_>> = rules.iter().map(|rule| table.first(*rule)).collect();
    firsts?.into_iter().max()
}

/// Adds the keys of forks, in geth's form.
fn add_forks(
    config: &mut Map<String, Value>,
    spec: &ChainSpec,
    first_blocks: &[ForkBlock; ETHEREUM_FORKS.len()],
) {
    for (fork, first) in ETHEREUM_FORKS.iter().zip(first_blocks) {
        if let (Some(key), Some(first)) = (fork.key, first) {
            config.insert(key.to_owned(), json!(first));
        }
    }
    // geth writes it even if no hash is demanded.
    config.insert("eip150Hash".to_owned(), json!(B256::ZERO.to_string()));
    if let Some(dao) = spec.dao {
        config.insert("daoForkBlock".to_owned(), json!(dao.block));
        if dao.support {
            config.insert("daoForkSupport".to_owned(), json!(true));
        }
    }
}

/// Adds the keys of single rules, in core-geth's form.
fn add_rules(config: &mut Map<String, Value>, spec: &ChainSpec) {
    config.insert("networkId".to_owned(), json!(spec.network_id));
    for (at, (key, rule)) in RULE_KEYS.iter().enumerate() {
        // Some rules have a second key, for older files.
        let is_second = RULE_KEYS[..at].iter().any(|(_, earlier)| earlier == rule);
        if let Some(first) = spec.rules.first(*rule).filter(|_| !is_second) {
            config.insert((*key).to_owned(), json!(first));
        }
    }
    if spec.rules.first(Rule::Ecip1010).is_some() {
        config.insert("ecip1010Length".to_owned(), json!(spec.bomb_pause_blocks));
    }
    if spec.rules.first(Rule::Ecip1017).is_some() {
        config.insert("ecip1017EraRounds".to_owned(), json!(spec.era_blocks));
    }
    if let Some(dao) = spec.dao {
        config.insert("daoForkBlock".to_owned(), json!(dao.block));
    }
    if !spec.required_hashes.is_empty() {
        let hashes = spec.required_hashes.iter();
        let hashes: Map<_, _> = hashes
            .map(|(number, hash)| (number.to_string(), json!(hash.to_string())))
            .collect();
        config.insert("requireBlockHashes".to_owned(), Value::Object(hashes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the object again and compares what it says about rules.
    fn check(spec: &ChainSpec) -> Value {
        let config = chain_config(spec);
        let text = json!({"config": config, "difficulty": 1, "gasLimit": 1}).to_string();
        let file = ChainSpec::from_genesis_file("again", &text).expect(&text);
        assert_eq!(file.ignored_keys, [] as [String; 0], "{text}");
        let facts = |spec: &ChainSpec| {
            (
                (spec.chain_id, spec.family, spec.dao, spec.unsupported.clone()),
                (spec.rules.clone(), spec.schedule, spec.bomb_pause_blocks),
                spec.required_hashes.clone(),
            )
        };
        assert_eq!(facts(&file.spec), facts(spec), "{text}");
        config
    }

    #[test]
    fn public_networks_have_core_geths_form() {
        let classic = check(&ChainSpec::classic());
        assert_eq!(classic["eip2FBlock"], 1_150_000);
        assert_eq!(classic["eip160Block"], 3_000_000);
        assert_eq!(classic["ecip1099FBlock"], 11_700_000);
        assert_eq!(classic["ecip1017EraRounds"], 5_000_000);
        let mordor = check(&ChainSpec::mordor());
        assert_eq!(
            (&mordor["networkId"], &mordor["chainId"]),
            (&json!(7), &json!(63))
        );
    }

    #[test]
    fn files_of_geth_come_back() {
        let text = r#"{"config": {"chainId": 4711, "homesteadBlock": 0, "daoForkBlock": 5, "daoForkSupport": true,
            "eip150Block": 2, "eip155Block": 3, "eip158Block": 3, "byzantiumBlock": 4, "constantinopleBlock": 6,
            "petersburgBlock": 6, "istanbulBlock": 7, "muirGlacierBlock": 8, "berlinBlock": 9, "londonBlock": 90,
            "eip150Hash": "0x0000000000000000000000000000000000000000000000000000000000000000", "ethash": {}},
            "difficulty": 1, "gasLimit": 1}"#;
        let file = ChainSpec::from_genesis_file("file", text).expect("a genesis file");
        let written: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(check(&file.spec), written["config"]);
        let short = r#"{"config": {"chainId": 1, "byzantiumBlock": 4}, "difficulty": 1, "gasLimit": 1}"#;
        let file = ChainSpec::from_genesis_file("file", short).expect("a genesis file");
        assert_eq!(
            check(&file.spec)["homesteadBlock"],
            4,
            "what a later fork implies"
        );
    }
}
