//! Pages of deposits and withdrawals.

use std::time::Instant;

use rpc::types::data;
use serde_json::{Value, json};

use crate::scs::harness::{CHAIN, ID, RECORDS, SLOW, SLOW_TIME, TestScs, UNKNOWN, user_text};

/// A page as the public SCS has it: a null for each record, then the records.
fn page(names: [&str; 2], kind: u64, indices: &[u64]) -> Value {
    let record = |index: &u64| json!({names[0]: format!("{:#x}", 1000 * kind + index), names[1]: format!("{:#x}", 10_000 * kind + index)});
    let nulls = indices.iter().map(|_| Value::Null);
    Value::Array(nulls.chain(indices.iter().map(record)).collect())
}

const DEPOSIT: [&str; 2] = ["DepositAmt", "Deposittime"];
const DEPOSITING: [&str; 2] = ["DepositingAmt", "Depositingtime"];
const WITHDRAW: [&str; 2] = ["WithdrawAmt", "Withdrawtime"];
const WITHDRAWING: [&str; 2] = ["WithdrawingAmt", "Withdrawingtime"];

#[test]
fn an_accounts_lists_have_pages_of_their_own() {
    let scs = TestScs::start();
    let params = json!([data(CHAIN), user_text(), 0, 2, "0x3", "0x1", 11, 10, 12, 5]);
    let found = scs.ok("scs_getExchangeByAddress", params);
    for count in ["Deposit", "Depositing", "Withdraw", "Withdrawing"] {
        assert_eq!(found[format!("{count}RecordCount")], RECORDS, "{count}");
    }
    // The newest first.
    assert_eq!(found["DepositRecords"], page(DEPOSIT, 1, &[11, 10]));
    assert_eq!(found["DepositingRecords"], page(DEPOSITING, 2, &[8]));
    assert_eq!(found["WithdrawRecords"], page(WITHDRAW, 3, &[0]));
    assert_eq!(found["WithdrawingRecords"], Value::Null, "an empty page");
    assert_eq!(found["microchain"], data(CHAIN));
    assert_eq!(found["sender"], user_text());
}

#[test]
fn left_out_numbers_have_defaults() {
    let scs = TestScs::start();
    let ten = [11, 10, 9, 8, 7, 6, 5, 4, 3, 2];
    for params in [
        json!([data(CHAIN), user_text()]),
        json!([
            data(CHAIN),
            user_text(),
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            null
        ]),
    ] {
        let found = scs.ok("scs_getExchangeByAddress", params);
        assert_eq!(found["DepositRecords"], page(DEPOSIT, 1, &ten));
        assert_eq!(found["WithdrawingRecords"], page(WITHDRAWING, 4, &ten));
    }
    let none = scs.ok(
        "scs_getExchangeByAddress",
        json!([data(CHAIN), user_text(), 0, 0]),
    );
    assert_eq!(
        (&none["DepositRecordCount"], &none["DepositRecords"]),
        (&json!(RECORDS), &Value::Null)
    );
    let far = scs.ok(
        "scs_getExchangeByAddress",
        json!([data(CHAIN), user_text(), u64::MAX, u64::MAX]),
    );
    assert_eq!(far["DepositRecords"], Value::Null);
    for bad in [json!(-1), json!("x"), json!(1.5), json!({})] {
        let params = json!([data(CHAIN), user_text(), bad]);
        scs.check_error("scs_getExchangeByAddress", params, -32602, "");
    }
}

#[test]
fn what_waits_is_told_with_its_owner() {
    let scs = TestScs::start();
    let found = scs.ok("scs_getExchangeInfo", json!([data(CHAIN), 0, 1, 1, 1]));
    let owner = |index: u8| format!("0x{}", hex_of(index).repeat(20));
    let with_owner = |mut page: Value, index: u8| {
        page[1]["address"] = json!(owner(index));
        page
    };
    assert_eq!(
        found["DepositingRecords"],
        with_owner(page(DEPOSITING, 2, &[11]), 11)
    );
    assert_eq!(
        found["WithdrawingRecords"],
        with_owner(page(WITHDRAWING, 4, &[10]), 10)
    );
    assert_eq!(found["DepositingRecordCount"], RECORDS);
    assert_eq!(found["scsid"], data(ID));
    assert!(found.get("DepositRecords").is_none());
    let unknown = scs.ok("scs_getExchangeInfo", json!([data(UNKNOWN), 0, 1, 0, 1]));
    assert_eq!(
        (&unknown["DepositingRecordCount"], &unknown["DepositingRecords"]),
        (&json!(0), &Value::Null)
    );
    let unknown = scs.ok(
        "scs_getExchangeByAddress",
        json!([data(UNKNOWN), user_text(), 0, 1, 0, 1, 0, 1, 0, 1]),
    );
    assert_eq!(
        (&unknown["WithdrawRecordCount"], &unknown["WithdrawRecords"]),
        (&json!(0), &Value::Null)
    );
}

#[test]
fn long_lists_of_some_do_not_keep_others_waiting() {
    let scs = TestScs::start();
    let ask = || scs.ok("scs_getExchangeByAddress", json!([data(CHAIN), data(SLOW)]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(ask);
        }
        // By now all are being answered, or wait.
        std::thread::sleep(SLOW_TIME / 4);
        let started = Instant::now();
        scs.check("scs_getSCSId", json!([]), json!(data(ID)));
        scs.check(
            "scs_getBalance",
            json!([data(CHAIN), user_text()]),
            json!("0x3e8"),
        );
        let took = started.elapsed();
        assert!(took < SLOW_TIME / 2, "{took:?}");
    });
}

fn hex_of(byte: u8) -> String {
    format!("{byte:02x}")
}
