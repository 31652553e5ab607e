//! Properties of the decoders and of messages: no input causes a panic, a value that was written
//! can be read again, and only the one valid form of a value is accepted.

use alloy_primitives::U256;
use bytes::Bytes;
use proptest::prelude::*;
use rpc::types::{data, quantity};
use rpc::{Data, Dispatcher, FromParam, Integer, Limits, Modules, Params, Quantity};

use crate::server::harness::dispatcher;
use crate::shared::facts::TestFacts;

/// Text that is almost a QUANTITY or DATA. Purely random strings fail at their first letter and
/// prove little.
fn near_hex() -> impl Strategy<Value = String> {
    prop_oneof![
        "(0x|0X|0|x)?[0-9a-fA-F]{0,70}",
        "0x0{0,3}[0-9a-fA-Fg ]{0,20}",
        any::<String>()
    ]
}

/// Bytes that are almost a message.
fn near_message() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof!["[0-9]{1,30}", "\"[a-z\\\\\"]{0,8}\"", "null|true|\\[\\]|-|1e9"];
    let method = "net_version|web3_sha3|rpc_modules|x|\\\\u0000|\u{1f600}";
    let params = "\\[\\]|\\{\\}|null|\\[\"0x[0-9a-f]{0,5}\"\\]|\\[1,\\[\\[|7";
    let request = (id, method, params).prop_map(|(id, method, params)| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    });
    let batch =
        prop::collection::vec(request.clone(), 0..5).prop_map(|members| format!("[{}]", members.join(",")));
    let text = prop_oneof![request, batch].prop_map(String::into_bytes);
    let damaged =
        (text.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut text, at, byte)| {
            let at = at.index(text.len());
            text[at] = byte;
            text
        });
    prop_oneof![text, damaged, prop::collection::vec(any::<u8>(), 0..200)]
}

fn answer(dispatcher: &Dispatcher<TestFacts>, body: Vec<u8>) -> Option<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let answer = runtime.block_on(dispatcher.handle(Bytes::from(body)))?;
    Some(serde_json::from_slice(&answer).expect("every answer is JSON"))
}

/// Whether `response` has the shape of a JSON-RPC response.
fn is_response(response: &serde_json::Value) -> bool {
    let has_one = response.get("result").is_some() != response.get("error").is_some();
    let code = response.pointer("/error/code");
    has_one
        && response["jsonrpc"] == "2.0"
        && response.get("id").is_some()
        && code.is_none_or(|code| [-32700, -32600, -32601, -32602].contains(&code.as_i64().unwrap_or(0)))
}

proptest! {
    #[test]
    fn quantities_round_trip(narrow: u64, wide: [u64; 4]) {
        prop_assert_eq!(Quantity::<u64>::decode(&quantity(narrow)), Ok(Quantity(narrow)));
        let wide = U256::from_limbs(wide);
        prop_assert_eq!(Quantity::<U256>::decode(&quantity(wide)), Ok(Quantity(wide)));
        prop_assert_eq!(serde_json::to_string(&Quantity(wide)).unwrap(), format!("\"{}\"", quantity(wide)));
    }

    #[test]
    fn data_round_trips(bytes: Vec<u8>) {
        prop_assert_eq!(Data::decode(&data(&bytes)), Ok(Data(bytes)));
    }

    #[test]
    fn accepted_text_is_in_its_only_form(text in near_hex()) {
        let lower = text.to_ascii_lowercase();
        if let Ok(value) = Quantity::<U256>::decode(&text) {
            prop_assert!(text.starts_with("0x"));
            prop_assert_eq!(quantity(value.0), lower.as_str());
        }
        if let Ok(value) = Quantity::<u64>::decode(&text) {
            prop_assert_eq!(Quantity::<U256>::decode(&text), Ok(Quantity(U256::from(value.0))));
        }
        if let Ok(value) = Data::decode(&text) {
            prop_assert!(text.starts_with("0x"));
            prop_assert_eq!(data(&value.0), lower);
            prop_assert_eq!(Data::<[u8; 20]>::decode_fixed(&text).is_ok(), value.0.len() == 20);
        }
    }

    #[test]
    fn parameters_never_panic(json in prop_oneof![any::<String>(), "[\\[\\]{}\"0-9a-z:,. x-]{0,40}"]) {
        let params = Params::new(Some(json.as_bytes()), Default::default());
        let _ = params.parse::<()>();
        let _ = params.parse::<(rpc::BlockRef, Option<bool>, Vec<Data>)>();
        if serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok() {
            let _ = <String as FromParam>::from_json(json.trim());
            let _ = <Integer as FromParam>::from_json(json.trim());
            let _ = rpc::ParamFields::read(json.trim());
        }
    }

    #[test]
    fn every_message_has_a_proper_answer(body in near_message()) {
        let dispatcher = dispatcher(Limits::default(), &Modules::default());
        let is_batch = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        match answer(&dispatcher, body) {
            Some(serde_json::Value::Array(responses)) => {
                prop_assert!(is_batch && !responses.is_empty());
                prop_assert!(responses.iter().all(is_response), "{:?}", responses);
            }
            Some(response) => prop_assert!(is_response(&response), "{response}"),
            None => {}
        }
    }

    #[test]
    fn ids_come_back(id: i64, text in "[a-zA-Z0-9 ]{0,20}") {
        let dispatcher = dispatcher(Limits::default(), &Modules::default());
        for id in [serde_json::json!(id), serde_json::json!(text)] {
            let body = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "net_version"});
            let answer = answer(&dispatcher, body.to_string().into_bytes()).expect("an answer");
            prop_assert_eq!(&answer["id"], &id);
            prop_assert_eq!(&answer["result"], "100");
        }
    }
}
