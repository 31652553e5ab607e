//! The messages that a pool sends by itself: jobs, difficulty, extranonce, reconnects, questions.

use std::time::Duration;

use ethash::{B256, EPOCH_LENGTH_ETCHASH, Epoch, MAX_EPOCH, WorkPackage};
use serde_json::{Value, json};

use super::event::{PoolEvent, PoolJob};
use super::session::ClientSession;
use crate::message::{StratumMessage, printable};
use crate::values::{boundary, decimal, entry, extranonce, flag, hash, number, unexpected};
use crate::{Dialect, Extranonce, MessageError, boundary_of_difficulty};

/// Length in bytes of the longest accepted job id.
const JOB_ID_LEN_MAX: usize = 256;
/// The longest wait before a reconnection. A pool that asks for more gets this.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(600);

impl ClientSession {
    /// Handles a notification or a request from the pool.
    ///
    /// # Errors
    /// [`MessageError`] if the method is unknown or a value is bad. Then nothing has changed.
    pub(super) fn handle_notice(&mut self, message: &StratumMessage) -> Result<Vec<PoolEvent>, MessageError> {
        let method = message.method.as_deref().unwrap_or_default();
        let params = &message.params;
        let mut events = Vec::new();
        match (method, self.dialect) {
            ("mining.notify", Dialect::EthereumStratum1) => {
                events.push(PoolEvent::Job(self.ethereum_stratum1_job(params)?))
            }
            ("mining.notify", Dialect::EthereumStratum2) => match self.ethereum_stratum2_job(params)? {
                Some(job) => events.push(PoolEvent::Job(job)),
                None => events.push(PoolEvent::Note(
                    "a job before the first mining.set is ignored".into(),
                )),
            },
            ("mining.set_difficulty", Dialect::EthereumStratum1) => self.set_difficulty(entry(params, 0))?,
            ("mining.set_target", Dialect::EthereumStratum1) => {
                self.boundary = boundary("target", entry(params, 0))?;
            }
            ("mining.set_extranonce", Dialect::EthereumStratum1) => {
                self.extranonce = extranonce(entry(params, 0))?;
            }
            ("mining.set", Dialect::EthereumStratum2) => self.set(params)?,
            ("mining.bye", _) => events.push(PoolEvent::Bye),
            ("mining.reconnect" | "client.reconnect", _) => events.push(reconnect(params)),
            ("client.show_message", _) => {
                let text = entry(params, 0).as_str().unwrap_or_default();
                events.push(PoolEvent::Note(format!("the pool says: {}", printable(text))));
            }
            ("mining.hashrate", _) => {}
            ("client.get_version", _) => {
                let agent = json!(self.login.agent);
                self.answer(message, &agent, &Value::Null);
            }
            _ => {
                self.answer(message, &Value::Null, &json!([-3, "Method not found", null]));
                return Err(unexpected("method", &json!(method), "a method of the dialect"));
            }
        }
        Ok(events)
    }

    /// Answers a request from the pool. A notification has no id and gets no answer.
    fn answer(&mut self, message: &StratumMessage, result: &Value, error: &Value) {
        if !message.id.is_null() {
            self.send(&json!({"id": message.id, "result": result, "error": error}));
        }
    }

    /// A job of EthereumStratum/1.0.0: job id, seed hash, header hash, clean flag.
    fn ethereum_stratum1_job(&self, params: &Value) -> Result<PoolJob, MessageError> {
        let seed_hash = hash("seed hash", entry(params, 1))?;
        Ok(PoolJob {
            id: job_id(entry(params, 0))?,
            package: WorkPackage {
                header_hash: hash("header hash", entry(params, 2))?,
                seed_hash,
                boundary: self.boundary,
                number: None,
                epoch: self.epoch_of(&seed_hash, entry(params, 1))?,
            },
            extranonce: self.extranonce,
            clean: flag(entry(params, 3)),
        })
    }

    /// A job of EthereumStratum/2.0.0: job id, block number, header hash, clean flag.
    ///
    /// The rest comes from `mining.set`. `None` if the pool has not sent that yet.
    fn ethereum_stratum2_job(&self, params: &Value) -> Result<Option<PoolJob>, MessageError> {
        let Some(epoch) = self.epoch else {
            return Ok(None);
        };
        // Leading zeros may be missing, because some pools write the header hash as a number.
        let header_hash = boundary("header hash", entry(params, 2))?;
        let number = Some(number("block number", entry(params, 1))?);
        Ok(Some(PoolJob {
            id: job_id(entry(params, 0))?,
            package: WorkPackage {
                header_hash,
                seed_hash: epoch.seed_hash(),
                boundary: self.boundary,
                // A number that contradicts the epoch is dropped: it would make the miner prepare
                // the wrong cache.
                number: number.filter(|number| self.schedule.epoch(*number) == epoch),
                epoch,
            },
            extranonce: self.extranonce,
            clean: flag(entry(params, 3)),
        }))
    }

    /// The event of a job of eth-proxy: the job, or why it is skipped.
    pub(super) fn eth_proxy_event(&self, result: &Value) -> Vec<PoolEvent> {
        vec![match self.eth_proxy_job(result) {
            Ok(job) => PoolEvent::Job(job),
            Err(reason) => PoolEvent::Skipped {
                reason,
                is_notice: true,
            },
        }]
    }

    /// A job of eth-proxy: header hash, seed hash, boundary, and from some pools the block number.
    fn eth_proxy_job(&self, result: &Value) -> Result<PoolJob, MessageError> {
        let seed_hash = hash("seed hash", entry(result, 1))?;
        let epoch = self.epoch_of(&seed_hash, entry(result, 1))?;
        let block_number = number("block number", entry(result, 3)).ok();
        Ok(PoolJob {
            id: String::new(),
            package: WorkPackage {
                header_hash: hash("header hash", entry(result, 0))?,
                seed_hash,
                boundary: boundary("boundary", entry(result, 2))?,
                number: block_number.filter(|number| self.schedule.epoch(*number) == epoch),
                epoch,
            },
            extranonce: Extranonce::default(),
            clean: false,
        })
    }

    /// The epoch with this seed hash. `value` is the same hash as it was sent, for the error.
    fn epoch_of(&self, seed_hash: &B256, value: &Value) -> Result<Epoch, MessageError> {
        self.schedule
            .find_epoch(seed_hash)
            .ok_or_else(|| unexpected("seed hash", value, "the seed hash of an epoch"))
    }

    fn set_difficulty(&mut self, value: &Value) -> Result<(), MessageError> {
        let bad = || unexpected("difficulty", value, "a number above 0");
        let difficulty = match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        self.boundary = boundary_of_difficulty(difficulty.ok_or_else(bad)?).map_err(|_| bad())?;
        Ok(())
    }

    /// Handles `mining.set` of EthereumStratum/2.0.0. Members that are missing keep their values.
    /// If one member is bad, all keep their values.
    fn set(&mut self, params: &Value) -> Result<(), MessageError> {
        if !params.is_object() {
            return Err(unexpected("mining.set", params, "an object"));
        }
        let member = |name: &str| params.get(name).filter(|value| !value.is_null());
        let new_extranonce = member("extranonce").map(extranonce).transpose()?;
        let target = member("target").filter(|value| value.as_str() != Some(""));
        let target = target.map(|value| boundary("target", value)).transpose()?;
        let etchash = match member("algo").map(|value| (value, value.as_str())) {
            // Epoch 0 is the same in both.
            None => self
                .epoch
                .is_some_and(|epoch| epoch.length() == EPOCH_LENGTH_ETCHASH),
            Some((_, Some("ethash"))) => false,
            Some((_, Some("etchash"))) => true,
            Some((value, _)) => return Err(unexpected("algo", value, "ethash or etchash")),
        };
        let epoch = member("epoch").map(|value| {
            let index = u32::try_from(number("epoch", value)?)
                .ok()
                .filter(|index| *index <= MAX_EPOCH)
                .ok_or_else(|| unexpected("epoch", value, "an epoch that has a dataset"))?;
            Ok(if etchash {
                Epoch::etchash(index)
            } else {
                Epoch::ethash(index)
            })
        });
        let epoch = epoch.transpose()?;
        self.extranonce = new_extranonce.unwrap_or(self.extranonce);
        self.boundary = target.unwrap_or(self.boundary);
        self.epoch = epoch.or(self.epoch);
        Ok(())
    }
}

fn job_id(value: &Value) -> Result<String, MessageError> {
    match value {
        Value::String(id) if id.len() <= JOB_ID_LEN_MAX => Ok(id.clone()),
        Value::Number(id) => Ok(id.to_string()),
        other => Err(unexpected(
            "job id",
            other,
            "a number or a text of at most 256 bytes",
        )),
    }
}

/// The request to reconnect: a list of host, port and seconds, or an object with a hexadecimal
/// port.
fn reconnect(params: &Value) -> PoolEvent {
    let (host, port, wait) = match params {
        Value::Object(_) => (
            &params["host"],
            number("port", &params["port"]).ok(),
            &Value::Null,
        ),
        list => (entry(list, 0), decimal(entry(list, 1)), entry(list, 2)),
    };
    let host = host.as_str().filter(|host| !host.is_empty()).map(printable);
    let wait = Duration::from_secs(decimal(wait).unwrap_or(0)).min(RECONNECT_WAIT_MAX);
    PoolEvent::Reconnect {
        host,
        port: port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0),
        wait,
    }
}
