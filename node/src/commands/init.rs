//! `vnode init`: writes block 0 of a genesis file, and of which network the directory is.

use std::path::Path;

use chain::genesis::record::RecordError;
use chain::genesis::{GenesisError, checked_genesis_header, initialise};

use super::directory::{Asked, DirectoryError, open_store, read_genesis};
use super::{CommandError, say};
use crate::options::{Network, OptionsError, VnodeOptions};

/// Makes the data directory one of the network that `file` describes.
pub(super) fn run(options: &VnodeOptions, file: &Path) -> Result<(), CommandError> {
    let network = options.network()?;
    if network == Some(Network::Dev) {
        return Err(OptionsError::DevGenesis(file.to_owned()).into());
    }
    if let Some(other) = &options.genesis {
        return Err(OptionsError::TwoGenesisFiles(file.to_owned(), other.clone()).into());
    }
    let Asked { record, spec, .. } = read_genesis(network, file)?;
    // Before the directory is made: a file that is refused leaves nothing behind.
    checked_genesis_header(&spec).map_err(DirectoryError::from)?;
    let record = record.ok_or_else(|| {
        let name = spec.name.clone();
        DirectoryError::from(GenesisError::from(RecordError::UnknownNetwork { got: name }))
    })?;
    let (path, store) = open_store(options, &options.data_directory()?)?;
    let done = initialise(&store, &spec, &record).map_err(DirectoryError::from)?;
    let word = if done.fresh { "" } else { " (it was so before)" };
    say(&format!(
        "network    {} (network id {}, chain id {}){word}",
        spec.name, spec.network_id, spec.chain_id
    ));
    say(&format!("data       {}", path.display()));
    say(&format!("genesis    {}", done.hash));
    say(&format!("state root {}", done.state_root));
    Ok(())
}
