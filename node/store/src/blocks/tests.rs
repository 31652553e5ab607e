//! Blocks are read as they were written, and damaged rows are errors.

use primitives::{Bytes, Log, ReceiptOutcome, SecretKey, U256, UnsignedTransaction};

use super::encoding::*;
use super::*;
use crate::{LogIndexReads, LogKey, Store};

fn transaction() -> (Transaction, Address) {
    let key = SecretKey::from_bytes(&[0x46; 32]).unwrap();
    let unsigned = UnsignedTransaction {
        tx_nonce: 9,
        gas_price: U256::from(20),
        gas: 21000,
        to: Some(Address::repeat_byte(0x35)),
        value: U256::from(7),
        input: Bytes::from_static(b"abc"),
        ..Default::default()
    };
    (unsigned.sign(&key, 100, TxForm::Classic), key.address())
}

fn block() -> (HeaderRecord, BlockBody, Vec<Receipt>) {
    let (transaction, sender) = transaction();
    let header = Header {
        number: 3,
        extra_data: Bytes::from_static(b"x"),
        ..Default::default()
    };
    let uncle = Header {
        number: 2,
        ..Default::default()
    };
    let logs = vec![Log {
        address: Address::repeat_byte(1),
        topics: vec![B256::repeat_byte(2), B256::repeat_byte(3)],
        data: Bytes::from_static(b"data"),
    }];
    let receipt = Receipt {
        tx_type: primitives::LEGACY_TX_TYPE,
        outcome: ReceiptOutcome::Status(true),
        cumulative_gas_used: 21000,
        logs_bloom: primitives::logs_bloom(&logs),
        logs,
        output: Bytes::new(),
    };
    let older = Receipt {
        outcome: ReceiptOutcome::Root(B256::repeat_byte(9)),
        ..receipt.clone()
    };
    let record = HeaderRecord {
        header,
        total_difficulty: U256::from(12345),
        executed: false,
    };
    let body = BlockBody {
        transactions: vec![transaction],
        senders: vec![sender],
        uncles: vec![uncle],
    };
    let typed = receipt.clone().with_type(primitives::ACCESS_LIST_TX_TYPE);
    let output = Bytes::from_static(b"returned");
    let with_outputs = [&receipt, &typed].map(|one| one.clone().with_output(output.clone()));
    let [called, called_typed] = with_outputs;
    (record, body, vec![receipt, older, typed, called, called_typed])
}

#[test]
fn blocks_receipts_and_positions_round_trip() {
    let store = Store::in_memory().unwrap();
    let (record, body, receipts) = block();
    let hash = record.header.hash();
    let transaction = &body.transactions[0];
    let batch = store.batch().unwrap();
    batch
        .write(|tables| {
            tables.put_block(&hash, &record, &body)?;
            let executed = HeaderRecord {
                executed: true,
                ..record.clone()
            };
            tables.put_header(&hash, &executed)?;
            tables.put_receipts(3, &hash, &receipts)?;
            tables.put_canonical(3, &hash, &body.transactions, &receipts)
        })
        .unwrap();
    batch.commit().unwrap();
    let view = store.snapshot().unwrap();
    assert_eq!(view.head().unwrap(), Some((3, hash)));
    assert_eq!(view.canonical_hash(3).unwrap(), Some(hash));
    let read = view.header_by_hash(&hash).unwrap().unwrap();
    assert_eq!(
        read,
        HeaderRecord {
            executed: true,
            ..record.clone()
        }
    );
    assert_eq!(view.body(3, &hash, TxRules::Moac).unwrap().unwrap(), body);
    assert_eq!(view.receipts(3, &hash).unwrap().unwrap(), receipts);
    let key = LogKey::topic(1, &B256::repeat_byte(3));
    let mut indexed = Vec::new();
    assert!(view.log_blocks(&key, 0, &mut indexed).unwrap());
    assert_eq!(indexed, [3]);
    let position = [TransactionPosition {
        block_number: 3,
        index: 0,
    }];
    assert_eq!(view.transaction_positions(&transaction.hash()).unwrap(), position);
    assert_eq!(
        view.transaction_positions(&transaction.ethereum_hash().unwrap())
            .unwrap(),
        position
    );

    let batch = store.batch().unwrap();
    batch
        .write(|tables| tables.delete_canonical(&record.header, &body.transactions))
        .unwrap();
    batch.commit().unwrap();
    let view = store.snapshot().unwrap();
    assert_eq!(view.head().unwrap(), Some((2, record.header.parent_hash)));
    assert_eq!(view.canonical_hash(3).unwrap(), None);
    assert_eq!(view.transaction_positions(&transaction.hash()).unwrap(), []);
    assert!(view.header_by_hash(&hash).unwrap().is_some());
    assert!(!view.log_blocks(&key, 0, &mut indexed).unwrap());
}

#[test]
fn a_truncated_row_is_an_error() {
    let (record, body, receipts) = block();
    let rows = [record.encode(), encode_body(&body), encode_receipts(&receipts)];
    for cut in 0..rows[0].len() {
        assert!(
            HeaderRecord::decode(&rows[0][..cut]).is_err(),
            "header truncated at {cut}"
        );
    }
    for cut in 0..rows[1].len() {
        assert!(
            decode_body(&rows[1][..cut], TxRules::Moac).is_err(),
            "body truncated at {cut}"
        );
    }
    for cut in 0..rows[2].len() {
        assert!(
            decode_receipts(&rows[2][..cut]).is_err(),
            "receipts truncated at {cut}"
        );
    }
}

#[test]
fn transactions_whose_hashes_begin_alike_share_a_row() {
    let store = Store::in_memory().unwrap();
    let [one, other] = [0, 1].map(|last| {
        let mut hash = B256::repeat_byte(7);
        hash[31] = last;
        hash
    });
    let place = |block_number, index| TransactionPosition { block_number, index };
    let change = |hash: &B256, change: &dyn Fn(&mut Vec<TransactionPosition>)| {
        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.change_positions(hash, change))
            .unwrap();
        batch.commit().unwrap();
    };
    change(&one, &|positions| positions.push(place(300, 2)));
    change(&other, &|positions| positions.push(place(5, 1)));
    let found = |hash| store.snapshot().unwrap().transaction_positions(hash).unwrap();
    assert_eq!(found(&one), [place(5, 1), place(300, 2)]);
    assert_eq!(found(&other), found(&one));
    assert_eq!(store.snapshot().unwrap().count_positions().unwrap(), 2);
    change(&one, &|positions| {
        positions.retain(|position| position.block_number != 300)
    });
    assert_eq!(found(&one), [place(5, 1)]);
    change(&other, &|positions| positions.clear());
    assert_eq!(found(&other), []);
    assert!(
        store
            .snapshot()
            .unwrap()
            .get(TableId::TransactionToPosition, &one[..8])
            .unwrap()
            .is_none()
    );
}
