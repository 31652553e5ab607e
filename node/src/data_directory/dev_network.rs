//! The development network that options describe, and how it fits to the one of a directory.

use std::path::Path;

use chain::ChainSpec;
use chain::genesis::GenesisError;
use chain::genesis::record::SpecRecord;

use super::{ChainNetwork, DataDirectoryError, RequestedNetwork, built_in_network, is_dev};
use crate::options::{DevFork, Network, OptionsError, VnodeOptions};

/// The development network that the options describe.
pub(super) fn dev_network(options: &VnodeOptions) -> Result<RequestedNetwork, DataDirectoryError> {
    let record = SpecRecord::dev_with(
        options
            .new_dev_chain_id()
            .filter(|id| *id != ChainSpec::dev().chain_id),
        options.dev_fork.map(DevFork::name),
    );
    let spec = record.spec().map_err(GenesisError::from)?.spec;
    Ok(RequestedNetwork {
        record: Some(record),
        spec,
        ..built_in_network(Network::Dev)
    })
}

/// Refuses options of the development network that do not fit the directory.
pub(super) fn check_dev_options(
    options: &VnodeOptions,
    ChainNetwork { record, spec }: &ChainNetwork,
    path: &Path,
) -> Result<(), DataDirectoryError> {
    let fork = options.dev_fork.map(|fork| ChainSpec::dev_of_fork(fork.name()));
    let checks = [
        (
            "--dev.chainid",
            options.dev_chainid.is_some(),
            options.dev_chainid != Some(spec.chain_id),
        ),
        (
            "--dev.fork",
            fork.is_some(),
            fork.flatten()
                .is_some_and(|fork| (fork.family, &fork.rules) != (spec.family, &spec.rules)),
        ),
    ];
    for (option, is_given, differs) in checks {
        if is_given && !is_dev(record) {
            return Err(OptionsError::SealNetwork(option).into());
        }
        if is_given && differs {
            return Err(DataDirectoryError::OtherDev {
                option,
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}
