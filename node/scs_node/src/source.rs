//! The source from which a chain base is read: the unary calls of a VNODE, or a stand-in that
//! counts them.

use std::future::Future;

use primitives::{Address, Bytes};
use scs_service::client::{ContractSummary, ScsClient, ScsClientError};
use scs_service::proto::StorageRequest;

/// The calls with which chain bases are read, at the head of a VNODE.
pub(crate) trait BaseSource: Clone + Send + Sync + 'static {
    /// Calls a function of a contract. A call that fails returns the data of its revert.
    ///
    /// # Errors
    /// [`ScsClientError`] if the VNODE does not answer.
    fn call_contract(
        &self,
        contract: Address,
        input: Bytes,
    ) -> impl Future<Output = Result<Bytes, ScsClientError>> + Send;

    /// Runs code at the head, and returns what it returns or reverts with; nothing if the VNODE
    /// does not run code.
    ///
    /// # Errors
    /// [`ScsClientError`] if the VNODE does not answer.
    fn run_code(&self, code: Bytes) -> impl Future<Output = Result<Bytes, ScsClientError>> + Send;

    /// An account with its storage root and some of its slots; `None` if it does not exist.
    ///
    /// # Errors
    /// [`ScsClientError`] if the VNODE does not answer.
    fn contract_info(
        &self,
        contract: Address,
        storage: Vec<StorageRequest>,
    ) -> impl Future<Output = Result<Option<ContractSummary>, ScsClientError>> + Send;

    /// The transactions that an account has sent, those that wait in the VNODE's pool included.
    ///
    /// # Errors
    /// [`ScsClientError`] if the VNODE does not answer.
    fn nonce_with_pool(&self, account: Address) -> impl Future<Output = Result<u64, ScsClientError>> + Send;
}

impl BaseSource for ScsClient {
    async fn call_contract(&self, contract: Address, input: Bytes) -> Result<Bytes, ScsClientError> {
        self.public_call(contract, input).await
    }

    async fn run_code(&self, code: Bytes) -> Result<Bytes, ScsClientError> {
        self.public_run(code).await
    }

    async fn contract_info(
        &self,
        contract: Address,
        storage: Vec<StorageRequest>,
    ) -> Result<Option<ContractSummary>, ScsClientError> {
        self.chain_info(contract, storage).await
    }

    async fn nonce_with_pool(&self, account: Address) -> Result<u64, ScsClientError> {
        Ok(self.account_info(account).await?.tx_nonce)
    }
}
