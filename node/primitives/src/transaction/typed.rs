//! Typed transactions (EIP-2718): a byte with the type, then a list of fields.
//!
//! The only type is 1, with an access list (EIP-2930). In a list of transactions, as in the body of
//! a block, a typed transaction is one string of bytes. Everywhere else these bytes stand alone:
//! they are hashed, and are the values of the trie of transactions.

use alloy_primitives::{Address, B256};
use alloy_rlp::{BufMut, Encodable};

use super::{OptionalAddress, Transaction, TxForm};
use crate::{
    error::DecodeError,
    rlp::{RlpReader, encode_fields, fields_length},
};

/// The type of transactions that are a list of fields only.
pub const LEGACY_TX_TYPE: u8 = 0;

/// The type of transactions with an access list (EIP-2930).
pub const ACCESS_LIST_TX_TYPE: u8 = 1;

/// The largest type (EIP-2718). The first byte of a list is 0xc0 or more.
pub(crate) const TX_TYPE_MAX: u8 = 0x7f;

/// The name of the fields in errors.
const WHAT: &str = "transaction";

/// An account, and slots of it, that a transaction names before it uses them (EIP-2930).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessListEntry {
    /// The account.
    pub address: Address,
    /// Keys of slots of its storage.
    pub slots: Vec<B256>,
}

impl AccessListEntry {
    fn fields(&self) -> [&dyn Encodable; 2] {
        [&self.address, &self.slots]
    }
}

impl Encodable for AccessListEntry {
    fn encode(&self, out: &mut dyn BufMut) {
        encode_fields(&self.fields(), out);
    }

    fn length(&self) -> usize {
        fields_length(&self.fields())
    }
}

impl Transaction {
    /// The type of the transaction: [`LEGACY_TX_TYPE`] for every form without one.
    pub const fn tx_type(&self) -> u8 {
        match self.form {
            TxForm::AccessList => ACCESS_LIST_TX_TYPE,
            _ => LEGACY_TX_TYPE,
        }
    }

    /// Whether the transaction begins with a type.
    pub const fn is_typed(&self) -> bool {
        self.tx_type() != LEGACY_TX_TYPE
    }

    /// Calls `work` with the fields of type 1. `signature` are V, r and s; the digest that is
    /// signed is made without them.
    pub(super) fn with_access_list_fields<T>(
        &self,
        signature: &[&dyn Encodable],
        work: impl FnOnce(&[&dyn Encodable]) -> T,
    ) -> T {
        let to = OptionalAddress(&self.to);
        let fields: [&dyn Encodable; 8] = [
            &self.typed_chain_id,
            &self.tx_nonce,
            &self.gas_price,
            &self.gas,
            &to,
            &self.value,
            &self.input,
            &self.access_list,
        ];
        let fields: Vec<_> = fields.into_iter().chain(signature.iter().copied()).collect();
        work(&fields)
    }
}

/// Reads a typed transaction: the type and its fields.
pub(super) fn decode_typed(envelope: &[u8]) -> Result<Transaction, DecodeError> {
    let rlp = match envelope.split_first() {
        Some((&ACCESS_LIST_TX_TYPE, rlp)) => rlp,
        Some((&got, _)) => {
            let expected = "type 0x01 or a list of 9 fields";
            return Err(DecodeError::Typed { got, expected });
        }
        None => {
            return Err(DecodeError::FieldCount {
                what: WHAT,
                got: 0,
                expected: "11",
            });
        }
    };
    let mut reader = RlpReader::open(rlp, WHAT)?;
    reader.expect_count(WHAT, 11, "11")?;
    Ok(Transaction {
        form: TxForm::AccessList,
        typed_chain_id: reader.u64("transaction.chainId")?,
        tx_nonce: reader.u64("transaction.nonce")?,
        syscnt: 0,
        gas_price: reader.u256("transaction.gasPrice")?,
        gas: reader.u64("transaction.gas")?,
        to: reader.optional_address("transaction.to")?,
        value: reader.u256("transaction.value")?,
        input: reader.bytes("transaction.input")?,
        access_list: decode_access_list(reader.list("transaction.accessList")?)?,
        sharding_flag: 0,
        via: None,
        v: reader.u256("transaction.yParity")?,
        r: reader.u256("transaction.r")?,
        s: reader.u256("transaction.s")?,
    })
}

fn decode_access_list(mut reader: RlpReader<'_>) -> Result<Vec<AccessListEntry>, DecodeError> {
    const LIST: &str = "transaction.accessList";
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let index = entries.len();
        let mut fields = reader.list(LIST)?;
        let entry = decode_entry(&mut fields).map_err(DecodeError::entry(LIST, index))?;
        entries.push(entry);
    }
    Ok(entries)
}

fn decode_entry(fields: &mut RlpReader<'_>) -> Result<AccessListEntry, DecodeError> {
    fields.expect_count("entry", 2, "2")?;
    let address = fields.address("address")?;
    let mut keys = fields.list("storageKeys")?;
    let mut slots = Vec::new();
    while !keys.is_empty() {
        slots.push(keys.fixed("storageKeys")?);
    }
    Ok(AccessListEntry { address, slots })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, hex};

    use super::*;
    use crate::{SecretKey, TxRules, UnsignedTransaction, rlp::RlpError};

    fn key() -> SecretKey {
        SecretKey::from_bytes(&[0x46; 32]).expect("a key")
    }

    fn sample() -> Transaction {
        let unsigned = UnsignedTransaction {
            tx_nonce: 7,
            gas_price: U256::from(30_000_000_000u64),
            gas: 50_000,
            to: Some(Address::repeat_byte(0x11)),
            value: U256::from(5),
            input: vec![1, 2, 3].into(),
            access_list: vec![
                AccessListEntry {
                    address: Address::repeat_byte(0x22),
                    slots: vec![B256::repeat_byte(3), B256::ZERO],
                },
                AccessListEntry::default(),
            ],
            ..Default::default()
        };
        unsigned.sign(&key(), 61, TxForm::AccessList)
    }

    fn envelope_of(item: &[u8]) -> Vec<u8> {
        RlpReader::over(item).slice("item").expect("a string").to_vec()
    }

    #[test]
    fn round_trip_alone_and_in_a_list() {
        let sample = sample();
        let envelope = sample.encode();
        assert_eq!(envelope[0], ACCESS_LIST_TX_TYPE);
        assert_eq!(sample.encode_raw(), envelope);
        assert_eq!(sample.ethereum_hash(), Some(sample.hash()));
        for decode in [Transaction::decode_stored, Transaction::decode_raw] {
            assert_eq!(decode(&envelope, TxRules::Ethereum), Ok(sample.clone()));
            assert!(decode(&envelope, TxRules::Moac).is_err());
        }
        let mut item = Vec::new();
        Encodable::encode(&sample, &mut item);
        assert_eq!(item.len(), sample.length());
        assert_eq!(envelope_of(&item), envelope);
        assert_eq!(
            Transaction::decode_item(&item, TxRules::Ethereum),
            Ok(sample.clone())
        );
        assert!(Transaction::decode_item(&item, TxRules::Moac).is_err());
        // In a list the envelope does not stand alone, and outside of a list it does.
        assert!(Transaction::decode_item(&envelope, TxRules::Ethereum).is_err());
        assert!(Transaction::decode_stored(&item, TxRules::Ethereum).is_err());
        assert_eq!(sample.recover_sender(true), Ok(key().address()));
        assert_eq!((sample.chain_id(), sample.is_protected()), (Some(61), true));
        assert!(sample.v <= U256::from(1));
    }

    /// The same transaction was made and signed with `@ethereumjs/tx`.
    #[test]
    fn another_library_makes_the_same_bytes() {
        let raw = hex!(
            "01f8dc3d078506fc23ac0082c350941111111111111111111111111111111111111111058301"
            "0203f872f859942222222222222222222222222222222222222222f842a00303030303030303"
            "030303030303030303030303030303030303030303030303a000000000000000000000000000"
            "00000000000000000000000000000000000000d6940000000000000000000000000000000000"
            "000000c001a07b605bac582477add1fd6263c4c97fa439dbe94b796521c2ef8789475a6758fc"
            "a07d0fbc9b27ab82addce445494326e4c0fe0a2fe786a704f752e697f66e412e26"
        );
        let hash = "0xd20eb12e0441aaf7ae4606f9594919f8c12dca0fa3a6ad9a514dc2fa73225e9c";
        let digest = "0x0f22c49b84e304d73dc008008d8a370aec0b171f2ef75498c9e7d6382c64b7b3";
        assert_eq!(sample().encode(), raw);
        assert_eq!(sample().hash().to_string(), hash);
        assert_eq!(sample().signing_hash().to_string(), digest);
    }

    #[test]
    fn a_string_holds_exactly_one_typed_transaction() {
        let legacy = UnsignedTransaction::default().sign(&key(), 61, TxForm::Ethereum);
        let mut wrapped = Vec::new();
        alloy_rlp::Encodable::encode(&legacy.encode()[..], &mut wrapped);
        let error = Transaction::decode_item(&wrapped, TxRules::Ethereum).unwrap_err();
        assert!(matches!(error, DecodeError::Typed { .. }), "{error}");
        for empty in [&[0x80][..], &[1], &[0]] {
            assert!(Transaction::decode_item(empty, TxRules::Ethereum).is_err());
        }
        let mut item = Vec::new();
        Encodable::encode(&sample(), &mut item);
        item.push(0x80);
        let error = Transaction::decode_item(&item, TxRules::Ethereum).unwrap_err();
        let cause = RlpError::Trailing { got: 1 };
        assert_eq!(
            error,
            DecodeError::Field {
                field: "transaction",
                cause
            }
        );
    }

    #[test]
    fn the_parity_is_a_bit() {
        let odd = Transaction {
            v: U256::from(27),
            ..sample()
        };
        assert!(odd.recover_sender(true).is_err());
        let other = Transaction {
            v: U256::from(1) - sample().v,
            ..sample()
        };
        assert_ne!(other.recover_sender(true), Ok(key().address()));
    }

    #[test]
    fn every_field_is_signed() {
        let changed = |change: &dyn Fn(&mut Transaction)| {
            let mut transaction = sample();
            change(&mut transaction);
            assert_ne!(transaction.recover_sender(true), Ok(key().address()));
        };
        changed(&|t| t.typed_chain_id += 1);
        changed(&|t| t.access_list[0].slots[0] = B256::ZERO);
        changed(&|t| drop(t.access_list.pop()));
        changed(&|t| t.gas += 1);
        changed(&|t| t.to = None);
    }
}
