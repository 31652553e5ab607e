//! Decodes transactions: the stored form in blocks, and the raw form that clients send.
//!
//! Knows the number of fields and the marks of each form. Does not check signatures: a decoded
//! transaction may have no sender.

use super::typed::decode_typed;
use super::{CLASSIC_V_BIT, TX_TYPE_MAX, Transaction, TxForm, TxRules};
use crate::{
    error::DecodeError,
    rlp::{RlpError, RlpReader},
};

/// The name of the list in errors.
const WHAT: &str = "transaction";
/// The smallest first byte of a list.
const LIST_MIN: u8 = 0xc0;

impl Transaction {
    /// Decodes the stored form: twelve fields for [`TxRules::Moac`], nine fields or a typed
    /// transaction for [`TxRules::Ethereum`].
    ///
    /// # Errors
    /// [`DecodeError`] if `rlp` is not exactly one such transaction.
    pub fn decode_stored(rlp: &[u8], rules: TxRules) -> Result<Self, DecodeError> {
        let is_typed = rlp.first().is_some_and(|first| *first <= TX_TYPE_MAX);
        if is_typed && rules == TxRules::Ethereum {
            return decode_typed(rlp);
        }
        let reader = RlpReader::open(rlp, WHAT)?;
        match rules {
            TxRules::Moac => {
                reader.expect_count(WHAT, 12, "12")?;
                decode_twelve(reader)
            }
            TxRules::Ethereum => {
                reader.expect_count(WHAT, 9, "9")?;
                decode_nine(reader)
            }
        }
    }

    /// Decodes the stored form as an item of a list, as it is in the body of a block: a typed
    /// transaction is a string of bytes there.
    ///
    /// # Errors
    /// [`DecodeError`] if `item` is not exactly one such item.
    pub fn decode_item(item: &[u8], rules: TxRules) -> Result<Self, DecodeError> {
        let is_string = item.first().is_some_and(|first| *first < LIST_MIN);
        if !is_string || rules != TxRules::Ethereum {
            return Self::decode_stored(item, rules);
        }
        let mut reader = RlpReader::over(item);
        let envelope = reader.slice(WHAT)?;
        match reader.rest().len() {
            0 => decode_typed(envelope),
            got => Err(DecodeError::Field {
                field: WHAT,
                cause: RlpError::Trailing { got },
            }),
        }
    }

    /// Decodes the raw form, as a client sends it.
    ///
    /// For [`TxRules::Moac`] it has twelve fields, or nine, which become a [`TxForm::Classic`]. For
    /// [`TxRules::Ethereum`] it is the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] if `rlp` is not exactly one such list, if it is a system transaction, which
    /// only the builder of a block may make, or if it is a classic transaction with native fields.
    pub fn decode_raw(rlp: &[u8], rules: TxRules) -> Result<Self, DecodeError> {
        if rules == TxRules::Ethereum {
            return Self::decode_stored(rlp, rules);
        }
        if let Some(got @ ..=TX_TYPE_MAX) = rlp.first().copied() {
            let expected = "a list of 12 or 9 fields";
            return Err(DecodeError::Typed { got, expected });
        }
        let reader = RlpReader::open(rlp, WHAT)?;
        let transaction = match reader.count(WHAT)? {
            12 => decode_twelve(reader)?,
            9 => as_classic(decode_nine(reader)?)?,
            got => {
                return Err(DecodeError::FieldCount {
                    what: WHAT,
                    got,
                    expected: "12 or 9",
                });
            }
        };
        if transaction.is_system() {
            return Err(DecodeError::SystemTransaction {
                syscnt: transaction.syscnt,
            });
        }
        refuse_native_fields(&transaction)?;
        Ok(transaction)
    }
}

fn decode_twelve(mut reader: RlpReader<'_>) -> Result<Transaction, DecodeError> {
    let mut transaction = Transaction {
        form: TxForm::Native,
        tx_nonce: reader.u64("transaction.nonce")?,
        syscnt: reader.u64("transaction.syscnt")?,
        gas_price: reader.u256("transaction.gasPrice")?,
        gas: reader.u64("transaction.gas")?,
        to: reader.optional_address("transaction.to")?,
        value: reader.u256("transaction.value")?,
        input: reader.bytes("transaction.input")?,
        sharding_flag: reader.u64("transaction.shardingFlag")?,
        via: reader.optional_address("transaction.via")?,
        typed_chain_id: 0,
        access_list: Vec::new(),
        v: reader.u256("transaction.v")?,
        r: reader.u256("transaction.r")?,
        s: reader.u256("transaction.s")?,
    };
    transaction.form = form_of_twelve(&transaction);
    Ok(transaction)
}

/// The form of a transaction with twelve fields, which depends on the values of the fields. A block
/// may contain a system transaction with any signature, since the node that executes the block puts
/// its own in its place.
fn form_of_twelve(transaction: &Transaction) -> TxForm {
    if transaction.syscnt != 0 {
        TxForm::System
    } else if (transaction.v & CLASSIC_V_BIT).is_zero() {
        TxForm::Native
    } else {
        TxForm::Classic
    }
}

/// Refuses a classic transaction with native fields. The signature does not cover these fields. So
/// anyone could set them and give the transaction a second hash. A block may contain it all the
/// same.
fn refuse_native_fields(transaction: &Transaction) -> Result<(), DecodeError> {
    let refuse = |field, got, expected| Err(DecodeError::NotClassic { field, got, expected });
    match transaction {
        Transaction {
            form: TxForm::Native | TxForm::System | TxForm::Ethereum | TxForm::AccessList,
            ..
        } => Ok(()),
        Transaction {
            sharding_flag: got @ 1..,
            ..
        } => refuse("shardingFlag", got.to_string(), "0"),
        Transaction { via: Some(got), .. } => refuse("via", got.to_string(), "none"),
        Transaction { .. } => Ok(()),
    }
}

fn decode_nine(mut reader: RlpReader<'_>) -> Result<Transaction, DecodeError> {
    Ok(Transaction {
        form: TxForm::Ethereum,
        tx_nonce: reader.u64("transaction.nonce")?,
        syscnt: 0,
        gas_price: reader.u256("transaction.gasPrice")?,
        gas: reader.u64("transaction.gas")?,
        to: reader.optional_address("transaction.to")?,
        value: reader.u256("transaction.value")?,
        input: reader.bytes("transaction.input")?,
        sharding_flag: 0,
        via: None,
        typed_chain_id: 0,
        access_list: Vec::new(),
        v: reader.u256("transaction.v")?,
        r: reader.u256("transaction.r")?,
        s: reader.u256("transaction.s")?,
    })
}

/// Turns a transaction of nine fields into one that is stored with twelve fields: sets
/// [`CLASSIC_V_BIT`].
fn as_classic(nine: Transaction) -> Result<Transaction, DecodeError> {
    if nine.v >= CLASSIC_V_BIT {
        let bound_bits = CLASSIC_V_BIT.bit_len() - 1;
        return Err(DecodeError::ClassicV {
            got_bits: nine.v.bit_len(),
            bound_bits,
        });
    }
    Ok(Transaction {
        form: TxForm::Classic,
        v: nine.v | CLASSIC_V_BIT,
        ..nine
    })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, Bytes, U256};
    use alloy_rlp::Encodable;

    use super::*;
    use crate::rlp::{RlpError, RlpItem};

    fn sample() -> Transaction {
        Transaction {
            form: TxForm::Native,
            tx_nonce: 300,
            syscnt: 0,
            gas_price: U256::from(20_000_000_000u64),
            gas: 90_000,
            to: Some(Address::repeat_byte(0x35)),
            value: U256::from(1u64) << 200,
            input: Bytes::from(vec![0xca; 60]),
            sharding_flag: 1,
            via: Some(Address::repeat_byte(0x71)),
            typed_chain_id: 0,
            access_list: Vec::new(),
            v: U256::from(236),
            r: U256::from(3),
            s: U256::from(4),
        }
    }

    /// The RLP of the sample, after `change` was applied to field `index`.
    fn changed(index: usize, change: impl FnOnce(&mut RlpItem)) -> Vec<u8> {
        let mut item = RlpItem::decode_exact(&sample().encode()).expect("our own encoding");
        let RlpItem::List(fields) = &mut item else {
            panic!("a list")
        };
        change(&mut fields[index]);
        item.encode()
    }

    fn check_refused(rlp: &[u8], expected: DecodeError) {
        assert_eq!(
            Transaction::decode_stored(rlp, TxRules::Moac),
            Err(expected.clone())
        );
        assert_eq!(Transaction::decode_raw(rlp, TxRules::Moac), Err(expected));
    }

    fn check_field(index: usize, bytes: Vec<u8>, field: &'static str, cause: RlpError) {
        let rlp = changed(index, |item| *item = RlpItem::Bytes(bytes));
        check_refused(&rlp, DecodeError::Field { field, cause });
    }

    #[test]
    fn round_trip_of_the_sample() {
        let rlp = sample().encode();
        assert_eq!(rlp.len(), sample().length());
        assert_eq!(Transaction::decode_stored(&rlp, TxRules::Moac), Ok(sample()));
        assert_eq!(Transaction::decode_raw(&rlp, TxRules::Moac), Ok(sample()));
    }

    #[test]
    fn integers_have_one_form_and_a_largest_length() {
        let zero = RlpError::IntegerLeadingZero;
        let wide = |got, bound| RlpError::IntegerWidth { got, bound };
        let integers = [
            (0, "transaction.nonce", 8),
            (1, "transaction.syscnt", 8),
            (2, "transaction.gasPrice", 32),
            (3, "transaction.gas", 8),
            (5, "transaction.value", 32),
            (7, "transaction.shardingFlag", 8),
            (9, "transaction.v", 32),
            (10, "transaction.r", 32),
            (11, "transaction.s", 32),
        ];
        for (index, field, width) in integers {
            check_field(index, vec![0], field, zero.clone());
            check_field(index, vec![0, 5], field, zero.clone());
            check_field(index, vec![1; width + 1], field, wide(width + 1, width));
            let list = changed(index, |item| *item = RlpItem::List(vec![]));
            check_refused(
                &list,
                DecodeError::Field {
                    field,
                    cause: RlpError::UnexpectedList,
                },
            );
        }
        let gas = changed(3, |item| *item = RlpItem::Bytes(vec![1; 9]));
        let error = Transaction::decode_raw(&gas, TxRules::Moac).unwrap_err();
        let text = "transaction.gas: got an integer of 9 bytes, expected at most 8";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn addresses_have_twenty_bytes() {
        for (index, field) in [(4, "transaction.to"), (8, "transaction.via")] {
            for got in [1, 19, 21, 32] {
                let cause = RlpError::WrongLength { got, expected: 20 };
                check_field(index, vec![0xaa; got], field, cause);
            }
        }
    }

    #[test]
    fn field_counts() {
        for got in [0, 8, 10, 11, 13, 1000] {
            let rlp = RlpItem::List(vec![RlpItem::Bytes(vec![]); got]).encode();
            let count = |expected| DecodeError::FieldCount {
                what: WHAT,
                got,
                expected,
            };
            let stored = |rules| Transaction::decode_stored(&rlp, rules);
            assert_eq!(stored(TxRules::Moac), Err(count("12")));
            assert_eq!(stored(TxRules::Ethereum), Err(count("9")));
            let raw = Transaction::decode_raw(&rlp, TxRules::Moac);
            assert_eq!(raw, Err(count("12 or 9")));
        }
    }

    #[test]
    fn typed_transactions_are_refused() {
        for got in [0, 2, 0x7f] {
            let ethereum = "type 0x01 or a list of 9 fields";
            for (rules, expected) in [
                (TxRules::Moac, "a list of 12 or 9 fields"),
                (TxRules::Ethereum, ethereum),
            ] {
                let envelope = [&[got][..], &sample().encode()].concat();
                let error = DecodeError::Typed { got, expected };
                assert_eq!(Transaction::decode_raw(&envelope, rules), Err(error));
            }
        }
        let error = Transaction::decode_raw(&[2], TxRules::Moac).unwrap_err();
        let text =
            "transaction type not supported: got type 0x02 (EIP-2718), expected a list of 12 or 9 fields";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn extra_and_missing_bytes_are_refused() {
        let mut rlp = sample().encode();
        rlp.push(0x80);
        let cause = RlpError::Trailing { got: 1 };
        check_refused(&rlp, DecodeError::Field { field: WHAT, cause });
        rlp.truncate(rlp.len() - 2);
        let error = Transaction::decode_stored(&rlp, TxRules::Moac).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::Field {
                field: WHAT,
                cause: RlpError::Truncated { .. }
            }
        ));
    }

    #[test]
    fn huge_and_deep_inputs_are_refused() {
        // A huge length, and nested lists in the place of a field.
        let cause = RlpError::Truncated {
            got: 0,
            expected: u64::MAX,
        };
        check_refused(&[0xff; 9], DecodeError::Field { field: WHAT, cause });
        let mut deep = vec![0xfa, 0x98, 0x96, 0x80];
        deep.resize(10_000_004, 0xc1);
        let got = 5_000_000;
        let error = DecodeError::FieldCount {
            what: WHAT,
            got,
            expected: "12 or 9",
        };
        assert_eq!(Transaction::decode_raw(&deep, TxRules::Moac), Err(error));
        check_refused(
            &vec![0xc1; 10_000_000],
            DecodeError::Field {
                field: WHAT,
                cause: RlpError::Trailing { got: 9_999_998 },
            },
        );
    }

    #[test]
    fn system_transactions_come_from_blocks_only() {
        let system = Transaction::system(7);
        let rlp = system.encode();
        assert_eq!(Transaction::decode_stored(&rlp, TxRules::Moac), Ok(system));
        let error = DecodeError::SystemTransaction { syscnt: 0x65 };
        assert_eq!(Transaction::decode_raw(&rlp, TxRules::Moac), Err(error));
        // One with a signature is a system transaction, too.
        let signed = Transaction {
            v: CLASSIC_V_BIT,
            r: U256::from(1),
            ..Transaction::system(7)
        };
        let rlp = signed.encode();
        assert_eq!(Transaction::decode_stored(&rlp, TxRules::Moac), Ok(signed));
        let error = DecodeError::SystemTransaction { syscnt: 0x65 };
        assert_eq!(Transaction::decode_raw(&rlp, TxRules::Moac), Err(error));
        // A signature of zeros is not enough to be a system transaction.
        let plain = Transaction {
            syscnt: 0,
            form: TxForm::Native,
            ..Transaction::system(7)
        };
        assert_eq!(
            Transaction::decode_stored(&plain.encode(), TxRules::Moac),
            Ok(plain)
        );
    }

    #[test]
    fn classic_transactions_have_the_mark_and_no_native_fields() {
        let nine = Transaction {
            form: TxForm::Ethereum,
            sharding_flag: 0,
            via: None,
            v: U256::from(235),
            ..sample()
        };
        let classic = Transaction {
            form: TxForm::Classic,
            v: U256::from(235) | CLASSIC_V_BIT,
            ..nine.clone()
        };
        let rlp = nine.encode();
        assert_eq!(Transaction::decode_raw(&rlp, TxRules::Moac), Ok(classic.clone()));
        assert_eq!(Transaction::decode_raw(&rlp, TxRules::Ethereum), Ok(nine.clone()));
        assert_eq!(
            Transaction::decode_stored(&rlp, TxRules::Ethereum),
            Ok(nine.clone())
        );
        assert_eq!(classic.encode_raw(), rlp);
        assert_eq!(classic.ethereum_hash(), Some(nine.hash()));
        let stored = classic.encode();
        assert_eq!(
            Transaction::decode_stored(&stored, TxRules::Moac),
            Ok(classic.clone())
        );

        let wide = Transaction {
            v: CLASSIC_V_BIT,
            ..nine
        };
        let error = DecodeError::ClassicV {
            got_bits: 217,
            bound_bits: 216,
        };
        assert_eq!(Transaction::decode_raw(&wide.encode(), TxRules::Moac), Err(error));

        // Blocks may contain them with native fields.
        let refused = |tx: Transaction, field, got: &str, expected| {
            let error = DecodeError::NotClassic {
                field,
                got: got.to_owned(),
                expected,
            };
            assert_eq!(Transaction::decode_raw(&tx.encode(), TxRules::Moac), Err(error));
            assert_eq!(Transaction::decode_stored(&tx.encode(), TxRules::Moac), Ok(tx));
        };
        refused(
            Transaction {
                sharding_flag: 2,
                ..classic.clone()
            },
            "shardingFlag",
            "2",
            "0",
        );
        let via = Some(Address::ZERO);
        let text = "0x0000000000000000000000000000000000000000";
        refused(Transaction { via, ..classic }, "via", text, "none");
    }
}
