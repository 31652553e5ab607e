//! The transactions that members send to DappBase: votes for deposits, and for the list of members
//! (docs/microchain-design.md, 6).

use std::sync::Arc;

use chain::View;
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::query_limit::QueryLimit;
use primitives::{Address, Bytes, Transaction, TxForm, UnsignedTransaction, keccak256};

use super::depths::DEPOSIT_DEPTH;
use super::{EngineError, MemberEngine};
use crate::abi::ResultReader;
use crate::contract::DepositList;
use crate::dapp_base::{DappBaseCalls, post_flush, update_node_list};
use crate::message::relayed;

/// Blocks between two votes, if the chain base says nothing.
const CYCLE_DEFAULT: u64 = 6;
/// The most deposits of one vote, if the chain base says nothing.
const BATCH_DEFAULT: u64 = 250;

impl MemberEngine {
    /// Sends what is due after a new head.
    pub(super) fn send_credits(&mut self) -> Result<(), EngineError> {
        let Some(contract) = self.started() else {
            return Ok(());
        };
        if !contract.members.contains(&self.id) {
            return Ok(());
        }
        let view = self.ledger.view()?;
        let number = view.head_number();
        let Some(deposits) = &contract.deposits else {
            return Ok(());
        };
        let cycle = match deposits.cycle {
            0 => CYCLE_DEFAULT,
            cycle => cycle,
        };
        let is_fresh = self.ledger.slot_of(&view.head().header) + 2 > self.slot();
        let dapp_base = self.ledger.dapp_base();
        if number == 0 || number % cycle != 0 || !is_fresh || view.code(&dapp_base, number)?.is_empty() {
            return Ok(());
        }
        // One vote at a time: the next one sees what became of this one.
        let nonce = view
            .account(&self.id, number)?
            .map_or(0, |account| account.tx_nonce);
        if self.pool.lock().next_nonce(&self.id, nonce) != nonce {
            return Ok(());
        }
        let call = match self.node_list_vote(&view)? {
            Some(call) => Some(call),
            None => self.deposit_vote(&view, deposits, contract.base_block)?,
        };
        drop(view);
        if let Some(call) = call {
            let transaction = self.dapp_base_call(nonce, &call);
            if let Err(refusal) = self.add_transaction(transaction.clone())? {
                tracing::warn!(chain = %self.setup.address, %refusal, "an own vote is refused");
            }
            self.send(&relayed(&[Arc::new(transaction)]), None);
        }
        Ok(())
    }

    fn dapp_base_call(&self, nonce: u64, call: &[u8]) -> Transaction {
        let unsigned = UnsignedTransaction {
            tx_nonce: nonce,
            to: Some(self.setup.address),
            input: [self.ledger.dapp_base().as_slice(), call].concat().into(),
            sharding_flag: chain::application::FLAG_CALL,
            via: self.contract.as_ref().map(|contract| contract.via),
            ..Default::default()
        };
        unsigned.sign(&self.key, self.setup.chain_id, TxForm::Native)
    }

    /// The vote for the deposits that are due at the head: those that the chain base had
    /// [`DEPOSIT_DEPTH`] blocks before the base block that the head names. All honest members vote
    /// for the same ones, because the head decides. If the head names a block that this SCS has
    /// not read, its own last one counts.
    fn deposit_vote(
        &self,
        view: &View,
        deposits: &DepositList,
        base_block: u64,
    ) -> Result<Option<Bytes>, EngineError> {
        let Some(parent) = self.ledger.parent(view, &view.head_hash())? else {
            return Ok(None);
        };
        let calls = DappBaseCalls::new(view, self.ledger.dapp_base());
        let position = calls.enter_position(parent.number)?;
        let Some(done) = position.checked_sub(deposits.from) else {
            return Ok(None);
        };
        let base = parent.extra.base.min(base_block);
        let Some(base) = base.checked_sub(DEPOSIT_DEPTH) else {
            return Ok(None);
        };
        let end = self.watch.marks.end_at(base).unwrap_or_default();
        let batch = match deposits.batch_max {
            0 => BATCH_DEFAULT,
            batch => batch.min(BATCH_DEFAULT),
        };
        let waiting = deposits.entries.get(done as usize..).unwrap_or_default();
        let due = waiting.iter().take(end.saturating_sub(position) as usize);
        let due: Vec<_> = due.take(batch as usize).copied().collect();
        Ok((!due.is_empty()).then(|| post_flush(position, &due)))
    }

    /// The vote for the list of members, if DappBase has other ones.
    fn node_list_vote(&self, view: &View) -> Result<Option<Bytes>, EngineError> {
        let number = view.head_number();
        let calls = DappBaseCalls::new(view, self.ledger.dapp_base());
        let Some(parent) = self.ledger.parent(view, &view.head_hash())? else {
            return Ok(None);
        };
        let members = parent.members;
        let sorted = |list: &[Address]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        if sorted(&calls.node_list(number)?) == sorted(&members) {
            return Ok(None);
        }
        // Votes are never forgotten, so another order of the same members may be needed.
        let reverse: Vec<_> = members.iter().rev().copied().collect();
        for list in [&members, &reverse] {
            for first in 0..list.len() {
                let mut order = list.clone();
                order.rotate_left(first);
                if self.would_be_set(view, &members, &order)? {
                    return Ok(Some(update_node_list(&order)));
                }
            }
        }
        tracing::warn!(
            chain = %self.setup.address,
            "no order of the members can be voted for any more; the owner must set DappBase's list"
        );
        Ok(None)
    }

    /// Whether DappBase would have this list if all members voted for it on the head's state.
    fn would_be_set(&self, view: &View, members: &[Address], order: &[Address]) -> Result<bool, EngineError> {
        let call = update_node_list(order);
        let draft = self.ledger.try_out(view, &self.key, |executor| {
            for member in members {
                let nonce = view.account(member, view.head_number())?;
                let nonce = nonce.map_or(0, |account| account.tx_nonce);
                // The signature is not looked at here.
                let transaction = self.dapp_base_call(nonce, &call);
                if let Err(error) = executor.transaction(&transaction, *member) {
                    tracing::debug!(%member, %error, "a vote was tried and fails");
                }
            }
            Ok(())
        })?;
        let request = CallRequest {
            to: Some(self.ledger.dapp_base()),
            input: Bytes::copy_from_slice(&keccak256("getCurNodeList()")[..4]),
            ..Default::default()
        };
        let at = StateAt::Pending(&draft);
        let outcome = view.call(at, &request, QueryLimit::new(TIMEOUT_DEFAULT));
        Ok(match outcome.map_err(crate::error::ReadError::from)? {
            CallOutcome::Success { output, .. } => ResultReader::new(&output)
                .addresses()
                .is_ok_and(|list| list == order),
            _ => false,
        })
    }
}
