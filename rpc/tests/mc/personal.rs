//! The module `personal`: accounts, passwords, signatures.

use std::fs;

use primitives::{EcdsaSignature, ethereum_message_digest, hex, recover};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{Net, account};

const WRONG_PASSWORD: &str = "could not decrypt key with given passphrase";
const LOCKED: &str = "authentication needed: password or unlock";

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn new_account(net: &Net, password: &str) -> String {
    text(&net.ok("personal_newAccount", json!([password])))
}

fn status(net: &Net, address: &str) -> String {
    let wallets = net.ok("personal_listWallets", json!([]));
    let mut wallets = wallets.as_array().expect("an array").iter();
    let wallet = wallets.find(|wallet| wallet["accounts"][0]["address"] == *address);
    text(&wallet.expect("the account's wallet")["status"])
}

#[test]
fn new_accounts_are_listed_last_and_are_locked() {
    let net = Net::start();
    let (one, two) = (new_account(&net, "one"), new_account(&net, ""));
    let mut expected: Vec<_> = (0..3).map(account).collect();
    expected.extend([one.clone(), two]);
    assert_eq!(net.ok("personal_listAccounts", json!([])), json!(expected));
    assert_eq!(net.ok("mc_accounts", json!([])), json!(expected));
    net.check_error("mc_sign", json!([one, "0x00"]), -32000, LOCKED);
    net.check_error(
        "personal_newAccount",
        json!([]),
        -32602,
        "missing value for required argument 0",
    );
}

#[test]
fn wallets_show_where_a_key_is_stored() {
    let net = Net::start();
    let made = new_account(&net, "one");
    let file = fs::read_dir(net.home.path().join("keystore"))
        .expect("a folder")
        .next()
        .expect("a file")
        .expect("readable");
    let url = format!("keystore://{}", file.path().display());
    let wallets = net.ok("personal_listWallets", json!([]));
    assert_eq!(
        wallets[3],
        json!({"url": url, "status": "Locked", "accounts": [{"address": made, "url": url}]})
    );
    assert_eq!(wallets[0]["url"], format!("memory://{}", account(0)));
    assert_eq!(
        (&wallets[0]["status"], &wallets[2]["status"]),
        (&json!("Unlocked"), &json!("Locked"))
    );
}

#[test]
fn unlocking_and_locking() {
    let net = Net::start();
    let made = new_account(&net, "one");
    let unlock = |params: Value| net.ok("personal_unlockAccount", params);
    let refused = |params: Value, message: &str| {
        net.check_error("personal_unlockAccount", params, -32000, message);
    };
    refused(json!([made, "two"]), WRONG_PASSWORD);
    refused(json!([account(7), "one"]), "unknown account");
    refused(
        json!([made, "one", 9_223_372_037_u64]),
        "unlock duration too large",
    );
    net.check_error(
        "personal_unlockAccount",
        json!([made, "one", -1]),
        -32602,
        "invalid argument 2: expected a whole number of at most 64 bits",
    );
    assert_eq!(status(&net, &made), "Locked");
    for params in [
        json!([made, "one"]),
        json!([made, "one", null]),
        json!([made, "one", 300]),
        json!([made, "one", "0x12c"]),
        json!([made, "one", 0]),
    ] {
        assert_eq!(unlock(params), json!(true));
        net.ok("mc_sign", json!([made, "0x00"]));
        assert_eq!(status(&net, &made), "Unlocked");
        assert_eq!(net.ok("personal_lockAccount", json!([made])), json!(true));
        net.check_error("mc_sign", json!([made, "0x00"]), -32000, LOCKED);
    }
    assert_eq!(net.ok("personal_lockAccount", json!([account(7)])), json!(false));
}

#[test]
fn an_account_is_locked_again_after_its_time() {
    let net = Net::start();
    let made = new_account(&net, "one");
    net.ok("personal_unlockAccount", json!([made, "one", 1]));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    net.check_error("mc_sign", json!([made, "0x00"]), -32000, LOCKED);
}

#[test]
fn raw_keys_are_imported_once() {
    let net = Net::start();
    let key = "46".repeat(32);
    let known = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f";
    assert_eq!(net.ok("personal_importRawKey", json!([key, "one"])), known);
    let (code, message) = net.error(
        "personal_importRawKey",
        &json!([format!("0x{key}"), "two"]).to_string(),
    );
    assert_eq!(code, -32000);
    assert!(message.starts_with("account already exists: "), "{message}");
    let (code, message) = net.error("personal_importRawKey", r#"["4g46", "one"]"#);
    assert_eq!(code, -32602);
    assert!(message.contains("got 2 bytes, expected 32"), "{message}");
    assert!(!message.contains("4g"), "keys are not repeated: {message}");
}

#[test]
fn signing_with_a_password() {
    let net = Net::start();
    let key = "46".repeat(32);
    let known = text(&net.ok("personal_importRawKey", json!([key, "one"])));
    // The signature is published with the library of the public network.
    let expected = "0x43a73ada4dbc0bf606bbbc59dd2c0cbe9d723d7a1961109d7d7bafff719120bf\
        0a95f1ddb8e8a23118883cf30674ad2dca5b46659bb49e3375b4f3d0d92f78ec1c";
    let signature = net.ok("personal_sign", json!(["0xdeadbeef", known, "one"]));
    assert_eq!(
        net.ok("personal_ecRecover", json!(["0xdeadbeef", signature])),
        json!(known)
    );
    let without = json!(["0xdeadbeef", known]);
    for (method, params) in [
        ("mc_sign", json!([known, "0xdeadbeef"])),
        ("eth_sign", json!([known, "0xdeadbeef"])),
        ("personal_sign", without.clone()),
    ] {
        net.check_error(method, params, -32000, LOCKED);
    }
    net.ok("personal_unlockAccount", json!([known, "one"]));
    assert_eq!(net.ok("personal_sign", without), signature);
    assert_eq!(net.ok("eth_sign", json!([known, "0xdeadbeef"])), signature);
    assert_eq!(net.ok("mc_sign", json!([known, "0xdeadbeef"])), expected);
    net.ok("personal_lockAccount", json!([known]));
    let wrong = json!(["0xdeadbeef", known, "two"]);
    net.check_error("personal_sign", wrong, -32000, WRONG_PASSWORD);
    let stranger = json!(["0x", account(7), "one"]);
    net.check_error("personal_sign", stranger, -32000, "unknown account");
    for message in [&b""[..], &[0xff; 5000]] {
        let params = json!([data(message), known, "one"]);
        let bytes = hex::decode(text(&net.ok("personal_sign", params))).expect("hex");
        let signature = EcdsaSignature::from_rsv(&bytes).expect("65 bytes");
        let signer = recover(&ethereum_message_digest(message), &signature).expect("a signer");
        assert_eq!(data(signer), known);
    }
}

#[test]
fn invalid_signatures() {
    let net = Net::start();
    let refused = |signature: String, code: i64, message: &str| {
        net.check_error("personal_ecRecover", json!(["0x00", signature]), code, message);
    };
    refused(
        format!("0x{}", "01".repeat(64)),
        -32602,
        "invalid argument 1: signature: got 64 bytes, expected 65",
    );
    // 36 and 37 are valid in transactions only.
    for v in [0, 1, 29, 36, 37, 255] {
        refused(
            format!("0x{}{v:02x}", "01".repeat(64)),
            -32602,
            &format!("invalid argument 1: signature: got V {v}, expected 27 or 28"),
        );
    }
    refused(
        format!("0x{}1b", "00".repeat(64)),
        -32000,
        "signature: got r 0x0, expected above zero and below the order of secp256k1",
    );
}

#[test]
fn sending_with_a_password() {
    let net = Net::start();
    let made = new_account(&net, "one");
    net.send(json!({"to": made, "value": "0xde0b6b3a7640000"}));
    net.mine();
    let transaction = json!({"from": made, "to": account(1), "value": "0x7"});
    net.check_error(
        "personal_sendTransaction",
        json!([transaction, "two"]),
        -32000,
        WRONG_PASSWORD,
    );
    net.check_error("mc_sendTransaction", json!([transaction]), -32000, LOCKED);
    let hash = net.ok("personal_sendTransaction", json!([transaction, "one"]));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1");
    let sent = net.ok("mc_getTransactionByHash", json!([hash]));
    assert_eq!((&sent["from"], &sent["value"]), (&json!(made), &json!("0x7")));
    net.check_error("mc_sendTransaction", json!([transaction]), -32000, LOCKED);
}

#[test]
fn key_files_of_other_clients_are_found_at_once() {
    let net = Net::start();
    let vectors = include_str!("../../../tests/vectors/keystore.json");
    let vectors: Value = serde_json::from_str(vectors).expect("JSON");
    let file = &vectors["files"][3];
    let folder = net.home.path().join("keystore");
    fs::create_dir(&folder).expect("writable");
    fs::write(folder.join("from-elsewhere"), file["json"].to_string()).expect("writable");
    fs::write(folder.join("broken"), "{").expect("writable");
    net.ok(
        "personal_unlockAccount",
        json!([file["address"], file["password"]]),
    );
    net.ok("mc_sign", json!([file["address"], "0x00"]));
    let listed = net.ok("personal_listAccounts", json!([]));
    assert_eq!(listed[3], file["address"]);
    fs::remove_file(folder.join("from-elsewhere")).expect("there");
    let listed = net.ok("personal_listAccounts", json!([]));
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    net.check_error(
        "mc_sign",
        json!([file["address"], "0x00"]),
        -32000,
        "unknown account",
    );
}

#[test]
fn wrong_passwords_are_slowed_down() {
    let net = Net::start();
    let (made, other) = (new_account(&net, "one"), new_account(&net, "two"));
    for _ in 0..3 {
        net.check_error(
            "personal_unlockAccount",
            json!([made, "x"]),
            -32000,
            WRONG_PASSWORD,
        );
    }
    // Even the right password is not tried now, by whatever method.
    let request = json!({"from": made, "to": account(5), "gasPrice": "0x0"});
    for (method, params) in [
        ("personal_unlockAccount", json!([made, "one"])),
        ("personal_sign", json!(["0x00", made, "one"])),
        ("personal_sendTransaction", json!([request, "one"])),
    ] {
        let (code, message) = net.error(method, &params.to_string());
        assert_eq!(code, -32000, "{method}");
        assert!(
            message.starts_with("too many wrong passwords for this account: try again in "),
            "{method}: {message}"
        );
    }
    net.ok("personal_unlockAccount", json!([other, "two"]));
    std::thread::sleep(std::time::Duration::from_secs(2));
    net.ok("personal_unlockAccount", json!([made, "one"]));
}

#[test]
fn accounts_are_not_unlocked_for_strangers() {
    let forbidden = "account unlock is forbidden while other machines can reach this node over HTTP or WebSockets: \
                     --allow-insecure-unlock allows it";
    let net = Net::start();
    let made = new_account(&net, "one");
    for (start, stop) in [
        ("admin_startRPC", "admin_stopRPC"),
        ("admin_startWS", "admin_stopWS"),
    ] {
        net.ok(start, json!(["0.0.0.0"]));
        net.check_error("personal_unlockAccount", json!([made, "one"]), -32000, forbidden);
        assert_eq!(status(&net, &made), "Locked");
        net.ok(stop, json!([]));
        net.ok(start, json!(["127.0.0.1"]));
        net.ok("personal_unlockAccount", json!([made, "one"]));
        net.ok("personal_lockAccount", json!([made]));
        net.ok(stop, json!([]));
    }
    let net = Net::with(|settings| settings.insecure_unlock = true);
    let made = new_account(&net, "one");
    net.ok("admin_startRPC", json!(["0.0.0.0"]));
    net.ok("personal_unlockAccount", json!([made, "one"]));
}
