//! What a pool says of itself: greetings, jobs, difficulty, extranonce, where to go.

use std::time::Duration;

use ethash::{B256, Epoch, MAX_EPOCH, WorkPackage};
use serde_json::{Value, json};

use super::{Event, Job, Session, SessionError, refusal};
use crate::message::{Envelope, MessageError, shortened};
use crate::values::{boundary, decimal, entry, flag, hash, number, text, unexpected};
use crate::{Dialect, Extranonce, boundary_of_difficulty};

/// Longest name of a job that is taken.
const JOB_ID_LEN_MAX: usize = 256;
/// Longest wait before a reconnection that a pool may ask for.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(600);

/// The boundary before a pool has set any: difficulty 1 of EthereumStratum/1.0.0, and what
/// EthereumStratum/2.0.0 names for a missing target.
pub(super) fn default_boundary() -> B256 {
    let mut boundary = [0; 32];
    boundary[4..6].fill(0xff);
    B256::from(boundary)
}

impl Session {
    pub(super) fn take_hello(&mut self, message: &Envelope) -> Result<Vec<Event>, SessionError> {
        let other = message.result.get("proto").and_then(Value::as_str);
        let same = other.is_some_and(|name| name.eq_ignore_ascii_case(Dialect::EthereumStratum2.name()));
        if refusal(message).is_some() || !same {
            let mut reason = message.error.clone().unwrap_or_default();
            if reason.message.is_empty() {
                reason.message = format!("it says {:?}", shortened(other.unwrap_or_default()));
            }
            return Err(self.other_dialect(reason));
        }
        if let Some(encoding) = message.result.get("encoding").and_then(Value::as_str)
            && encoding != "plain"
        {
            return Err(SessionError::Encoding {
                got: shortened(encoding),
            });
        }
        if let Some(timeout) = message.result.get("timeout") {
            let seconds = number("timeout", timeout)?;
            self.silence_max = Some(Duration::from_secs(seconds.clamp(1, 86_400)));
        }
        self.spoken = true;
        self.subscribe();
        Ok(Vec::new())
    }

    /// The extranonce in the answer to EthereumStratum/1.0.0's subscription.
    pub(super) fn take_first_extranonce(&mut self, result: &Value) -> Result<(), SessionError> {
        let Some(list) = result.as_array() else {
            return Err(unexpected("subscription", result, "a list").into());
        };
        match list.get(1) {
            None | Some(Value::Null) => {}
            Some(value) => self.extranonce = extranonce(value)?,
        }
        Ok(())
    }

    pub(super) fn take_notice(&mut self, message: Envelope) -> Result<Vec<Event>, SessionError> {
        let method = message.method.as_deref().unwrap_or_default();
        let params = &message.params;
        let mut events = Vec::new();
        match (method, self.dialect) {
            ("mining.notify", Dialect::EthereumStratum1) => events.push(Event::Job(self.first_job(params)?)),
            ("mining.notify", Dialect::EthereumStratum2) => match self.second_job(params)? {
                Some(job) => events.push(Event::Job(job)),
                None => events.push(Event::Note(
                    "a job before the first mining.set is left out".into(),
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
            ("mining.bye", _) => events.push(Event::Bye),
            ("mining.reconnect" | "client.reconnect", _) => events.push(reconnect(params)),
            ("client.show_message", _) => {
                let words = entry(params, 0).as_str().unwrap_or_default();
                events.push(Event::Note(format!("the pool says: {}", shortened(words))));
            }
            ("mining.hashrate", _) => {}
            ("client.get_version", _) => {
                let agent = json!(self.login.agent);
                self.answer(&message, &agent, &Value::Null);
            }
            _ => self.answer(&message, &Value::Null, &json!([-3, "Method not found", null])),
        }
        Ok(events)
    }

    /// Answers a request of the pool's; a notification gets no answer.
    fn answer(&mut self, message: &Envelope, result: &Value, error: &Value) {
        if !message.id.is_null() {
            self.send(&json!({"id": message.id, "result": result, "error": error}));
        }
    }

    /// EthereumStratum/1.0.0: name, seed, header, whether to forget the jobs before.
    fn first_job(&self, params: &Value) -> Result<Job, MessageError> {
        let seed_hash = hash("seed hash", entry(params, 1))?;
        Ok(Job {
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

    /// EthereumStratum/2.0.0: name, block number, header, whether to forget the jobs before. The
    /// rest was set before; `None` when it was not.
    fn second_job(&self, params: &Value) -> Result<Option<Job>, MessageError> {
        let Some(epoch) = self.epoch else {
            return Ok(None);
        };
        // Leading zeros may be missing: some pools write the header as a number.
        let header_hash = boundary("header hash", entry(params, 2))?;
        let number = Some(number("block number", entry(params, 1))?);
        Ok(Some(Job {
            id: job_id(entry(params, 0))?,
            package: WorkPackage {
                header_hash,
                seed_hash: epoch.seed_hash(),
                boundary: self.boundary,
                // One that contradicts the epoch would have the wrong cache prepared.
                number: number.filter(|number| self.schedule.epoch(*number) == epoch),
                epoch,
            },
            extranonce: self.extranonce,
            clean: flag(entry(params, 3)),
        }))
    }

    /// eth-proxy: header, seed, boundary, and from some pools the block number.
    pub(super) fn proxy_job(&self, result: &Value) -> Result<Job, MessageError> {
        let seed_hash = hash("seed hash", entry(result, 1))?;
        let epoch = self.epoch_of(&seed_hash, entry(result, 1))?;
        let told = number("block number", entry(result, 3)).ok();
        Ok(Job {
            id: String::new(),
            package: WorkPackage {
                header_hash: hash("header hash", entry(result, 0))?,
                seed_hash,
                boundary: boundary("boundary", entry(result, 2))?,
                number: told.filter(|number| self.schedule.epoch(*number) == epoch),
                epoch,
            },
            extranonce: Extranonce::default(),
            clean: true,
        })
    }

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

    /// EthereumStratum/2.0.0's `mining.set`: what is missing stays as it is.
    fn set(&mut self, params: &Value) -> Result<(), MessageError> {
        if !params.is_object() {
            return Err(unexpected("mining.set", params, "an object"));
        }
        let given = |name: &str| params.get(name).filter(|value| !value.is_null());
        if let Some(value) = given("extranonce") {
            self.extranonce = extranonce(value)?;
        }
        if let Some(value) = given("target").filter(|value| value.as_str() != Some("")) {
            self.boundary = boundary("target", value)?;
        }
        let etchash = match given("algo").map(|value| (value, value.as_str())) {
            None | Some((_, Some("ethash"))) => false,
            Some((_, Some("etchash"))) => true,
            Some((value, _)) => return Err(unexpected("algo", value, "ethash or etchash")),
        };
        if let Some(value) = given("epoch") {
            let index = u32::try_from(number("epoch", value)?)
                .ok()
                .filter(|index| *index <= MAX_EPOCH)
                .ok_or_else(|| unexpected("epoch", value, "an epoch that has a dataset"))?;
            self.epoch = Some(if etchash {
                Epoch::etchash(index)
            } else {
                Epoch::ethash(index)
            });
        }
        Ok(())
    }
}

fn extranonce(value: &Value) -> Result<Extranonce, MessageError> {
    text("extranonce", value)?
        .parse()
        .map_err(|_| unexpected("extranonce", value, "at most 12 hexadecimal digits"))
}

fn job_id(value: &Value) -> Result<String, MessageError> {
    match value {
        Value::String(id) if id.len() <= JOB_ID_LEN_MAX => Ok(id.clone()),
        Value::Number(id) => Ok(id.to_string()),
        other => Err(unexpected("job id", other, "a text of at most 256 bytes")),
    }
}

/// Where the pool wants this miner: a list of host, port and seconds, or an object with a
/// hexadecimal port.
fn reconnect(params: &Value) -> Event {
    let (host, port, wait) = match params {
        Value::Object(_) => (
            &params["host"],
            number("port", &params["port"]).ok(),
            &Value::Null,
        ),
        list => (entry(list, 0), decimal(entry(list, 1)), entry(list, 2)),
    };
    let host = host.as_str().filter(|host| !host.is_empty()).map(shortened);
    let wait = Duration::from_secs(decimal(wait).unwrap_or(0)).min(RECONNECT_WAIT_MAX);
    Event::Reconnect {
        host,
        port: port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0),
        wait,
    }
}
