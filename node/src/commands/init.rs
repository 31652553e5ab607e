//! `vnode init`: writes block 0 of a genesis file and the record of its network.

use std::path::Path;

use chain::genesis::record::RecordError;
use chain::genesis::{GenesisError, check_genesis, initialise};

use super::error::CommandError;
use crate::data_directory::{DataDirectoryError, RequestedNetwork, open_store, read_genesis};
use crate::options::{Network, OptionsError, VnodeOptions};
use crate::output::print_line;

/// The most memory for pages of the database, in MiB. Nearly all rows of block 0 are written in the
/// order of their keys, so more gains nothing.
const CACHE_MIB_MAX: usize = 32;

/// Initialises the data directory for the network that the genesis file `file` describes.
pub(super) fn run(options: &VnodeOptions, file: &Path) -> Result<(), CommandError> {
    let network = options.network()?;
    if network == Some(Network::Dev) {
        return Err(OptionsError::DevGenesis(file.to_owned()).into());
    }
    if let Some(other) = &options.genesis {
        return Err(OptionsError::TwoGenesisFiles(file.to_owned(), other.clone()).into());
    }
    let RequestedNetwork { record, spec, .. } = read_genesis(network, file)?;
    // The file is checked before the directory is created, so a bad file leaves no directory
    // behind.
    check_genesis(&spec).map_err(DataDirectoryError::from)?;
    let record = record.ok_or_else(|| {
        let name = spec.name.clone();
        DataDirectoryError::from(GenesisError::from(RecordError::UnknownNetwork { got: name }))
    })?;
    let options = VnodeOptions {
        cache: options.cache.min(CACHE_MIB_MAX),
        ..options.clone()
    };
    let (path, store) = open_store(&options, &options.data_directory()?)?;
    let done = initialise(&store, &spec, &record).map_err(DataDirectoryError::from)?;
    let note = if done.fresh {
        ""
    } else {
        " (it was initialised before)"
    };
    print_line(&format!(
        "network    {} (network id {}, chain id {}){note}",
        spec.name, spec.network_id, spec.chain_id
    ));
    print_line(&format!("data       {}", path.display()));
    print_line(&format!("genesis    {}", done.hash));
    print_line(&format!("state root {}", done.state_root));
    Ok(())
}
