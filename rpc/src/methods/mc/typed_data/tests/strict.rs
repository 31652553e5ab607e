//! Tests that data are refused which another signer may read in another way.

use super::*;

/// The digest of a value of this type, which is the only member.
fn value_digest(kind: &str, value: Value) -> Result<B256, ParamError> {
    let types = json!({"T0": [{"name": "a", "type": kind}]});
    digest(&data(types, json!({"a": value})).to_string())
}

#[test]
fn values_that_signers_read_differently_are_refused() {
    let address = "cd2a3d9f938e13cd947ec05abc7fe734df8dd826";
    let refused: [(&str, &[&str]); 7] = [
        ("bool", &["true", "false", "0", "1", ""]),
        ("bytes", &["", "12", "0X12", "0x123", "0x0x12", "0x1g", " 0x12"]),
        ("bytes2", &["1234", "0X1234", "0x0x1234", "0x12", "0x123456"]),
        ("address", &[address, &address[1..]]),
        ("function", &["ab"]),
        (
            "uint256",
            &[
                "", "0x", "-", "1_000", "0x1_0", "0b1", "0o7", "0X1", "+1", " 1", "1 ", "1.0", "1e3", "-1",
                "0xg",
            ],
        ),
        (
            "int256",
            &[
                "", "0x", "-", "-0x", "1_000", "0b1", "0o7", "-0b1", "--1", "-+1", "+1", "0x-1", "\u{661}",
            ],
        ),
    ];
    for (kind, texts) in refused {
        for text in texts {
            let got = value_digest(kind, json!(text)).map_err(|error| error.to_string());
            let expected = format!("message: member a: got another string, expected {kind}");
            assert!(
                got.as_ref().is_err_and(|got| got.contains(&expected)),
                "{kind} {text:?}: {got:?}"
            );
        }
    }
    let same: [(&str, &[Value]); 7] = [
        ("bool", &[json!(true)]),
        ("bytes", &[json!("0x12aB"), json!("0x12Ab"), json!([0x12, 0xab])]),
        ("bytes2", &[json!("0x12ab"), json!("0x12AB")]),
        ("address", &[json!(format!("0x{address}"))]),
        ("function", &[json!(format!("0x{}", "ab".repeat(24)))]),
        (
            "uint256",
            &[
                json!(255),
                json!("255"),
                json!("0255"),
                json!("0xfF"),
                json!("0x00ff"),
            ],
        ),
        (
            "int256",
            &[json!(-255), json!("-255"), json!("-0xff"), json!("-0x0FF")],
        ),
    ];
    for (kind, values) in same {
        let mut digests: Vec<_> = values
            .iter()
            .map(|value| value_digest(kind, value.clone()))
            .collect();
        assert!(digests[0].is_ok(), "{kind}: {digests:?}");
        digests.dedup();
        assert_eq!(digests.len(), 1, "{kind}");
    }
    for element in [
        json!(256),
        json!(-1),
        json!(1.0),
        json!("1"),
        json!("0x01"),
        Value::Null,
        json!([]),
    ] {
        let error = value_digest("bytes", json!([1, element]))
            .expect_err("not a byte")
            .to_string();
        assert!(
            error.contains("got an element that is not a byte, expected bytes"),
            "{error}"
        );
    }
    let twice = data(json!({"T0": [{"name": "a", "type": "bool"}]}), json!({"a": true})).to_string();
    let twice = twice.replacen(r#""a":true"#, r#""a":true,"a":false"#, 1);
    let error = digest(&twice).expect_err("given twice").to_string();
    assert!(error.contains("type T0: member a given twice"), "{error}");
}

#[test]
fn names_that_forge_other_types_are_refused() {
    let forged = json!({"T0": [{"name": "a,uint256 b", "type": "uint256"}]});
    let message = json!({"a,uint256 b": 1});
    refused(
        &data(forged, message),
        r#"a member's name: got "a,uint256 b", expected"#,
    );
    for name in [
        "", "9", "a b", "a)", "a(", "a[]", "a\n", "a\0", "a\u{e4}", ":a", "a-b", "a.b",
    ] {
        let member = json!({"T0": [{"name": name, "type": "bool"}]});
        refused(&data(member, json!({name: true})), "a member's name: got");
        let kind = json!({"T0": [], name: []});
        refused(&data(kind, json!({})), "a type's name: got");
    }
    for name in ["a", "_", "$1", "aB_9", "name:space"] {
        let member = json!({"T0": [{"name": name, "type": "bool"}]});
        assert!(
            digest(&data(member, json!({name: true})).to_string()).is_ok(),
            "{name}"
        );
    }
    for basic in [
        "uint256", "uint", "bool", "bytes", "bytes32", "string", "address", "int8",
    ] {
        let types = json!({"T0": [{"name": "a", "type": "T0[]"}], basic: [{"name": "a", "type": "T0[]"}]});
        refused(&data(types, json!({"a": []})), "got the name of a basic type");
    }
}

#[test]
fn errors_do_not_repeat_long_texts() {
    let long = "\u{1b}".repeat(1 << 20);
    let with = |name: &str, value: Value| {
        let mut data = data(json!({"T0": []}), json!({}));
        data[name] = value;
        data
    };
    let member = json!({"T0": [{"name": "a", "type": "bytes"}]});
    for (data, reason) in [
        (
            with("primaryType", json!(long)),
            "primaryType: got 1048576 bytes, expected at most 256",
        ),
        (with("domain", json!({"chainId": long})), "expected at most 65536"),
        (
            with("domain", json!({long.as_str(): 1})),
            "domain: JSON text: got",
        ),
        (
            with("domain", json!({&long[..10_000]: 1})),
            "expected only members of this type",
        ),
        (
            data(member.clone(), json!({"a": [long]})),
            "an element that is not a byte",
        ),
        (data(member, json!({"a": long})), "got another string"),
    ] {
        refused(&data, reason);
        let error = digest(&data.to_string()).expect_err(reason).to_string();
        assert!(error.len() < 4096, "{}: {reason}", error.len());
    }
}
