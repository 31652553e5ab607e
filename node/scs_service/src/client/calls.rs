//! The unary calls of an SCS (docs/scs-wire.md, 9).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use primitives::rlp::RlpReader;
use primitives::{Address, B256, Bytes, DecodeError, Header, U256, hex};
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tonic::{Code, Request};

use super::{AnswerError, ScsClient, ScsClientError, link};
use crate::message::payload::decode_text;
use crate::proto::{
    AccountInfoRequest, BaseHeadersRequest, ChainInfoRequest, DownloadBlockRequest, RemoteCallRequest,
    ScbPublicCallRequest, ServiceReply, StorageRequest, UploadBlockRequest,
};
use crate::wire::{
    ACCOUNT_INFO, BASE_HEADERS, CHAIN_INFO, DOWNLOAD_BLOCK, REMOTE_CALL, SCB_PUBLIC_CALL, UPLOAD_BLOCK,
    WITNESS, codec, path,
};
use crate::witness::{HEADERS_MAX, WitnessWish, decode_headers};

/// The answer of calls that return nothing.
pub(super) const SUCCESS: &str = "success";
/// The status of a VNODE for a call that it does not know.
pub const UNKNOWN_CALL: Code = Code::Unimplemented;
/// Fields of an account that have a meaning. Others may follow.
const ACCOUNT_FIELDS_MIN: usize = 4;

/// An account of the base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountSummary {
    /// The balance in sha.
    pub balance: U256,
    /// The number of transactions sent, those that are pending in the pool included.
    pub tx_nonce: u64,
    /// The hash of the code; zero if the account does not exist.
    pub code_hash: B256,
}

/// A contract of the base chain, with the slots that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractSummary {
    /// The balance in sha.
    pub balance: U256,
    /// The number of transactions sent or contracts created.
    pub tx_nonce: u64,
    /// The root of the storage.
    pub storage_root: B256,
    /// The hash of the code.
    pub code_hash: B256,
    /// The code.
    pub code: Bytes,
    /// Values by slot.
    pub storage: BTreeMap<U256, U256>,
}

/// The JSON of `ChainInfo`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContractJson {
    balance: Box<RawValue>,
    nonce: u64,
    root: String,
    code_hash: String,
    code: Option<String>,
    storage: Option<BTreeMap<String, String>>,
}

impl ScsClient {
    /// Reads an account at the head of the VNODE.
    ///
    /// # Errors
    /// [`ScsClientError`] if there is no connection, or the VNODE does not answer as it should.
    pub async fn account_info(&self, address: Address) -> Result<AccountSummary, ScsClientError> {
        let request = AccountInfoRequest {
            requestid: 0,
            addr: raw(address),
        };
        let body = self.call(ACCOUNT_INFO, request).await?;
        Ok(read_account(&body).map_err(AnswerError::from)?)
    }

    /// Reads a contract and parts of its storage at the head of the VNODE; `None` if there is no
    /// such account.
    ///
    /// # Errors
    /// As for [`Self::account_info`].
    pub async fn chain_info(
        &self,
        contract: Address,
        storage: Vec<StorageRequest>,
    ) -> Result<Option<ContractSummary>, ScsClientError> {
        let request = ChainInfoRequest {
            requestid: 0,
            consensusaddr: raw(contract),
            request: storage,
        };
        let body = self.call(CHAIN_INFO, request).await?;
        if body.is_empty() {
            return Ok(None);
        }
        Ok(Some(read_contract(&body)?))
    }

    /// Sends a signed transaction of the base chain, or of a MicroChain.
    ///
    /// # Errors
    /// As for [`Self::account_info`]. The text of a refusal is that of the VNODE's pool.
    pub async fn remote_call(&self, transaction: Bytes) -> Result<(), ScsClientError> {
        let request = RemoteCallRequest {
            data: transaction.0,
            ..RemoteCallRequest::default()
        };
        Ok(check_success(&self.call(REMOTE_CALL, request).await?)?)
    }

    /// Calls a contract at the head of the VNODE, in its own name. A call that fails returns the
    /// data of its revert, or nothing.
    ///
    /// # Errors
    /// As for [`Self::account_info`].
    pub async fn public_call(&self, contract: Address, input: Bytes) -> Result<Bytes, ScsClientError> {
        let request = ScbPublicCallRequest {
            contractaddr: raw(contract),
            data: input.0,
            ..ScbPublicCallRequest::default()
        };
        Ok(self.call(SCB_PUBLIC_CALL, request).await?.into())
    }

    /// Runs code at the head of the VNODE, as if it created a contract, and returns what it returns
    /// or reverts with. Only VNODEs of this project do so. Others answer with nothing, or refuse.
    ///
    /// # Errors
    /// As for [`Self::account_info`].
    pub async fn public_run(&self, code: Bytes) -> Result<Bytes, ScsClientError> {
        let request = ScbPublicCallRequest {
            data: code.0,
            ..ScbPublicCallRequest::default()
        };
        match self.call(SCB_PUBLIC_CALL, request).await {
            Err(ScsClientError::Status(status)) if status.code() == Code::InvalidArgument => Ok(Bytes::new()),
            answered => Ok(answered?.into()),
        }
    }

    /// Reads at most `count` headers of the VNODE's chain from block `number` on.
    ///
    /// # Errors
    /// As for [`Self::account_info`]. A VNODE that is not of this project has the status
    /// `UNIMPLEMENTED`.
    pub async fn base_headers(&self, number: u64, count: u64) -> Result<Vec<Header>, ScsClientError> {
        let request = BaseHeadersRequest {
            requestid: 0,
            number,
            count: u32::try_from(count.min(HEADERS_MAX)).unwrap_or(u32::MAX),
        };
        let body = self.call(BASE_HEADERS, request).await?;
        Ok(decode_headers(&body).map_err(AnswerError::from)?)
    }

    /// Asks for the proof of a part of the base chain's state: the RLP of a witness. `None` if the
    /// VNODE's chain does not have the block, or its state is not kept.
    ///
    /// # Errors
    /// As for [`Self::base_headers`].
    pub async fn witness(&self, wish: &WitnessWish) -> Result<Option<Bytes>, ScsClientError> {
        let body = self.call(WITNESS, wish.request()).await?;
        Ok((!body.is_empty()).then(|| body.into()))
    }

    /// Leaves a block of a MicroChain at the VNODE for another SCS.
    ///
    /// # Errors
    /// As for [`Self::account_info`].
    pub async fn upload_block(
        &self,
        chain: Address,
        number: u64,
        hash: B256,
        block: Bytes,
    ) -> Result<(), ScsClientError> {
        let request = UploadBlockRequest {
            sender: raw(self.config().id.0),
            blocknumber: number,
            blockhash: bytes::Bytes::copy_from_slice(hash.as_slice()),
            scsid: self.config().id.to_wire(),
            subchainid: raw(chain),
            blockdata: block.0,
            ..UploadBlockRequest::default()
        };
        Ok(check_success(&self.call(UPLOAD_BLOCK, request).await?)?)
    }

    /// Fetches a block that the SCS `uploader` has left at the VNODE; with `hash` `None` the last
    /// one of this number. `None` if there is no such block.
    ///
    /// # Errors
    /// As for [`Self::account_info`].
    pub async fn download_block(
        &self,
        uploader: Address,
        chain: Address,
        number: u64,
        hash: Option<B256>,
    ) -> Result<Option<Bytes>, ScsClientError> {
        let hash = hash.map(|hash| bytes::Bytes::copy_from_slice(hash.as_slice()));
        let request = DownloadBlockRequest {
            sender: raw(uploader),
            blocknumber: number,
            blockhash: hash.unwrap_or_default(),
            scsid: self.config().id.to_wire(),
            subchainid: raw(chain),
            ..DownloadBlockRequest::default()
        };
        let body = self.call(DOWNLOAD_BLOCK, request).await?;
        Ok((!body.is_empty()).then(|| body.into()))
    }

    async fn call<M: Message + 'static>(
        &self,
        method: &'static str,
        request: M,
    ) -> Result<bytes::Bytes, ScsClientError> {
        let config = self.config();
        let mut grpc = link::grpc(config, self.link()?.sender)?;
        let answered = async {
            grpc.ready().await.map_err(|_| ScsClientError::NotConnected)?;
            let reply = grpc.unary(Request::new(request), path(method), codec()).await?;
            let reply: ServiceReply = reply.into_inner();
            Ok(reply.replybody)
        };
        let answered = timeout(config.call_timeout, answered).await;
        answered.map_err(|_| ScsClientError::Timeout(config.call_timeout))?
    }
}

fn raw(address: Address) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(address.as_slice())
}

fn check_success(body: &[u8]) -> Result<(), AnswerError> {
    let got = decode_text(body)?;
    if got == SUCCESS {
        Ok(())
    } else {
        Err(AnswerError::NoSuccess { got })
    }
}

fn read_account(body: &[u8]) -> Result<AccountSummary, DecodeError> {
    let mut fields = RlpReader::open(body, "account")?;
    let got = fields.count("account")?;
    if got < ACCOUNT_FIELDS_MIN {
        return Err(DecodeError::FieldCount {
            what: "account",
            got,
            expected: "at least 4",
        });
    }
    fields.address("addr")?;
    Ok(AccountSummary {
        balance: fields.u256("balance")?,
        tx_nonce: fields.u64("nonce")?,
        code_hash: fields.fixed("codeHash")?,
    })
}

fn read_contract(body: &[u8]) -> Result<ContractSummary, AnswerError> {
    let json: ContractJson = serde_json::from_slice(body)?;
    let base64 = |field, text: &str| {
        STANDARD
            .decode(text)
            .map_err(|error| AnswerError::Base64 { field, error })
    };
    let hash = |field, bytes: &[u8]| {
        let got = bytes.len();
        B256::try_from(bytes).map_err(|_| AnswerError::Length { field, got })
    };
    let code = base64("Code", json.code.as_deref().unwrap_or_default())?;
    let storage = json.storage.unwrap_or_default().into_iter();
    Ok(ContractSummary {
        balance: U256::from_str_radix(json.balance.get(), 10).map_err(AnswerError::Balance)?,
        tx_nonce: json.nonce,
        storage_root: hash("Root", &hex_bytes("Root", &json.root)?)?,
        code_hash: hash("CodeHash", &base64("CodeHash", &json.code_hash)?)?,
        code: code.into(),
        storage: storage
            .map(|(slot, value)| Ok((read_slot(&slot)?, read_value(&value)?)))
            .collect::<Result<_, AnswerError>>()?,
    })
}

fn hex_bytes(field: &'static str, digits: &str) -> Result<Vec<u8>, AnswerError> {
    hex::decode(digits).map_err(|error| AnswerError::Hex {
        field,
        got: digits.to_owned(),
        error,
    })
}

fn read_slot(text: &str) -> Result<U256, AnswerError> {
    let field = "Storage: slot";
    let bytes = hex_bytes(field, text)?;
    let got = bytes.len();
    U256::try_from_be_slice(&bytes).ok_or(AnswerError::Length { field, got })
}

/// A value: the RLP of a number, or nothing for zero.
fn read_value(text: &str) -> Result<U256, AnswerError> {
    if text.is_empty() {
        return Ok(U256::ZERO);
    }
    let bytes = hex_bytes("Storage: value", text)?;
    alloy_rlp::decode_exact(&bytes).map_err(|error| AnswerError::Value {
        got: text.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(bytes in vec(any::<u8>(), 0..200), text in ".{0,80}") {
            let _ = (check_success(&bytes), read_account(&bytes), read_contract(&bytes));
            let _ = (read_slot(&text), read_value(&text));
        }

        #[test]
        fn any_contract_is_read_or_refused(
            (balance, nonce) in ("-?[0-9]{1,90}", any::<u64>()),
            (root, hash, code) in ("[0-9a-f]{0,70}", "[A-Za-z0-9+/=]{0,50}", ".{0,20}"),
            storage in vec(("[0-9a-f]{0,70}", "[0-9a-f]{0,70}"), 0..4),
        ) {
            let storage: serde_json::Map<_, _> =
                storage.into_iter().map(|(slot, value)| (slot, value.into())).collect();
            let body = format!(
                r#"{{"Balance": {balance}, "Nonce": {nonce}, "Root": "{root}", "CodeHash": "{hash}",
                    "Code": {}, "Storage": {}}}"#,
                serde_json::Value::from(code), serde_json::Value::from(storage),
            );
            if let Ok(read) = read_contract(body.as_bytes()) {
                prop_assert_eq!(read.tx_nonce, nonce);
                prop_assert_eq!(U256::from_str_radix(&balance, 10), Ok(read.balance));
            }
        }
    }
}
