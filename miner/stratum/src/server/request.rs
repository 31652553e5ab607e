//! Reads the requests of a miner, in each dialect.

use ethash::{B256, U256};
use serde_json::Value;

use super::session::ServerSession;
use super::types::{JobId, MinerRequest, RejectReason, ShareClaim};
use crate::message::StratumMessage;
use crate::values::{boundary, entry, hash, text, unexpected};
use crate::{Dialect, MessageError};

/// Length in bytes of the longest accepted account, rig name or password.
const NAME_LEN_MAX: usize = 128;

impl ServerSession {
    pub(super) fn hello(&mut self, message: &StratumMessage) -> Result<(), MessageError> {
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

    /// Reads a login: account and password. The name of the rig is the part of the account after
    /// its last dot, or the member `worker` beside the parameters.
    pub(super) fn login(&self, message: &StratumMessage) -> Result<MinerRequest, MessageError> {
        let account = entry(&message.params, 0);
        let bad = || {
            unexpected(
                "login",
                account,
                "1 to 128 printable ASCII characters without spaces",
            )
        };
        let account_text = text("login", account)?;
        let password = entry(&message.params, 1).as_str().unwrap_or_default();
        let worker_member = message.worker.as_deref().filter(|worker| !worker.is_empty());
        let (user, worker) = match (worker_member, account_text.rsplit_once('.')) {
            (Some(worker), _) => (account_text, Some(worker)),
            (None, Some((user, worker))) if !worker.is_empty() => (user, Some(worker)),
            (None, _) => (account_text, None),
        };
        if !is_name(user) || !worker.is_none_or(is_name) || password.len() > NAME_LEN_MAX {
            return Err(bad());
        }
        Ok(MinerRequest::Login {
            id: message.id.clone(),
            user: user.to_owned(),
            worker: worker.map(str::to_owned),
            password: password.to_owned(),
        })
    }

    /// Reads a share. Returns `None` if the share is rejected here.
    pub(super) fn share(
        &mut self,
        dialect: Dialect,
        message: &StratumMessage,
    ) -> Result<Option<ShareClaim>, MessageError> {
        let params = &message.params;
        let worker = match dialect {
            Dialect::EthProxy => Some(0),
            Dialect::EthereumStratum1 => self.worker_by_name(text("worker", entry(params, 0))?),
            Dialect::EthereumStratum2 => self.worker_by_token(text("worker", entry(params, 2))?),
        };
        let Some(worker) = worker else {
            self.refuse(&message.id, RejectReason::Unauthorized);
            return Ok(None);
        };
        let (job, nonce, mix_hash) = match dialect {
            Dialect::EthProxy => (
                JobId::Header(hash("header hash", entry(params, 1))?),
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
            self.refuse(&message.id, RejectReason::BadNonce);
            return Err(unexpected(
                "nonce",
                nonce,
                "the hexadecimal digits after the extranonce",
            ));
        };
        Ok(Some(ShareClaim {
            id: message.id.clone(),
            job,
            pow_nonce,
            mix_hash,
            worker,
        }))
    }

    /// Reads and answers a report of the hashrate.
    pub(super) fn hashrate(
        &mut self,
        dialect: Dialect,
        message: &StratumMessage,
    ) -> Result<Option<MinerRequest>, MessageError> {
        let rate = boundary("hashrate", entry(&message.params, 0))?;
        let worker = if dialect == Dialect::EthereumStratum2 {
            self.worker_by_token(text("worker", entry(&message.params, 1))?)
        } else {
            (!self.workers.is_empty()).then_some(0)
        };
        let Some(worker) = worker else {
            self.refuse(&message.id, RejectReason::Unauthorized);
            return Ok(None);
        };
        self.accept(&message.id);
        let rate = saturated(&rate);
        Ok(Some(MinerRequest::Hashrate { worker, rate }))
    }

    /// The worker with this account. Some miners send the account without the name of the rig; that
    /// means the first worker, if it has the same user.
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

    /// The worker with this token, which the answer to its login contained.
    fn worker_by_token(&self, token: &str) -> Option<usize> {
        let index: usize = token.strip_prefix('w')?.parse().ok()?;
        (index < self.workers.len()).then_some(index)
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads a job id. The ids of this server are hexadecimal numbers; others are of no job.
fn job_number(value: &Value) -> Result<JobId, MessageError> {
    let digits = text("job", value)?;
    Ok(JobId::Number(u64::from_str_radix(digits, 16).ok()))
}

/// Reads a whole nonce: 1 to 16 hexadecimal digits, with or without `0x`.
fn whole_nonce(digits: &str) -> Option<u64> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let is_hex = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// A 256-bit number as 64 bits, at most `u64::MAX`.
fn saturated(rate: &B256) -> u64 {
    U256::from_be_bytes(rate.0).saturating_to()
}
