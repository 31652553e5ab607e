//! The pool's answers to the miner's requests.

use std::time::Duration;

use serde_json::Value;

use super::event::{ClientSessionError, PoolEvent, ShareOutcome};
use super::session::{ClientSession, PendingRequest};
use crate::message::{StratumMessage, printable};
use crate::values::{extranonce, number, shown, unexpected};
use crate::{Dialect, ErrorReply};

impl ClientSession {
    /// Handles the answer to request `id`.
    pub(super) fn handle_answer(
        &mut self,
        id: u64,
        pending: PendingRequest,
        message: &StratumMessage,
    ) -> Result<Vec<PoolEvent>, ClientSessionError> {
        let error = message.error.clone();
        match pending {
            PendingRequest::Hello => self.handle_hello(message),
            PendingRequest::Subscribe => self.handle_subscription(message),
            PendingRequest::Authorize => self.handle_authorization(message),
            PendingRequest::GetWork if message.result.is_array() => Ok(self.eth_proxy_event(&message.result)),
            PendingRequest::GetWork => {
                let reason = error.unwrap_or_default();
                Ok(vec![PoolEvent::Note(format!(
                    "the pool has no work yet: {reason}"
                ))])
            }
            PendingRequest::Submit => Ok(vec![PoolEvent::Answer {
                id,
                outcome: share_outcome(self.dialect, error, &message.result),
            }]),
            // Not every pool knows these requests, and nothing depends on their answers.
            PendingRequest::ExtranonceSubscribe | PendingRequest::Hashrate | PendingRequest::Noop => {
                Ok(Vec::new())
            }
        }
    }

    fn handle_subscription(
        &mut self,
        message: &StratumMessage,
    ) -> Result<Vec<PoolEvent>, ClientSessionError> {
        if let Some(reason) = error_of(message) {
            return Err(if self.dialect_confirmed {
                self.login_refused(reason)
            } else {
                self.other_dialect(reason)
            });
        }
        if self.dialect == Dialect::EthereumStratum1 {
            self.take_subscribed_extranonce(&message.result)?;
        }
        self.dialect_confirmed = true;
        self.authorize();
        Ok(Vec::new())
    }

    fn handle_authorization(
        &mut self,
        message: &StratumMessage,
    ) -> Result<Vec<PoolEvent>, ClientSessionError> {
        if let Some(reason) = error_of(message) {
            // In eth-proxy the login is the first request. So its answer also shows whether the
            // pool speaks this dialect: "Method not found" or the like means that it does not.
            let unknown = self.dialect == Dialect::EthProxy && reason.message.contains("ethod");
            return Err(if unknown {
                self.other_dialect(reason)
            } else {
                self.login_refused(reason)
            });
        }
        if let Some(token) = message.result.as_str() {
            self.worker_token = printable(token);
        }
        self.dialect_confirmed = true;
        self.logged_in = true;
        if self.dialect == Dialect::EthProxy {
            self.get_work();
        }
        Ok(vec![PoolEvent::LoggedIn])
    }

    fn handle_hello(&mut self, message: &StratumMessage) -> Result<Vec<PoolEvent>, ClientSessionError> {
        let protocol = message.result.get("proto").and_then(Value::as_str);
        let is_same =
            protocol.is_some_and(|name| name.eq_ignore_ascii_case(Dialect::EthereumStratum2.name()));
        if error_of(message).is_some() || !is_same {
            let mut reason = message.error.clone().unwrap_or_default();
            if reason.message.is_empty() {
                reason.message = format!("its protocol is {:?}", printable(protocol.unwrap_or_default()));
            }
            return Err(self.other_dialect(reason));
        }
        if let Some(encoding) = message.result.get("encoding").and_then(Value::as_str)
            && encoding != "plain"
        {
            return Err(ClientSessionError::Encoding {
                got: printable(encoding),
            });
        }
        self.dialect_confirmed = true;
        self.subscribe();
        let timeout = match message.result.get("timeout") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(timeout) => number("timeout", timeout),
        };
        Ok(match timeout {
            Ok(seconds) => {
                self.silence_max = Some(Duration::from_secs(seconds.clamp(1, 86_400)));
                Vec::new()
            }
            // The login does not depend on it.
            Err(reason) => vec![PoolEvent::Skipped {
                reason,
                is_notice: true,
            }],
        })
    }

    /// Reads the extranonce from the answer to the subscription of EthereumStratum/1.0.0.
    fn take_subscribed_extranonce(&mut self, result: &Value) -> Result<(), ClientSessionError> {
        let Some(list) = result.as_array() else {
            return Err(unexpected("subscription", result, "a list").into());
        };
        match list.get(1) {
            None | Some(Value::Null) => {}
            Some(value) => self.extranonce = extranonce(value)?,
        }
        Ok(())
    }
}

/// The error in the answer to a greeting or login: an error object, or the result `false`. `None`
/// if the request has succeeded.
fn error_of(message: &StratumMessage) -> Option<ErrorReply> {
    match (&message.error, &message.result) {
        // In EthereumStratum/2.0.0 the codes from 200 to 299 mean success with a remark.
        (Some(error), _) if (200..300).contains(&error.code) => None,
        (Some(error), _) => Some(error.clone()),
        (None, Value::Bool(false)) => Some(ErrorReply::default()),
        (None, _) => None,
    }
}

/// The meaning of the answer to a share.
pub(super) fn share_outcome(dialect: Dialect, error: Option<ErrorReply>, result: &Value) -> ShareOutcome {
    match error {
        Some(error) if dialect == Dialect::EthereumStratum2 && (200..300).contains(&error.code) => {
            ShareOutcome::AcceptedStale
        }
        Some(error) if is_stale(&error) => ShareOutcome::Stale(error),
        Some(error) => ShareOutcome::Rejected(error),
        None => match result {
            Value::Bool(true) => ShareOutcome::Accepted,
            Value::Bool(false) => ShareOutcome::Rejected(ErrorReply::default()),
            // EthereumStratum/2.0.0 answers an accepted share with only its id.
            Value::Null if dialect == Dialect::EthereumStratum2 => ShareOutcome::Accepted,
            other => ShareOutcome::Unknown { got: shown(other) },
        },
    }
}

/// Whether the error means that the job of the share was over. Pools do not agree on one code for
/// that.
fn is_stale(error: &ErrorReply) -> bool {
    let message = error.message.to_ascii_lowercase();
    error.code == 21
        || ["stale", "job not found", "unknown job", "no such work", "old job"]
            .iter()
            .any(|word| message.contains(word))
}
