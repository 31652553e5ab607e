//! The base of a node: data directory, accounts, chain.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::chain::ChainOpenError;
use chain::rules::seal::SealCheck;
use chain::spec::DEV_ACCOUNTS;
use chain::{Chain, ChainConfig, ChainSpec};
use ethash::LightCaches;
use history::{AddressIndex, IndexBuilder};
use keystore::AccountManager;
use primitives::{Address, SecretKey};
use store::Store;

use super::error::StartError;
use crate::accounts;
use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::{DevSeal, IndexChoice, Network, OptionsError, VnodeOptions};
use crate::seals::SealChecker;

/// The base of a node.
pub(super) struct NodeBase {
    /// The options, with `dev` true for the development network, whether an option or the directory
    /// named it.
    pub(super) options: VnodeOptions,
    pub(super) directory: PathBuf,
    pub(super) spec: Arc<ChainSpec>,
    pub(super) seals: SealChecker,
    pub(super) accounts: AccountManager,
    /// The address that receives the rewards of mined blocks.
    pub(super) beneficiary: Option<Address>,
    pub(super) chain: Chain,
    /// The index by address, if the options ask for it.
    pub(super) index: Option<BuiltIndex>,
}

/// The index by address, and the thread that builds it.
pub(super) struct BuiltIndex {
    pub(super) index: Arc<AddressIndex>,
    pub(super) builder: IndexBuilder,
}

impl BuiltIndex {
    fn start(chain: &Chain, directory: &Path) -> Result<Self, StartError> {
        let view = chain.view()?;
        view.require_state(0).map_err(StartError::IndexStates)?;
        let genesis = view.canonical_hash(0)?.unwrap_or_default();
        let index = Arc::new(AddressIndex::open(directory, genesis)?);
        let builder =
            IndexBuilder::start(chain.clone(), Arc::clone(&index)).map_err(StartError::IndexThread)?;
        Ok(Self { index, builder })
    }
}

impl NodeBase {
    /// Opens all of it. The light cache takes longest, so it starts first.
    pub(super) fn open(options: VnodeOptions) -> Result<Self, StartError> {
        let seals = SealChecker::new(&options, LightCaches::new())?;
        if options.network()? == Some(Network::Dev) && options.dev_seal == DevSeal::Ethash && options.mine {
            // Here its epoch is known before the directory is open.
            seals.prepare(ChainSpec::dev().schedule.epoch(0));
        }
        let DataDirectory {
            path: directory,
            store,
            spec,
            dev,
        } = DataDirectory::open(&options, OpenPurpose::Run)?;
        let options = VnodeOptions { dev, ..options };
        if options.dev_seal == DevSeal::Instant && !dev {
            let option = if options.dev_anvil {
                "--dev.anvil"
            } else {
                "--dev.seal instant"
            };
            return Err(OptionsError::SealNetwork(option).into());
        }
        let accounts = open_accounts(&options, &directory)?;
        let beneficiary = beneficiary(&options, &accounts, &spec)?;
        let chain = open_chain(&options, &spec, &seals, store, &directory, &accounts, beneficiary)?;
        let index = match options.index {
            Some(IndexChoice::Address) => Some(BuiltIndex::start(&chain, &directory)?),
            None => None,
        };
        Ok(Self {
            options,
            directory,
            spec,
            seals,
            accounts,
            beneficiary,
            chain,
            index,
        })
    }
}

/// Opens the accounts and unlocks those that the options name.
fn open_accounts(options: &VnodeOptions, directory: &Path) -> Result<AccountManager, StartError> {
    let (accounts, warnings) = accounts::open(options, directory)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if options.dev {
        add_dev_accounts(&accounts);
    }
    accounts::unlock(options, &accounts)?;
    Ok(accounts)
}

/// Adds the development network's accounts, unlocked.
fn add_dev_accounts(accounts: &AccountManager) {
    for (_, key) in DEV_ACCOUNTS {
        accounts.add_unlocked(SecretKey::from_hex(key).expect("a constant, checked by a test of `chain`"));
    }
}

/// The address that receives the rewards of mined blocks: `--moacbase`, or the first account if
/// there is one.
fn beneficiary(
    options: &VnodeOptions,
    accounts: &AccountManager,
    spec: &ChainSpec,
) -> Result<Option<Address>, OptionsError> {
    let first = || accounts.accounts().first().map(|account| account.address);
    let beneficiary = match options.moacbase {
        Some(address) => Some(address),
        None if options.dev => Some(DEV_ACCOUNTS[0].0),
        None => first(),
    };
    match beneficiary {
        None if options.mine => Err(OptionsError::NoBeneficiary(spec.name.clone())),
        None => {
            tracing::warn!("blocks that other miners find pay nobody: give --moacbase ADDRESS");
            Ok(None)
        }
        some => Ok(some),
    }
}

fn open_chain(
    options: &VnodeOptions,
    spec: &Arc<ChainSpec>,
    seals: &SealChecker,
    store: Store,
    directory: &Path,
    accounts: &AccountManager,
    beneficiary: Option<Address>,
) -> Result<Chain, ChainOpenError> {
    let chain = Chain::open(
        store,
        ChainConfig {
            spec: spec.clone(),
            seals: match options.dev_seal {
                DevSeal::Ethash => seals.check(),
                DevSeal::Instant => SealCheck::Off,
            },
            forks: options.fork_limits(),
            pool: options
                .txpool
                .config(spec, directory, accounts, options.mine, options.gasprice),
            beneficiary: beneficiary.unwrap_or_default(),
            extra_data: options.extra_data().into(),
            states: options.state.unwrap_or_default(),
        },
    )?;
    let next = chain.view()?.head_number() + 1;
    // A development network may never have a seal to check.
    if options.dev_seal == DevSeal::Ethash && (options.mine || !spec.developer) {
        seals.prepare(spec.schedule.epoch(next));
    }
    chain.change_settings(|settings| settings.gas_target = options.targetgaslimit);
    Ok(chain)
}
