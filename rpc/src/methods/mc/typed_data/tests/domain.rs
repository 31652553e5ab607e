//! Tests of the domain: its declared type, and the members of the standard.

use std::collections::BTreeSet;

use super::*;

/// Data whose digest is the one of the domain alone. `members` are names and types.
fn domain_data(members: &[(&str, &str)], domain: Value) -> Value {
    let members = members
        .iter()
        .map(|(name, kind)| json!({"name": name, "type": kind}));
    let types = json!({
        "EIP712Domain": members.collect::<Value>(),
        "Place": [{"name": "city", "type": "string"}],
    });
    json!({"types": types, "primaryType": "EIP712Domain", "domain": domain})
}

/// The digest of a domain whose type has this text, from the words of its members.
fn domain_digest(kind: &str, words: &[B256]) -> B256 {
    let hash = keccak256([&[keccak256(kind)], words].concat().concat());
    keccak256([&[0x19, 1], hash.as_slice()].concat())
}

/// The declared members, a domain, the text of its type, and the words of its members.
type DomainCase<'a> = (&'a [(&'a str, &'a str)], Value, &'a str, &'a [B256]);

fn number(value: u8) -> B256 {
    B256::with_last_byte(value)
}

#[test]
fn the_domain_is_hashed_as_its_type_says() {
    let name = keccak256("Exchange");
    let salt = format!("0x{}", "ab".repeat(32));
    let place = keccak256([keccak256("Place(string city)"), keccak256("Cologne")].concat());
    let given = json!({"name": "Exchange", "chainId": 61});
    let cases: [DomainCase; 8] = [
        (
            &[("name", "string"), ("chainId", "uint256")],
            given.clone(),
            "EIP712Domain(string name,uint256 chainId)",
            &[name, number(61)],
        ),
        (
            &[("chainId", "uint256"), ("name", "string")],
            given,
            "EIP712Domain(uint256 chainId,string name)",
            &[number(61), name],
        ),
        (
            &[("chainId", "uint64"), ("name", "bytes32")],
            json!({"name": salt, "chainId": "0x3d"}),
            "EIP712Domain(uint64 chainId,bytes32 name)",
            &[number(61), B256::repeat_byte(0xab)],
        ),
        (
            &[("salt", "bytes32")],
            json!({"salt": salt}),
            "EIP712Domain(bytes32 salt)",
            &[B256::repeat_byte(0xab)],
        ),
        // Some chains declare a contract and a salt that are no address and no 32 bytes.
        (
            &[("verifyingContract", "string"), ("salt", "string")],
            json!({"salt": "0", "verifyingContract": "cosmos"}),
            "EIP712Domain(string verifyingContract,string salt)",
            &[keccak256("cosmos"), keccak256("0")],
        ),
        (
            &[("name", "string"), ("round", "uint8")],
            json!({"name": "Exchange", "round": 7}),
            "EIP712Domain(string name,uint8 round)",
            &[name, number(7)],
        ),
        (
            &[("place", "Place"), ("rounds", "uint8[]")],
            json!({"place": {"city": "Cologne"}, "rounds": [7, 8]}),
            "EIP712Domain(Place place,uint8[] rounds)Place(string city)",
            &[place, keccak256([number(7), number(8)].concat())],
        ),
        (&[], json!({}), "EIP712Domain()", &[]),
    ];
    for (members, domain, kind, words) in cases {
        let data = domain_data(members, domain);
        let got = digest(&data.to_string());
        assert_eq!(got, Ok(domain_digest(kind, words)), "{kind}");
    }
    // Known digests: of an empty domain, and the separator of the standard's example.
    let empty = domain_data(&[], json!({})).to_string();
    let known = "8d4a3f4082945b7879e2b55f181c31a77c8c0a464b70669458abbaaf99de4c38";
    assert_eq!(digest(&empty), Ok(known.parse().expect("32 bytes")));
    let separator = "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f";
    let separator: B256 = separator.parse().expect("32 bytes");
    let alone = MAIL.replacen(r#""primaryType": "Mail""#, r#""primaryType": "EIP712Domain""#, 1);
    let expected = keccak256([&[0x19, 1], separator.as_slice()].concat());
    assert_eq!(digest(&alone), Ok(expected));
}

#[test]
fn a_domain_that_is_not_of_its_type_is_refused() {
    let members = [("name", "string"), ("chainId", "uint256")];
    let domain = |domain| domain_data(&members, domain);
    for (given, reason) in [
        (
            json!({"name": "Exchange"}),
            "domain: type EIP712Domain: missing member chainId",
        ),
        (
            json!({"name": "Exchange", "chainId": null}),
            "domain: member chainId: got null, expected uint256",
        ),
        (
            json!({"name": 1, "chainId": 1}),
            "member name: got a number, expected string",
        ),
        (
            json!({"name": "Exchange", "chainId": 1, "version": "1"}),
            r#"got the member "version", expected only members of this type"#,
        ),
        (
            json!({"name": "Exchange", "chainId": 1, "salt": null}),
            r#"type EIP712Domain: got the member "salt""#,
        ),
        (Value::Null, "domain: got null, expected an object"),
    ] {
        refused(&domain(given), reason);
    }
    // The members of a struct within the domain are declared, too.
    let inner = json!({"place": {"city": "Cologne", "street": "Domstrasse"}});
    refused(
        &domain_data(&[("place", "Place")], inner),
        r#"type Place: got the member "street""#,
    );
    let mut absent = domain(json!({}));
    absent.as_object_mut().expect("an object").remove("domain");
    refused(&absent, "type EIP712Domain: missing member name");
    let twice = domain(json!({"name": "Exchange", "chainId": 1})).to_string();
    let twice = twice.replacen(r#""chainId":1"#, r#""chainId":1,"chainId":2"#, 1);
    let error = digest(&twice).expect_err("given twice").to_string();
    assert!(
        error.contains("type EIP712Domain: member chainId given twice"),
        "{error}"
    );
}

#[test]
fn a_domain_without_a_type_has_members_of_the_standard() {
    let members = [
        ("salt", json!(format!("0x{}", "ab".repeat(32)))),
        ("chainId", json!(61)),
        (
            "verifyingContract",
            json!("0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"),
        ),
        ("version", json!("1")),
        ("name", json!("Exchange")),
    ];
    let data =
        |domain: Value| json!({"types": {"T0": []}, "primaryType": "T0", "domain": domain, "message": {}});
    let mut digests = BTreeSet::new();
    for chosen in 0..1 << members.len() {
        let given = members
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen >> index & 1 == 1);
        let domain = given.map(|(_, (name, value))| ((*name).to_owned(), value.clone()));
        let data = data(Value::Object(domain.collect()));
        let got = digest(&data.to_string()).expect("members of the standard");
        assert_eq!(reference(&data), Some(got), "{data}");
        digests.insert(got);
    }
    assert_eq!(digests.len(), 1 << members.len());
    for (domain, reason) in [
        (
            json!({"chain": 1}),
            r#"type EIP712Domain: got the member "chain""#,
        ),
        (
            json!({"chainId": 1, "round": 7}),
            r#"type EIP712Domain: got the member "round""#,
        ),
        // The library would leave the chain id out.
        (
            json!({"chainId": null}),
            "member chainId: got null, expected uint256",
        ),
    ] {
        refused(&data(domain), reason);
    }
    let twice = r#"{"types": {"T0": []}, "primaryType": "T0", "domain": {"chainId": 1, "chainId": 2}}"#;
    assert!(digest(twice).is_err());
    // The message cannot use the type that was not declared.
    let used = json!({"T0": [{"name": "a", "type": "EIP712Domain"}]});
    let used = json!({"types": used, "primaryType": "T0", "domain": {}, "message": {"a": {}}});
    refused(&used, r#"type "EIP712Domain": got no such type in types"#);
    let alone = json!({"types": {"T0": []}, "primaryType": "EIP712Domain", "domain": {}});
    refused(
        &alone,
        r#"primaryType: got "EIP712Domain", expected one of the types"#,
    );
}
