//! Properties of all values and all bytes: an encoded value decodes to the same value, decoded
//! bytes encode to the same bytes, and nothing panics.

use primitives::{rlp::RlpItem, *};
use proptest::{collection::vec, option, prelude::*, sample::Index};

fn hash() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::from)
}

fn account() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::from)
}

/// Numbers of all lengths, zero included.
fn wide() -> impl Strategy<Value = U256> {
    (any::<[u8; 32]>(), 0..=256usize)
        .prop_map(|(bytes, cut)| U256::from_be_bytes(bytes).checked_shr(cut).unwrap_or_default())
}

fn narrow() -> impl Strategy<Value = u64> {
    wide().prop_map(|wide| wide.wrapping_to())
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..80).prop_map(Bytes::from)
}

fn bloom() -> impl Strategy<Value = Bloom> {
    vec(any::<u8>(), 256).prop_map(|bytes| Bloom::from_slice(&bytes))
}

fn unsigned() -> impl Strategy<Value = UnsignedTransaction> {
    let target = (
        option::of(account()),
        wide(),
        data(),
        narrow(),
        option::of(account()),
    );
    (narrow(), wide(), narrow(), target).prop_map(
        |(tx_nonce, gas_price, gas, (to, value, input, sharding_flag, via))| UnsignedTransaction {
            tx_nonce,
            syscnt: 0,
            gas_price,
            gas,
            to,
            value,
            input,
            sharding_flag,
            via,
            access_list: Vec::new(),
        },
    )
}

/// A transaction with an access list.
fn typed() -> impl Strategy<Value = Transaction> {
    let entry =
        (account(), vec(hash(), 0..4)).prop_map(|(address, slots)| AccessListEntry { address, slots });
    let key = SecretKey::from_bytes(&[1; 32]).expect("a key");
    (unsigned(), vec(entry, 0..4), narrow(), wide()).prop_map(move |(unsigned, access_list, chain_id, v)| {
        let unsigned = UnsignedTransaction {
            access_list,
            ..unsigned
        };
        Transaction {
            v,
            ..unsigned.sign(&key, chain_id, TxForm::AccessList)
        }
    })
}

fn form() -> impl Strategy<Value = TxForm> {
    prop_oneof![
        Just(TxForm::Native),
        Just(TxForm::Classic),
        Just(TxForm::Ethereum)
    ]
}

/// A transaction with any V, r and s that its form can have.
fn transaction(form: TxForm) -> impl Strategy<Value = Transaction> {
    let key = SecretKey::from_bytes(&[1; 32]).expect("a key");
    (unsigned(), wide(), wide(), wide()).prop_map(move |(unsigned, v, r, s)| {
        let v = match form {
            TxForm::Native => v & !CLASSIC_V_BIT,
            TxForm::Classic => v | CLASSIC_V_BIT,
            TxForm::Ethereum | TxForm::System | TxForm::AccessList => v,
        };
        // A system transaction is one with this field, and only those have it.
        let syscnt = if form == TxForm::System { u64::MAX } else { 0 };
        Transaction {
            syscnt,
            v,
            r,
            s,
            ..unsigned.sign(&key, 1, form)
        }
    })
}

fn stored() -> impl Strategy<Value = Transaction> {
    prop_oneof![
        transaction(TxForm::Native),
        transaction(TxForm::Classic),
        transaction(TxForm::System),
        any::<u64>().prop_map(Transaction::system),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let hashes = (hash(), hash(), account(), hash(), hash(), hash(), bloom());
    let numbers = (wide(), narrow(), narrow(), narrow(), narrow());
    (hashes, numbers, data(), hash(), any::<u64>()).prop_map(
        |(hashes, numbers, extra_data, mix_hash, pow_nonce)| Header {
            parent_hash: hashes.0,
            uncles_hash: hashes.1,
            beneficiary: hashes.2,
            state_root: hashes.3,
            transactions_root: hashes.4,
            receipts_root: hashes.5,
            logs_bloom: hashes.6,
            difficulty: numbers.0,
            number: numbers.1,
            gas_limit: numbers.2,
            gas_used: numbers.3,
            timestamp: numbers.4,
            extra_data,
            mix_hash,
            pow_nonce,
        },
    )
}

fn block() -> impl Strategy<Value = Block> {
    (header(), vec(stored(), 0..5), vec(header(), 0..3)).prop_map(|(header, transactions, uncles)| Block {
        header,
        transactions,
        uncles,
    })
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let outcome = prop_oneof![
        any::<bool>().prop_map(ReceiptOutcome::Status),
        hash().prop_map(ReceiptOutcome::Root),
    ];
    let log = (account(), vec(hash(), 0..=LOG_TOPICS_MAX), data()).prop_map(|(address, topics, data)| Log {
        address,
        topics,
        data,
    });
    (outcome, narrow(), bloom(), vec(log, 0..4)).prop_map(
        |(outcome, cumulative_gas_used, logs_bloom, logs)| Receipt {
            tx_type: LEGACY_TX_TYPE,
            outcome,
            cumulative_gas_used,
            logs_bloom,
            logs,
            output: Bytes::new(),
        },
    )
}

fn item() -> impl Strategy<Value = RlpItem> {
    let leaf = vec(any::<u8>(), 0..70).prop_map(RlpItem::Bytes);
    leaf.prop_recursive(5, 60, 8, |inner| vec(inner, 0..8).prop_map(RlpItem::List))
}

/// Tries all decoders on `bytes`. A decoder that accepts them must encode the same bytes again.
/// Returns how many accepted them.
fn decode_with_all(bytes: &[u8]) -> usize {
    let mut accepted = 0;
    let mut check = |encoded: Option<Vec<u8>>| {
        if let Some(encoded) = encoded {
            assert_eq!(encoded, bytes);
            accepted += 1;
        }
    };
    check(RlpItem::decode_exact(bytes).ok().map(|item| item.encode()));
    check(Header::decode(bytes).ok().map(|header| header.encode()));
    for rules in [TxRules::Moac, TxRules::Ethereum] {
        check(
            Transaction::decode_stored(bytes, rules)
                .ok()
                .map(|tx| tx.encode()),
        );
        let item = Transaction::decode_item(bytes, rules).ok();
        check(item.map(|tx| alloy_rlp::encode(&tx)));
        check(Block::decode(bytes, rules).ok().map(|block| block.encode()));
    }
    for form in [ReceiptForm::Five, ReceiptForm::Four] {
        check(
            Receipt::decode(bytes, form)
                .ok()
                .map(|receipt| receipt.encode(form)),
        );
        let item = Receipt::decode_item(bytes, form).ok();
        check(item.map(|receipt| receipt.encode_item(form)));
    }
    if let Ok(transaction) = Transaction::decode_raw(bytes, TxRules::Moac) {
        // Nothing that decodes may panic here.
        let _ = transaction.recover_sender(true);
        let _ = (transaction.chain_id(), transaction.ethereum_hash());
    }
    accepted
}

proptest! {
    #[test]
    fn stored_transactions_round_trip(transaction in stored()) {
        let rlp = transaction.encode();
        prop_assert_eq!(transaction.length(), rlp.len());
        prop_assert_eq!(Transaction::decode_stored(&rlp, TxRules::Moac), Ok(transaction));
    }

    #[test]
    fn ethereum_transactions_round_trip(transaction in transaction(TxForm::Ethereum)) {
        let rlp = transaction.encode();
        prop_assert_eq!(Transaction::decode_stored(&rlp, TxRules::Ethereum), Ok(transaction));
    }

    #[test]
    fn typed_transactions_round_trip(transaction in typed()) {
        let bytes = transaction.encode();
        let decoded = Transaction::decode_stored(&bytes, TxRules::Ethereum);
        prop_assert_eq!(decoded.as_ref(), Ok(&transaction));
        let item = alloy_rlp::encode(&transaction);
        prop_assert_eq!(item.len(), transaction.length());
        prop_assert_eq!(Transaction::decode_item(&item, TxRules::Ethereum), Ok(transaction));
    }

    #[test]
    fn blocks_with_typed_transactions_round_trip(typed in vec(typed(), 1..4), header in header()) {
        let block = Block { header, transactions: typed, uncles: Vec::new() };
        let rlp = block.encode();
        prop_assert_eq!(Block::decode(&rlp, TxRules::Ethereum), Ok(block));
        prop_assert!(Block::decode(&rlp, TxRules::Moac).is_err());
    }

    #[test]
    fn receipts_with_a_type_round_trip(receipt in receipt()) {
        let receipt = receipt.with_type(ACCESS_LIST_TX_TYPE);
        let (bytes, item) = (receipt.encode(ReceiptForm::Four), receipt.encode_item(ReceiptForm::Four));
        prop_assert_eq!(Receipt::decode(&bytes, ReceiptForm::Four), Ok(receipt.clone()));
        prop_assert_eq!(Receipt::decode_item(&item, ReceiptForm::Four), Ok(receipt));
    }

    #[test]
    fn the_signer_is_recovered(
        unsigned in unsigned(),
        form in form(),
        seed in 1..=u64::MAX,
        chain_id in 0..NATIVE_CHAIN_ID_BOUND,
    ) {
        let key = SecretKey::from_bytes(&U256::from(seed).to_be_bytes::<32>()).expect("a key");
        let signed = unsigned.sign(&key, chain_id, form);
        prop_assert_eq!(signed.recover_sender(true), Ok(key.address()));
        prop_assert_eq!(signed.chain_id(), Some(chain_id));
        let rules = if form == TxForm::Ethereum { TxRules::Ethereum } else { TxRules::Moac };
        let sent = signed.encode_raw();
        prop_assert_eq!(Transaction::decode_raw(&sent, rules), Ok(signed));
    }

    #[test]
    fn headers_round_trip(header in header()) {
        let rlp = header.encode();
        prop_assert_eq!(header.length(), rlp.len());
        prop_assert_eq!(Header::decode(&rlp), Ok(header));
    }

    #[test]
    fn blocks_round_trip(block in block()) {
        let rlp = block.encode();
        prop_assert_eq!(block.size(), rlp.len());
        prop_assert_eq!(Block::decode(&rlp, TxRules::Moac), Ok(block));
    }

    #[test]
    fn receipts_round_trip(receipt in receipt()) {
        for form in [ReceiptForm::Five, ReceiptForm::Four] {
            let rlp = receipt.encode(form);
            prop_assert_eq!(Receipt::decode(&rlp, form), Ok(receipt.clone()));
        }
    }

    #[test]
    fn items_round_trip(item in item()) {
        prop_assert_eq!(RlpItem::decode_exact(&item.encode()), Ok(item));
    }

    #[test]
    fn any_bytes_are_refused_or_exact(bytes in vec(any::<u8>(), 0..600)) {
        decode_with_all(&bytes);
    }

    /// Bytes that are almost right reach more code of the decoders than random bytes.
    #[test]
    fn damaged_values_are_refused_or_exact(
        block in block(),
        transaction in prop_oneof![stored(), typed()],
        receipt in receipt(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        for good in [block.encode(), transaction.encode(), receipt.encode(ReceiptForm::Five)] {
            // A typed transaction is no item of RLP.
            prop_assert!(decode_with_all(&good) >= 1);
            let at = at.index(good.len());
            let mut changed = good.clone();
            changed[at] = byte;
            decode_with_all(&changed);
            decode_with_all(&good[..at]);
            let mut inserted = good;
            inserted.insert(at, byte);
            decode_with_all(&inserted);
        }
    }
}
