//! Runs a call and tells what of the state it has read.

use std::collections::{BTreeMap, BTreeSet};

use primitives::{Address, U256};

use super::{CallOutcome, CallRequest, EvmCallError, StateAt, outcome_of};
use crate::evm::deadline::Deadline;
use crate::evm::handler::EvmOutcome;
use crate::query_limit::QueryLimit;
use crate::view::View;

/// The accounts that a call has read, with the slots of each.
pub type CallReads = BTreeMap<Address, BTreeSet<U256>>;

impl View {
    /// Runs a call within `limit`, and tells which accounts and slots its result depends on.
    ///
    /// # Errors
    /// As for [`View::call`].
    pub fn call_with_reads(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        limit: impl Into<QueryLimit>,
    ) -> Result<(CallOutcome, CallReads), EvmCallError> {
        let (header, mut state) = self.open_call(at, request)?;
        let mut deadline = Deadline::new(limit.into());
        let gas = request.gas_of_call();
        let EvmOutcome { result, changes, .. } =
            self.run_call(&header, &mut state, request, gas, &mut deadline)?;
        deadline.check()?;
        let reads = changes
            .into_iter()
            .map(|(address, account)| (address, account.storage.into_keys().collect()));
        Ok((outcome_of(result), reads.collect()))
    }
}
