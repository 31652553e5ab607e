//! Key files of other clients, the exact text that is written, and texts that are refused.

use primitives::hex;
use serde_json::{Map, json};

use super::*;

/// A cost so low that tests can derive many keys.
const CHEAP: ScryptCost = ScryptCost { log_n: 4, r: 1, p: 1 };

fn key() -> SecretKey {
    SecretKey::from_bytes(&[0x46; 32]).expect("in range")
}

fn random() -> FileRandomness {
    FileRandomness {
        salt: [1; 32],
        iv: [2; 16],
        id: [0xff; 16],
    }
}

fn cheap() -> Value {
    let text = encrypt_with(&key(), b"secret", CHEAP, &random());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn files_of_other_clients() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/keystore.json")).expect("JSON");
    let files = vectors["files"].as_array().expect("an array");
    assert_eq!(files.len(), 11);
    for file in files {
        let (name, json) = (&file["name"], file["json"].to_string());
        let password = file["password"].as_str().expect("text");
        let key = decrypt(json.as_bytes(), password).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hex::encode_prefixed(*key.to_bytes()), file["key"], "{name}");
        assert_eq!(format!("{:#x}", key.address()), file["address"], "{name}");
        let claimed = KeyFile::read(json.as_bytes()).expect("read above").address;
        assert!(claimed.is_none_or(|claimed| claimed == key.address()), "{name}");
    }
}

#[test]
fn written_files_are_read_back() {
    for cost in [ScryptCost::STANDARD, ScryptCost::LIGHT, CHEAP] {
        for password in ["", "secret", "pässwörd ✓\0\n"] {
            // The standard cost is tested with one password only.
            if cost == ScryptCost::STANDARD && password != "secret" {
                continue;
            }
            let text = encrypt(&key(), password, cost).expect("randomness");
            let read = decrypt(text.as_bytes(), password).expect("its own file");
            assert_eq!(read.to_bytes(), key().to_bytes());
            let wrong = decrypt(text.as_bytes(), format!("{password} "));
            assert_eq!(wrong.unwrap_err(), KeyFileError::WrongPassword);
        }
    }
}

#[test]
fn a_password_may_be_any_bytes() {
    let text = encrypt(&key(), [0xff, 0xfe], CHEAP).expect("randomness");
    assert!(decrypt(text.as_bytes(), [0xff, 0xfe]).is_ok());
    assert!(decrypt(text.as_bytes(), [0xff]).is_err());
}

#[test]
fn the_text_has_the_expected_members() {
    let text = cheap();
    let (ciphertext, mac) = (&text["crypto"]["ciphertext"], &text["crypto"]["mac"]);
    let expected = json!({
        "address": "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f",
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": {"iv": "02".repeat(16)},
            "ciphertext": ciphertext,
            "kdf": "scrypt",
            "kdfparams": {"dklen": 32, "n": 16, "p": 1, "r": 1, "salt": "01".repeat(32)},
            "mac": mac,
        },
        "id": "ffffffff-ffff-4fff-bfff-ffffffffffff",
        "version": 3,
    });
    assert_eq!(text, expected);
    assert_eq!(ciphertext.as_str().map(str::len), Some(64));
    assert_eq!(mac.as_str().map(str::len), Some(64));
    let standard = encrypt(&key(), "", ScryptCost::LIGHT).expect("randomness");
    let standard: Value = serde_json::from_str(&standard).expect("JSON");
    let params = &standard["crypto"]["kdfparams"];
    assert_eq!((&params["n"], &params["p"]), (&json!(4096), &json!(6)));
}

#[test]
fn no_two_files_share_salt_iv_or_id() {
    let random_parts = || {
        let text = encrypt(&key(), "", CHEAP).expect("randomness");
        let text: Value = serde_json::from_str(&text).expect("JSON");
        let crypto = &text["crypto"];
        [
            crypto["kdfparams"]["salt"].clone(),
            crypto["cipherparams"]["iv"].clone(),
            text["id"].clone(),
            crypto["ciphertext"].clone(),
        ]
    };
    let (one, two) = (random_parts(), random_parts());
    for (one, two) in one.iter().zip(&two) {
        assert_ne!(one, two);
    }
    let id = one[2].as_str().expect("text");
    assert_eq!(&id[14..15], "4", "{id}");
}

/// Applies `change` to a good file and expects this error.
#[track_caller]
fn check(change: impl FnOnce(&mut Map<String, Value>), expected: &str) {
    let mut text = cheap();
    change(text.as_object_mut().expect("an object"));
    let error = decrypt(text.to_string().as_bytes(), "secret").unwrap_err();
    assert_eq!(error.to_string(), expected);
}

fn crypto(text: &mut Map<String, Value>) -> &mut Map<String, Value> {
    text["crypto"].as_object_mut().expect("an object")
}

fn params(text: &mut Map<String, Value>) -> &mut Map<String, Value> {
    crypto(text)["kdfparams"].as_object_mut().expect("an object")
}

#[test]
fn every_changed_digit_is_an_error() {
    let good = cheap().to_string();
    assert!(decrypt(good.as_bytes(), "secret").is_ok());
    for pointer in [
        "/crypto/mac",
        "/crypto/ciphertext",
        "/crypto/kdfparams/salt",
        "/crypto/cipherparams/iv",
        "/address",
    ] {
        let mut text = cheap();
        let member = text.pointer_mut(pointer).expect("a member");
        let digits = member.as_str().expect("text").to_owned();
        let changed = if digits.starts_with('0') { "1" } else { "0" };
        *member = format!("{changed}{}", &digits[1..]).into();
        let error = decrypt(text.to_string().as_bytes(), "secret").unwrap_err();
        // The MAC does not cover the initial counter and the address. A changed counter gives
        // another key, whose address differs.
        match pointer {
            "/crypto/cipherparams/iv" | "/address" => {
                assert!(matches!(error, KeyFileError::OtherAccount { .. }), "{error}");
            }
            _ => assert_eq!(error, KeyFileError::WrongPassword, "{pointer}"),
        }
    }
}

#[test]
fn unsupported_versions_and_algorithms_are_refused() {
    let version = |got: Value| move |text: &mut Map<String, Value>| text["version"] = got;
    check(version(json!(1)), "key file: got version 1, expected 3");
    check(version(json!(4)), "key file: got version 4, expected 3");
    check(version(json!("3")), "key file: got version \"3\", expected 3");
    check(version(Value::Null), "key file: got version null, expected 3");
    check(
        |text| crypto(text)["cipher"] = json!("aes-128-cbc"),
        "key file: got cipher \"aes-128-cbc\", expected aes-128-ctr",
    );
    check(
        |text| crypto(text)["kdf"] = json!("argon2id"),
        "key file: got kdf \"argon2id\", expected scrypt or pbkdf2",
    );
    check(
        |text| {
            crypto(text)["kdf"] = json!("pbkdf2");
            *params(text) = json!({"c": 1, "dklen": 32, "prf": "hmac-sha512", "salt": ""})
                .as_object()
                .expect("an object")
                .clone();
        },
        "key file: got kdfparams.prf \"hmac-sha512\", expected hmac-sha256",
    );
}

#[test]
fn missing_members_and_wrong_types_are_refused() {
    check(
        |text| drop(text.remove("version")),
        "key file: missing field `version`",
    );
    check(
        |text| drop(text.remove("crypto")),
        "key file: missing field `crypto`",
    );
    for member in ["cipher", "cipherparams", "ciphertext", "kdf", "kdfparams", "mac"] {
        check(
            |text| drop(crypto(text).remove(member)),
            &format!("key file: missing field `{member}`"),
        );
    }
    for member in ["n", "r", "p", "dklen", "salt"] {
        check(
            |text| drop(params(text).remove(member)),
            &format!("key file: kdfparams: missing field `{member}`"),
        );
    }
    check(
        |text| params(text)["n"] = json!("16"),
        "key file: kdfparams: invalid type: string \"16\", expected u64",
    );
    check(
        |text| params(text)["n"] = json!(-16),
        "key file: kdfparams: invalid value: integer `-16`, expected u64",
    );
}

#[test]
fn wrong_lengths_are_refused() {
    check(
        |text| crypto(text)["mac"] = json!("xy".repeat(32)),
        "key file: mac: expected hexadecimal digits in pairs",
    );
    check(
        |text| crypto(text)["mac"] = json!("00".repeat(31)),
        "key file: mac: got 31 bytes, expected 32",
    );
    check(
        |text| crypto(text)["cipherparams"]["iv"] = json!("0".repeat(31)),
        "key file: cipherparams.iv: expected hexadecimal digits in pairs",
    );
    check(
        |text| crypto(text)["cipherparams"]["iv"] = json!("00".repeat(17)),
        "key file: cipherparams.iv: got 17 bytes, expected 16",
    );
    for got in [0, 33] {
        check(
            |text| crypto(text)["ciphertext"] = json!("00".repeat(got)),
            &format!("key file: ciphertext: got {got} bytes, expected 1 to 32"),
        );
    }
    check(
        |text| text["address"] = json!("00"),
        "key file: address: got 1 bytes, expected 20",
    );
}

#[test]
fn costs_beyond_the_bounds_are_refused_at_once() {
    let started = std::time::Instant::now();
    check(
        |text| params(text)["n"] = json!(1_u64 << 40),
        "key file: scrypt: got n 1099511627776, r 1, p 1, expected at most 16777216 blocks (n·r·p) in 1073741824 bytes (128·n·r)",
    );
    check(
        |text| params(text)["r"] = json!(u64::MAX),
        "key file: scrypt: got r 18446744073709551615, expected 1 to 1024",
    );
    check(
        |text| params(text)["n"] = json!(17),
        "key file: scrypt: got n 17, expected a power of two above 1",
    );
    check(
        |text| params(text)["dklen"] = json!(31),
        "key file: dklen: got 31, expected 32 to 1024",
    );
    check(
        |text| {
            crypto(text)["kdf"] = json!("pbkdf2");
            params(text).insert("prf".to_owned(), json!("hmac-sha256"));
            params(text).insert("c".to_owned(), json!(1_u64 << 32));
        },
        "key file: pbkdf2: got 4294967296 rounds, expected 1 to 16777216",
    );
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn a_longer_derived_key_begins_with_the_same_bytes() {
    let mut text = cheap();
    text["crypto"]["kdfparams"]["dklen"] = json!(64);
    assert!(decrypt(text.to_string().as_bytes(), "secret").is_ok());
}

#[test]
fn other_texts_are_refused() {
    for (text, expected) in [
        ("", "key file: EOF while parsing a value at line 1 column 0"),
        ("[]", "key file: expected an object"),
        ("7", "key file: expected an object"),
        ("{}", "key file: missing field `version`"),
        ("{\"version\":3}", "key file: missing field `crypto`"),
        ("\u{1}", "key file: expected value at line 1 column 1"),
    ] {
        let error = decrypt(text.as_bytes(), "").unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let deep = "[".repeat(FILE_BYTES_MAX);
    assert!(matches!(decrypt(deep.as_bytes(), ""), Err(KeyFileError::Json(_))));
    let long = " ".repeat(FILE_BYTES_MAX + 1);
    let got = FILE_BYTES_MAX + 1;
    assert_eq!(
        decrypt(long.as_bytes(), "").unwrap_err(),
        KeyFileError::TooLong { got }
    );
    assert!(decrypt(&[0xff; 100], "").is_err());
}

/// Nested texts are read on a thread with an eighth of the usual stack. 127 levels are the most
/// that
/// `serde_json` follows.
#[test]
fn nested_texts_need_little_stack() {
    let read_all = || {
        for depth in [100, 126, 127, FILE_BYTES_MAX / 2 - 100] {
            let nested = format!("{}{}", "[".repeat(depth - 2), "]".repeat(depth - 2));
            for text in [
                format!(r#"{{"version":{nested}}}"#),
                format!(r#"{{"version":3,"crypto":{nested}}}"#),
                format!(r#"{{"version":3,"crypto":{{"kdfparams":{nested}}}}}"#),
            ] {
                assert!(decrypt(text.as_bytes(), "").is_err(), "{depth} levels");
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    thread
        .spawn(read_all)
        .expect("a thread")
        .join()
        .expect("no panic");
}

#[test]
fn debug_shows_no_secrets() {
    let file = KeyFile::read(cheap().to_string().as_bytes()).expect("a good file");
    let shown = format!("{file:?}");
    assert!(
        shown.contains("address") && !shown.contains("ciphertext"),
        "{shown}"
    );
}
