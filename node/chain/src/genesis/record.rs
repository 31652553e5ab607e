//! The record of a data directory's network.
//!
//! The record is written with block 0. So a restart uses the same rules without the genesis file.
//! The stored text of the file has the state root in the place of the accounts, so that a start
//! does not read them. This module knows specs and the text of genesis files; it knows neither
//! files nor options.

use std::collections::BTreeMap;

use ethash::keccak256_long;
use primitives::{B256, hex};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::genesis::file::{GenesisFile, GenesisFileError};
use crate::spec::{ChainFamily, ChainIdChange, ChainSpec, ForkBlock, Rule};

/// The spec or the genesis file that a data directory was initialised with. It is stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum SpecRecord {
    /// A network whose rules are built in.
    #[serde(rename_all = "camelCase")]
    Network {
        /// The network's name, as [`ChainSpec::built_in`] takes it.
        name: String,
        /// Text of the genesis file with the accounts of block 0 or their state root, if they are
        /// not built in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        genesis_file: Option<String>,
        /// See [`Self::is_of_file`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_hash: Option<String>,
        /// For the development network: the first block with [`Rule::Eip1014`]. The
        /// records of older chains have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        create2_per_word_block: ForkBlock,
        /// For the development network: its id, if it is not the built-in one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain_id: Option<u64>,
        /// For the development network: the fork of Ethereum whose rules it has, if it has not
        /// those of the public network's family. See [`ChainSpec::dev_of_fork`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fork: Option<String>,
    },
    /// A network that is described by a genesis file alone.
    #[serde(rename_all = "camelCase")]
    File {
        /// The network's name in logs.
        name: String,
        /// Text of the genesis file, with the accounts or their state root.
        genesis_file: String,
        /// See [`Self::is_of_file`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_hash: Option<String>,
    },
}

/// The reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The stored bytes are not a record.
    #[error("the stored spec is not a record of this program: {0}")]
    Decode(#[from] serde_json::Error),
    /// There is no built-in network of this name.
    #[error("unknown network: got `{got}`, expected main, test, dev, classic or mordor")]
    UnknownNetwork {
        /// The name in the record.
        got: String,
    },
    /// The development network has no such fork.
    #[error("unknown fork: got `{got}`, expected one of Ethereum's for the development network")]
    UnknownFork {
        /// The name in the record.
        got: String,
    },
    /// The genesis file cannot be read.
    #[error("genesis file: {0}")]
    File(#[from] GenesisFileError),
}

impl SpecRecord {
    /// The record of the development network, whose rules and accounts are built in.
    pub fn dev() -> Self {
        Self::dev_with(None, None)
    }

    /// The record of a development network with another id, or with the rules of one of Ethereum's
    /// forks ([`ChainSpec::dev_of_fork`]).
    pub fn dev_with(chain_id: Option<u64>, fork: Option<&str>) -> Self {
        Self::Network {
            name: ChainSpec::dev().name,
            genesis_file: None,
            file_hash: None,
            create2_per_word_block: Some(0),
            chain_id,
            fork: fork.map(str::to_owned),
        }
    }

    /// The record of the built-in network `name`, whose block 0 is built in, too.
    pub fn built_in(name: &str) -> Self {
        Self::Network {
            name: name.to_owned(),
            genesis_file: None,
            file_hash: None,
            create2_per_word_block: None,
            chain_id: None,
            fork: None,
        }
    }

    /// The record of the built-in network `name`, whose block 0 is that of the text of a genesis
    /// file.
    pub fn network(name: &str, genesis_file: impl Into<String>) -> Self {
        Self::file(name, genesis_file).of_network(name)
    }

    /// The record of the network that the text of a genesis file describes.
    pub fn file(name: &str, genesis_file: impl Into<String>) -> Self {
        let genesis_file = genesis_file.into();
        Self::File {
            name: name.to_owned(),
            file_hash: Some(text_hash(genesis_file.as_bytes())),
            genesis_file,
        }
    }

    /// The record of a genesis file as that of the built-in network `network`.
    #[must_use]
    pub fn of_network(self, network: &str) -> Self {
        let Self::File {
            genesis_file,
            file_hash,
            ..
        } = self
        else {
            return self;
        };
        Self::Network {
            name: network.to_owned(),
            file_hash,
            genesis_file: Some(genesis_file),
            create2_per_word_block: None,
            chain_id: None,
            fork: None,
        }
    }

    /// Whether the record was made from a genesis file with exactly this text.
    pub fn is_of_file(&self, text: &[u8]) -> bool {
        let (Self::Network { file_hash, .. } | Self::File { file_hash, .. }) = self;
        file_hash.as_ref().is_some_and(|hash| *hash == text_hash(text))
    }

    /// The name of the built-in network that this is the record of, if any.
    pub fn network_name(&self) -> Option<&str> {
        match self {
            Self::Network { name, .. } => Some(name),
            Self::File { .. } => None,
        }
    }

    /// The record with the state root of block 0, if it is given, in the place of its accounts.
    ///
    /// # Errors
    /// [`RecordError::Decode`] if the text of the genesis file is not a JSON object.
    pub fn without_accounts(mut self, state_root: Option<B256>) -> Result<Self, RecordError> {
        let text = match &mut self {
            Self::Network { genesis_file, .. } => genesis_file.as_mut(),
            Self::File { genesis_file, .. } => Some(genesis_file),
        };
        if let Some(text) = text {
            let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(text)?;
            fields.remove("alloc");
            let state_root = state_root.map(|root| serde_json::value::to_raw_value(&root.to_string()));
            let state_root = state_root.transpose()?;
            if let Some(state_root) = &state_root {
                fields.insert("stateRoot", state_root);
            }
            *text = serde_json::to_string(&fields)?;
        }
        Ok(self)
    }

    /// The stored form of the record.
    ///
    /// # Errors
    /// [`RecordError::Decode`] if the record cannot be written as JSON. This does not happen for
    /// any text of a genesis file.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads a stored record.
    ///
    /// # Errors
    /// [`RecordError::Decode`] if the bytes are not a record.
    pub fn decode(row: &[u8]) -> Result<Self, RecordError> {
        Ok(serde_json::from_slice(row)?)
    }

    /// The spec, and the keys of the genesis file that are unknown.
    ///
    /// # Errors
    /// [`RecordError`] if the network's name is unknown or the genesis file cannot be read.
    pub fn spec(&self) -> Result<GenesisFile, RecordError> {
        match self {
            Self::Network {
                name,
                genesis_file,
                create2_per_word_block,
                chain_id,
                fork,
                ..
            } => {
                let mut spec = ChainSpec::built_in(name)
                    .ok_or_else(|| RecordError::UnknownNetwork { got: name.clone() })?;
                if let Some(fork) = fork {
                    spec = ChainSpec::dev_of_fork(fork)
                        .filter(|_| spec.developer)
                        .ok_or_else(|| RecordError::UnknownFork { got: fork.clone() })?;
                }
                if let Some(id) = chain_id {
                    (spec.chain_id, spec.network_id) = (*id, *id);
                }
                if spec.family == ChainFamily::Moac {
                    spec.rules.set(Rule::Eip1014, *create2_per_word_block);
                }
                let ignored_keys = match genesis_file {
                    Some(text) => {
                        let file = ChainSpec::from_genesis_file(name, text)?;
                        spec.genesis = file.spec.genesis;
                        file.ignored_keys
                    }
                    None => Vec::new(),
                };
                Ok(GenesisFile { spec, ignored_keys })
            }
            Self::File {
                name, genesis_file, ..
            } => Ok(ChainSpec::from_genesis_file(name, genesis_file)?),
        }
    }
}

/// The hash of a genesis file's text, in hex.
fn text_hash(text: &[u8]) -> String {
    hex::encode(keccak256_long(text))
}

impl ChainSpec {
    /// The built-in network of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        [
            Self::main(),
            Self::test(),
            Self::dev(),
            Self::classic(),
            Self::mordor(),
        ]
        .into_iter()
        .find(|spec| spec.name == name)
    }

    /// The first block for which this spec and another one have different rules; `None` if all
    /// rules are the same. Block 0 itself, names, network ids, the pool's price floor and the
    /// lowest gas target are not rules.
    pub fn differs_from(&self, other: &Self) -> Option<u64> {
        let constant = |spec: &Self| {
            (
                spec.chain_id,
                spec.family,
                spec.difficulty,
                spec.failed_calls_refund_gas,
                spec.system_contract,
                spec.notify_scs_always_exists,
                spec.notice_list,
                spec.application,
                spec.schedule,
            )
        };
        if constant(self) != constant(other) {
            return Some(0);
        }
        let ids = first_id_difference(&self.chain_id_changes, &other.chain_id_changes);
        let first = |spec: &Self, rule, differs: bool| spec.rules.first(rule).filter(|_| differs);
        let pauses = self.bomb_pause_blocks != other.bomb_pause_blocks;
        let eras = self.era_blocks != other.era_blocks;
        let unsupported = |spec: &Self| spec.unsupported.as_ref().map(|(_, first)| *first);
        let dao = |spec: &Self| spec.dao.map(|dao| dao.block);
        let either = |ours: Option<u64>, theirs: Option<u64>, differ: bool| {
            [ours, theirs].into_iter().flatten().min().filter(|_| differ)
        };
        [
            ids,
            self.rules.first_difference(&other.rules),
            first(self, Rule::Ecip1010, pauses),
            first(self, Rule::Ecip1017, eras),
            either(dao(self), dao(other), self.dao != other.dao),
            either(
                unsupported(self),
                unsupported(other),
                unsupported(self) != unsupported(other),
            ),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// The first block at which the later chain ids differ.
fn first_id_difference(ours: &[ChainIdChange], theirs: &[ChainIdChange]) -> Option<u64> {
    let common = ours
        .iter()
        .zip(theirs)
        .take_while(|(ours, theirs)| ours == theirs);
    let common = common.count();
    let next = [ours.get(common), theirs.get(common)];
    next.into_iter().flatten().map(|change| change.first_block).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"config": {"chainId": 7, "homesteadBlock": 0}, "difficulty": "0x20000", "gasLimit": 5000, "odd": 1}"#;

    #[test]
    fn records_round_trip_and_give_their_spec() {
        let records = [
            SpecRecord::dev(),
            SpecRecord::network("main", FILE),
            SpecRecord::file("mine", FILE),
        ];
        for record in &records {
            let row = record.encode().unwrap();
            assert_eq!(SpecRecord::decode(&row).unwrap(), *record);
        }
        let specs = records.map(|record| record.spec().unwrap());
        assert_eq!(specs[0].spec, ChainSpec::dev());
        assert_eq!(
            (specs[1].spec.chain_id, specs[1].spec.genesis.gas_limit),
            (99, 5000)
        );
        assert_eq!((specs[2].spec.chain_id, specs[2].spec.name.as_str()), (7, "mine"));
        assert_eq!(specs[2].ignored_keys, ["odd"]);
    }

    #[test]
    fn accounts_give_way_to_their_root_and_all_else_stays() {
        let text = FILE.replace(
            "\"odd\": 1",
            r#""alloc": {"0x0000000000000000000000000000000000000001": {"balance": "1"}}"#,
        );
        let record = SpecRecord::file("mine", text.as_str());
        let spec = record.spec().unwrap().spec;
        let root = crate::genesis::genesis_header(&spec).state_root;
        let short = record.clone().without_accounts(Some(root)).unwrap();
        assert!(short.is_of_file(text.as_bytes()) && record.is_of_file(text.as_bytes()));
        let mut expected = spec;
        expected.genesis.alloc.clear();
        expected.genesis.state_root = Some(root);
        assert_eq!(short.spec().unwrap().spec, expected);
        let again = short.clone().without_accounts(Some(root)).unwrap();
        assert_eq!(again, short);
        assert_eq!(
            SpecRecord::dev().without_accounts(Some(root)).unwrap(),
            SpecRecord::dev()
        );
        // Older chains of the development network keep their price of CREATE2.
        let old_dev = SpecRecord::decode(br#"{"network":{"name":"dev"}}"#).unwrap();
        let old_dev = old_dev.spec().unwrap().spec;
        assert_eq!(old_dev.differs_from(&ChainSpec::dev()), Some(0));
        let other = SpecRecord::dev_with(Some(31_337), Some("Shanghai"));
        assert_eq!(SpecRecord::decode(&other.encode().unwrap()).unwrap(), other);
        let other = other.spec().unwrap().spec;
        assert_eq!((other.chain_id, other.network_id), (31_337, 31_337));
        assert!(other.rules_at(0).has(Rule::Eip3855));
        let unknown = SpecRecord::dev_with(None, Some("Rope")).spec();
        assert!(matches!(unknown, Err(RecordError::UnknownFork { .. })));
        // Records of earlier versions have no hash of the file.
        let row = br#"{"file":{"name":"x","genesisFile":"{}"}}"#;
        assert!(!SpecRecord::decode(row).unwrap().is_of_file(b"{}"));
    }

    #[test]
    fn other_bytes_are_errors() {
        for bad in ["", "{}", r#"{"network":{}}"#, r#"{"file":{"name":"x"}}"#] {
            assert!(SpecRecord::decode(bad.as_bytes()).is_err(), "{bad}");
        }
        let unknown = SpecRecord::decode(br#"{"network":{"name":"rope"}}"#).unwrap();
        assert!(matches!(
            unknown.spec(),
            Err(RecordError::UnknownNetwork { got }) if got == "rope"
        ));
        let bad_file = SpecRecord::file("x", "{}");
        assert!(matches!(bad_file.spec(), Err(RecordError::File(_))));
    }

    #[test]
    fn rules_differ_from_their_first_fork_on() {
        let read = |forks: &str| {
            let text =
                format!(r#"{{"config": {{"chainId": 7, {forks}}}, "difficulty": 1, "gasLimit": 5000}}"#);
            ChainSpec::from_genesis_file("x", &text).unwrap().spec
        };
        let check = |ours: &str, theirs: &str, expected| {
            let (ours, theirs) = (read(ours), read(theirs));
            assert_eq!(ours.differs_from(&theirs), expected);
            assert_eq!(theirs.differs_from(&ours), expected);
        };
        check(r#""homesteadBlock": 0"#, r#""homesteadBlock": 0"#, None);
        check(
            r#""homesteadBlock": 0"#,
            r#""homesteadBlock": 0, "eip150Block": 9"#,
            Some(9),
        );
        check(
            r#""homesteadBlock": 5, "eip150Block": 9"#,
            r#""homesteadBlock": 7, "eip150Block": 8"#,
            Some(5),
        );
        check(
            r#""daoForkBlock": 5, "daoForkSupport": true"#,
            r#""daoForkBlock": 5"#,
            Some(5),
        );
        check(r#""panguBlock": 0"#, r#""homesteadBlock": 0"#, Some(0));
        check(r#""panguBlock": 0, "nuwaBlock": 0"#, r#""panguBlock": 0"#, None);
        check(
            r#""panguBlock": 0, "nuwaBlock": 4"#,
            r#""panguBlock": 0"#,
            Some(0),
        );
        check(
            r#""panguBlock": 0, "nuwaBlock": 4"#,
            r#""panguBlock": 0, "nuwaBlock": 5"#,
            Some(4),
        );
        check(
            r#""panguBlock": 0, "create2PerWordBlock": 9"#,
            r#""panguBlock": 0"#,
            Some(9),
        );
        let changes = |list: &str| format!(r#""homesteadBlock": 0, "chainIdChanges": [{list}]"#);
        let change = |block: u64, id: u64| format!(r#"{{"block": {block}, "chainId": {id}}}"#);
        check(&changes(""), r#""homesteadBlock": 0"#, None);
        check(&changes(&change(5, 6)), &changes(&change(5, 6)), None);
        check(&changes(&change(5, 6)), r#""homesteadBlock": 0"#, Some(5));
        check(&changes(&change(5, 6)), &changes(&change(7, 6)), Some(5));
        let two = format!("{}, {}", change(5, 6), change(9, 8));
        check(&changes(&two), &changes(&change(5, 6)), Some(9));
        let mut other = ChainSpec::dev();
        other.chain_id = 101;
        assert_eq!(ChainSpec::dev().differs_from(&other), Some(0));
        other = ChainSpec::dev();
        (other.network_id, other.name) = (5, "other".to_owned());
        assert_eq!(ChainSpec::dev().differs_from(&other), None);
    }
}
