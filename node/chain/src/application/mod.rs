//! Rules of application chains (MicroChains) that execution needs: flagged transactions, what a
//! block's extra data says, which calls of DappBase are allowed (docs/microchain-design.md).
//!
//! The choice of producers, signatures and the choice between chains are in the package
//! `microchain`. A spec with [`ApplicationRules`] is executed by the same executor as the base
//! chain.

mod extra;
pub(crate) mod guard;

pub use extra::{BlockExtra, EXTRA_BYTES_MAX, ExtraError, MEMBERS_MAX, SIGNATURE_BYTES};

use primitives::{Address, Bytes, Header, Transaction, TxForm};
use store::{BlockReads, StoreError};

pub use crate::spec::{ApplicationRules, BLOCK_GAS_FILL, BLOCK_GAS_LIMIT, TRANSACTION_GAS};

/// The sharding flag of a call of a Dapp.
pub const FLAG_CALL: u64 = 1;
/// The sharding flag of a transfer of tokens.
pub(crate) const FLAG_TRANSFER: u64 = 2;
/// The sharding flag of the creation of a contract.
pub const FLAG_CREATE: u64 = 3;
/// Gas of a question to DappBase before a transaction, for example whether a Dapp is enabled.
pub(crate) const QUESTION_GAS: u64 = 1_000_000;
/// Selector of `getDappState(address)`.
pub(crate) const GET_DAPP_STATE: [u8; 4] = [0x7d, 0xe9, 0x58, 0x53];
/// Selector of `allDeploySwitch()`.
pub(crate) const ALL_DEPLOY_SWITCH: [u8; 4] = [0xb3, 0x90, 0x27, 0xb7];

/// The effect of a flagged transaction, once its flag is read, or of a wallet's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainAction {
    /// The called account; `None` for a creation.
    pub to: Option<Address>,
    /// The calldata, or the code that creates a contract.
    pub data: Bytes,
}

impl PlainAction {
    /// Reads the flag and the data of a transaction, or what a wallet signed. `None` if the flag is
    /// another one, or if the data is too short for it.
    pub fn of(transaction: &Transaction) -> Option<Self> {
        let data = &transaction.input;
        if transaction.form == TxForm::Classic {
            // The signature covers neither the flag nor the proxy, so anyone could set them and
            // give the transaction a second hash.
            let is_whole = transaction.sharding_flag == 0 && transaction.via.is_none();
            let creates_nothing = transaction.to.is_none() && data.is_empty();
            return (is_whole && !creates_nothing).then(|| Self {
                to: transaction.to,
                data: data.clone(),
            });
        }
        let address = || data.get(..20).map(Address::from_slice);
        match transaction.sharding_flag {
            FLAG_CALL => Some(Self {
                to: Some(address()?),
                data: data.slice(20..),
            }),
            FLAG_TRANSFER => Some(Self {
                to: Some(address()?),
                data: Bytes::new(),
            }),
            FLAG_CREATE if !data.is_empty() => Some(Self {
                to: None,
                data: data.clone(),
            }),
            _ => None,
        }
    }
}

/// The members in force at a block with this header: those that it names, or those that the
/// canonical block named in its extra data does. Empty if there are none.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub(crate) fn members_in_force(
    source: &impl BlockReads,
    header: &Header,
) -> Result<Vec<Address>, StoreError> {
    let Ok(extra) = BlockExtra::decode(&header.extra_data) else {
        return Ok(Vec::new());
    };
    if !extra.list.is_empty() {
        return Ok(extra.list);
    }
    let Some(hash) = source.canonical_hash(extra.since)? else {
        return Ok(Vec::new());
    };
    let named = source.header(extra.since, &hash)?;
    let list = named.and_then(|record| BlockExtra::decode(&record.header.extra_data).ok());
    Ok(list.map(|extra| extra.list).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use primitives::UnsignedTransaction;

    use super::*;

    fn flagged(flag: u64, input: &[u8]) -> Option<PlainAction> {
        let unsigned = UnsignedTransaction {
            sharding_flag: flag,
            input: input.to_vec().into(),
            ..Default::default()
        };
        PlainAction::of(&unsigned.with_form(TxForm::Native, 0))
    }

    #[test]
    fn flags_say_what_the_data_is() {
        let dapp = Address::repeat_byte(7);
        let data = [dapp.as_slice(), &[1, 2, 3]].concat();
        let action = |to, data: &[u8]| {
            Some(PlainAction {
                to,
                data: data.to_vec().into(),
            })
        };
        assert_eq!(flagged(1, &data), action(Some(dapp), &[1, 2, 3]));
        assert_eq!(flagged(2, &data), action(Some(dapp), &[]));
        assert_eq!(flagged(3, &data), action(None, &data));
        assert_eq!(flagged(1, &data[..20]), action(Some(dapp), &[]));
        for (flag, len) in [(1, 19), (2, 0), (3, 0), (0, 23), (4, 23)] {
            assert_eq!(flagged(flag, &data[..len]), None, "{flag} {len}");
        }
    }

    #[test]
    fn a_wallet_names_the_account_itself() {
        let dapp = Address::repeat_byte(7);
        let wallet = |to, input: &'static [u8]| {
            let unsigned = UnsignedTransaction {
                to,
                input: Bytes::from_static(input),
                ..Default::default()
            };
            unsigned.with_form(TxForm::Classic, 0)
        };
        for (to, input) in [(Some(dapp), &b"call"[..]), (Some(dapp), b""), (None, b"code")] {
            let data = Bytes::from_static(input);
            assert_eq!(
                PlainAction::of(&wallet(to, input)),
                Some(PlainAction { to, data })
            );
        }
        assert_eq!(PlainAction::of(&wallet(None, b"")), None);
        let with_flag = Transaction {
            sharding_flag: 1,
            ..wallet(Some(dapp), b"")
        };
        let with_via = Transaction {
            via: Some(dapp),
            ..wallet(Some(dapp), b"")
        };
        assert_eq!(PlainAction::of(&with_flag), None);
        assert_eq!(PlainAction::of(&with_via), None);
    }

    #[test]
    fn selectors_are_those_of_the_functions() {
        let selector = |signature: &str| primitives::keccak256(signature)[..4].to_vec();
        assert_eq!(selector("getDappState(address)"), GET_DAPP_STATE);
        assert_eq!(selector("allDeploySwitch()"), ALL_DEPLOY_SWITCH);
    }
}
