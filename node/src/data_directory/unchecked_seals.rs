//! `--fakepow`: on which networks seals may go unchecked, and the mark of directories where they
//! did.

use std::path::Path;

use chain::ChainSpec;
use store::{Source, Store, TableId, meta_key};

use super::{ChainNetwork, DataDirectoryError, is_dev};
use crate::options::{OptionsError, VnodeOptions};

/// Refuses `--fakepow` on a public network. Marks a directory that is used with it, and refuses a
/// directory with the mark without it, so that nobody takes its blocks for sealed ones.
pub(super) fn check_seals_option(
    options: &VnodeOptions,
    store: &Store,
    ChainNetwork { record, spec }: &ChainNetwork,
    path: &Path,
) -> Result<(), DataDirectoryError> {
    let is_marked = store
        .snapshot()?
        .get(TableId::Meta, meta_key::SEALS_UNCHECKED)?
        .is_some();
    if !options.fakepow {
        return match is_marked {
            true => Err(DataDirectoryError::SealsUnchecked {
                path: path.to_owned(),
            }),
            false => Ok(()),
        };
    }
    let is_built_in = record.network_name().is_some();
    if !is_dev(record) && (is_built_in || has_public_start(spec)) {
        return Err(OptionsError::FakePowNetwork(spec.name.clone()).into());
    }
    tracing::warn!(
        "--fakepow: the seals of blocks are not checked, so anybody can make blocks without work; use it for tests only"
    );
    if !is_marked && !is_dev(record) {
        let batch = store.batch()?;
        batch.write(|tables| tables.put(TableId::Meta, meta_key::SEALS_UNCHECKED, &[]))?;
        batch.commit()?;
    }
    Ok(())
}

/// Whether `spec` has the block 0 of a public network, whatever its later rules are. Ethereum has
/// that of Ethereum Classic.
fn has_public_start(spec: &ChainSpec) -> bool {
    let publics = [
        ChainSpec::main(),
        ChainSpec::test(),
        ChainSpec::classic(),
        ChainSpec::mordor(),
    ];
    publics
        .iter()
        .any(|public| public.genesis_hash == spec.genesis_hash)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::data_directory::{DataDirectory, OpenPurpose};

    #[test]
    fn a_directory_remembers_that_its_seals_were_not_checked() {
        let home = tempfile::tempdir().expect("a folder");
        let genesis = home.path().join("genesis.json");
        let text =
            r#"{"config": {"chainId": 1}, "difficulty": "0x20000", "gasLimit": "0x2fefd8", "alloc": {}}"#;
        std::fs::write(&genesis, text).expect("a file");
        let open = |folder: &str, arguments: &[&str], purpose| {
            let folder = home.path().join(folder);
            let data = ["vnode", "--datadir", folder.to_str().expect("text")];
            let options = VnodeOptions::parse_from(data.iter().chain(arguments));
            DataDirectory::open(&options, purpose)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        let own = ["--genesis", genesis.to_str().expect("text")];
        let run = OpenPurpose::Run;
        assert_eq!(open("own", &own, run), Ok(()));
        assert_eq!(open("own", &["--fakepow"], run), Ok(()));
        assert_eq!(open("own", &["--fakepow"], run), Ok(()));
        let error = open("own", &[], run).expect_err("its blocks may have wrong seals");
        assert!(error.contains("was used with --fakepow"), "{error}");
        assert_eq!(
            open("own", &[], OpenPurpose::Read),
            Ok(()),
            "reading does no harm"
        );
        // The development network's blocks are worth nothing.
        assert_eq!(open("dev", &["--dev", "--fakepow"], run), Ok(()));
        assert_eq!(open("dev", &["--dev"], run), Ok(()));
        // The directory names its network, too.
        assert_eq!(open("mordor", &["--network", "mordor"], run), Ok(()));
        let error = open("mordor", &["--fakepow"], run).expect_err("a public network");
        assert!(
            error.contains("--fakepow is for networks of one's own: got mordor"),
            "{error}"
        );
        assert_eq!(open("mordor", &[], run), Ok(()), "it has no mark");
    }
}
