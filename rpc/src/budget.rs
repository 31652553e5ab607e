//! The time for the work on one message, and the bytes for its results.
//!
//! The requests of a batch share one budget and use it in order. This module knows neither methods
//! nor threads.

use tokio::time::Instant;

use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::limits::Limits;

/// The time and the bytes that are left for one message.
#[derive(Clone)]
pub(crate) struct MessageBudget {
    /// When the work must be finished.
    pub(crate) deadline: Instant,
    /// Bytes left for results.
    pub(crate) len_left: usize,
    len_max: usize,
}

impl MessageBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            deadline: Instant::now() + limits.request_timeout,
            len_left: limits.response_len_max,
            len_max: limits.response_len_max,
        }
    }

    /// Checks that another call may start.
    ///
    /// # Errors
    /// −32000 if no bytes or no time is left.
    pub(crate) fn admit(&self) -> RpcResult<()> {
        if self.len_left == 0 {
            return Err(self.too_long("not run: "));
        }
        if Instant::now() >= self.deadline {
            return Err(RpcError::refused("not run: the request timed out"));
        }
        Ok(())
    }

    /// Takes the bytes of a result from the budget. After a result that does not fit, no bytes are
    /// left for later results.
    ///
    /// # Errors
    /// −32000 if the result does not fit, or the error that the result is already.
    pub(crate) fn charge(&mut self, result: RpcResult<Json>) -> RpcResult<Json> {
        let json = result?;
        match self.len_left.checked_sub(json.as_bytes().len()) {
            Some(len_left) => {
                self.len_left = len_left;
                Ok(json)
            }
            None => {
                self.len_left = 0;
                Err(self.too_long(""))
            }
        }
    }

    fn too_long(&self, prefix: &str) -> RpcError {
        RpcError::too_long(prefix, self.len_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_time_run_out() {
        let limits = Limits {
            response_len_max: 10,
            ..Limits::default()
        };
        let result = |len: usize| Ok(Json::from_text(vec![b'1'; len]));
        let mut budget = MessageBudget::new(&limits);
        assert!(budget.charge(result(6)).is_ok() && budget.admit().is_ok());
        assert_eq!(
            budget.charge(result(5)).unwrap_err().message(),
            "the response is longer than 10 bytes"
        );
        assert_eq!(
            budget.admit().unwrap_err().message(),
            "not run: the response is longer than 10 bytes"
        );

        let mut budget = MessageBudget::new(&limits);
        assert!(budget.charge(result(10)).is_ok(), "the last byte may be used");
        budget.deadline = Instant::now();
        assert!(budget.admit().is_err());
    }
}
