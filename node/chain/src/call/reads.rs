//! Runs a call and tells what of the state it has read.

use std::collections::{BTreeMap, BTreeSet};

use primitives::{Address, B256, U256};

use super::{CallOutcome, CallRequest, EvmCallError, StateAt, outcome_of};
use crate::evm::deadline::Deadline;
use crate::evm::handler::EvmOutcome;
use crate::query_limit::QueryLimit;
use crate::view::View;

/// The parts of the chain that a call has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallReads {
    /// The accounts, with the slots of each.
    pub accounts: BTreeMap<Address, BTreeSet<U256>>,
    /// The number of a block whose hash the call wanted, and which the given ancestors lack.
    pub missing_ancestor: Option<u64>,
}

impl View {
    /// Runs a call within `limit`, and tells which accounts and slots its result depends on. The
    /// opcode BLOCKHASH finds the blocks of `ancestors`, by number; without them, those of the
    /// chain.
    ///
    /// # Errors
    /// As for [`View::call`].
    pub fn call_with_reads(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        ancestors: Option<BTreeMap<u64, B256>>,
        limit: impl Into<QueryLimit>,
    ) -> Result<(CallOutcome, CallReads), EvmCallError> {
        let (header, mut state) = self.open_call(at, request)?;
        if let Some(ancestors) = ancestors {
            state.override_ancestors(ancestors);
        }
        let mut deadline = Deadline::new(limit.into());
        let gas = request.gas_of_call();
        let EvmOutcome { result, changes, .. } =
            self.run_call_within(&header, &mut state, request, gas, &mut deadline)?;
        let accounts = changes
            .into_iter()
            .map(|(address, account)| (address, account.storage.into_keys().collect()));
        let reads = CallReads {
            accounts: accounts.collect(),
            missing_ancestor: state.missing_ancestor(),
        };
        Ok((outcome_of(result), reads))
    }
}
