//! The call that an SCS answers itself, `moac.SCS/Sync` (docs/scs-wire.md, 1).
//!
//! The call is part of the published service, but no published program makes it.

use primitives::{Address, Bytes};
use tokio::time::timeout;
use tonic::Request;

use super::dial::dial;
use super::{ScsClientConfig, ScsClientError, link};
use crate::proto::{BlockSyncRequest, ServiceReply};
use crate::wire::{SYNC, codec, path};

/// Asks the SCS at the address in `config` for the block `number` of a MicroChain, over a
/// connection of its own. Returns the body of its reply.
///
/// # Errors
/// [`ScsClientError`] if there is no connection, or the SCS does not answer.
pub async fn ask_for_block(
    config: &ScsClientConfig,
    chain: Address,
    number: u32,
) -> Result<Bytes, ScsClientError> {
    let request = BlockSyncRequest {
        requestid: 0,
        sender: bytes::Bytes::copy_from_slice(chain.as_slice()),
        blocknumber: number,
        scsid: config.id.to_wire(),
    };
    let dialed = dial(config).await?;
    let mut grpc = link::grpc(config, dialed.sender.clone())?;
    let asked = async {
        grpc.ready().await.map_err(|_| ScsClientError::NotConnected)?;
        let reply = grpc.unary(Request::new(request), path(SYNC), codec()).await?;
        let reply: ServiceReply = reply.into_inner();
        Ok(reply.replybody.into())
    };
    let asked = timeout(config.call_timeout, asked).await;
    asked.map_err(|_| ScsClientError::Timeout(config.call_timeout))?
}
