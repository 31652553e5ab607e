//! The answers of the chain to the service.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chain::call::{CallOutcome, CallRequest, EvmCallError, StateAt, TIMEOUT_DEFAULT};
use chain::chain::SubmitError;
use chain::rules::body::{SenderError, sender};
use chain::spec::Rule;
use chain::witness::contract_call;
use chain::{Chain, View};
use network::NetworkHandle;
use primitives::{Address, B256, Bytes, Header, Transaction, U256};
use scs_service::proto::ScsPushMsg;
use scs_service::vnode::{
    AcceptedTransaction, BlockNotices, ContractView, DirectCall, HostAccount, HostContract, HostError,
    HostNotice, RoleAnswer, ScsHost, ScsRole,
};
use scs_service::{ScsId, WitnessWish};
use store::{AccountKey, StateReads, StoreError};

use super::bridge::for_peers;

/// The selector of `getSCSRole(address)` (docs/scs-wire.md, 5).
const GET_SCS_ROLE: [u8; 4] = [0x50, 0x85, 0x9f, 0xd9];
/// Gas and time of a call that asks for a role. Published contracts need a small part of it.
const ROLE_GAS: u64 = 10_000_000;
const ROLE_TIMEOUT: Duration = Duration::from_millis(500);
/// The highest sharding flag that exists: a contract of an application chain.
const SHARDING_FLAG_MAX: u64 = 3;

/// The chain as the service sees it.
pub(super) struct ChainScsHost {
    chain: Chain,
    /// The running network; empty until it has started.
    network: Arc<OnceLock<NetworkHandle>>,
}

impl ChainScsHost {
    pub(super) const fn new(chain: Chain, network: Arc<OnceLock<NetworkHandle>>) -> Self {
        Self { chain, network }
    }

    fn view(&self) -> Result<View, HostError> {
        self.chain.view().map_err(failed)
    }
}

/// The reason why a transaction for an application chain is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChainTransactionError {
    #[error("shardingFlag {flag}: to: got none, expected the address of an application chain")]
    NoChain { flag: u64 },
    /// The signature is not valid on this chain.
    #[error(transparent)]
    Sender(#[from] SenderError),
}

/// A transaction for an application chain, after its signature was checked.
///
/// # Errors
/// [`ChainTransactionError`] if the transaction is refused.
pub(super) fn direct_call(
    chain: &Chain,
    transaction: &Transaction,
) -> Result<DirectCall, ChainTransactionError> {
    let flag = transaction.sharding_flag;
    let to = transaction.to.ok_or(ChainTransactionError::NoChain { flag })?;
    let sender = sender(chain.spec(), chain.pool().next_number(), transaction)?;
    Ok(DirectCall {
        hash: transaction.hash(),
        sender,
        chain: to,
        rlp: transaction.encode().into(),
    })
}

fn failed(error: impl std::fmt::Display) -> HostError {
    HostError::Failed(error.to_string())
}

/// An error of a call that could not be run to its end.
fn call_error(error: EvmCallError) -> HostError {
    match error {
        EvmCallError::Stopped(stop) => HostError::TooMuch(stop.to_string()),
        other => failed(other),
    }
}

impl ScsHost for ChainScsHost {
    fn chain_id(&self) -> u64 {
        self.chain.chain_id()
    }

    fn is_ready(&self) -> bool {
        self.chain.failure().is_none()
    }

    fn has_micro_chains(&self) -> bool {
        let head = self.chain.pool().next_number().saturating_sub(1);
        self.chain.spec().rules_at(head).has(Rule::NoticeWord)
    }

    fn is_syncing(&self) -> bool {
        self.network.get().is_some_and(NetworkHandle::is_far_behind)
    }

    fn relay_broadcast(&self, message: &ScsPushMsg, _: &B256) {
        if let Some(network) = self.network.get() {
            // The hub computes the same hash, and passes a message on once.
            network.relay_message(&for_peers(message));
        }
    }

    fn relay_call(&self, call: &DirectCall) {
        let transaction = Transaction::decode_raw(&call.rlp, self.chain.spec().tx_rules());
        match (self.network.get(), transaction) {
            (Some(network), Ok(transaction)) => network.relay_transaction(&transaction),
            (_, Err(error)) => tracing::error!(%error, "a transaction for an application chain is damaged"),
            (None, Ok(_)) => {}
        }
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.view()?.canonical_hash(number).map_err(failed)
    }

    fn notices(&self, number: u64) -> Result<Option<BlockNotices>, HostError> {
        let view = self.view()?;
        let Some((hash, _)) = view.header(number).map_err(failed)? else {
            return Ok(None);
        };
        let id = chain::import::BlockId { number, hash };
        let stored = view.notices(&id).map_err(failed)?.unwrap_or_default();
        let mut notices = Vec::with_capacity(stored.len());
        if !stored.is_empty() {
            let missing = || HostError::Failed(format!("block {number} has notices, but no body"));
            let block = view.block(number).map_err(failed)?.ok_or_else(missing)?;
            for notice in stored {
                let transaction = block.body.transactions.get(notice.transaction_index as usize);
                let missing = || {
                    HostError::Failed(format!(
                        "block {number} has a notice of transaction {}, but no such transaction",
                        notice.transaction_index
                    ))
                };
                notices.push(HostNotice {
                    transaction: transaction.ok_or_else(missing)?.hash(),
                    caller: notice.caller,
                    input: notice.input,
                });
            }
        }
        Ok(Some(BlockNotices { hash, notices }))
    }

    fn role(&self, chain: &Address, id: &ScsId) -> Result<RoleAnswer, HostError> {
        let view = self.view()?;
        let head = view.head_number();
        let account = view.account(chain, head).map_err(failed)?;
        let has_code = account.is_some_and(|account| account.code_hash != primitives::EMPTY_CODE_HASH);
        if !has_code {
            return Ok(RoleAnswer::Role(ScsRole::None));
        }
        let request = CallRequest {
            from: Some(*chain),
            to: Some(*chain),
            gas: Some(ROLE_GAS),
            input: [&GET_SCS_ROLE[..], id.0.into_word().as_slice()].concat().into(),
            ..CallRequest::default()
        };
        let outcome = view.call(StateAt::Block(head), &request, ROLE_TIMEOUT);
        Ok(match outcome.map_err(call_error)? {
            CallOutcome::Success { output, .. } if output.len() >= 32 => {
                let number = U256::from_be_slice(&output[..32]);
                let role = u64::try_from(number).map_or(ScsRole::None, ScsRole::from_number);
                RoleAnswer::Role(role)
            }
            _ => RoleAnswer::CallFailed,
        })
    }

    fn account(&self, address: &Address) -> Result<HostAccount, HostError> {
        // The pool is read before the chain: a transaction can move from the pool into a block
        // between the two reads, but not back.
        let pooled = self.chain.pool().next_nonce(address).unwrap_or_default();
        let view = self.view()?;
        let account = view.account(address, view.head_number()).map_err(failed)?;
        let Some(account) = account else {
            return Ok(HostAccount {
                tx_nonce: pooled,
                ..HostAccount::default()
            });
        };
        Ok(HostAccount {
            balance: account.balance,
            tx_nonce: pooled.max(account.tx_nonce),
            code_hash: account.code_hash,
        })
    }

    fn contract(&self, address: &Address) -> Result<Option<Box<dyn ContractView + '_>>, HostError> {
        let view = self.view()?;
        let head = view.head_number();
        let version = view.snapshot().account_at(address, head).map_err(failed)?;
        let Some(account) = version.account else {
            return Ok(None);
        };
        let contract = HostContract {
            balance: account.balance,
            tx_nonce: account.tx_nonce,
            storage_root: account.storage_root,
            code_hash: account.code_hash,
            code: view.code(address, head).map_err(failed)?.into(),
        };
        Ok(Some(Box::new(ContractAtHead {
            view,
            address: *address,
            incarnation: version.incarnation,
            contract,
        })))
    }

    fn call(&self, contract: Option<&Address>, input: Bytes) -> Result<Bytes, HostError> {
        let view = self.view()?;
        let request = contract_call(contract, input);
        let outcome = view.call(StateAt::Block(view.head_number()), &request, TIMEOUT_DEFAULT);
        Ok(outcome.map_err(call_error)?.into_answer())
    }

    fn headers(&self, number: u64, count: u64) -> Result<Vec<Header>, HostError> {
        let view = self.view()?;
        let last = number
            .saturating_add(count.saturating_sub(1))
            .min(view.head_number());
        let mut headers = Vec::new();
        for number in number..=last {
            headers.extend(
                view.header(number)
                    .map_err(failed)?
                    .map(|(_, record)| record.header),
            );
        }
        Ok(headers)
    }

    fn witness(&self, wish: &WitnessWish) -> Result<Option<Bytes>, HostError> {
        let view = self.view()?;
        if view.canonical_hash(wish.number).map_err(failed)? != Some(wish.hash) {
            return Ok(None);
        }
        let request = wish
            .input
            .clone()
            .map(|input| contract_call(Some(&wish.contract), input));
        let (number, contract, slots) = (wish.number, wish.contract, &wish.slots);
        let witness = view.witness(number, contract, slots, request.as_ref(), TIMEOUT_DEFAULT);
        let witness = match witness {
            // The block is too old.
            Err(EvmCallError::NotKept(_)) => None,
            other => other.map_err(call_error)?,
        };
        Ok(witness.map(|witness| witness.encode().into()))
    }

    fn submit(&self, raw: &[u8]) -> Result<AcceptedTransaction, HostError> {
        let refused = |error: &dyn std::fmt::Display| HostError::Refused(error.to_string());
        let rules = self.chain.spec().tx_rules();
        let transaction = Transaction::decode_raw(raw, rules).map_err(|error| refused(&error))?;
        match transaction.sharding_flag {
            0 => match self.chain.submit_transaction(transaction) {
                Ok(_) => Ok(AcceptedTransaction::Pooled),
                Err(SubmitError::Store(error)) => Err(failed(error)),
                Err(error) => Err(refused(&error)),
            },
            1..=SHARDING_FLAG_MAX => {
                let call = direct_call(&self.chain, &transaction);
                call.map(AcceptedTransaction::ForChain)
                    .map_err(|error| HostError::Refused(error.to_string()))
            }
            _ => Err(HostError::Refused("shardingFlag error".to_owned())),
        }
    }
}

/// A contract at the head that the service has read.
struct ContractAtHead {
    view: View,
    address: Address,
    incarnation: u32,
    contract: HostContract,
}

/// The end of a walk over slots before the last one.
enum WalkEnd {
    Stopped,
    Store(StoreError),
}

impl From<StoreError> for WalkEnd {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ContractView for ContractAtHead {
    fn contract(&self) -> &HostContract {
        &self.contract
    }

    fn slot(&self, slot: &U256) -> Result<U256, HostError> {
        let (view, head) = (&self.view, self.view.head_number());
        let value = view
            .snapshot()
            .slot_at(&self.address, self.incarnation, slot, head);
        value.map_err(failed)
    }

    fn visit_slots(&self, visit: &mut dyn FnMut(Option<U256>, U256) -> bool) -> Result<(), HostError> {
        let owner = AccountKey::of(&self.address).storage(self.incarnation);
        let head = self.view.head_number();
        let walked = self
            .view
            .snapshot()
            .walk_slots(&owner, &B256::ZERO, head, |found| {
                visit(found.slot, found.value)
                    .then_some(())
                    .ok_or(WalkEnd::Stopped)
            });
        match walked {
            Ok(()) | Err(WalkEnd::Stopped) => Ok(()),
            Err(WalkEnd::Store(error)) => Err(failed(error)),
        }
    }
}
