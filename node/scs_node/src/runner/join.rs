//! The reaction of an SCS to the state of a chain base: it registers, if the operator's rules allow
//! it, and it has an engine for each MicroChain that it is part of.

use microchain::contract::ContractRole;
use microchain::event::CACHE_BYTES_DEFAULT;
use microchain::{EngineOptions, Event, MemberEngine, MicroChainSetup};
use primitives::Address;
use sha2::{Digest, Sha256};

use super::{EngineStartError, Runner};
use crate::account::{Outlay, Purpose};
use crate::base::{BaseReading, join_call};
use crate::worker::EngineHandle;

/// Base blocks until an SCS tries again to join. They double each time.
const JOIN_PAUSE_BLOCKS: u64 = 6;
/// The longest pause before it tries again.
const JOIN_PAUSE_BLOCKS_MAX: u64 = 600;
/// Gas of a call by which an SCS joins.
const JOIN_GAS: u64 = 600_000;
/// `registerFlag` of a chain base that takes members.
const TAKES_MEMBERS: u64 = 1;
/// `registerFlag` of a chain base that takes backups.
const TAKES_BACKUPS: u64 = 2;

impl Runner {
    /// Does what the state of a chain base calls for.
    pub(super) fn use_reading(&mut self, chain: Address, reading: BaseReading) {
        let has_engine = self.followed.get(&chain).is_some_and(|one| one.engine.is_some());
        let role = reading.state.role;
        match role {
            ContractRole::Member | ContractRole::Monitor | ContractRole::Backup if !has_engine => {
                self.start_engine(chain, &reading);
            }
            ContractRole::Selectable => self.join(chain, &reading),
            ContractRole::None if !has_engine && reading.state.registration == 0 => {
                // Nothing can come of it before another notice.
                self.followed.remove(&chain);
                self.keep_followed();
                return;
            }
            _ => {}
        }
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        followed.held_bytes = 0;
        if followed.engine.is_some() {
            self.served.set_reading(chain, &reading);
            let held = std::mem::take(&mut followed.held);
            self.give(chain, Event::Contract(Box::new(reading.state)));
            for event in held {
                self.give(chain, event);
            }
        } else {
            followed.held.clear();
        }
    }

    fn start_engine(&mut self, chain: Address, reading: &BaseReading) {
        let setup = MicroChainSetup {
            address: chain,
            owner: reading.owner,
            supply: reading.supply,
            period_secs: self.config.period_secs,
            chain_id: self.config.chain_id,
        };
        match self.open_engine(setup) {
            Ok(engine) => {
                tracing::info!(%chain, role = ?reading.state.role, "a MicroChain is served");
                if let Some(followed) = self.followed.get_mut(&chain) {
                    followed.engine = Some(engine);
                }
                self.keep_followed();
            }
            Err(error) => tracing::error!(%chain, %error, "the MicroChain cannot be opened"),
        }
    }

    pub(super) fn open_engine(&self, setup: MicroChainSetup) -> Result<EngineHandle, EngineStartError> {
        let chain = setup.address;
        let options = EngineOptions {
            directory: self.folders.make(&setup)?,
            key: self.config.key.clone(),
            cache_bytes: CACHE_BYTES_DEFAULT,
        };
        let engine = MemberEngine::open(setup, &options)?;
        let handle = EngineHandle::start(engine, self.actions.clone()).map_err(EngineStartError::Thread)?;
        self.served.add(chain, handle.reader().clone());
        Ok(handle)
    }

    /// Registers with a chain base, if the operator's rules allow it.
    fn join(&mut self, chain: Address, reading: &BaseReading) {
        let state = &reading.state;
        let is_backup = match state.registration {
            TAKES_MEMBERS => false,
            TAKES_BACKUPS => true,
            _ => return,
        };
        let engines = self.followed.values().filter(|one| one.engine.is_some()).count();
        let refusal = if reading.penalty_bond > self.config.bond_max {
            let (got, max) = (reading.penalty_bond, self.config.bond_max);
            Some(format!("bond: got {got} sha, expected at most {max} (BondLimit)"))
        } else if state.rewards.block < self.config.reward_min {
            let (got, min) = (state.rewards.block, self.config.reward_min);
            Some(format!(
                "reward for a block: got {got} sha, expected at least {min} (ReWardMin)"
            ))
        } else if engines >= self.config.capability {
            let max = self.config.capability;
            Some(format!(
                "MicroChains: got {engines}, expected fewer than {max} (Capability)"
            ))
        } else {
            None
        };
        let head = self.head;
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        if refusal.is_some() {
            if followed.told != refusal {
                tracing::info!(%chain, reason = refusal.as_deref().unwrap_or_default(), "not joined");
                followed.told = refusal;
            }
            return;
        }
        if head < followed.join_at {
            return;
        }
        followed.join_pause = (followed.join_pause * 2).clamp(JOIN_PAUSE_BLOCKS, JOIN_PAUSE_BLOCKS_MAX);
        followed.join_at = head + followed.join_pause;
        let digest = Sha256::digest([self.id.as_slice(), chain.as_slice()].concat());
        let signature = self.config.key.sign(&primitives::B256::from_slice(&digest));
        let v = signature.recovery_id.wrapping_add(27);
        let data = join_call(is_backup, self.config.beneficiary, v, signature.r, signature.s);
        tracing::info!(%chain, is_backup, "registering");
        self.send_call(Outlay {
            chain,
            purpose: Purpose::Join,
            data,
            gas: JOIN_GAS,
        });
    }
}
