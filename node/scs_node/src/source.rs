//! The source from which a chain base is read: a VNODE that is believed, one that proves what it
//! tells (`proven`), or a stand-in that counts the calls.

use std::future::Future;

use microchain::branch::{BRANCH_CODE, BaseBranch, read_branch};
use primitives::{Address, B256, Bytes, U256};
use scs_service::client::{ContractSummary, ScsClient};
use scs_service::proto::StorageRequest;

use crate::proven::{BaseReadError, ProvenBase};

/// `reqtype` of one slot.
const SINGLE_SLOT: u32 = 4;

/// The calls with which chain bases are read, at the head of a VNODE.
pub(crate) trait BaseSource: Clone + Send + Sync + 'static {
    /// The number of the head, which the VNODE says is `told`. Comes before the other calls.
    ///
    /// # Errors
    /// [`BaseReadError`] if the VNODE does not answer, or is not believed.
    fn head(&self, told: u64) -> impl Future<Output = Result<u64, BaseReadError>> + Send {
        std::future::ready(Ok(told))
    }

    /// Calls a function of a contract. A call that fails returns the data of its revert.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn call_contract(
        &self,
        contract: Address,
        input: Bytes,
    ) -> impl Future<Output = Result<Bytes, BaseReadError>> + Send;

    /// The base chain at and below the head; `None` if the VNODE does not tell it.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn branch(&self) -> impl Future<Output = Result<Option<BaseBranch>, BaseReadError>> + Send;

    /// An account with its storage root and some of its slots; `None` if it does not exist.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn contract_info(
        &self,
        contract: Address,
        slots: &[U256],
    ) -> impl Future<Output = Result<Option<ContractSummary>, BaseReadError>> + Send;

    /// The transactions that an account has sent, those that wait in the VNODE's pool included.
    /// Nothing proves them.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn nonce_with_pool(&self, account: Address) -> impl Future<Output = Result<u64, BaseReadError>> + Send;
}

/// A VNODE, believed or not.
#[derive(Clone, Debug)]
pub(crate) struct VnodeSource {
    pub(crate) client: ScsClient,
    /// The checks; `None` if the VNODE is believed.
    pub(crate) proven: Option<ProvenBase>,
}

impl BaseSource for VnodeSource {
    async fn head(&self, told: u64) -> Result<u64, BaseReadError> {
        match &self.proven {
            Some(proven) => proven.follow(told).await,
            None => Ok(told),
        }
    }

    async fn call_contract(&self, contract: Address, input: Bytes) -> Result<Bytes, BaseReadError> {
        match &self.proven {
            Some(proven) => proven.call(contract, input).await,
            None => Ok(self.client.public_call(contract, input).await?),
        }
    }

    async fn branch(&self) -> Result<Option<BaseBranch>, BaseReadError> {
        match &self.proven {
            Some(proven) => Ok(proven.branch()),
            None => {
                let answer = self.client.public_run(BRANCH_CODE.to_vec().into()).await?;
                Ok(read_branch(&answer))
            }
        }
    }

    async fn contract_info(
        &self,
        contract: Address,
        slots: &[U256],
    ) -> Result<Option<ContractSummary>, BaseReadError> {
        if let Some(proven) = &self.proven {
            return proven.contract(contract, slots.to_vec()).await;
        }
        let requests = slots.iter().map(|slot| StorageRequest {
            reqtype: SINGLE_SLOT,
            storagekey: B256::from(*slot).to_vec().into(),
            ..StorageRequest::default()
        });
        Ok(self.client.chain_info(contract, requests.collect()).await?)
    }

    async fn nonce_with_pool(&self, account: Address) -> Result<u64, BaseReadError> {
        Ok(self.client.account_info(account).await?.tx_nonce)
    }
}
