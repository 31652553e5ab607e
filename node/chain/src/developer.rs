//! Rights of contract developers on the development network and on no other: they change accounts
//! and the gas limit, and send transactions of accounts whose keys nobody has.
//!
//! These changes are written in blocks. A change of an account is the extra data of a block, and is
//! made before the block's first transaction. A block whose extra data are the mark of a gas limit
//! may have any. The transaction of an account without a key names its sender in place of the
//! signature. So every block can be executed again from the block before, by every node of such a
//! network.

use alloy_rlp::Encodable;
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{Address, Bytes, DecodeError, Transaction, TxForm, U256, UnsignedTransaction};

use crate::state::{AccountOverride, StorageOverride};

/// The first bytes of extra data that is a change of an account.
const MARK: &[u8] = b"account\0";
/// The extra data of a block whose gas limit is not bound to that of the block before.
pub(crate) const GAS_LIMIT_MARK: &[u8] = b"gas limit\0";
/// The most bytes of extra data on the development network.
pub const EXTRA_BYTES_MAX: usize = 1 << 20;
/// Bytes of a sender that is written in place of r.
const SENDER_BYTES: usize = 20;

/// Whether extra data begins like a change of an account.
pub(crate) fn is_change(extra_data: &[u8]) -> bool {
    extra_data.starts_with(MARK)
}

/// New values of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeveloperChange {
    /// The account. It is created if it does not exist.
    pub address: Address,
    /// The new values.
    pub values: AccountOverride,
}

impl DeveloperChange {
    /// The extra data of a block that makes the change.
    pub fn encode(&self) -> Bytes {
        let values = &self.values;
        let number = |number: Option<U256>| number.map(|number| number.to_be_bytes_trimmed_vec());
        let list = |bytes: Option<Vec<u8>>| -> Vec<Bytes> { bytes.into_iter().map(Bytes::from).collect() };
        let (replaces, slots): (u8, &[(U256, U256)]) = match &values.storage {
            StorageOverride::Keep => (0, &[]),
            StorageOverride::Change(slots) => (0, slots),
            StorageOverride::Replace(slots) => (1, slots),
        };
        let slots: Vec<U256> = slots.iter().flat_map(|(slot, value)| [*slot, *value]).collect();
        let fields: [&dyn Encodable; 6] = [
            &self.address,
            &list(number(values.tx_nonce.map(U256::from))),
            &list(number(values.balance)),
            &list(values.code.as_ref().map(|code| code.to_vec())),
            &replaces,
            &slots,
        ];
        [MARK, &encode_fields_to_vec(&fields)].concat().into()
    }

    /// The change that extra data asks for; `None` if it asks for none.
    ///
    /// # Errors
    /// [`DecodeError`] for extra data with the mark of a change and other content behind it.
    pub fn decode(extra_data: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some(rlp) = extra_data.strip_prefix(MARK) else {
            return Ok(None);
        };
        let mut reader = RlpReader::open(rlp, "account change")?;
        reader.expect_count("account change", 6, "6")?;
        let address = reader.address("address")?;
        let mut nonce = reader.list("nonce")?;
        let tx_nonce = (!nonce.is_empty()).then(|| nonce.u64("nonce")).transpose()?;
        let mut balances = reader.list("balance")?;
        let balance = (!balances.is_empty())
            .then(|| balances.u256("balance"))
            .transpose()?;
        let mut codes = reader.list("code")?;
        let code = (!codes.is_empty()).then(|| codes.bytes("code")).transpose()?;
        let replaces = reader.u64("replaces")? != 0;
        let mut words = reader.list("slots")?;
        let mut slots = Vec::new();
        while !words.is_empty() {
            slots.push((words.u256("slot")?, words.u256("value")?));
        }
        let storage = match (replaces, slots.is_empty()) {
            (true, _) => StorageOverride::Replace(slots),
            (false, true) => StorageOverride::Keep,
            (false, false) => StorageOverride::Change(slots),
        };
        Ok(Some(Self {
            address,
            values: AccountOverride {
                tx_nonce,
                balance,
                code,
                storage,
            },
        }))
    }
}

/// The transaction as its sender would send it, with the sender in place of the signature.
pub fn impersonate(
    unsigned: &UnsignedTransaction,
    sender: Address,
    chain_id: u64,
    form: TxForm,
) -> Transaction {
    let mut transaction = unsigned.with_form(form, chain_id);
    if !transaction.is_typed() {
        transaction.v = U256::from(chain_id).saturating_mul(U256::from(2)) + U256::from(35);
    }
    transaction.r = U256::from_be_slice(sender.as_slice());
    transaction.s = U256::ZERO;
    transaction
}

/// The sender that a transaction names in place of a signature. No signature has an s of zero.
pub(crate) fn impersonated_sender(transaction: &Transaction) -> Option<Address> {
    let bytes = transaction.r.to_be_bytes::<32>();
    let (high, low) = bytes.split_at(32 - SENDER_BYTES);
    let names_sender =
        transaction.s.is_zero() && !transaction.r.is_zero() && high.iter().all(|byte| *byte == 0);
    names_sender.then(|| Address::from_slice(low))
}

#[cfg(test)]
mod tests {
    use primitives::SecretKey;
    use proptest::prelude::*;

    use super::*;

    fn words() -> impl Strategy<Value = Vec<(U256, U256)>> {
        let word = any::<[u8; 32]>().prop_map(U256::from_be_bytes);
        proptest::collection::vec((word.clone(), word), 0..5)
    }

    proptest! {
        #[test]
        fn changes_round_trip(
            address: [u8; 20],
            tx_nonce: Option<u64>,
            balance: Option<[u8; 32]>,
            code in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..90)),
            slots in words(),
            replaces: bool,
        ) {
            let storage = match (replaces, slots.is_empty()) {
                (true, _) => StorageOverride::Replace(slots),
                (false, true) => StorageOverride::Keep,
                (false, false) => StorageOverride::Change(slots),
            };
            let change = DeveloperChange {
                address: address.into(),
                values: AccountOverride {
                    tx_nonce,
                    balance: balance.map(U256::from_be_bytes),
                    code: code.map(Bytes::from),
                    storage,
                },
            };
            prop_assert_eq!(DeveloperChange::decode(&change.encode()), Ok(Some(change)));
        }

        #[test]
        fn bad_changes_are_errors_and_never_a_panic(bytes: Vec<u8>) {
            let _ = DeveloperChange::decode(&[MARK, &bytes].concat());
            if !bytes.starts_with(MARK) {
                prop_assert_eq!(DeveloperChange::decode(&bytes), Ok(None));
            }
        }
    }

    #[test]
    fn only_what_was_impersonated_names_its_sender() {
        let unsigned = UnsignedTransaction::default();
        let sender = Address::repeat_byte(0xab);
        let form = TxForm::Native;
        let impersonated = impersonate(&unsigned, sender, 100, form);
        assert_eq!(impersonated_sender(&impersonated), Some(sender));
        assert_eq!(impersonated.chain_id(), Some(100));
        let key = SecretKey::from_bytes(&[0x46; 32]).expect("in range");
        assert_eq!(impersonated_sender(&unsigned.sign(&key, 100, form)), None);
        assert_eq!(impersonated_sender(&unsigned.with_form(form, 100)), None);
    }
}
