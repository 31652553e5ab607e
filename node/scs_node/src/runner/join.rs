//! The reaction of an SCS to the state of a chain base: it registers, if the operator's rules allow
//! it, and it has an engine for each MicroChain that it is part of.

use microchain::contract::{ContractRole, ContractStatus};
use microchain::{Event, MicroChainSetup};
use primitives::{Address, U256};

use super::grounds::NotServed;
use super::{Followed, Letter, Runner};
use crate::account::{Outlay, Purpose};
use crate::admission::{BondForm, PLAIN_DEPTH_BLOCKS, PoolReading, bond_digest};
use crate::base::{BaseError, BaseReading, join_call};

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

/// A registration that waits for a look at its pool.
pub(super) struct JoinPlan {
    pub(super) chain: Address,
    pub(super) is_backup: bool,
    /// The bond that the chain base locks, in sha.
    pub(super) bond: U256,
    pub(super) pool: Address,
    /// The base block since which the chain base has its code and this pool.
    pub(super) since: u64,
}

impl Runner {
    /// Does what the state of a chain base calls for.
    pub(super) fn use_reading(&mut self, chain: Address, reading: BaseReading) {
        let has_engine = self.followed.get(&chain).is_some_and(|one| one.engine.is_some());
        let role = reading.state.role;
        let has_ended = reading.state.status == ContractStatus::Closed;
        let allowed = self.config.join.check_chain_base(&chain, &reading.code);
        if let Err(refusal) = &allowed
            && !has_engine
            && !self.config.chains.contains(&chain)
        {
            // Nothing is joined or started for the contract, whatever it says of roles. Another
            // notice, or a start with its address in the list, brings it back.
            tracing::info!(%chain, %refusal, "not followed");
            return self.unfollow(&chain);
        }
        match role {
            // Its file did not say everything.
            _ if !has_engine && self.folders.has(&chain) => self.start_engine(chain, &reading),
            ContractRole::Member | ContractRole::Monitor | ContractRole::Backup
                if !has_engine && !has_ended =>
            {
                match self.may_serve(&chain) {
                    Ok(()) => self.start_engine(chain, &reading),
                    Err(NotServed::Stranger) => {
                        self.tell_stranger(chain);
                        return self.unfollow(&chain);
                    }
                    Err(full) => self.tell(&chain, full.to_string(), "a MicroChain is not served"),
                }
            }
            ContractRole::Selectable if allowed.is_ok() => self.join(chain, &reading),
            ContractRole::None if !has_engine && reading.state.registration == 0 => {
                // Nothing can come of it before another notice.
                return self.unfollow(&chain);
            }
            _ => {}
        }
        self.note_over(&chain, &reading.state);
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
            withdrawal_min: reading.withdrawal_min,
        };
        match self.open_folder(setup) {
            Ok(Some(engine)) => {
                tracing::info!(%chain, role = ?reading.state.role, "a MicroChain is served");
                if let Some(followed) = self.followed.get_mut(&chain) {
                    followed.engine = Some(engine);
                }
                self.keep_followed();
            }
            Ok(None) => self.tell(
                &chain,
                NotServed::Stranger.to_string(),
                "a MicroChain is not served",
            ),
            Err(error) => tracing::error!(%chain, %error, "the MicroChain cannot be opened"),
        }
    }

    /// Logs why something is not done with a chain base that is followed.
    fn tell(&mut self, chain: &Address, reason: String, what: &str) {
        if let Some(followed) = self.followed.get_mut(chain) {
            followed.refuse(*chain, reason, what);
        }
    }

    /// Registers with a chain base, if the operator's rules allow it. The pool is read first.
    fn join(&mut self, chain: Address, reading: &BaseReading) {
        let is_backup = match reading.state.registration {
            TAKES_MEMBERS => false,
            TAKES_BACKUPS => true,
            _ => return,
        };
        let head = self.head;
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let terms = (reading.code, reading.pool);
        let since = match followed.terms {
            Some((code, pool, since)) if (code, pool) == terms => since,
            _ => head,
        };
        followed.terms = Some((terms.0, terms.1, since));
        if head < followed.join_at {
            return;
        }
        if let Some(reason) = self.refusal(&chain, reading) {
            return self.tell(&chain, reason, "not joined");
        }
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        followed.pause(head);
        let plan = JoinPlan {
            chain,
            is_backup,
            bond: reading.penalty_bond,
            pool: reading.pool,
            since,
        };
        let (reader, inbox) = (self.reader.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let pool = reader.pool(plan.pool).await;
            let _ = inbox.send(Letter::Pool(plan, pool)).await;
        });
    }

    /// The reason why the operator's rules forbid to join.
    fn refusal(&self, chain: &Address, reading: &BaseReading) -> Option<String> {
        let state = &reading.state;
        if let Err(refusal) = self.config.join.check_chain_base(chain, &reading.code) {
            Some(refusal.to_string())
        } else if reading.penalty_bond > self.config.bond_max {
            let (got, max) = (reading.penalty_bond, self.config.bond_max);
            Some(format!("bond: got {got} sha, expected at most {max} (BondLimit)"))
        } else if state.rewards.block < self.config.reward_min {
            let (got, min) = (state.rewards.block, self.config.reward_min);
            Some(format!(
                "reward for a block: got {got} sha, expected at least {min} (ReWardMin)"
            ))
        } else {
            self.lacks_place()
        }
    }

    /// The reason why there is no place for one more MicroChain, if that is so.
    fn lacks_place(&self) -> Option<String> {
        // A registration that was just sent may give a role with the next block.
        let is_taken = |one: &&Followed| match &one.engine {
            Some(_) => !one.is_over,
            None => one.joined_with.is_some() && self.head < one.join_at,
        };
        let (taken, max) = (
            self.followed.values().filter(is_taken).count(),
            self.config.capability,
        );
        (taken >= max).then(|| format!("MicroChains: got {taken}, expected fewer than {max} (Capability)"))
    }

    /// Signs and registers, if the pool is one in which a bond may be locked.
    pub(super) fn register(&mut self, plan: JoinPlan, read: Result<PoolReading, BaseError>) {
        let (chain, head) = (plan.chain, self.head);
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        let checked = read.map_err(|error| error.to_string()).and_then(|pool| {
            let checked = self.config.join.check_pool(&plan.pool, &pool, plan.bond);
            let form = checked.map_err(|refusal| refusal.to_string())?;
            Ok((pool, form))
        });
        let (pool, form) = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                // The operator can mend it at any time.
                (followed.join_at, followed.join_pause) = (head.saturating_add(JOIN_PAUSE_BLOCKS), 0);
                return followed.refuse(chain, reason, "not joined");
            }
        };
        if followed.joined_with.is_some_and(|before| pool.bond < before) {
            // The SCS was a member once, and lost its bond. It would lose one after the other.
            let reason = "a part of the bond was taken since the SCS was a member; a restart forgets that";
            return followed.refuse(chain, reason.to_owned(), "not joined");
        }
        followed.refused = None;
        let deep_at = plan.since.saturating_add(PLAIN_DEPTH_BLOCKS);
        if form == BondForm::Plain && head < deep_at {
            (followed.join_at, followed.join_pause) = (deep_at, 0);
            return;
        }
        // Other registrations may have been sent meanwhile.
        if let Some(reason) = self.lacks_place() {
            return self.tell(&chain, reason, "not joined");
        }
        if !self.note_registration(chain) {
            return;
        }
        let Some(followed) = self.followed.get_mut(&chain) else {
            return;
        };
        followed.joined_with = Some(pool.bond);
        let digest = bond_digest(form, &self.id, &chain, plan.bond, &plan.pool);
        let signature = self.config.key.sign(&digest);
        let v = signature.recovery_id.wrapping_add(27);
        let data = join_call(
            plan.is_backup,
            self.config.beneficiary,
            v,
            signature.r,
            signature.s,
        );
        tracing::info!(%chain, is_backup = plan.is_backup, pool = %plan.pool, ?form, "registering");
        self.send_call(Outlay {
            chain,
            purpose: Purpose::Join,
            data,
            gas: JOIN_GAS,
        });
    }
}

impl Followed {
    /// Puts the next attempt to join off, longer each time.
    fn pause(&mut self, head: u64) {
        self.join_pause = (self.join_pause * 2).clamp(JOIN_PAUSE_BLOCKS, JOIN_PAUSE_BLOCKS_MAX);
        self.join_at = head.saturating_add(self.join_pause);
    }

    /// Logs why something is not done, unless the reason is the same as before.
    fn refuse(&mut self, chain: Address, reason: String, what: &str) {
        if self.refused.as_ref() != Some(&reason) {
            tracing::warn!(%chain, %reason, "{what}");
            self.refused = Some(reason);
        }
    }
}
