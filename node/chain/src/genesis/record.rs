//! Which network a data directory is of, as the directory itself says.
//!
//! Written with block 0, so that a restart runs the same rules without the genesis file.
//! Knows specs and their text; knows neither files nor options.

use serde::{Deserialize, Serialize};

use crate::genesis::file::{GenesisFile, GenesisFileError};
use crate::spec::{ChainFamily, ChainSpec, EthereumForks, ForkBlock, MoacForks};

/// What a data directory was initialised with. Stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum SpecRecord {
    /// A network whose rules are built in.
    #[serde(rename_all = "camelCase")]
    Network {
        /// Its name: `main`, `test`, `dev`.
        name: String,
        /// Text of the genesis file with the accounts of block 0, where those are not built in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        genesis_file: Option<String>,
    },
    /// A network that a genesis file describes whole.
    #[serde(rename_all = "camelCase")]
    File {
        /// Its name in logs.
        name: String,
        /// Text of the genesis file.
        genesis_file: String,
    },
}

/// Why a record gives no spec.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No such record.
    #[error("the stored spec is no record of this program: {0}")]
    Decode(#[from] serde_json::Error),
    /// No network of that name.
    #[error("network `{got}`, want main, test or dev")]
    UnknownNetwork {
        /// The name.
        got: String,
    },
    /// The genesis file cannot be used.
    #[error("genesis file: {0}")]
    File(#[from] GenesisFileError),
}

impl SpecRecord {
    /// The record of a network whose rules and accounts are built in.
    pub fn dev() -> Self {
        Self::Network {
            name: ChainSpec::dev().name,
            genesis_file: None,
        }
    }

    /// The record as it is stored.
    ///
    /// # Errors
    /// [`RecordError::Decode`] should it not be expressible, which no text of a genesis file brings about.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads a stored record.
    ///
    /// # Errors
    /// [`RecordError::Decode`] when the bytes are no record.
    pub fn decode(row: &[u8]) -> Result<Self, RecordError> {
        Ok(serde_json::from_slice(row)?)
    }

    /// The spec, with the keys of the genesis file that were not understood.
    ///
    /// # Errors
    /// [`RecordError`] for an unknown name or an unusable file.
    pub fn spec(&self) -> Result<GenesisFile, RecordError> {
        match self {
            Self::Network { name, genesis_file } => {
                let mut spec = ChainSpec::built_in(name)
                    .ok_or_else(|| RecordError::UnknownNetwork { got: name.clone() })?;
                let mut ignored_keys = Vec::new();
                if let Some(text) = genesis_file {
                    let file = ChainSpec::from_genesis_file(name, text)?;
                    spec.genesis = file.spec.genesis;
                    ignored_keys = file.ignored_keys;
                }
                Ok(GenesisFile { spec, ignored_keys })
            }
            Self::File { name, genesis_file } => Ok(ChainSpec::from_genesis_file(name, genesis_file)?),
        }
    }
}

impl ChainSpec {
    /// The built-in network of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        [Self::main(), Self::test(), Self::dev()]
            .into_iter()
            .find(|spec| spec.name == name)
    }

    /// The first block for which this spec and another have different rules; `None` where they
    /// never have. Block 0 itself, names, network ids and what the pool takes are no rules.
    pub fn differs_from(&self, other: &Self) -> Option<u64> {
        let constant = |spec: &Self| {
            (
                spec.chain_id,
                spec.difficulty,
                spec.remove_empty_accounts,
                spec.failed_calls_refund_gas,
                spec.system_contract,
                spec.schedule,
                spec.gas_limit_min,
            )
        };
        if constant(self) != constant(other) {
            return Some(0);
        }
        match (&self.family, &other.family) {
            (ChainFamily::Moac(ours), ChainFamily::Moac(theirs)) => {
                first_difference(&moac(ours), &moac(theirs))
            }
            (ChainFamily::Ethereum(ours), ChainFamily::Ethereum(theirs)) => {
                let dao_differs = ours.dao_support != theirs.dao_support;
                let dao = ours.dao.min(theirs.dao).filter(|_| dao_differs);
                let forks = first_difference(&ethereum(ours), &ethereum(theirs));
                dao.into_iter().chain(forks).min()
            }
            _ => Some(0),
        }
    }
}

/// Forks that change something. Not to name Nuwa is to have it from block 0 on.
fn moac(forks: &MoacForks) -> [ForkBlock; 6] {
    let MoacForks {
        pangu,
        nuwa,
        fuxi,
        precompiles,
        classic_transactions,
        bomb_defused,
    } = forks;
    [
        *pangu,
        nuwa.or(Some(0)),
        *fuxi,
        *precompiles,
        *classic_transactions,
        *bomb_defused,
    ]
}

fn ethereum(forks: &EthereumForks) -> [ForkBlock; 11] {
    let EthereumForks {
        homestead,
        dao,
        dao_support: _,
        eip150,
        eip155,
        eip158,
        byzantium,
        constantinople,
        petersburg,
        istanbul,
        muir_glacier,
        unsupported,
    } = forks;
    [
        *homestead,
        *dao,
        *eip150,
        *eip155,
        *eip158,
        *byzantium,
        *constantinople,
        *petersburg,
        *istanbul,
        *muir_glacier,
        unsupported.as_ref().map(|(_, first)| *first),
    ]
}

fn first_difference(ours: &[ForkBlock], theirs: &[ForkBlock]) -> Option<u64> {
    let pairs = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
    pairs.flat_map(|(ours, theirs)| [*ours, *theirs]).flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"config": {"chainId": 7, "homesteadBlock": 0}, "difficulty": "0x20000", "gasLimit": 5000, "odd": 1}"#;

    #[test]
    fn records_round_trip_and_give_their_spec() {
        let records = [
            SpecRecord::dev(),
            SpecRecord::Network {
                name: "main".to_owned(),
                genesis_file: Some(FILE.to_owned()),
            },
            SpecRecord::File {
                name: "mine".to_owned(),
                genesis_file: FILE.to_owned(),
            },
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
    fn other_bytes_are_errors() {
        for bad in ["", "{}", r#"{"network":{}}"#, r#"{"file":{"name":"x"}}"#] {
            assert!(SpecRecord::decode(bad.as_bytes()).is_err(), "{bad}");
        }
        let unknown = SpecRecord::decode(br#"{"network":{"name":"rope"}}"#).unwrap();
        assert!(matches!(
            unknown.spec(),
            Err(RecordError::UnknownNetwork { got }) if got == "rope"
        ));
        let bad_file = SpecRecord::File {
            name: "x".to_owned(),
            genesis_file: "{}".to_owned(),
        };
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
        let mut other = ChainSpec::dev();
        other.chain_id = 101;
        assert_eq!(ChainSpec::dev().differs_from(&other), Some(0));
        other = ChainSpec::dev();
        (other.network_id, other.name) = (5, "other".to_owned());
        assert_eq!(ChainSpec::dev().differs_from(&other), None);
    }
}
