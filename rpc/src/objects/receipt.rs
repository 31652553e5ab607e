//! The receipt object. Source: docs/interface.md, 2.4.

use chain::application::FLAG_CREATE;
use primitives::{Address, B256, Bloom, Log, Receipt, ReceiptOutcome, Transaction, U256};
use serde::{Serialize, Serializer};

use super::transaction::{shown_hash, shown_type};
use super::{LogObject, TransactionPlace};
use crate::modules::NameStyle;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A receipt as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptObject<'a> {
    transaction_hash: Data<B256>,
    transaction_index: Quantity<usize>,
    block_hash: Data<B256>,
    block_number: Quantity,
    from: Data<Address>,
    to: Option<Data<Address>>,
    cumulative_gas_used: Quantity,
    gas_used: Quantity,
    contract_address: Option<Data<Address>>,
    logs: ReceiptLogs<'a>,
    logs_bloom: Data<&'a Bloom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<Data<B256>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Quantity<u8>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ethereum_type: Option<Quantity<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_gas_price: Option<Quantity<U256>>,
}

impl Described for ReceiptObject<'_> {
    const TYPE: WireType = WireType::Named("Receipt");
}

impl<'a> ReceiptObject<'a> {
    /// Shows the receipt of `transaction`, which `sender` has sent.
    ///
    /// `receipts` are the receipts of the block, at least up to that of this transaction, which has
    /// the index `receipt_index` among them: gas and log indexes count from the first receipt on.
    /// Returns `None` if the receipt is not among them. Under Ethereum's names the receipt has two
    /// more fields, which Ethereum's clients read.
    pub(crate) fn new(
        transaction: &Transaction,
        sender: Address,
        place: TransactionPlace,
        (receipts, receipt_index): (&'a [Receipt], usize),
        name_style: NameStyle,
    ) -> Option<Self> {
        let (before, rest) = receipts.split_at_checked(receipt_index)?;
        let receipt = rest.first()?;
        let gas_before = before.last().map_or(0, |receipt| receipt.cumulative_gas_used);
        let (root, status) = match receipt.outcome {
            ReceiptOutcome::Root(root) => (Some(root), None),
            ReceiptOutcome::Status(success) => (None, Some(success)),
        };
        let transaction_hash = shown_hash(transaction, name_style);
        let is_ethereum = name_style == NameStyle::Ethereum;
        // A creation that failed has no contract. Ethereum's clients are told the address that the
        // contract would have, as geth does.
        let created = transaction.to.is_none() && (is_ethereum || status != Some(false));
        Some(Self {
            transaction_hash: Data(transaction_hash),
            transaction_index: Quantity(place.index),
            block_hash: Data(place.block_hash),
            block_number: Quantity(place.block_number),
            from: Data(sender),
            to: transaction.to.map(Data),
            cumulative_gas_used: Quantity(receipt.cumulative_gas_used),
            gas_used: Quantity(receipt.cumulative_gas_used.saturating_sub(gas_before)),
            contract_address: created
                .then(|| Data(Transaction::created_address(&sender, transaction.tx_nonce))),
            logs: ReceiptLogs {
                logs: &receipt.logs,
                first_index: before.iter().map(|receipt| receipt.logs.len()).sum(),
                transaction_hash,
                place,
            },
            logs_bloom: Data(&receipt.logs_bloom),
            root: root.map(Data),
            status: status.map(|success| Quantity(u8::from(success))),
            ethereum_type: shown_type(transaction, name_style),
            effective_gas_price: is_ethereum.then_some(Quantity(transaction.gas_price)),
        })
    }
}

impl ReceiptObject<'_> {
    /// The same receipt on an application chain: nobody pays for gas there, and a flagged
    /// transaction names the chain as its receiver also if it creates a contract.
    pub(crate) fn of_application(mut self, transaction: &Transaction, sender: Address) -> Self {
        self.effective_gas_price = self.effective_gas_price.map(|_| Quantity(U256::ZERO));
        if transaction.sharding_flag == FLAG_CREATE && self.status == Some(Quantity(1)) {
            let created = Transaction::created_address(&sender, transaction.tx_nonce);
            self.contract_address = Some(Data(created));
        }
        self
    }

    /// The same receipt with an empty list of logs.
    pub(crate) const fn without_logs(mut self) -> Self {
        self.logs.logs = &[];
        self
    }
}

/// The logs of one transaction. They are written one by one.
#[derive(Clone, Debug)]
struct ReceiptLogs<'a> {
    logs: &'a [Log],
    first_index: usize,
    transaction_hash: B256,
    place: TransactionPlace,
}

impl Serialize for ReceiptLogs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.logs
                .iter()
                .zip(self.first_index..)
                .map(|(log, index)| LogObject::new(log, index, self.transaction_hash, self.place, false)),
        )
    }
}

#[cfg(test)]
mod tests {
    use primitives::{SecretKey, TxForm, UnsignedTransaction};
    use serde_json::Value;

    use super::*;

    fn creation() -> (Transaction, Address) {
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
        let unsigned = UnsignedTransaction {
            gas_price: U256::from(1),
            ..Default::default()
        };
        (unsigned.sign(&key, 100, TxForm::Native), key.address())
    }

    fn show(outcome: ReceiptOutcome) -> Value {
        let (transaction, sender) = creation();
        let receipts = [
            Receipt::new(ReceiptOutcome::Status(true), 1000, Vec::new()),
            Receipt::new(outcome, 3500, Vec::new()),
        ];
        let place = TransactionPlace {
            block_hash: B256::ZERO,
            block_number: 1,
            index: 1,
        };
        let object = ReceiptObject::new(
            &transaction,
            sender,
            place,
            (&receipts, place.index),
            NameStyle::Native,
        )
        .expect("a receipt");
        serde_json::to_value(&object).expect("JSON")
    }

    #[test]
    fn either_status_or_root() {
        let (transaction, sender) = creation();
        let created = Transaction::created_address(&sender, transaction.tx_nonce);
        let created = Value::from(crate::types::data(created));
        let check = |outcome, status: Value, root: Value, created: &Value| {
            let receipt = show(outcome);
            assert_eq!(receipt["gasUsed"], "0x9c4");
            assert_eq!((&receipt["status"], &receipt["root"]), (&status, &root));
            assert_eq!(&receipt["contractAddress"], created);
            let both = receipt.get("status").is_some() && receipt.get("root").is_some();
            assert!(!both, "{receipt}");
        };
        let root = B256::repeat_byte(3);
        check(ReceiptOutcome::Status(true), "0x1".into(), Value::Null, &created);
        check(
            ReceiptOutcome::Status(false),
            "0x0".into(),
            Value::Null,
            &Value::Null,
        );
        check(
            ReceiptOutcome::Root(root),
            Value::Null,
            root.to_string().into(),
            &created,
        );
    }

    #[test]
    fn no_receipt_beyond_the_last() {
        let (transaction, sender) = creation();
        let receipts = [Receipt::new(ReceiptOutcome::Status(true), 1, Vec::new())];
        for index in [1, 2] {
            let place = TransactionPlace {
                block_hash: B256::ZERO,
                block_number: 1,
                index,
            };
            assert!(
                ReceiptObject::new(
                    &transaction,
                    sender,
                    place,
                    (&receipts, place.index),
                    NameStyle::Native
                )
                .is_none()
            );
        }
    }
}
