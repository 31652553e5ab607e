//! The vectors of `tests/vectors/transactions.json`: transactions and signed messages of another
//! implementation, and a block from a public node.
//!
//! The roots and the seal of that block are checked in other packages, which know tries and Ethash.

use std::{fs, path::Path};

use primitives::*;
use serde_json::Value;

fn vectors() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/transactions.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} of {object}"))
}

fn parse<T: std::str::FromStr<Err: std::fmt::Debug>>(object: &Value, name: &str) -> T {
    text(object, name)
        .parse()
        .unwrap_or_else(|e| panic!("{name} of {object}: {e:?}"))
}

fn number(object: &Value, name: &str) -> u64 {
    let wide: U256 = parse(object, name);
    wide.to()
}

/// An address; `None` if the field is null or absent.
fn optional(object: &Value, name: &str) -> Option<Address> {
    (!object[name].is_null()).then(|| parse(object, name))
}

fn form(case: &Value) -> TxForm {
    match text(case, "kind") {
        "moac" => TxForm::Native,
        "classic-ethereum-9-field" => TxForm::Classic,
        "system" => TxForm::System,
        other => panic!("kind {other}"),
    }
}

/// The transaction that the JSON fields of a case describe. Does not use its RLP.
fn described(case: &Value) -> Transaction {
    let form = form(case);
    let v = if form == TxForm::Classic { "storedV" } else { "v" };
    Transaction {
        form,
        tx_nonce: number(case, "nonce"),
        syscnt: if form == TxForm::Classic {
            0
        } else {
            number(case, "syscnt")
        },
        gas_price: parse(case, "gasPrice"),
        gas: number(case, "gas"),
        to: optional(case, "to"),
        value: parse(case, "value"),
        input: parse(case, "input"),
        sharding_flag: if form == TxForm::Classic {
            0
        } else {
            number(case, "shardingFlag")
        },
        via: optional(case, "via"),
        typed_chain_id: 0,
        access_list: Vec::new(),
        v: parse(case, v),
        r: parse(case, "r"),
        s: parse(case, "s"),
    }
}

fn cases(vectors: &Value) -> &Vec<Value> {
    vectors["transactions"].as_array().expect("a list")
}

#[test]
fn transactions_decode_hash_and_recover() {
    let vectors = vectors();
    let mut forms = Vec::new();
    for case in cases(&vectors) {
        let name = text(case, "name");
        let described = described(case);
        let raw: Bytes = parse(case, "raw");
        let stored: Bytes = if described.form == TxForm::Classic {
            parse(case, "storedRaw")
        } else {
            raw.clone()
        };

        assert_eq!(described.encode(), stored, "{name}");
        assert_eq!(described.encode_raw(), raw, "{name}");
        assert_eq!(described.length(), stored.len(), "{name}");
        assert_eq!(described.hash(), parse::<B256>(case, "hash"), "{name}");
        let decoded = Transaction::decode_stored(&stored, TxRules::Moac).expect(name);
        assert_eq!(decoded, described, "{name}");
        if described.is_system() {
            let error = Transaction::decode_raw(&raw, TxRules::Moac).unwrap_err();
            assert_eq!(error, DecodeError::SystemTransaction { syscnt: 0x65 });
            assert_eq!(described, Transaction::system(described.tx_nonce), "{name}");
            assert_eq!(described.chain_id(), None);
        } else {
            assert_eq!(
                Transaction::decode_raw(&raw, TxRules::Moac),
                Ok(described.clone())
            );
            assert_eq!(
                described.signing_hash(),
                parse::<B256>(case, "signingHash"),
                "{name}"
            );
            assert_eq!(described.chain_id(), case["chainId"].as_u64(), "{name}");
        }
        assert_eq!(described.recover_sender(true), Ok(parse(case, "from")), "{name}");
        if !case["contractAddress"].is_null() {
            let created = Transaction::created_address(&parse(case, "from"), described.tx_nonce);
            assert_eq!(created, parse::<Address>(case, "contractAddress"), "{name}");
        }
        forms.push(described.form);
    }
    let count = |form| forms.iter().filter(|&&other| other == form).count();
    assert_eq!(
        (
            count(TxForm::Native),
            count(TxForm::Classic),
            count(TxForm::System)
        ),
        (7, 1, 2)
    );
}

#[test]
fn a_classic_transaction_is_the_ethereum_transaction() {
    let vectors = vectors();
    let case = cases(&vectors)
        .iter()
        .find(|case| form(case) == TxForm::Classic)
        .expect("one");
    let classic = described(case);
    assert_eq!(classic.ethereum_hash(), Some(parse(case, "ethereumHash")));
    assert_eq!(classic.ethereum_v(), Some(parse(case, "v")));
    let raw: Bytes = parse(case, "raw");
    let ethereum = Transaction::decode_raw(&raw, TxRules::Ethereum).expect("nine fields");
    assert_eq!(ethereum.form, TxForm::Ethereum);
    assert_eq!(ethereum.hash(), parse::<B256>(case, "ethereumHash"));
    assert_eq!(ethereum.recover_sender(true), Ok(parse(case, "from")));
    let error = Transaction::decode_stored(&raw, TxRules::Moac).unwrap_err();
    assert_eq!(error.to_string(), "transaction: got 9 fields, expected 12");
}

#[test]
fn signing_again_gives_the_same_bytes() {
    let vectors = vectors();
    for case in cases(&vectors).iter().filter(|case| form(case) != TxForm::System) {
        let described = described(case);
        let key = SecretKey::from_hex(text(case, "privateKey")).expect("a key");
        let unsigned = UnsignedTransaction {
            tx_nonce: described.tx_nonce,
            syscnt: described.syscnt,
            gas_price: described.gas_price,
            gas: described.gas,
            to: described.to,
            value: described.value,
            input: described.input.clone(),
            sharding_flag: described.sharding_flag,
            via: described.via,
            access_list: Vec::new(),
        };
        let chain_id = case["chainId"].as_u64().expect("a number");
        assert_eq!(key.address(), parse::<Address>(case, "from"));
        assert_eq!(
            unsigned.sign(&key, chain_id, described.form),
            described,
            "{}",
            text(case, "name")
        );
    }
}

#[test]
fn signed_messages() {
    let vectors = vectors();
    let messages = vectors["signedMessages"].as_array().expect("a list");
    assert_eq!(messages.len(), 3);
    for case in messages {
        let message: Bytes = parse(case, "message");
        let digest = signed_message_digest(&message);
        assert_eq!(digest, parse::<B256>(case, "digest"));
        let key = SecretKey::from_hex(text(case, "privateKey")).expect("a key");
        let rsv: Bytes = parse(case, "signature");
        assert_eq!(key.sign(&digest).to_rsv(), rsv[..]);
        let signature = EcdsaSignature::from_rsv(&rsv).expect("r, s and V");
        assert_eq!(recover(&digest, &signature), Ok(parse(case, "address")));
    }
}

fn real_block(vectors: &Value) -> Block {
    let block = &vectors["realBlock"];
    assert_eq!(text(block, "logsBloom"), "256 zero bytes");
    assert_eq!(text(block, "transactions"), "only system-tx-nonce-294972");
    let header = Header {
        parent_hash: parse(block, "parentHash"),
        uncles_hash: parse(block, "sha3Uncles"),
        beneficiary: parse(block, "miner"),
        state_root: parse(block, "stateRoot"),
        transactions_root: parse(block, "transactionsRoot"),
        receipts_root: parse(block, "receiptsRoot"),
        logs_bloom: Bloom::ZERO,
        difficulty: parse(block, "difficulty"),
        number: number(block, "number"),
        gas_limit: number(block, "gasLimit"),
        gas_used: number(block, "gasUsed"),
        timestamp: number(block, "timestamp"),
        extra_data: parse(block, "extraData"),
        mix_hash: parse(block, "mixHash"),
        pow_nonce: number(block, "nonce"),
    };
    Block {
        header,
        transactions: vec![Transaction::system(294_972)],
        uncles: vec![],
    }
}

#[test]
fn a_block_of_the_public_network() {
    let vectors = vectors();
    let described = &vectors["realBlock"];
    let block = real_block(&vectors);
    assert_eq!(block.hash(), parse::<B256>(described, "hash"));
    assert_eq!(block.header.header_hash(), parse::<B256>(described, "powHash"));
    assert_eq!(block.header.uncles_hash, uncles_hash(&block.uncles));
    assert_eq!(block.size() as u64, number(described, "size"));
    let rlp = block.encode();
    assert_eq!(rlp.len(), block.size());
    assert_eq!(Block::decode(&rlp, TxRules::Moac), Ok(block));
}

#[test]
fn a_receipt_of_the_public_network() {
    let vectors = vectors();
    let rlp: Bytes = parse(&vectors["realBlock"], "receiptRlpOfTheOnlyReceipt");
    let receipt = Receipt::new(ReceiptOutcome::Status(true), 0, vec![]);
    assert_eq!(receipt.encode(ReceiptForm::Five), rlp);
    assert_eq!(Receipt::decode(&rlp, ReceiptForm::Five), Ok(receipt));
}
