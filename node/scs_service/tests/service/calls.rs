//! The unary calls.

use std::collections::BTreeMap;

use bytes::Bytes;
use primitives::rlp::RlpItem;
use primitives::{Address, B256, U256, hex};
use scs_service::message::payload::decode_text;
use scs_service::proto::{
    AccountInfoRequest, ChainInfoRequest, DownloadBlockRequest, RemoteCallRequest, ScbPublicCallRequest,
    StorageRequest, UploadBlockRequest,
};
use scs_service::vnode::HostContract;
use tonic::Code;

use crate::common::{CHAIN, FOR_CHAIN, Setup, wait_until};

fn raw(address: Address) -> Bytes {
    Bytes::copy_from_slice(address.as_slice())
}

fn contract() -> (HostContract, BTreeMap<U256, U256>) {
    let contract = HostContract {
        balance: U256::MAX,
        tx_nonce: 3,
        storage_root: B256::repeat_byte(1),
        code_hash: B256::repeat_byte(2),
        code: primitives::Bytes::from_static(b"code"),
    };
    let slots = BTreeMap::from([(U256::from(1), U256::from(0x80)), (U256::from(2), U256::from(5))]);
    (contract, slots)
}

#[tokio::test]
async fn accounts_and_contracts_are_read() {
    let setup = Setup::start().await;
    setup.host.0.lock().contracts.insert(CHAIN, contract());
    let client = setup.connect().await;
    let account = async |address: Address, requestid| {
        let request = AccountInfoRequest {
            requestid,
            addr: raw(address),
        };
        let reply = client
            .call("/moac.Vnode/AccountInfo", request)
            .await
            .expect("an answer");
        assert_eq!(reply.requestid, requestid);
        RlpItem::decode_exact(&reply.replybody).expect("RLP")
    };
    let expected = |address: Address, balance: Vec<u8>, nonce: Vec<u8>, hash: B256| {
        let empty = || RlpItem::Bytes(Vec::new());
        RlpItem::List(vec![
            RlpItem::Bytes(address.to_vec()),
            RlpItem::Bytes(balance),
            RlpItem::Bytes(nonce),
            RlpItem::Bytes(hash.to_vec()),
            empty(),
            empty(),
            empty(),
            empty(),
        ])
    };
    let known = expected(CHAIN, vec![0xff; 32], vec![3], B256::repeat_byte(2));
    assert_eq!(account(CHAIN, 7).await, known);
    let nobody = Address::repeat_byte(9);
    assert_eq!(
        account(nobody, 8).await,
        expected(nobody, vec![], vec![], B256::ZERO)
    );

    let request = ChainInfoRequest {
        requestid: 9,
        consensusaddr: raw(CHAIN),
        request: vec![StorageRequest::default()],
    };
    let reply = client
        .call("/moac.Vnode/ChainInfo", request.clone())
        .await
        .expect("an answer");
    let slot = |number: u8| hex::encode(B256::with_last_byte(number));
    let expected = format!(
        "{{\"Balance\":{},\"Nonce\":3,\"Root\":\"{}\",\"CodeHash\":\"{}\",\"Code\":\"Y29kZQ==\",\"Storage\":{{\"{}\":\"8180\",\"{}\":\"05\"}}}}",
        U256::MAX,
        "01".repeat(32),
        "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=",
        slot(1),
        slot(2)
    );
    assert_eq!(String::from_utf8_lossy(&reply.replybody), expected);
    let unknown = ChainInfoRequest {
        consensusaddr: raw(nobody),
        ..request.clone()
    };
    let reply = client
        .call("/moac.Vnode/ChainInfo", unknown)
        .await
        .expect("an answer");
    assert_eq!((reply.requestid, reply.replybody.len()), (9, 0));
    for bad in [0, 19, 32] {
        let bad = ChainInfoRequest {
            consensusaddr: vec![1; bad].into(),
            ..request.clone()
        };
        let status = client
            .call("/moac.Vnode/ChainInfo", bad)
            .await
            .expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("consensusaddr: got"), "{status}");
    }
}

#[tokio::test]
async fn transactions_are_sent() {
    let setup = Setup::start().await;
    let client = setup.connect().await;
    let send = async |data: &[u8]| {
        let request = RemoteCallRequest {
            requestid: 1,
            data: Bytes::copy_from_slice(data),
            ..RemoteCallRequest::default()
        };
        let reply = client.call("/moac.Vnode/RemoteCall", request).await;
        reply.map(|reply| decode_text(&reply.replybody).expect("a text"))
    };
    assert_eq!(send(b"good").await.expect("taken"), "success");
    assert_eq!(setup.host.0.lock().submitted, [Bytes::from_static(b"good")]);
    let status = send(b"bad").await.expect_err("refused");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unknown, "nonce too low")
    );
    assert_eq!(send(FOR_CHAIN).await.expect("taken"), "success");
    let status = send(FOR_CHAIN).await.expect_err("known");
    assert_eq!(status.message(), "Marked transactions");
    wait_until("the peers", || setup.host.0.lock().relayed_calls.len() == 1).await;
}

#[tokio::test]
async fn contracts_are_called() {
    let setup = Setup::start().await;
    let client = setup.connect().await;
    let call_at = async |contract: Bytes, data: &'static [u8]| {
        let request = ScbPublicCallRequest {
            requestid: 2,
            contractaddr: contract,
            data: Bytes::from_static(data),
            ..ScbPublicCallRequest::default()
        };
        client.call("/moac.Vnode/ScbPublicCall", request).await
    };
    let call = async |data: &'static [u8]| call_at(raw(CHAIN), data).await;
    let reply = call_at(Bytes::new(), b"run").await.expect("an answer");
    assert_eq!(reply.replybody, &b"code:run"[..]);
    let status = call_at(Bytes::from_static(b"short"), b"in").await;
    assert_eq!(status.expect_err("no address").code(), Code::InvalidArgument);
    let reply = call(b"in").await.expect("an answer");
    assert_eq!(reply.replybody, [CHAIN.as_slice(), b"in"].concat());
    for (input, text) in [
        (&b"slow"[..], "too slow"),
        (b"long", "answer: got 5242880 bytes, expected at most 4194304"),
    ] {
        let status = call(input).await.expect_err("too much");
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, text));
    }
}

#[tokio::test]
async fn blocks_are_left_for_others() {
    let setup = Setup::start().await;
    let (uploader, downloader) = (setup.connect().await, setup.connect().await);
    let upload = UploadBlockRequest {
        requestid: 3,
        sender: Bytes::from_static(b"uploader"),
        blocknumber: u64::MAX,
        blockhash: Bytes::from_static(b"hash"),
        subchainid: raw(CHAIN),
        blockdata: Bytes::from_static(b"block"),
        ..UploadBlockRequest::default()
    };
    let reply = uploader
        .call("/moac.Vnode/UploadBlock", upload.clone())
        .await
        .expect("kept");
    assert_eq!(decode_text(&reply.replybody).expect("a text"), "success");
    let download = DownloadBlockRequest {
        requestid: 4,
        sender: upload.sender.clone(),
        blocknumber: u64::MAX,
        subchainid: raw(CHAIN),
        ..DownloadBlockRequest::default()
    };
    let fetch = async || {
        let reply = downloader
            .call("/moac.Vnode/DownloadBlock", download.clone())
            .await;
        reply.expect("an answer").replybody
    };
    assert_eq!(fetch().await, upload.blockdata);
    assert_eq!(fetch().await, Bytes::new(), "it was uploaded once");
    let long = UploadBlockRequest {
        blockhash: vec![1; 129].into(),
        ..upload
    };
    let status = uploader
        .call("/moac.Vnode/UploadBlock", long)
        .await
        .expect_err("refused");
    assert_eq!(status.message(), "blockhash: got 129 bytes, expected at most 128");
}

#[tokio::test]
async fn unknown_methods_are_refused() {
    let setup = Setup::start().await;
    let client = setup.connect().await;
    for method in ["/moac.Vnode/Nothing", "/other.Service/AccountInfo"] {
        let status = client
            .call(method, AccountInfoRequest::default())
            .await
            .expect_err("refused");
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains(method), "{status}");
    }
}
