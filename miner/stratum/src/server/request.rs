//! Reads what a miner asks, in each dialect's words.

use ethash::{B256, U256};
use serde_json::Value;

use super::{Asked, Claim, JobName, Refusal, Session};
use crate::Dialect;
use crate::message::{Envelope, MessageError};
use crate::values::{boundary, entry, hash, text, unexpected};

/// Longest account, rig name or password.
const NAME_LEN_MAX: usize = 128;

impl Session {
    pub(super) fn hello(&mut self, message: &Envelope) -> Result<(), MessageError> {
        let proto = message.params.get("proto").unwrap_or(&Value::Null);
        if text("proto", proto)? == Dialect::EthereumStratum2.name() {
            self.answer_hello(&message.id);
            return Ok(());
        }
        Err(unexpected("proto", proto, "EthereumStratum/2.0.0"))
    }

    pub(super) fn subscribe(&mut self, id: &Value) {
        self.subscribed = true;
        self.answer_subscription(id);
    }

    /// Account and password. The rig's name stands after the account's last dot, or beside the
    /// parameters.
    pub(super) fn login(&self, message: &Envelope) -> Result<Asked, MessageError> {
        let account = entry(&message.params, 0);
        let bad = || unexpected("login", account, "1 to 128 printable characters without blanks");
        let name = text("login", account)?;
        let password = entry(&message.params, 1).as_str().unwrap_or_default();
        let beside = message.worker.as_deref().filter(|worker| !worker.is_empty());
        let (user, worker) = match (beside, name.rsplit_once('.')) {
            (Some(worker), _) => (name, Some(worker)),
            (None, Some((user, worker))) if !worker.is_empty() => (user, Some(worker)),
            (None, _) => (name, None),
        };
        if !is_name(user) || !worker.is_none_or(is_name) || password.len() > NAME_LEN_MAX {
            return Err(bad());
        }
        Ok(Asked::Login {
            id: message.id.clone(),
            user: user.to_owned(),
            worker: worker.map(str::to_owned),
            password: password.to_owned(),
        })
    }

    /// A share; `None` where it was refused here.
    pub(super) fn share(
        &mut self,
        dialect: Dialect,
        message: &Envelope,
    ) -> Result<Option<Claim>, MessageError> {
        let params = &message.params;
        let worker = match dialect {
            Dialect::EthProxy => Some(0),
            Dialect::EthereumStratum1 => self.worker_by_name(text("worker", entry(params, 0))?),
            Dialect::EthereumStratum2 => self.worker_by_token(text("worker", entry(params, 2))?),
        };
        let Some(worker) = worker else {
            self.refuse(&message.id, Refusal::Unauthorized);
            return Ok(None);
        };
        let (job, nonce, mix_hash) = match dialect {
            Dialect::EthProxy => (
                JobName::Header(hash("header hash", entry(params, 1))?),
                entry(params, 0),
                Some(hash("mix hash", entry(params, 2))?),
            ),
            Dialect::EthereumStratum1 => (job_number(entry(params, 1))?, entry(params, 2), None),
            Dialect::EthereumStratum2 => (job_number(entry(params, 0))?, entry(params, 1), None),
        };
        let digits = text("nonce", nonce)?;
        let pow_nonce = if dialect == Dialect::EthProxy {
            whole_nonce(digits)
        } else {
            self.settings.extranonce.nonce(digits)
        };
        let Some(pow_nonce) = pow_nonce else {
            self.refuse(&message.id, Refusal::BadNonce);
            return Err(unexpected(
                "nonce",
                nonce,
                "hexadecimal digits that fill the extranonce up",
            ));
        };
        Ok(Some(Claim {
            id: message.id.clone(),
            job,
            pow_nonce,
            mix_hash,
            worker,
        }))
    }

    pub(super) fn hashrate(
        &mut self,
        dialect: Dialect,
        message: &Envelope,
    ) -> Result<Option<Asked>, MessageError> {
        let rate = boundary("hashrate", entry(&message.params, 0))?;
        let worker = if dialect == Dialect::EthereumStratum2 {
            self.worker_by_token(text("worker", entry(&message.params, 1))?)
        } else {
            (!self.workers.is_empty()).then_some(0)
        };
        let Some(worker) = worker else {
            self.refuse(&message.id, Refusal::Unauthorized);
            return Ok(None);
        };
        self.accept(&message.id);
        let rate = saturated(&rate);
        Ok(Some(Asked::Hashrate { worker, rate }))
    }

    /// The worker with this account; a name without a rig means the first, as some miners send it
    /// so.
    fn worker_by_name(&self, name: &str) -> Option<usize> {
        let named = self.workers.iter().position(|account| account == name);
        let first = || {
            let account = self.workers.first()?;
            let user = account
                .rsplit_once('.')
                .map_or(account.as_str(), |(user, _)| user);
            (user == name).then_some(0)
        };
        named.or_else(first)
    }

    fn worker_by_token(&self, token: &str) -> Option<usize> {
        let place: usize = token.strip_prefix('w')?.parse().ok()?;
        (place < self.workers.len()).then_some(place)
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Our jobs are hexadecimal numbers; anything else is a job that never was.
fn job_number(value: &Value) -> Result<JobName, MessageError> {
    let digits = text("job", value)?;
    Ok(JobName::Number(u64::from_str_radix(digits, 16).ok()))
}

fn whole_nonce(digits: &str) -> Option<u64> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let plain = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn saturated(rate: &B256) -> u64 {
    U256::from_be_bytes(rate.0).saturating_to()
}
