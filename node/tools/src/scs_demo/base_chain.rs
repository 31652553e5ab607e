//! Transactions of the demo on the development network: contracts are created and called, and
//! receipts waited for.

use std::time::Duration;

use chain::Chain;
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use microchain::abi::CallData;
use primitives::{
    Address, B256, Bytes, ReceiptOutcome, SecretKey, TxForm, U256, UnsignedTransaction, hex, keccak256,
};
use serde_json::Value;

use super::ScsDemoError;

/// The compiled contracts.
const COMPILED: &str = include_str!("../../../../contracts/compiled.json");
/// Gas for the creation of a contract.
const CREATE_GAS: u64 = 8_900_000;
/// Gas for a call.
const CALL_GAS: u64 = 1_000_000;
/// The price of gas, in sha.
const GAS_PRICE: u64 = 20_000_000_000;
/// Time between two looks at the chain.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for a receipt, or for anything else of the demo.
const PATIENCE: Duration = Duration::from_secs(180);

/// An account of the development network that pays for the demo.
pub(super) struct DemoAccount {
    chain: Chain,
    key: SecretKey,
}

/// A transaction of the demo.
pub(super) struct DemoCall {
    pub(super) to: Option<Address>,
    pub(super) value: U256,
    pub(super) data: Bytes,
    pub(super) gas: u64,
}

impl DemoCall {
    /// A call of a function.
    pub(super) fn function(to: Address, signature: &str, arguments: CallData) -> Self {
        Self {
            to: Some(to),
            value: U256::ZERO,
            data: input(signature, arguments),
            gas: CALL_GAS,
        }
    }

    /// The same with coins.
    pub(super) fn paying(self, value: U256) -> Self {
        Self { value, ..self }
    }
}

/// The calldata of a function.
pub(super) fn input(signature: &str, arguments: CallData) -> Bytes {
    let hash = keccak256(signature);
    arguments.after([hash[0], hash[1], hash[2], hash[3]])
}

/// The code that creates a contract of the folder `contracts`.
pub(super) fn creation(name: &str, arguments: CallData) -> Result<Bytes, ScsDemoError> {
    let broken = || ScsDemoError::Contract(name.to_owned());
    let compiled: Value = serde_json::from_str(COMPILED).map_err(|_| broken())?;
    let code = compiled["contracts"][name]["bytecode"]
        .as_str()
        .ok_or_else(broken)?;
    let mut code = hex::decode(code).map_err(|_| broken())?;
    code.extend(arguments.encode());
    Ok(code.into())
}

impl DemoAccount {
    pub(super) const fn new(chain: Chain, key: SecretKey) -> Self {
        Self { chain, key }
    }

    pub(super) fn address(&self) -> Address {
        self.key.address()
    }

    /// Signs with this account's key.
    pub(super) fn sign(&self, unsigned: &UnsignedTransaction) -> primitives::Transaction {
        unsigned.sign(&self.key, self.chain.chain_id(), TxForm::Native)
    }

    /// Creates a contract. Returns its address.
    pub(super) async fn create(&self, name: &str, arguments: CallData) -> Result<Address, ScsDemoError> {
        let call = DemoCall {
            to: None,
            value: U256::ZERO,
            data: creation(name, arguments)?,
            gas: CREATE_GAS,
        };
        let (tx_nonce, hash) = self.submit(call)?;
        self.receipt(hash, name).await?;
        Ok(primitives::Transaction::created_address(
            &self.address(),
            tx_nonce,
        ))
    }

    /// Sends a transaction and waits until it is in a block.
    pub(super) async fn transact(&self, call: DemoCall, what: &str) -> Result<(), ScsDemoError> {
        let (_, hash) = self.submit(call)?;
        self.receipt(hash, what).await
    }

    /// Puts a transaction into the pool. Returns its nonce and hash.
    pub(super) fn submit(&self, call: DemoCall) -> Result<(u64, B256), ScsDemoError> {
        let address = self.address();
        let pooled = self.chain.pool().next_nonce(&address).unwrap_or_default();
        let view = self.chain.view()?;
        let account = view.account(&address, view.head_number())?;
        let tx_nonce = pooled.max(account.map_or(0, |account| account.tx_nonce));
        let signed = self.sign(&UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(GAS_PRICE),
            gas: call.gas,
            to: call.to,
            value: call.value,
            input: call.data,
            ..UnsignedTransaction::default()
        });
        let hash = signed.hash();
        self.chain
            .submit_transaction(signed)
            .map_err(|error| ScsDemoError::Refused(error.to_string()))?;
        Ok((tx_nonce, hash))
    }

    /// Waits for the receipt of a transaction, which must have succeeded.
    pub(super) async fn receipt(&self, hash: B256, what: &str) -> Result<(), ScsDemoError> {
        let outcome = wait_for(what, || {
            let view = self.chain.view()?;
            let Some((block, index)) = view.transaction(&hash)? else {
                return Ok(None);
            };
            let number = block.record.header.number;
            let Some((hash, _)) = view.header(number)? else {
                return Ok(None);
            };
            let receipts = view.receipts(&chain::import::BlockId { number, hash })?;
            Ok(receipts.and_then(|receipts| receipts.get(index).map(|receipt| receipt.outcome)))
        });
        match outcome.await? {
            ReceiptOutcome::Status(false) => Err(ScsDemoError::Failed(what.to_owned())),
            _ => Ok(()),
        }
    }

    /// Calls a function without a transaction.
    pub(super) fn read(
        &self,
        contract: Address,
        signature: &str,
        arguments: CallData,
    ) -> Result<Bytes, ScsDemoError> {
        let view = self.chain.view()?;
        let request = CallRequest {
            to: Some(contract),
            input: input(signature, arguments),
            ..CallRequest::default()
        };
        match view.call(StateAt::Block(view.head_number()), &request, TIMEOUT_DEFAULT) {
            Ok(CallOutcome::Success { output, .. }) => Ok(output),
            Ok(_) => Err(ScsDemoError::Failed(signature.to_owned())),
            Err(error) => Err(ScsDemoError::Refused(error.to_string())),
        }
    }

    /// Waits until the head of the chain is at least `blocks` further.
    pub(super) async fn wait_for_blocks(&self, blocks: u64) -> Result<(), ScsDemoError> {
        let wanted = self.chain.view()?.head_number() + blocks;
        wait_for("blocks", || {
            let head = self.chain.view()?.head_number();
            Ok((head >= wanted).then_some(()))
        })
        .await
    }
}

/// Looks again and again until `look` finds something.
pub(super) async fn wait_for<T>(
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, ScsDemoError>,
) -> Result<T, ScsDemoError> {
    let search = async {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, search).await;
    found.unwrap_or_else(|_| Err(ScsDemoError::Patience(what.to_owned())))
}
