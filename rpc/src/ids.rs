//! Ids of filters and subscriptions.

use crate::error::{RpcResult, failure};

/// Ids cannot be guessed, so that no client meets another's filter.
pub(crate) fn random_id() -> RpcResult<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failure)?;
    Ok(u128::from_be_bytes(bytes))
}
