//! The transaction in its forms, its RLP and its hashes.
//!
//! Knows how each form is written; who signed it is in [`signing`]. Whether a form,
//! a `sharding_flag` or a `syscnt` is allowed at a height is for the rules to say.

mod decode;
mod signing;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{BufMut, Encodable};

use crate::{
    SYSTEM_CONTRACT,
    rlp::{encode_fields, encode_fields_to_vec, fields_length},
};

pub use signing::{NATIVE_CHAIN_ID_BOUND, UnsignedTransaction};

/// The bit that marks a stored V as one of a 9-field transaction: 2^216.
pub const CLASSIC_V_BIT: U256 = U256::from_limbs([0, 0, 0, 1 << (216 - 192)]);

/// `syscnt` of a system transaction.
pub const SYSTEM_SYSCNT: u64 = 0x65;

/// Gas price of a system transaction, in sha. It is shown, not paid.
pub const SYSTEM_GAS_PRICE: u64 = 20_000_000_000;

/// Input of a system transaction: the selector of `exec()`.
pub const SYSTEM_CALL_DATA: [u8; 4] = [0xc1, 0xc0, 0xe9, 0xc4];

/// How a transaction is written and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxForm {
    /// Twelve fields, signed with a chain id.
    Native,
    /// Signed as nine fields with a chain id (EIP-155), stored and hashed as twelve
    /// with [`CLASSIC_V_BIT`] set in V.
    Classic,
    /// Nine fields throughout; V is 27, 28 or carries a chain id (EIP-155).
    Ethereum,
    /// Twelve fields without signature, made by the builder of a block.
    System,
}

/// Whose transactions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxRules {
    /// The native network: twelve fields in blocks; clients may send nine.
    Moac,
    /// Plain Ethereum: nine fields.
    Ethereum,
}

/// A transaction as it stands in a block.
///
/// `syscnt`, `sharding_flag` and `via` are zero, zero and `None` in the forms of nine
/// fields. The fields are public, so a hand-made value can contradict its `form`; what
/// the decoders and [`UnsignedTransaction::sign`] give never does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// How it is written.
    pub form: TxForm,
    /// The sender's count of earlier transactions.
    pub tx_nonce: u64,
    /// Above zero in system transactions.
    pub syscnt: u64,
    /// Price of a unit of gas, in sha.
    pub gas_price: U256,
    /// The most gas it may use.
    pub gas: u64,
    /// The recipient; `None` creates a contract.
    pub to: Option<Address>,
    /// The amount moved, in sha.
    pub value: U256,
    /// Call data, or the code that creates a contract.
    pub input: Bytes,
    /// 0 for the base chain; others go to an application chain.
    pub sharding_flag: u64,
    /// The node that an application-chain transaction goes through.
    pub via: Option<Address>,
    /// V as stored: chain id and recovery id, and [`CLASSIC_V_BIT`] where due.
    pub v: U256,
    /// r of the signature.
    pub r: U256,
    /// s of the signature.
    pub s: U256,
}

impl Transaction {
    /// The system transaction for `tx_nonce`, the nonce of [`crate::SYSTEM_SENDER`].
    pub fn system(tx_nonce: u64) -> Self {
        Self {
            form: TxForm::System,
            tx_nonce,
            syscnt: SYSTEM_SYSCNT,
            gas_price: U256::from(SYSTEM_GAS_PRICE),
            gas: 0,
            to: Some(SYSTEM_CONTRACT),
            value: U256::ZERO,
            input: Bytes::from_static(&SYSTEM_CALL_DATA),
            sharding_flag: 0,
            via: None,
            v: U256::ZERO,
            r: U256::ZERO,
            s: U256::ZERO,
        }
    }

    /// Whether this is a system transaction: unsigned, from [`crate::SYSTEM_SENDER`].
    pub fn is_system(&self) -> bool {
        self.form == TxForm::System
    }

    /// The stored form: nine fields for [`TxForm::Ethereum`], otherwise twelve.
    pub fn encode(&self) -> Vec<u8> {
        self.with_stored_fields(encode_fields_to_vec)
    }

    /// The form as a client sends it: nine fields with plain V for
    /// [`TxForm::Classic`] and [`TxForm::Ethereum`], otherwise twelve.
    pub fn encode_raw(&self) -> Vec<u8> {
        match self.ethereum_v() {
            Some(v) => self.with_nine_fields(&[&v, &self.r, &self.s], encode_fields_to_vec),
            None => self.encode(),
        }
    }

    /// The transaction hash: Keccak-256 of the stored form.
    pub fn hash(&self) -> B256 {
        keccak256(self.encode())
    }

    /// The hash that Ethereum's libraries predict: Keccak-256 of the nine fields with
    /// plain V. `None` for the forms that Ethereum does not know.
    pub fn ethereum_hash(&self) -> Option<B256> {
        self.ethereum_v().map(|_| keccak256(self.encode_raw()))
    }

    /// V without [`CLASSIC_V_BIT`]. `None` for the forms that Ethereum does not know.
    pub fn ethereum_v(&self) -> Option<U256> {
        match self.form {
            TxForm::Classic => Some(self.v & !CLASSIC_V_BIT),
            TxForm::Ethereum => Some(self.v),
            TxForm::Native | TxForm::System => None,
        }
    }

    /// The address of the contract that `sender` creates with `tx_nonce`.
    pub fn created_address(sender: &Address, tx_nonce: u64) -> Address {
        sender.create(tx_nonce)
    }

    fn with_stored_fields<T>(&self, work: impl FnOnce(&[&dyn Encodable]) -> T) -> T {
        let signature: [&dyn Encodable; 3] = [&self.v, &self.r, &self.s];
        match self.form {
            TxForm::Ethereum => self.with_nine_fields(&signature, work),
            _ => self.with_twelve_fields(&signature, work),
        }
    }

    /// Lends the fields of the native list, ending in `last`.
    fn with_twelve_fields<T>(
        &self,
        last: &[&dyn Encodable; 3],
        work: impl FnOnce(&[&dyn Encodable]) -> T,
    ) -> T {
        let (to, via) = (OptionalAddress(&self.to), OptionalAddress(&self.via));
        work(&[
            &self.tx_nonce,
            &self.syscnt,
            &self.gas_price,
            &self.gas,
            &to,
            &self.value,
            &self.input,
            &self.sharding_flag,
            &via,
            last[0],
            last[1],
            last[2],
        ])
    }

    /// Lends the fields of Ethereum's list, ending in `last`: V, r and s, or what is
    /// signed in their place, which is nothing without a chain id.
    fn with_nine_fields<T>(&self, last: &[&dyn Encodable], work: impl FnOnce(&[&dyn Encodable]) -> T) -> T {
        let to = OptionalAddress(&self.to);
        let mut fields: [&dyn Encodable; 9] = [
            &self.tx_nonce,
            &self.gas_price,
            &self.gas,
            &to,
            &self.value,
            &self.input,
            &0u8,
            &0u8,
            &0u8,
        ];
        let end = 6 + last.len().min(3);
        for (field, last) in fields[6..].iter_mut().zip(last) {
            *field = *last;
        }
        work(&fields[..end])
    }
}

/// The stored form, as in the body of a block.
impl Encodable for Transaction {
    fn encode(&self, out: &mut dyn BufMut) {
        self.with_stored_fields(|fields| encode_fields(fields, out));
    }

    fn length(&self) -> usize {
        self.with_stored_fields(fields_length)
    }
}

/// Twenty bytes, or none.
struct OptionalAddress<'a>(&'a Option<Address>);

impl Encodable for OptionalAddress<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        self.0
            .as_ref()
            .map_or(&[][..], |address| address.as_slice())
            .encode(out);
    }

    fn length(&self) -> usize {
        self.0.map_or(1, |address| address.length())
    }
}
