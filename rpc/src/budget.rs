//! One message's share of time and of space for its results.
//!
//! Members of a batch draw on the same budget in order. Knows neither methods nor threads.

use tokio::time::Instant;

use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::limits::Limits;

/// One message's share of time and space.
#[derive(Clone)]
pub(crate) struct Budget {
    /// When the work has to be done.
    pub(crate) deadline: Instant,
    /// Bytes left for results.
    pub(crate) room: usize,
    room_max: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = limits.response_len_max;
        Self {
            deadline: Instant::now() + limits.request_timeout,
            room,
            room_max: room,
        }
    }

    /// Whether another call may start.
    pub(crate) fn admit(&self) -> RpcResult<()> {
        if self.room == 0 {
            return Err(self.too_long("not run: "));
        }
        if Instant::now() >= self.deadline {
            return Err(RpcError::refused("not run: the request timed out"));
        }
        Ok(())
    }

    /// Takes the room a result needs; one that does not fit ends the room for those after it.
    pub(crate) fn charge(&mut self, result: RpcResult<Json>) -> RpcResult<Json> {
        let json = result?;
        match self.room.checked_sub(json.as_bytes().len()) {
            Some(room) => {
                self.room = room;
                Ok(json)
            }
            None => {
                self.room = 0;
                Err(self.too_long(""))
            }
        }
    }

    fn too_long(&self, prefix: &str) -> RpcError {
        RpcError::too_long(prefix, self.room_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_and_time_end() {
        let limits = Limits {
            response_len_max: 10,
            ..Limits::default()
        };
        let result = |len: usize| Ok(Json::from_text(vec![b'1'; len]));
        let mut budget = Budget::new(&limits);
        assert!(budget.charge(result(6)).is_ok() && budget.admit().is_ok());
        assert_eq!(
            budget.charge(result(5)).unwrap_err().message(),
            "the response is longer than 10 bytes"
        );
        assert_eq!(
            budget.admit().unwrap_err().message(),
            "not run: the response is longer than 10 bytes"
        );

        let mut budget = Budget::new(&limits);
        assert!(budget.charge(result(10)).is_ok(), "all of it may be used");
        budget.deadline = Instant::now();
        assert!(budget.admit().is_err());
    }
}
