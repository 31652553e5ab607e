//! The state of a pool's session, and the choice of what a message means.

use ethash::{B256, Epoch};
use serde_json::Value;

use super::types::{MinerRequest, RejectReason, ServerSettings};
use crate::message::StratumMessage;
use crate::values::unexpected;
use crate::{Dialect, MessageError};

/// The most workers of one session. In EthereumStratum/2.0.0 one connection can have several.
pub(super) const WORKERS_MAX: usize = 64;

/// A pool's session with a miner.
#[derive(Debug)]
pub struct ServerSession {
    pub(super) settings: ServerSettings,
    /// `None` before the first request.
    pub(super) dialect: Option<Dialect>,
    pub(super) subscribed: bool,
    /// Accounts of the workers, in the order of their logins.
    pub(super) workers: Vec<String>,
    /// Lines that are not yet sent.
    output: Vec<u8>,
    /// The share boundary that was last sent to the miner.
    pub(super) announced_boundary: Option<B256>,
    /// The epoch that was last sent to the miner.
    pub(super) announced_epoch: Option<Epoch>,
}

impl ServerSession {
    /// A session that waits for the miner's first request.
    pub const fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            dialect: None,
            subscribed: false,
            workers: Vec::new(),
            output: Vec::new(),
            announced_boundary: None,
            announced_epoch: None,
        }
    }

    /// The dialect. `None` before the first request.
    pub const fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Whether at least one worker is logged in.
    pub const fn is_logged_in(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Returns the lines to send, each with its line feed, and forgets them.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.output)
    }

    /// Handles a line from the miner.
    ///
    /// Returns the request if the caller must answer it. The session answers all other requests
    /// itself, also with errors.
    ///
    /// # Errors
    /// [`MessageError`] if the line cannot be understood. The session can go on.
    pub fn receive(&mut self, line: &[u8]) -> Result<Option<MinerRequest>, MessageError> {
        let message = StratumMessage::parse(line)?;
        let Some(method) = message.method.clone() else {
            // An answer, although this side sends no requests.
            return Ok(None);
        };
        let output_before = self.output.len();
        let request = self.handle(&method, &message);
        // A request gets one answer. Where the error was found, a more exact one may have been
        // given.
        if request.is_err() && self.output.len() == output_before {
            self.refuse(&message.id, RejectReason::Malformed);
        }
        request
    }

    /// Handles a request. Returns it if the caller must answer it.
    fn handle(
        &mut self,
        method: &str,
        message: &StratumMessage,
    ) -> Result<Option<MinerRequest>, MessageError> {
        let id = &message.id;
        let dialect = match self.dialect {
            Some(dialect) => dialect,
            None => match dialect_of_first_request(method, &message.params) {
                Some(dialect) => *self.dialect.insert(dialect),
                None => {
                    self.refuse(id, RejectReason::UnknownMethod);
                    return Err(unexpected(
                        "first request",
                        &Value::from(method),
                        "a greeting or login",
                    ));
                }
            },
        };
        match (method, dialect) {
            ("mining.hello", Dialect::EthereumStratum2) => self.hello(message)?,
            ("mining.subscribe", Dialect::EthereumStratum1 | Dialect::EthereumStratum2) => self.subscribe(id),
            ("mining.extranonce.subscribe", Dialect::EthereumStratum1) | ("mining.noop", _) => {
                self.accept(id);
            }
            ("mining.authorize", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
                if !self.subscribed =>
            {
                self.refuse(id, RejectReason::Unauthorized);
            }
            ("mining.authorize", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
            | ("eth_submitLogin" | "eth_login", Dialect::EthProxy) => return self.login(message).map(Some),
            ("mining.bye", _) => return Ok(Some(MinerRequest::Bye)),
            ("eth_getWork" | "eth_submitWork", Dialect::EthProxy)
            | ("mining.submit", Dialect::EthereumStratum1 | Dialect::EthereumStratum2)
                if self.workers.is_empty() =>
            {
                self.refuse(id, RejectReason::Unauthorized);
            }
            ("eth_getWork", Dialect::EthProxy) => return Ok(Some(MinerRequest::Work { id: id.clone() })),
            ("mining.submit", _) | ("eth_submitWork", Dialect::EthProxy) => {
                return Ok(self.share(dialect, message)?.map(MinerRequest::Share));
            }
            ("mining.hashrate", Dialect::EthereumStratum2) | ("eth_submitHashrate", _) => {
                return self.hashrate(dialect, message);
            }
            // Some miners send this, although it is a question from pools to miners.
            ("client.get_version" | "mining.get_version", _) => self.accept(id),
            _ => self.refuse(id, RejectReason::UnknownMethod),
        }
        Ok(None)
    }

    /// Accepts the login of `user` with `worker` and answers it.
    ///
    /// Returns the index of the worker in the order of logins. If there are too many workers,
    /// rejects the login and returns `None`.
    pub fn admit(&mut self, id: &Value, user: &str, worker: Option<&str>) -> Option<usize> {
        let account = match worker {
            Some(worker) => format!("{user}.{worker}"),
            None => user.to_owned(),
        };
        let index = match self.workers.iter().position(|known| *known == account) {
            Some(index) => index,
            None if self.workers.len() < WORKERS_MAX => {
                self.workers.push(account);
                self.workers.len() - 1
            }
            None => {
                self.refuse(id, RejectReason::TooMany);
                return None;
            }
        };
        self.answer_login(id, index);
        Some(index)
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.output.extend_from_slice(message.to_string().as_bytes());
        self.output.push(b'\n');
    }
}

/// The dialect of a session whose first request has this method and these parameters.
fn dialect_of_first_request(method: &str, params: &Value) -> Option<Dialect> {
    // A miner that names no dialect has the one whose first request this is.
    let asks_for = |version: &str| match params.get(1) {
        None | Some(Value::Null) => true,
        Some(name) => name
            .as_str()
            .is_some_and(|name| name.is_empty() || name.eq_ignore_ascii_case(version)),
    };
    match method {
        "mining.hello" => Some(Dialect::EthereumStratum2),
        "mining.subscribe" if asks_for(Dialect::EthereumStratum1.name()) => Some(Dialect::EthereumStratum1),
        "eth_submitLogin" | "eth_login" => Some(Dialect::EthProxy),
        _ => None,
    }
}
