//! The transaction object. Source: docs/interface.md, 2.3.

use primitives::{Address, B256, Transaction, TxForm, U256};
use serde::Serialize;

use super::access_list::ShownAccessList;
use crate::modules::NameStyle;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// The place of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPlace {
    /// The block's hash.
    pub block_hash: B256,
    /// The block's number.
    pub block_number: u64,
    /// The index in the block, from 0.
    pub index: usize,
}

/// The type to show. A transaction without one is of type 0 for Ethereum's clients.
pub(super) fn shown_type(transaction: &Transaction, name_style: NameStyle) -> Option<Quantity<u8>> {
    let is_shown = name_style == NameStyle::Ethereum || transaction.is_typed();
    is_shown.then(|| Quantity(transaction.tx_type()))
}

/// A transaction as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionObject<'a> {
    hash: Data<B256>,
    nonce: Quantity,
    block_hash: Option<Data<B256>>,
    block_number: Option<Quantity>,
    transaction_index: Option<Quantity<usize>>,
    from: Data<Address>,
    to: Option<Data<Address>>,
    value: Quantity<U256>,
    gas_price: Quantity<U256>,
    gas: Quantity,
    input: Data<&'a [u8]>,
    syscnt: Quantity,
    v: Quantity<U256>,
    r: Quantity<U256>,
    s: Quantity<U256>,
    sharding_flag: Quantity,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ethereum_type: Option<Quantity<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_list: Option<ShownAccessList<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_parity: Option<Quantity<U256>>,
}

impl Described for TransactionObject<'_> {
    const TYPE: WireType = WireType::Named("Transaction");
}

/// The hash to show. Under Ethereum's names it is the hash that Ethereum's libraries compute, if
/// the transaction has one.
pub(crate) fn shown_hash(transaction: &Transaction, name_style: NameStyle) -> B256 {
    match name_style {
        NameStyle::Native => transaction.hash(),
        NameStyle::Ethereum => transaction.ethereum_hash().unwrap_or_else(|| transaction.hash()),
    }
}

impl<'a> TransactionObject<'a> {
    /// Shows `transaction`, which `sender` has sent. It is pending if it has no place. Under
    /// Ethereum's names a transaction that was sent in nine fields has hash and V as Ethereum has
    /// them.
    pub(crate) fn new(
        transaction: &'a Transaction,
        sender: Address,
        place: Option<TransactionPlace>,
        name_style: NameStyle,
    ) -> Self {
        Self::hashed(
            transaction,
            shown_hash(transaction, name_style),
            sender,
            place,
            name_style,
        )
    }

    /// The same, for a transaction whose shown hash is known already.
    pub(crate) fn hashed(
        transaction: &'a Transaction,
        hash: B256,
        sender: Address,
        place: Option<TransactionPlace>,
        name_style: NameStyle,
    ) -> Self {
        let v = match name_style {
            NameStyle::Native => None,
            NameStyle::Ethereum => transaction.ethereum_v(),
        };
        let is_typed = transaction.is_typed();
        let has_chain_id = name_style == NameStyle::Ethereum
            || matches!(transaction.form, TxForm::Ethereum | TxForm::AccessList);
        Self {
            hash: Data(hash),
            nonce: Quantity(transaction.tx_nonce),
            block_hash: place.map(|place| Data(place.block_hash)),
            block_number: place.map(|place| Quantity(place.block_number)),
            transaction_index: place.map(|place| Quantity(place.index)),
            from: Data(sender),
            to: transaction.to.map(Data),
            value: Quantity(transaction.value),
            gas_price: Quantity(transaction.gas_price),
            gas: Quantity(transaction.gas),
            input: Data(&transaction.input),
            syscnt: Quantity(transaction.syscnt),
            v: Quantity(v.unwrap_or(transaction.v)),
            r: Quantity(transaction.r),
            s: Quantity(transaction.s),
            sharding_flag: Quantity(transaction.sharding_flag),
            ethereum_type: shown_type(transaction, name_style),
            access_list: is_typed.then_some(ShownAccessList(&transaction.access_list)),
            chain_id: has_chain_id
                .then(|| transaction.chain_id())
                .flatten()
                .map(Quantity),
            y_parity: is_typed.then_some(Quantity(transaction.v)),
        }
    }
}

#[cfg(test)]
mod tests {
    use primitives::{AccessListEntry, Bytes, SecretKey, UnsignedTransaction};

    use super::*;

    #[test]
    fn fields_and_nulls() {
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
        let unsigned = UnsignedTransaction {
            tx_nonce: 9,
            gas_price: U256::from(20),
            gas: 1000,
            value: U256::from(1) << 200,
            input: Bytes::from_static(&[0, 0xff]),
            ..Default::default()
        };
        let transaction = unsigned.sign(&key, 100, TxForm::Native);
        let (hash, from) = (transaction.hash(), key.address());
        let (v, r, s) = (transaction.v, transaction.r, transaction.s);
        let block_hash = B256::repeat_byte(7);
        let place = TransactionPlace {
            block_hash,
            block_number: 16,
            index: 0,
        };
        let tail = format!(
            "\"from\":\"{from:#x}\",\"to\":null,\"value\":\"0x1{zeros}\",\"gasPrice\":\"0x14\",\
             \"gas\":\"0x3e8\",\"input\":\"0x00ff\",\"syscnt\":\"0x0\",\"v\":\"{v:#x}\",\"r\":\"{r:#x}\",\
             \"s\":\"{s:#x}\",\"shardingFlag\":\"0x0\"}}",
            zeros = "0".repeat(50),
        );
        let check = |place: Option<TransactionPlace>, middle: &str| {
            let object = TransactionObject::new(&transaction, from, place, NameStyle::Native);
            assert_eq!(
                serde_json::to_string(&object).expect("JSON"),
                format!("{{\"hash\":\"{hash}\",\"nonce\":\"0x9\",{middle},{tail}"),
            );
        };
        check(
            None,
            "\"blockHash\":null,\"blockNumber\":null,\"transactionIndex\":null",
        );
        check(
            Some(place),
            &format!("\"blockHash\":\"{block_hash}\",\"blockNumber\":\"0x10\",\"transactionIndex\":\"0x0\""),
        );
    }

    #[test]
    fn typed_transactions_have_their_own_fields() {
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
        let entry = AccessListEntry {
            address: Address::repeat_byte(2),
            slots: vec![B256::repeat_byte(3)],
        };
        let unsigned = UnsignedTransaction {
            access_list: vec![entry],
            ..Default::default()
        };
        let typed = unsigned.sign(&key, 61, TxForm::AccessList);
        let legacy = unsigned.sign(&key, 61, TxForm::Ethereum);
        let open = unsigned.sign_unprotected(&key);
        for name_style in [NameStyle::Native, NameStyle::Ethereum] {
            let show = |transaction: &Transaction| {
                let object = TransactionObject::new(transaction, key.address(), None, name_style);
                serde_json::to_value(&object).expect("JSON")
            };
            let shown = show(&typed);
            assert_eq!(
                (&shown["type"], &shown["chainId"]),
                (&"0x1".into(), &"0x3d".into())
            );
            assert_eq!(shown["yParity"], shown["v"]);
            assert_eq!(
                shown["accessList"][0]["address"],
                format!("0x{}", "02".repeat(20))
            );
            assert_eq!(
                shown["accessList"][0]["storageKeys"][0],
                format!("0x{}", "03".repeat(32))
            );
            assert_eq!(shown["hash"], typed.hash().to_string());
            let shown = show(&legacy);
            assert_eq!(shown["chainId"], "0x3d");
            assert!(shown.get("accessList").is_none() && shown.get("yParity").is_none());
            assert!(show(&open).get("chainId").is_none());
        }
    }

    #[test]
    fn ethereum_sees_its_own_hash_and_v() {
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
        let unsigned = UnsignedTransaction::default();
        let show = |form, name_style| {
            let transaction = unsigned.sign(&key, 100, form);
            let object = TransactionObject::new(&transaction, key.address(), None, name_style);
            serde_json::to_value(&object).expect("JSON")
        };
        let ethereum = unsigned.sign(&key, 100, TxForm::Ethereum);
        let shown = show(TxForm::Classic, NameStyle::Ethereum);
        assert_eq!(shown["hash"], format!("{}", ethereum.hash()));
        assert_eq!(shown["v"], format!("{:#x}", ethereum.v));
        assert_eq!(shown["type"], "0x0");
        assert_eq!(shown["chainId"], "0x64");
        let stored = show(TxForm::Classic, NameStyle::Native);
        assert_ne!(stored["hash"], shown["hash"]);
        assert_ne!(stored["v"], shown["v"]);
        assert!(stored.get("type").is_none() && stored.get("chainId").is_none());
        // A transaction in a form that Ethereum does not have has one hash.
        let native = show(TxForm::Native, NameStyle::Native);
        assert_eq!(show(TxForm::Native, NameStyle::Ethereum)["hash"], native["hash"]);
    }
}
