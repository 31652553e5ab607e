//! The unary calls (docs/scs-wire.md, 9).
//!
//! A call runs on a thread for blocking work. The calls of one address take turns, and so do all
//! calls together.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use primitives::{Address, Encodable, U256, hex};
use serde::Serialize;
use serde_json::value::RawValue;
use tonic::Status;

use super::client_share::ClientShare;
use super::host::{AcceptedTransaction, HostAccount, HostError};
use super::server::ConnectionState;
use super::service::ServiceState;
use super::storage::{StorageAnswer, read_storage};
use super::streams::refusal;
use super::uploads::BlockKey;
use crate::message::payload::encode_text;
use crate::message::read_address;
use crate::proto::{
    AccountInfoRequest, BaseHeadersRequest, ChainInfoRequest, DownloadBlockRequest, RemoteCallRequest,
    ScbPublicCallRequest, ServiceReply, UploadBlockRequest, WitnessRequest,
};
use crate::wire::metered::StreamMeter;
use crate::witness::{HEADERS_MAX, WitnessWish, encode_headers};

/// Bytes of an answer beside its body, at most.
const REPLY_LEN: usize = 16;

/// The answer of a call that has done what it was asked.
const SUCCESS: &str = "success";

/// The answer of `ChainInfo`, in the order and with the names of the published node.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ChainInfo {
    balance: Box<RawValue>,
    nonce: u64,
    root: String,
    code_hash: String,
    code: String,
    storage: StorageAnswer,
    /// Says that not everything that was asked for is in `storage`, see
    /// [`StorageParts`](super::storage::StorageParts).
    #[serde(skip_serializing_if = "is_zero")]
    unknown_slots: usize,
}

const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ServiceState {
    /// Refuses everything on a chain that has no MicroChains yet.
    pub(super) fn check_serving(&self) -> Result<(), Status> {
        if self.host.has_micro_chains() {
            return Ok(());
        }
        Err(Status::failed_precondition(
            "this chain has no application chains at its head block",
        ))
    }

    /// `AccountInfo`.
    pub(super) async fn account_info(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: AccountInfoRequest,
    ) -> Result<ServiceReply, Status> {
        let address = required_address("addr", &request.addr)?;
        let account = self
            .blocking(&connection.client, move |state| state.host.account(&address))
            .await?;
        Ok(reply(request.requestid, account_rlp(&address, &account)))
    }

    /// `ChainInfo`. An account that does not exist has an empty answer.
    pub(super) async fn chain_info(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: ChainInfoRequest,
    ) -> Result<ServiceReply, Status> {
        let address = required_address("consensusaddr", &request.consensusaddr)?;
        let wanted = request.request;
        let len_max = self.config.limits.message_len_max;
        let read = move |state: &Self| {
            let Some(view) = state.host.contract(&address)? else {
                return Ok(Bytes::new());
            };
            let storage = read_storage(&*view, &wanted)?;
            let contract = view.contract();
            let failed = |error: serde_json::Error| HostError::Failed(error.to_string());
            let info = ChainInfo {
                balance: RawValue::from_string(contract.balance.to_string()).map_err(failed)?,
                nonce: contract.tx_nonce,
                root: hex::encode(contract.storage_root),
                code_hash: STANDARD.encode(contract.code_hash),
                code: STANDARD.encode(&contract.code),
                storage: storage.slots,
                unknown_slots: storage.unknown,
            };
            let json = serde_json::to_vec(&info).map_err(failed)?;
            check_len(json.len(), len_max)?;
            Ok(Bytes::from(json))
        };
        let body = self.blocking(&connection.client, read).await?;
        Ok(reply(request.requestid, body))
    }

    /// `RemoteCall`.
    pub(super) async fn remote_call(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: RemoteCallRequest,
    ) -> Result<ServiceReply, Status> {
        self.check_sender(&connection)?;
        let submit = move |state: &Self| match state.host.submit(&request.data)? {
            AcceptedTransaction::Pooled => Ok(()),
            AcceptedTransaction::ForChain(call) => {
                let taken = state.take_call(call);
                taken.map_err(|error| HostError::Refused(error.to_string()))?;
                Ok(())
            }
        };
        self.blocking(&connection.client, submit).await?;
        Ok(reply(request.requestid, encode_text(SUCCESS)))
    }

    /// `ScbPublicCall`. A call that fails is no error. Without a contract the data is run as code.
    pub(super) async fn public_call(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: ScbPublicCallRequest,
    ) -> Result<ServiceReply, Status> {
        let contract = match &request.contractaddr[..] {
            [] => None,
            address => Some(required_address("contractaddr", address)?),
        };
        let len_max = self.config.limits.message_len_max;
        let call = move |state: &Self| {
            let body = state.host.call(contract.as_ref(), request.data.into())?;
            check_len(body.len(), len_max)?;
            Ok(body.0)
        };
        let body = self.blocking(&connection.client, call).await?;
        Ok(reply(request.requestid, body))
    }

    /// `BaseHeaders`: the list of headers, fewer than were asked for if they would be too long.
    pub(super) async fn base_headers(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: BaseHeadersRequest,
    ) -> Result<ServiceReply, Status> {
        let count = u64::from(request.count).min(HEADERS_MAX);
        let read = move |state: &Self| {
            let headers = state.host.headers(request.number, count)?;
            Ok(encode_headers(&headers))
        };
        let body = self.blocking(&connection.client, read).await?;
        Ok(reply(request.requestid, body))
    }

    /// `Witness`. The body is empty if there is no such block, or its state is not kept.
    pub(super) async fn witness(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: WitnessRequest,
    ) -> Result<ServiceReply, Status> {
        let requestid = request.requestid;
        let contract = required_address("contractaddr", &request.contractaddr)?;
        let wish = WitnessWish::read(contract, request)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let len_max = self.config.limits.message_len_max;
        let prove = move |state: &Self| {
            let body = state.host.witness(&wish)?.unwrap_or_default();
            check_len(body.len(), len_max)?;
            Ok(body.0)
        };
        let body = self.blocking(&connection.client, prove).await?;
        Ok(reply(requestid, body))
    }

    /// `UploadBlock`.
    pub(super) async fn upload_block(
        self: Arc<Self>,
        connection: Arc<ConnectionState>,
        request: UploadBlockRequest,
    ) -> Result<ServiceReply, Status> {
        self.check_sender(&connection)?;
        let key = BlockKey::new(
            &request.sender,
            &request.subchainid,
            request.blocknumber,
            &request.blockhash,
        );
        let (key, owner) = (key.map_err(refusal)?, connection.client.address);
        let kept = self.uploads.put(key, &request.blockdata, owner, Instant::now());
        kept.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        Ok(reply(request.requestid, encode_text(SUCCESS)))
    }

    /// `DownloadBlock`. The body is empty if there is no such block. A block is kept if its answer
    /// has no room in `meter`.
    pub(super) async fn download_block(
        self: Arc<Self>,
        meter: StreamMeter,
        request: DownloadBlockRequest,
    ) -> Result<ServiceReply, Status> {
        let key = BlockKey::new(
            &request.sender,
            &request.subchainid,
            request.blocknumber,
            &request.blockhash,
        );
        let key = key.map_err(refusal)?;
        let body = self
            .uploads
            .take(key, Instant::now(), |len| meter.count_answer(REPLY_LEN + len))?;
        Ok(reply(request.requestid, body.unwrap_or_default()))
    }

    /// Refuses what would change something, from an address that is not allowed and where no
    /// allowed SCS is connected.
    fn check_sender(&self, connection: &ConnectionState) -> Result<(), Status> {
        let client = &connection.client;
        if self.config.allow.may_send(client.address) || client.has_registered() {
            return Ok(());
        }
        Err(Status::permission_denied(
            "this call is taken from addresses where an allowed SCS is connected",
        ))
    }

    /// Runs `work` on a thread for blocking work, in its turn.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        client: &ClientShare,
        work: impl FnOnce(&Self) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, Status> {
        let wait_max = self.config.limits.call_wait_max;
        let permits = async {
            let own = Arc::clone(&client.calls).acquire_owned().await;
            let all = Arc::clone(&self.call_gate).acquire_owned().await;
            (own, all)
        };
        let permits = tokio::time::timeout(wait_max, permits).await.map_err(|_| {
            Status::resource_exhausted(format!(
                "too many calls: this one has waited {wait_max:?} for its turn"
            ))
        })?;
        let state = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _permits = permits;
            work(&state)
        });
        match done.await {
            Ok(result) => result.map_err(host_status),
            Err(_) => Err(Status::internal("the call ended by a panic")),
        }
    }
}

/// The status for an error of the node. A refusal has the code that the published node's errors
/// have.
fn host_status(error: HostError) -> Status {
    match error {
        HostError::Refused(text) => Status::unknown(text),
        HostError::TooMuch(text) => Status::resource_exhausted(text),
        HostError::Failed(text) => Status::internal(text),
    }
}

fn check_len(got: usize, max: usize) -> Result<(), HostError> {
    if got <= max {
        return Ok(());
    }
    Err(HostError::TooMuch(format!(
        "answer: got {got} bytes, expected at most {max}"
    )))
}

const fn reply(requestid: u32, replybody: Bytes) -> ServiceReply {
    ServiceReply { requestid, replybody }
}

fn required_address(field: &'static str, bytes: &[u8]) -> Result<Address, Status> {
    let address = read_address(field, bytes).map_err(refusal)?;
    let missing = || Status::invalid_argument(format!("{field}: got 0 bytes, expected 20 or 21"));
    address.map(|address| address.address).ok_or_else(missing)
}

/// The account as RLP. The last four fields are about accounts of a kind that does not exist.
fn account_rlp(address: &Address, account: &HostAccount) -> Bytes {
    let zero = U256::ZERO;
    let fields: [&dyn Encodable; 8] = [
        address,
        &account.balance,
        &account.tx_nonce,
        &account.code_hash,
        &zero,
        &zero,
        &zero,
        &zero,
    ];
    let mut out = Vec::new();
    alloy_rlp::encode_list::<_, dyn Encodable>(&fields, &mut out);
    out.into()
}
