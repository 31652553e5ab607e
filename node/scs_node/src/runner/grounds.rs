//! The grounds on which an SCS serves a MicroChain, and the number of those that it serves.
//!
//! Any contract can say that an SCS is its member, monitor or backup. So an engine is opened only
//! for a chain base
//!
//! - that the operator has named, or
//! - with which this SCS has registered; the data directory keeps the list, or
//! - whose folder has a block or a vote that this SCS has signed. So an SCS whose list was lost
//!   goes on.
//!
//! There are at most as many engines as `Capability` says, also after a start. MicroChains where
//! this SCS has no work any more do not count: they stay readable, as many of them again, and then
//! one of them is closed.

use microchain::contract::{ContractRole, ContractStatus};
use microchain::{ContractState, EngineOptions, MemberEngine, MicroChainSetup};
use primitives::Address;

use super::{EngineStartError, Followed, Runner, ScsRunnerError};
use crate::worker::EngineHandle;

/// Chain bases with which the SCS has registered that are remembered. If there are more, the oldest
/// one that has no engine is forgotten.
const REGISTERED_MAX: usize = 1024;
/// Chain bases of strangers that were told in the log.
const STRANGERS_TOLD_MAX: usize = 256;
/// Memory for the cached pages of all stores together, at least as long as each engine has
/// [`ENGINE_CACHE_BYTES_MIN`].
const CACHE_BYTES: usize = 160 << 20;
/// Least and most memory for the cached pages of one store.
const ENGINE_CACHE_BYTES_MIN: usize = 1 << 20;
const ENGINE_CACHE_BYTES_MAX: usize = microchain::event::CACHE_BYTES_DEFAULT;

/// The reason why a MicroChain is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotServed {
    /// The SCS and its operator know nothing of it.
    #[error("this SCS has neither registered there nor signed anything, and --chains does not name it")]
    Stranger,
    /// There are enough.
    #[error("MicroChains: got {0} already, expected fewer than {0} (Capability)")]
    Full(usize),
}

impl Runner {
    /// The number of MicroChains with an engine that has work.
    pub(super) fn engine_count(&self) -> usize {
        self.engines(false)
    }

    fn engines(&self, is_over: bool) -> usize {
        let is_such = |one: &&Followed| one.engine.is_some() && one.is_over == is_over;
        self.followed.values().filter(is_such).count()
    }

    /// Notes whether this SCS has work in a MicroChain that has an engine.
    pub(super) fn note_over(&mut self, chain: &Address, state: &ContractState) {
        let has_no_role = matches!(state.role, ContractRole::None | ContractRole::Selectable);
        let is_over = has_no_role || state.status == ContractStatus::Closed;
        let Some(followed) = self.followed.get_mut(chain) else {
            return;
        };
        if followed.engine.is_none() || followed.is_over == is_over {
            return;
        }
        followed.is_over = is_over;
        self.served.set_over(chain, is_over);
        tracing::info!(%chain, is_over, "the work of this SCS in a MicroChain has ended or begun");
        if let Err(error) = self.folders.set_over(chain, is_over) {
            tracing::error!(%chain, %error, "the end of a MicroChain was not written");
        }
        self.close_excess();
    }

    /// Closes MicroChains without work, if there are too many.
    fn close_excess(&mut self) {
        while self.engines(true) > self.config.capability {
            let has_ended = |one: &Followed| one.engine.is_some() && one.is_over;
            let Some(chain) = self
                .followed
                .iter()
                .find(|(_, one)| has_ended(one))
                .map(|(chain, _)| *chain)
            else {
                return;
            };
            tracing::info!(%chain, "a MicroChain that has ended is not served any more; its folder stays");
            self.served.remove(&chain);
            self.followed.remove(&chain);
            self.keep_followed();
        }
    }

    /// Whether an engine may be opened for a chain base that gives this SCS a role.
    pub(super) fn may_serve(&self, chain: &Address) -> Result<(), NotServed> {
        let max = self.config.capability;
        match self.is_wanted(chain) {
            false => Err(NotServed::Stranger),
            true if self.engine_count() >= max => Err(NotServed::Full(max)),
            true => Ok(()),
        }
    }

    /// Whether the operator or this SCS wants to serve a MicroChain.
    pub(super) fn is_wanted(&self, chain: &Address) -> bool {
        self.config.chains.contains(chain) || self.registered.contains(chain)
    }

    /// Remembers that this SCS registers with a chain base. Returns whether the list is on the
    /// disk: without it, the SCS would not serve the MicroChain after a restart.
    pub(super) fn note_registration(&mut self, chain: Address) -> bool {
        if self.registered.contains(&chain) {
            return true;
        }
        let mut registered = self.registered.clone();
        if registered.len() >= REGISTERED_MAX {
            let has_engine =
                |chain: &Address| self.followed.get(chain).is_some_and(|one| one.engine.is_some());
            let oldest = registered.iter().position(|chain| !has_engine(chain));
            registered.remove(oldest.unwrap_or_default());
        }
        registered.push(chain);
        if let Err(error) = self.folders.keep_registered(&registered) {
            tracing::error!(%chain, %error, "not registered: the list of registrations was not written");
            return false;
        }
        self.registered = registered;
        true
    }

    /// Says once in the log that a chain base of a stranger is not followed.
    pub(super) fn tell_stranger(&mut self, chain: Address) {
        if self.strangers_told.len() < STRANGERS_TOLD_MAX && self.strangers_told.insert(chain) {
            let reason = NotServed::Stranger;
            tracing::warn!(%chain, %reason, "a contract gives this SCS a role, and is not followed");
        }
    }

    /// Opens the MicroChains of the data directory that are to be served: first those that the
    /// operator names, then those with a registration, then those where something was signed.
    pub(super) fn open_folders(&mut self, mut setups: Vec<MicroChainSetup>) -> Result<(), ScsRunnerError> {
        setups.sort_by_key(|setup| {
            let chain = &setup.address;
            (
                !self.config.chains.contains(chain),
                !self.registered.contains(chain),
            )
        });
        for setup in setups {
            let chain = setup.address;
            let is_over = self.folders.is_over(&chain);
            if self.engines(is_over) >= self.config.capability {
                let reason = NotServed::Full(self.config.capability);
                tracing::error!(%chain, %reason, "a MicroChain of the data directory is not served");
                continue;
            }
            let opened = self.open_folder(setup);
            let Some(engine) = opened.map_err(|error| ScsRunnerError::Engine { chain, error })? else {
                let (reason, folder) = (NotServed::Stranger, self.folders.folder(&chain));
                tracing::warn!(
                    %chain, %reason, folder = %folder.display(),
                    "a MicroChain of the data directory is not served; unless this SCS is its monitor, its folder can be deleted"
                );
                continue;
            };
            let followed = Followed {
                engine: Some(engine),
                is_over,
                ..Followed::default()
            };
            self.followed.insert(chain, followed);
            self.served.set_over(&chain, is_over);
        }
        Ok(())
    }

    /// Opens a MicroChain of the data directory; `None` if there are no grounds for it.
    pub(super) fn open_folder(
        &mut self,
        setup: MicroChainSetup,
    ) -> Result<Option<EngineHandle>, EngineStartError> {
        let chain = setup.address;
        if self.is_wanted(&chain) {
            return Ok(Some(self.open_engine(setup)?));
        }
        let engine = self.load_engine(setup)?;
        if !engine.has_signed() || !self.note_registration(chain) {
            return Ok(None);
        }
        tracing::warn!(%chain, "the list of registrations lacks a MicroChain for which this SCS has signed");
        Ok(Some(self.run_engine(engine)))
    }

    /// Opens the engine of a MicroChain, and lets it run.
    pub(super) fn open_engine(&self, setup: MicroChainSetup) -> Result<EngineHandle, EngineStartError> {
        Ok(self.run_engine(self.load_engine(setup)?))
    }

    fn load_engine(&self, setup: MicroChainSetup) -> Result<MemberEngine, EngineStartError> {
        let share = CACHE_BYTES / self.config.capability.max(1);
        let options = EngineOptions {
            directory: self.folders.make(&setup)?,
            key: self.config.key.clone(),
            cache_bytes: share.clamp(ENGINE_CACHE_BYTES_MIN, ENGINE_CACHE_BYTES_MAX),
            confirmations: self.config.confirmations,
            dapp_bases: self.config.join.dapp_bases(),
            states: self.config.states,
            blocks: self.config.blocks,
        };
        Ok(MemberEngine::open(setup, &options)?)
    }

    fn run_engine(&self, engine: MemberEngine) -> EngineHandle {
        let chain = engine.setup().address;
        let handle = EngineHandle::start(engine, self.turns.clone(), self.actions.clone());
        self.served.add(chain, handle.reader().clone());
        handle
    }
}
