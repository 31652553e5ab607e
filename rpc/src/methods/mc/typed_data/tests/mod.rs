//! Tests of typed data: the standard's example, the library as a reference, and the attacks.

mod domain;
mod strict;

use alloy_dyn_abi::TypedData;
use chain::query_limit::CancelFlag;
use primitives::hex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::types::{ARRAY_SUFFIXES_MAX, MEMBERS_MAX, NAME_LEN_MAX, TYPES_LEN_MAX, TYPES_MAX};
use super::values::VALUE_DEPTH_MAX;
use super::*;

/// The example of EIP-712.
const MAIL: &str = r#"{
    "types": {
        "EIP712Domain": [
            {"name": "name", "type": "string"}, {"name": "version", "type": "string"},
            {"name": "chainId", "type": "uint256"}, {"name": "verifyingContract", "type": "address"}
        ],
        "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
        "Mail": [
            {"name": "from", "type": "Person"}, {"name": "to", "type": "Person"},
            {"name": "contents", "type": "string"}
        ]
    },
    "primaryType": "Mail",
    "domain": {
        "name": "Ether Mail", "version": "1", "chainId": 1,
        "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"
    },
    "message": {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
        "contents": "Hello, Bob!"
    }
}"#;
const MAIL_DIGEST: &str = "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2";

fn digest(json: &str) -> Result<B256, ParamError> {
    TypedDataJson::from_json(json)?.digest(&QueryLimit::new(Duration::MAX))
}

/// The digest that `alloy-dyn-abi` computes.
fn reference(data: &Value) -> Option<B256> {
    let data: TypedData = serde_json::from_value(data.clone()).ok()?;
    data.eip712_signing_hash().ok()
}

/// Typed data with these types and this value of the type `T0`.
fn data(types: Value, message: Value) -> Value {
    json!({"types": types, "primaryType": "T0", "domain": {"name": "Exchange", "chainId": 1}, "message": message})
}

#[track_caller]
fn refused(data: &Value, reason: &str) {
    let got = digest(&data.to_string()).map_err(|error| error.to_string());
    assert!(
        got.as_ref().is_err_and(|got| got.contains(reason)),
        "got {got:?}, expected {reason:?}"
    );
}

#[test]
fn the_example_of_the_standard() {
    let expected = Ok(B256::from_slice(&hex::decode(MAIL_DIGEST).expect("hex")));
    assert_eq!(digest(MAIL), expected);
    let text = serde_json::to_string(&format!(" {MAIL}\n")).expect("JSON");
    assert_eq!(digest(&text), expected, "as text");
}

#[test]
fn refused_data() {
    let changed = |from: &str, to: &str| {
        let json = MAIL.replacen(from, to, 1);
        assert_ne!(json, MAIL, "{from}");
        digest(&json).expect_err(to).to_string()
    };
    let got = changed(r#""primaryType": "Mail""#, r#""primaryType": "Letter""#);
    assert_eq!(got, r#"primaryType: got "Letter", expected one of the types"#);
    let got = changed(r#""type": "Person""#, r#""type": "Human""#);
    assert!(
        got.contains(r#"type "Human": got no such type in types"#),
        "{got}"
    );
    let got = changed("0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826", "0xCD");
    assert!(
        got.contains("member wallet: got another string, expected address"),
        "{got}"
    );
    let got = changed(r#""contents": "Hello, Bob!""#, r#""contents": ["Hello"]"#);
    assert!(
        got.contains("member contents: got an array, expected string"),
        "{got}"
    );
    let got = changed(r#""contents": "Hello, Bob!""#, r#""content": "Hello""#);
    assert!(got.contains("type Mail: missing member contents"), "{got}");
    // A value of a type that contains itself has no end.
    let got = changed(
        r#"{"name": "name", "type": "string"}, {"name": "wallet""#,
        r#"{"name": "next", "type": "Person"}, {"name": "wallet""#,
    );
    assert!(got.contains("type Person: missing member next"), "{got}");
    for json in ["{}", "7", "[]", "\"\"", "\"{\"", "\"\\ud800\"", "null", "\"[]\""] {
        assert!(digest(json).is_err(), "{json}");
    }
    for member in [
        "uint256[",
        "uint256[]x",
        "uint256[0]",
        "uint256[-1]",
        "uint256]",
        "(uint256,bool)",
        "",
        "9",
        "a b",
    ] {
        let types = json!({"T0": [{"name": "a", "type": member}]});
        refused(&data(types, json!({"a": []})), "expected");
    }
    let twice = json!({"T0": [{"name": "a", "type": "bool"}, {"name": "a", "type": "uint8"}]});
    refused(&data(twice, json!({"a": 1})), "member \"a\" given twice");
}

#[test]
fn a_type_may_contain_arrays_of_itself() {
    // The library refuses such types. The digest is that of the standard's definition, step by
    // step.
    let types = json!({"T0": [{"name": "inner", "type": "T0[]"}]});
    let data =
        json!({"types": types, "primaryType": "T0", "domain": {}, "message": {"inner": [{"inner": []}]}});
    let type_hash = keccak256("T0(T0[] inner)");
    let hash = |words: &[B256]| keccak256([type_hash, keccak256(words.concat())].concat());
    let domain = keccak256(keccak256("EIP712Domain()"));
    let expected = keccak256([&[0x19, 1], domain.as_slice(), hash(&[hash(&[])]).as_slice()].concat());
    assert_eq!(digest(&data.to_string()), Ok(expected));
}

/// The two attacks that overflow the stack of `alloy-dyn-abi`: types within types, and arrays of
/// arrays.
#[test]
fn deep_types_are_refused() {
    let mut types: serde_json::Map<_, _> = (0..1375)
        .map(|index| {
            let inner = format!("T{}", index + 1);
            (format!("T{index}"), json!([{"name": "a", "type": inner}]))
        })
        .collect();
    types.insert("T1375".to_owned(), json!([{"name": "a", "type": "bool"}]));
    let types = Value::Object(types);
    assert!(types.to_string().len() < TYPES_LEN_MAX);
    refused(
        &data(types, json!({})),
        &format!("types: got 1376 types, expected at most {TYPES_MAX}"),
    );
    let levels = format!("bool{}", "[]".repeat(32_700));
    let types = json!({"T0": [{"name": "a", "type": levels}]});
    refused(
        &data(types, json!({"a": []})),
        "got 9 array suffixes, expected at most 8",
    );
    let levels = format!("bool{}", "[]".repeat(ARRAY_SUFFIXES_MAX + 1));
    let types = json!({"T0": [{"name": "a", "type": levels}]});
    refused(
        &data(types, json!({"a": []})),
        "got 9 array suffixes, expected at most 8",
    );
}

/// Types that form a graph: each refers to the next one `width` times. A library that expands them
/// makes `width` to the power of `depth` copies of the last one.
fn graph(depth: usize, width: usize) -> Value {
    let types = (0..depth).map(|index| {
        let inner = if index + 1 == depth {
            "bool".to_owned()
        } else {
            format!("T{}", index + 1)
        };
        let members = (0..width).map(|member| json!({"name": format!("m{member}"), "type": inner}));
        (format!("T{index}"), Value::Array(members.collect()))
    });
    Value::Object(types.collect())
}

#[test]
fn types_that_form_a_graph_are_not_expanded() {
    let types = graph(20, 3);
    assert!(types.to_string().len() < 2_150);
    // The first member that is missing ends the work: 3^19 values are not needed for that.
    refused(&data(types, json!({})), "missing member m0");
    // The largest graph that is allowed is hashed type by type.
    let types = StructTypes::read(&graph(TYPES_MAX, 10).to_string()).expect("within the bounds");
    assert!(types.type_hash("T0").is_ok());
}

#[test]
fn bounds_are_named_in_errors() {
    let types = |members: Value| data(json!({"T0": members}), json!({}));
    let member = |name: &str, kind: &str| json!({"name": name, "type": kind});
    let many = |count: usize| {
        Value::Array(
            (0..count)
                .map(|index| member(&format!("m{index}"), "bool"))
                .collect(),
        )
    };
    refused(&types(many(MEMBERS_MAX)), "missing member m0");
    refused(
        &types(many(MEMBERS_MAX + 1)),
        "type T0: got 129 members, expected at most 128",
    );
    let long = "m".repeat(NAME_LEN_MAX);
    refused(&types(json!([member(&long, "bool")])), "missing member mmm");
    for members in [
        json!([member(&format!("{long}m"), "bool")]),
        json!([member("a", &format!("{long}m"))]),
    ] {
        refused(&types(members), "got 257 bytes, expected at most 256");
    }
    let nested = |levels: usize| {
        let types = json!({"T0": [{"name": "a", "type": "T0[]"}]});
        let text = format!("{}{}", "{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
        data(types, serde_json::from_str(&text).expect("JSON"))
    };
    assert!(digest(&nested(VALUE_DEPTH_MAX).to_string()).is_ok());
    refused(
        &nested(VALUE_DEPTH_MAX + 2),
        "member a: got a value nested deeper than 32 levels, expected an object of type T0",
    );
    // A value that no type names is passed over without recursion.
    let ignored = format!(
        r#"{{"types": {{"T0": []}}, "primaryType": "T0", "message": {{"x": {}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(digest(&ignored).is_ok());
}

#[test]
fn work_ends_when_nobody_waits() {
    let types = json!({"T0": [{"name": "a", "type": "uint8[]"}]});
    let data = TypedDataJson(data(types, json!({"a": vec![7; 5000]})).to_string());
    let flag = CancelFlag::default();
    let limit = QueryLimit::new(Duration::MAX).cancelled_by(&flag);
    assert!(data.digest(&limit).is_ok());
    flag.cancel();
    let error = data.digest(&limit).expect_err("cancelled").to_string();
    assert!(error.contains("nobody waits"), "{error}");
}

/// A struct type with the name `T<level>`, and a value of it.
fn struct_of(level: usize, depth: usize) -> BoxedStrategy<(Vec<(String, Value)>, Value)> {
    let basic = prop_oneof![
        any::<u64>().prop_map(|value| ("uint64", json!(value))),
        any::<i64>().prop_map(|value| ("int128", json!(value))),
        any::<u128>().prop_map(|value| ("uint", json!(value.to_string()))),
        any::<bool>().prop_map(|value| ("bool", json!(value))),
        any::<[u8; 20]>().prop_map(|value| ("address", json!(format!("0x{}", hex::encode(value))))),
        any::<[u8; 4]>().prop_map(|value| ("bytes4", json!(format!("0x{}", hex::encode(value))))),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|value| ("bytes", json!(format!("0x{}", hex::encode(value))))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|value| ("bytes", json!(value))),
        ".{0,12}".prop_map(|value| ("string", json!(value))),
    ];
    let basic = (basic, 0_usize..3, 0_usize..3).prop_map(|((name, value), lists, len)| {
        let arrays = (0..lists).fold(value, |value, _| json!(vec![value; len]));
        let suffix = if len == 0 {
            "[]".to_owned()
        } else {
            format!("[{len}]")
        };
        (format!("{name}{}", suffix.repeat(lists)), arrays)
    });
    let members = prop::collection::vec(basic, 1..4);
    let inner = match level {
        level if level < depth => struct_of(level + 1, depth).prop_map(Some).boxed(),
        _ => Just(None).boxed(),
    };
    (members, inner, 0_usize..3)
        .prop_map(move |(mut members, inner, len)| {
            let mut types = Vec::new();
            if let Some((inner_types, value)) = inner {
                types = inner_types;
                let name = format!("T{}", level + 1);
                members.push((name.clone(), value.clone()));
                members.push((format!("{name}[]"), json!(vec![value; len])));
            }
            let named = || {
                members
                    .iter()
                    .enumerate()
                    .map(|(index, member)| (format!("m{index}"), member))
            };
            let definition = named().map(|(name, (kind, _))| json!({"name": name, "type": kind}));
            types.push((format!("T{level}"), definition.collect()));
            let value = named().map(|(name, (_, value))| (name, value.clone()));
            (types, Value::Object(value.collect()))
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Digests are those of `alloy-dyn-abi`, where that does not expand too much. The library takes
    /// more forms of a value: hex without 0x, and Booleans and integers in other texts. Such values
    /// are not made here, because they are refused. The domain has no declared type, because the
    /// library does not look at one.
    #[test]
    fn digests_are_those_of_the_library((types, message) in struct_of(0, 3)) {
        let data = data(Value::Object(types.into_iter().collect()), message);
        let expected = reference(&data);
        prop_assert!(expected.is_some(), "{data}");
        prop_assert_eq!(digest(&data.to_string()).ok(), expected, "{}", data);
    }

    /// Any text in place of a part of the data is read or refused.
    #[test]
    fn damaged_data_are_refused_or_read(start in 0_usize..1000, len in 0_usize..40, with in "[\\[\\]{}\":,a-z0-9 ]{0,8}") {
        let start = start.min(MAIL.len());
        let end = (start + len).min(MAIL.len());
        let json = format!("{}{with}{}", &MAIL[..start], &MAIL[end..]);
        if let Ok(raw) = serde_json::from_str::<&serde_json::value::RawValue>(&json) {
            let _ = digest(raw.get());
        }
    }
}
