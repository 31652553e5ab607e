//! Ids of filters and subscriptions.

use crate::error::{RpcResult, failure};

/// A random id. Nobody can guess it, so no client can use the filter of another.
pub(crate) fn random_id() -> RpcResult<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failure)?;
    Ok(u128::from_be_bytes(bytes))
}
