//! The checks of the base chain that the options ask for.

use std::path::PathBuf;

use chain::genesis::file::GenesisFileError;
use chain::spec::ChainSpec;
use daemon::is_loopback_host;
use scs_node::BaseChecks;

use super::options::{ScsProgramOptions, VerifyBase};

/// The reason why the base chain cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum BaseRulesError {
    /// The rules of the network are not built in.
    #[error(
        "--verify-base: chain id: got {0}, expected 99, 100 or 101, or --verify-base.genesis with the genesis file of the base chain"
    )]
    Unknown(u64),
    /// The genesis file is of another network.
    #[error("--verify-base.genesis {}: chain id: got {got}, expected {expected}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The chain id of the file.
        got: u64,
        /// The chain id of the settings.
        expected: u64,
    },
    /// The genesis file cannot be read.
    #[error("--verify-base.genesis {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The genesis file is wrong.
    #[error("--verify-base.genesis {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: GenesisFileError,
    },
}

/// The checks of a base chain with this chain id, of which the VNODE at `vnode` tells; `None` if it
/// is believed.
///
/// # Errors
/// [`BaseRulesError`] if the rules of the chain are not known.
pub(super) fn checks_of(
    options: &ScsProgramOptions,
    chain_id: u64,
    vnode: &str,
) -> Result<Option<BaseChecks>, BaseRulesError> {
    match options.verify_base {
        VerifyBase::Off => {
            if !is_loopback(vnode) {
                tracing::warn!(
                    vnode,
                    "this VNODE on another machine is believed in all that it tells of the base chain: --verify-base seals checks it"
                );
            }
            return Ok(None);
        }
        VerifyBase::Proofs => tracing::warn!(
            "--verify-base proofs: seals are not checked, so a VNODE can make up headers without work. This is for chains without seals"
        ),
        VerifyBase::Seals => {}
    }
    let spec = match &options.verify_base_genesis {
        Some(path) => spec_of_file(path.clone(), chain_id)?,
        None => match chain_id {
            99 => ChainSpec::main(),
            100 => ChainSpec::dev(),
            101 => ChainSpec::test(),
            other => return Err(BaseRulesError::Unknown(other)),
        },
    };
    Ok(Some(BaseChecks {
        spec,
        seals: options.verify_base == VerifyBase::Seals,
        checkpoint: options.verify_base_checkpoint,
    }))
}

/// The rules in a genesis file.
fn spec_of_file(path: PathBuf, expected: u64) -> Result<ChainSpec, BaseRulesError> {
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(BaseRulesError::Io { path, source }),
    };
    let name = path
        .file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    match ChainSpec::from_genesis_file(&name, &text) {
        Ok(file) if file.spec.chain_id == expected => Ok(file.spec),
        Ok(file) => Err(BaseRulesError::Other {
            path,
            got: file.spec.chain_id,
            expected,
        }),
        Err(error) => Err(BaseRulesError::File { path, error }),
    }
}

/// Whether `host:port` is on this machine.
fn is_loopback(vnode: &str) -> bool {
    is_loopback_host(vnode.rsplit_once(':').map_or(vnode, |(host, _)| host))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn checks(arguments: &[&str], chain_id: u64) -> Result<Option<BaseChecks>, BaseRulesError> {
        let options = ScsProgramOptions::parse_from([&["scs"], arguments].concat());
        checks_of(&options, chain_id, "localhost:50062")
    }

    #[test]
    fn the_options_say_what_is_checked() {
        assert!(checks(&[], 7).unwrap().is_none());
        let hash = format!("0x{}", "ab".repeat(32));
        let checkpoint = format!("--verify-base.checkpoint=1000={hash}");
        let seals = checks(&["--verify-base", "seals", &checkpoint], 101)
            .unwrap()
            .unwrap();
        assert!(seals.seals && seals.spec == ChainSpec::test());
        assert_eq!(seals.checkpoint.unwrap().to_string(), format!("1000={hash}"));
        let proofs = checks(&["--verify-base", "proofs"], 100).unwrap().unwrap();
        assert!(!proofs.seals && proofs.checkpoint.is_none());
        let error = checks(&["--verify-base", "seals"], 7).unwrap_err().to_string();
        assert!(
            error.contains("got 7") && error.contains("--verify-base.genesis"),
            "{error}"
        );
        let wrong = [
            "scs",
            "--verify-base",
            "seals",
            "--verify-base.checkpoint",
            "1000",
        ];
        let error = ScsProgramOptions::try_parse_from(wrong).unwrap_err().to_string();
        assert!(error.contains("NUMBER=HASH"), "{error}");
    }

    #[test]
    fn the_rules_of_other_chains_come_from_a_genesis_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("own.json");
        let with_file = |chain_id| {
            checks(
                &[
                    "--verify-base",
                    "seals",
                    "--verify-base.genesis",
                    path.to_str().unwrap(),
                ],
                chain_id,
            )
        };
        assert!(with_file(7).unwrap_err().to_string().contains("own.json"));
        std::fs::write(
            &path,
            r#"{"config": {"chainId": 7}, "difficulty": "0x200", "gasLimit": "0x895440", "alloc": {}}"#,
        )
        .unwrap();
        assert_eq!(with_file(7).unwrap().unwrap().spec.chain_id, 7);
        let error = with_file(8).unwrap_err().to_string();
        assert!(error.ends_with("chain id: got 7, expected 8"), "{error}");
    }

    #[test]
    fn vnodes_of_this_machine_are_known() {
        for vnode in ["localhost:50062", "127.0.0.1:1", "[::1]:1", "LOCALHOST:1"] {
            assert!(is_loopback(vnode), "{vnode}");
        }
        for vnode in ["vnode:50062", "192.0.2.1:1", "[2001:db8::1]:1"] {
            assert!(!is_loopback(vnode), "{vnode}");
        }
    }
}
