//! The fuzz targets: each function checks a property that must hold for any bytes, and panics if it
//! does not.
//!
//! There are two callers: libFuzzer, by `fuzz_targets/`, and the test `fuzz` of the package `e2e`.

use std::sync::Arc;

use bytes::Bytes;
use chain::ChainSpec;
use primitives::rlp::RlpItem;
use primitives::{Block, Header, Log, Receipt, ReceiptForm, Transaction, TxRules};
use rpc::logs_filter::LogFilter;
use rpc::server::stream::ValueStream;
use rpc::{BlockRef, Data, Limits, Method, Modules, Quantity, Rpc};
use scs_service::message::message_hash;
use scs_service::message::payload::encode_text;
use scs_service::proto::ScsPushMsg;
use scs_service::{ScsId, ScsMessage};
use serde_json::Value;

/// Every answer to a request is a JSON-RPC response or an array of them.
pub(crate) fn request(bytes: &[u8]) {
    let rows = vec![
        Method::inline("net_version", [], |(): &()| Ok(())),
        Method::inline(
            "mc_getBalance",
            ["data", "block"],
            |(): &(), (data, _): (Data, BlockRef)| Ok(data),
        ),
        Method::inline(
            "mc_getBlockByNumber",
            ["number", "full"],
            |(): &(), (number, _): (Quantity, Option<bool>)| Ok(number),
        ),
        Method::inline("mc_getLogs", ["filter"], |(): &(), (filter,): (LogFilter,)| {
            Ok(Quantity(filter.query.values()))
        }),
    ];
    let limits = Limits {
        batch_len_max: 16,
        ..Limits::default()
    };
    let rpc = Rpc::new(Arc::new(()), rows, limits).expect("a valid table of methods");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let dispatcher = rpc.dispatcher(&Modules::all());
    let Some(answer) = runtime.block_on(dispatcher.handle(Bytes::copy_from_slice(bytes))) else {
        return;
    };
    match serde_json::from_slice(&answer).expect("an answer is JSON") {
        Value::Array(answers) => {
            assert!((1..=16).contains(&answers.len()), "{} answers", answers.len());
            answers.iter().for_each(check_answer);
        }
        answer => check_answer(&answer),
    }
}

fn check_answer(answer: &Value) {
    let has = |name: &str| answer.get(name).is_some();
    assert!(
        answer["jsonrpc"] == "2.0" && has("id") && has("result") != has("error"),
        "{answer}"
    );
}

/// A stream is split into the same values for any sizes of its pieces, and no value is too long.
pub(crate) fn ipc_stream(bytes: &[u8]) {
    const LEN_MAX: usize = 256;
    let split = |piece_len: usize| {
        let mut stream = ValueStream::new(LEN_MAX, 8);
        let mut values = Vec::new();
        for piece in bytes.chunks(piece_len) {
            stream.push(piece);
            loop {
                match stream.next() {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => break,
                    Err(error) => return (values, Some(error)),
                }
            }
        }
        values.extend(stream.finish());
        (values, None)
    };
    let whole = split(bytes.len().max(1));
    assert_eq!(split(1), whole);
    assert_eq!(split(7), whole);
    assert!(
        whole
            .0
            .iter()
            .all(|value| !value.is_empty() && value.len() <= LEN_MAX)
    );
}

/// A value that decodes is encoded to the same bytes.
pub(crate) fn rlp(bytes: &[u8]) {
    if let Ok(item) = RlpItem::decode_exact(bytes) {
        assert_eq!(item.encode(), bytes);
    }
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode(), bytes);
    }
    if let Ok(log) = Log::decode(bytes) {
        let mut out = Vec::new();
        primitives::Encodable::encode(&log, &mut out);
        assert_eq!(out, bytes);
    }
    for form in [ReceiptForm::Five, ReceiptForm::Four] {
        // The bloom is kept even if it does not fit the logs.
        if let Ok(receipt) = Receipt::decode(bytes, form) {
            assert_eq!(receipt.encode(form), bytes);
        }
    }
    for rules in [TxRules::Moac, TxRules::Ethereum] {
        if let Ok(block) = Block::decode(bytes, rules) {
            assert_eq!(block.encode(), bytes);
        }
    }
}

/// A transaction that decodes has a stored form, and decoding that form gives the same transaction.
pub(crate) fn transaction(bytes: &[u8]) {
    for rules in [TxRules::Moac, TxRules::Ethereum] {
        if let Ok(transaction) = Transaction::decode_raw(bytes, rules) {
            let stored = transaction.encode();
            assert_eq!(
                Transaction::decode_stored(&stored, rules).as_ref(),
                Ok(&transaction)
            );
            let _ = (
                transaction.hash(),
                transaction.ethereum_hash(),
                transaction.recover_sender(true),
            );
        }
        if let Ok(transaction) = Transaction::decode_stored(bytes, rules) {
            assert_eq!(transaction.encode(), bytes);
        }
    }
}

/// A pushed message is refused, or its meaning is encoded to a message with the same meaning.
pub(crate) fn push_message(bytes: &[u8]) {
    use scs_service::message::payload::{Handshake, decode_head, decode_text};
    let Ok(wire) = <ScsPushMsg as prost::Message>::decode(bytes) else {
        return;
    };
    assert_eq!(wire.compact(), wire);
    let _ = (
        decode_head(&wire.msghash),
        message_hash(&wire),
        ScsId::from_wire(&wire.scsid),
    );
    if let Ok(text) = decode_text(&wire.msghash) {
        assert_eq!(decode_text(&encode_text(&text)), Ok(text));
    }
    if let Ok(handshake) = Handshake::decode(&wire.msghash) {
        assert_eq!(handshake.encode(), wire.msghash);
    }
    if let Ok(message) = ScsMessage::decode(&wire) {
        let _ = message.route();
        assert_eq!(ScsMessage::decode(&message.encode()), Ok(message));
    }
}

/// A genesis file is refused, or it has a block 0.
pub(crate) fn genesis(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(read) = ChainSpec::from_genesis_file("fuzz", text) {
        let _ = chain::genesis::genesis_header(&read.spec);
    }
}
