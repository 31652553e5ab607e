//! The suites: which file belongs to which suite, and how a test becomes a request.

use std::path::Path;

use chain::spec::Rule;
use serde_json::{Value, json};
use testvec::{StateOutcome, TestVectorService, TestvecCommand, run_blocks, run_state, spec_of_fork};

use crate::public_suites::report::Report;

/// Runs the tests of one file.
pub(crate) fn run_file(path: &Path, caches: &ethash::LightCaches, report: &mut Report) {
    let text = path.to_string_lossy();
    let suites: [(&str, &str, RunCase); 9] = [
        ("BlockchainTests", "BlockchainTests/", blockchain),
        ("GeneralStateTests", "GeneralStateTests/", state),
        ("TransactionTests", "TransactionTests/", transactions),
        ("DifficultyTests", "DifficultyTests/", difficulty),
        ("DifficultyTests", "BasicTests/difficulty", difficulty),
        ("PoWTests", "PoWTests/", pow),
        ("TrieTests", "TrieTests/", trie),
        ("RLPTests", "RLPTests/", rlp),
        ("KeyStoreTests", "KeyStoreTests/", keystore),
    ];
    let Some((suite, _, run)) = suites.iter().find(|(_, mark, _)| text.contains(mark)) else {
        let suite = path
            .parent()
            .and_then(Path::file_name)
            .map_or_else(|| "".into(), |name| name.to_string_lossy());
        return report.other_file(&suite);
    };
    let read = std::fs::read(path).map_err(|error| error.to_string());
    match read.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())) {
        Err(reason) => report.unreadable(&text, &reason),
        Ok(file) => {
            for (name, test) in file.as_object().into_iter().flatten() {
                let case = Case {
                    suite,
                    path: &text,
                    name,
                    test,
                    caches,
                };
                run(&case, report);
            }
        }
    }
}

/// Runs a test and counts its results.
type RunCase = fn(&Case<'_>, &mut Report);

/// One test of a file.
struct Case<'a> {
    suite: &'a str,
    path: &'a str,
    name: &'a str,
    test: &'a Value,
    caches: &'a ethash::LightCaches,
}

impl Case<'_> {
    fn count(&self, report: &mut Report, fork: &str, part: &str, result: Result<(), String>) {
        let name = format!("{} {} {part}", self.path, self.name);
        report.count(self.suite, fork, &name, result);
    }
}

/// Compares hex digits, with or without 0x and in any case.
fn same(what: &str, got: &str, expected: &Value) -> Result<(), String> {
    let expected = expected.as_str().unwrap_or_default();
    let plain = |text: &str| text.trim_start_matches("0x").to_ascii_lowercase();
    if plain(got) == plain(expected) {
        Ok(())
    } else {
        Err(format!("{what}: got {got}, expected {expected}"))
    }
}

/// The accounts before a test. Some generators leave out what is zero or empty.
fn accounts(pre: &Value) -> Value {
    let mut accounts = pre.clone();
    let objects = accounts.as_object_mut().into_iter().flatten();
    for account in objects.filter_map(|(_, account)| account.as_object_mut()) {
        for (key, value) in [
            ("balance", json!("0x0")),
            ("nonce", json!("0x0")),
            ("code", json!("0x")),
            ("storage", json!({})),
        ] {
            account.entry(key).or_insert(value);
        }
    }
    accounts
}

/// The reason why a test is left out that has a sender with code (EIP-3607).
const CODE_OF_SENDER: &str = "senders with deployed code";
/// Tests that create a contract where an account has storage, which now fails (EIP-7610).
const COLLISIONS: [&str; 4] = [
    "/RevertInCreateInInit.json",
    "/RevertInCreateInInitCreate2.json",
    "/create2collisionStorage.json",
    "/InitCollision.json",
];

/// Whether headers of the fork have a base fee, which this program's headers do not have.
fn has_base_fee(fork: &str) -> bool {
    spec_of_fork(fork).is_ok_and(|spec| spec.rules_at(0).has(Rule::Eip1559))
}

fn state(case: &Case<'_>, report: &mut Report) {
    let pre = accounts(&case.test["pre"]);
    for (fork, posts) in case.test["post"].as_object().into_iter().flatten() {
        let posts = posts.as_array().map(Vec::as_slice).unwrap_or_default();
        if spec_of_fork(fork).is_err() {
            for _ in posts {
                report.other_fork(fork);
            }
            continue;
        }
        for post in posts {
            // Ethereum Classic's tests write the key in another way. They were made before EIP-3607
            // and EIP-7610, which hold for all past blocks, too.
            let is_older = post.get("indexes").is_none();
            let indexes = post.get("indexes").unwrap_or_else(|| &post["Indexes"]);
            let index = |key: &str| indexes[key].as_u64().unwrap_or(0) as usize;
            let (data, gas, value) = (index("data"), index("gas"), index("value"));
            let tx = &case.test["transaction"];
            if tx.get("maxFeePerGas").is_some() {
                report.other_fork(&format!("{fork}, other types"));
                continue;
            }
            let request = json!({
                "fork": fork, "env": case.test["env"], "pre": pre,
                "tx": {
                    "data": tx["data"][data], "gasLimit": tx["gasLimit"][gas], "value": tx["value"][value],
                    "gasPrice": tx["gasPrice"], "nonce": tx["nonce"], "to": tx["to"],
                    "secretKey": tx["secretKey"], "accessList": tx["accessLists"][data],
                },
            });
            let outcome = run_state(&request).map_err(|error| error.to_string());
            if let Ok(StateOutcome {
                refused: Some(refused),
                ..
            }) = &outcome
                && refused.contains(CODE_OF_SENDER)
                && is_older
            {
                report.other_fork(&format!("{fork}, older than EIP-3607"));
                continue;
            }
            if is_older && COLLISIONS.iter().any(|name| case.path.ends_with(name)) {
                report.other_fork(&format!("{fork}, older than EIP-7610"));
                continue;
            }
            let result = outcome.and_then(|outcome| {
                same("state root", &outcome.state_root.to_string(), &post["hash"])
                    .and_then(|()| same("logs", &outcome.logs_hash.to_string(), &post["logs"]))
                    .map_err(|reason| match outcome.refused {
                        Some(refused) => format!("{reason} (refused: {refused})"),
                        None => reason,
                    })
            });
            case.count(report, fork, &format!("d{data} g{gas} v{value}"), result);
        }
    }
}

fn blockchain(case: &Case<'_>, report: &mut Report) {
    let fork = case.test["network"].as_str().unwrap_or("none");
    if spec_of_fork(fork).is_err() || has_base_fee(fork) {
        return report.other_fork(fork);
    }
    let blocks: Vec<_> = case.test["blocks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|b| b["rlp"].clone())
        .collect();
    let request = json!({
        "fork": fork, "seal": case.test.get("sealEngine").map_or_else(|| json!("Ethash"), Clone::clone), "pre": accounts(&case.test["pre"]),
        "genesis": genesis(case.test), "blocks": blocks,
    });
    let outcome = run_blocks(case.caches, &request).map_err(|error| error.to_string());
    let result = outcome.and_then(|outcome| {
        same("head", &outcome.head.to_string(), &case.test["lastblockhash"]).map_err(|reason| {
            let refused: Vec<_> = outcome.refused.iter().flatten().collect();
            format!("{reason} (refused: {refused:?})")
        })
    });
    case.count(report, fork, "", result);
}

/// RLP of block 0: as in the test, or encoded from the fields of the header.
fn genesis(test: &Value) -> Value {
    if let Some(rlp) = test.get("genesisRLP") {
        return rlp.clone();
    }
    let header = &test["genesisBlockHeader"];
    let plain = |key: &str| header[key].clone();
    let number = |key: &str| {
        let digits = header[key]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("0x")
            .trim_start_matches('0');
        json!(format!(
            "0x{}{digits}",
            if digits.len() % 2 == 1 { "0" } else { "" }
        ))
    };
    let fields = json!([
        plain("parentHash"),
        plain("uncleHash"),
        plain("coinbase"),
        plain("stateRoot"),
        plain("transactionsTrie"),
        plain("receiptTrie"),
        plain("bloom"),
        number("difficulty"),
        number("number"),
        number("gasLimit"),
        number("gasUsed"),
        number("timestamp"),
        plain("extraData"),
        plain("mixHash"),
        plain("nonce"),
    ]);
    let block = json!({ "value": [fields, [], []] });
    answer(TestvecCommand::Rlp, &block).map_or(Value::Null, |answer| answer["rlp"].clone())
}

/// The answer to a request.
fn answer(kind: TestvecCommand, request: &Value) -> Result<Value, String> {
    let answer = TestVectorService::default().answer(&kind, request);
    answer.map_err(|error| error.to_string())
}

fn transactions(case: &Case<'_>, report: &mut Report) {
    let service = TestVectorService::default();
    for (fork, expected) in case.test["result"].as_object().into_iter().flatten() {
        if spec_of_fork(fork).is_err() {
            report.other_fork(fork);
            continue;
        }
        let raw = case.test["txbytes"].as_str().unwrap_or_default();
        if has_base_fee(fork) && (raw.starts_with("0x02") || raw.starts_with("0x03")) {
            report.other_fork(&format!("{fork}, other types"));
            continue;
        }
        let got = service.answer(
            &TestvecCommand::Tx,
            &json!({ "fork": fork, "raw": case.test["txbytes"] }),
        );
        let result = match (got, expected.get("exception")) {
            (Ok(got), None) => same(
                "hash",
                got["hash"].as_str().unwrap_or_default(),
                &expected["hash"],
            )
            .and_then(|()| {
                same(
                    "sender",
                    got["sender"].as_str().unwrap_or_default(),
                    &expected["sender"],
                )
            }),
            (Err(_), Some(_)) => Ok(()),
            (Ok(got), Some(exception)) => Err(format!("got {got}, expected {exception}")),
            (Err(error), None) => Err(format!("got {error}, expected {expected}")),
        };
        case.count(report, fork, "", result);
    }
}

fn difficulty(case: &Case<'_>, report: &mut Report) {
    // There are two formats: the fork is either a key above the tests or a part of the file name.
    if case.test.get("currentDifficulty").is_some() {
        let file = case.path.rsplit('/').next().unwrap_or_default();
        let fork = file.trim_start_matches("difficulty").trim_end_matches(".json");
        let fork = fork.split('_').next().unwrap_or_default();
        one_difficulty(case, report, fork, case.name, case.test);
        return;
    }
    for (fork, tests) in case
        .test
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(fork, _)| *fork != "_info")
    {
        for (name, test) in tests.as_object().into_iter().flatten() {
            one_difficulty(case, report, fork, name, test);
        }
    }
}

fn one_difficulty(case: &Case<'_>, report: &mut Report, fork: &str, name: &str, test: &Value) {
    let known = match fork {
        "EIP2384" => "MuirGlacier",
        other => other,
    };
    if spec_of_fork(known).is_err() {
        return report.other_fork(fork);
    }
    let uncles = match &test["parentUncles"] {
        Value::String(text) => !matches!(
            text.as_str(),
            "0x00" | "0x" | "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
        ),
        _ => false,
    };
    let got = answer(
        TestvecCommand::Difficulty,
        &json!({
            "fork": known, "number": test["currentBlockNumber"], "timestamp": test["currentTimestamp"],
            "parentTimestamp": test["parentTimestamp"], "parentDifficulty": test["parentDifficulty"],
            "parentUncles": uncles,
        }),
    );
    let number = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        match text.strip_prefix("0x") {
            Some(digits) => digits.trim_start_matches('0').to_ascii_lowercase(),
            None => text
                .parse::<u128>()
                .map(|number| format!("{number:x}"))
                .unwrap_or_default(),
        }
    };
    let result = got.and_then(|got| {
        let (got, expected) = (number(&got["difficulty"]), number(&test["currentDifficulty"]));
        if got == expected {
            Ok(())
        } else {
            Err(format!("got 0x{got}, expected 0x{expected}"))
        }
    });
    case.count(report, fork, name, result);
}

fn pow(case: &Case<'_>, report: &mut Report) {
    let test = case.test;
    let hash = || {
        let bytes = |key: &str| hex::decode(test[key].as_str().unwrap_or_default().trim_start_matches("0x"));
        let header: [u8; 32] = bytes("header_hash").ok()?.try_into().ok()?;
        let nonce: [u8; 8] = bytes("nonce").ok()?.try_into().ok()?;
        let seed = bytes("seed").ok()?.try_into().ok()?;
        let epoch = ethash::Schedule::Ethash.find_epoch(&ethash::B256::new(seed))?;
        let cache = case.caches.get(epoch).ok()?;
        Some(cache.hash(&header.into(), u64::from_be_bytes(nonce)))
    };
    let result = hash()
        .ok_or_else(|| "invalid fields".to_owned())
        .and_then(|hash| {
            same("mix", &hash.mix_hash.to_string(), &test["mixHash"])
                .and_then(|()| same("result", &hash.final_hash.to_string(), &test["result"]))
        });
    case.count(report, "Ethash", "", result);
}

fn keystore(case: &Case<'_>, report: &mut Report) {
    let request = json!({ "json": case.test["json"], "password": case.test["password"] });
    let result = answer(TestvecCommand::Keystore, &request)
        .and_then(|got| same("key", got["key"].as_str().unwrap_or_default(), &case.test["priv"]));
    case.count(report, "V3", "", result);
}

fn trie(case: &Case<'_>, report: &mut Report) {
    let bytes = |text: &str| {
        let plain = text
            .strip_prefix("0x")
            .and_then(|digits| hex::decode(digits).ok());
        format!(
            "0x{}",
            hex::encode(plain.unwrap_or_else(|| text.as_bytes().to_vec()))
        )
    };
    let value = |value: &Value| value.as_str().map_or(Value::Null, |text| json!(bytes(text)));
    let ops: Vec<Value> = match &case.test["in"] {
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| json!([bytes(pair[0].as_str().unwrap_or_default()), value(&pair[1])]))
            .collect(),
        Value::Object(pairs) => pairs
            .iter()
            .map(|(key, v)| json!([bytes(key), value(v)]))
            .collect(),
        _ => return report.other_file("TrieTests without roots"),
    };
    if case.test.get("root").is_none() {
        return report.other_file("TrieTests without roots");
    }
    let secure = case.path.to_ascii_lowercase().contains("secure");
    let result = answer(TestvecCommand::Trie, &json!({ "secure": secure, "ops": ops })).and_then(|got| {
        same(
            "root",
            got["root"].as_str().unwrap_or_default(),
            &case.test["root"],
        )
    });
    case.count(report, "trie", "", result);
}

fn rlp(case: &Case<'_>, report: &mut Report) {
    let out = case.test["out"].as_str().unwrap_or_default();
    let raw = format!("0x{}", out.trim_start_matches("0x"));
    let decoded = answer(TestvecCommand::Rlp, &json!({ "rlp": raw }));
    let result = match case.test["in"].as_str() {
        Some("INVALID") => match decoded {
            Ok(got) => Err(format!("got {got}, expected an error")),
            Err(_) => Ok(()),
        },
        Some("VALID") => decoded.map(|_| ()),
        _ => expected_item(&case.test["in"]).and_then(|expected| {
            let encoded = answer(TestvecCommand::Rlp, &json!({ "value": expected }))?;
            same("rlp", encoded["rlp"].as_str().unwrap_or_default(), &json!(out))?;
            let got = decoded?;
            if got["value"] == expected {
                Ok(())
            } else {
                Err(format!("got {}, expected {expected}", got["value"]))
            }
        }),
    };
    case.count(report, "rlp", "", result);
}

/// A value of the RLP suite as nested arrays of bytes. Values are strings, numbers, big numbers
/// after `#`, and lists.
fn expected_item(value: &Value) -> Result<Value, String> {
    let minimal = |bytes: Vec<u8>| {
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        json!(format!("0x{}", hex::encode(&bytes[first..])))
    };
    match value {
        Value::Array(values) => values.iter().map(expected_item).collect(),
        Value::Number(number) => Ok(minimal(number.as_u64().unwrap_or(0).to_be_bytes().to_vec())),
        Value::String(text) => match text.strip_prefix('#') {
            None => Ok(json!(format!("0x{}", hex::encode(text)))),
            Some(digits) => {
                let number = ethash::U256::from_str_radix(digits, 10);
                match number {
                    Ok(number) => Ok(minimal(number.to_be_bytes::<32>().to_vec())),
                    // The number has more than 256 bits.
                    Err(_) => Ok(minimal(big_number(digits)?)),
                }
            }
        },
        other => Err(format!("got {other}, expected a string, a number or a list")),
    }
}

/// Converts decimal digits to big-endian bytes.
fn big_number(digits: &str) -> Result<Vec<u8>, String> {
    let mut bytes: Vec<u8> = vec![0];
    for digit in digits.chars() {
        let mut carry = digit
            .to_digit(10)
            .ok_or_else(|| format!("got {digits}, expected decimal digits"))?;
        for byte in bytes.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
    }
    Ok(bytes)
}
