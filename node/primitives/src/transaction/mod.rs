//! The transaction: its forms, its RLP and its hashes.
//!
//! Decoding is in [`decode`], typed transactions are in [`typed`], signatures in [`signing`].
//! Whether a form, a `sharding_flag` or a `syscnt` is allowed in a block is a rule of the package
//! `chain`.

mod decode;
mod signing;
mod typed;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{BufMut, Encodable, Header as RlpHeader};

use crate::{
    SYSTEM_CONTRACT,
    rlp::{encode_fields, encode_fields_to_vec, fields_length},
};

pub use signing::{NATIVE_CHAIN_ID_BOUND, UnsignedTransaction};
pub(crate) use typed::TX_TYPE_MAX;
pub use typed::{ACCESS_LIST_TX_TYPE, AccessListEntry, LEGACY_TX_TYPE};

/// The bit in a stored V that marks a classic transaction: 2^216.
pub const CLASSIC_V_BIT: U256 = U256::from_limbs([0, 0, 0, 1 << (216 - 192)]);

/// `syscnt` of a system transaction.
pub const SYSTEM_SYSCNT: u64 = 0x65;

/// Gas price of a system transaction, in sha. It is displayed, but nobody pays it.
pub const SYSTEM_GAS_PRICE: u64 = 20_000_000_000;

/// Input of a system transaction: the function selector of `exec()`.
pub const SYSTEM_CALL_DATA: [u8; 4] = [0xc1, 0xc0, 0xe9, 0xc4];

/// The form of a transaction: how it is encoded, signed and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxForm {
    /// Twelve fields, signed with a chain id.
    Native,
    /// Signed with nine fields and a chain id (EIP-155). Stored and hashed with twelve fields, with
    /// [`CLASSIC_V_BIT`] set in V.
    Classic,
    /// Signed, stored and hashed with nine fields. V is 27, 28 or contains a chain id (EIP-155).
    Ethereum,
    /// A transaction of type 1, with an access list (EIP-2930). V is the parity, 0 or 1.
    AccessList,
    /// Twelve fields, made by the builder of a block. It needs no signature.
    System,
}

/// Which forms of transactions are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxRules {
    /// The public network's rules: twelve fields in blocks; clients may also send nine.
    Moac,
    /// Ethereum's rules: nine fields, or type 1. Whether a block may have typed transactions is a
    /// rule of the package `chain`.
    Ethereum,
}

/// A transaction as it is in a block.
///
/// In the forms that are signed with nine fields, `syscnt` and `sharding_flag` are 0 and `via` is
/// `None`. The fields are public, so code can build a value that contradicts its `form`. The
/// decoders and [`UnsignedTransaction::sign`] never do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// The form.
    pub form: TxForm,
    /// The nonce of the sender's account: its number of earlier transactions.
    pub tx_nonce: u64,
    /// Above 0 in system transactions, otherwise 0.
    pub syscnt: u64,
    /// Price of one unit of gas, in sha.
    pub gas_price: U256,
    /// Upper bound for the gas that it uses.
    pub gas: u64,
    /// The recipient; `None` if the transaction creates a contract.
    pub to: Option<Address>,
    /// The transferred amount, in sha.
    pub value: U256,
    /// Call data, or the code that creates a contract.
    pub input: Bytes,
    /// 0 for a transaction of the base chain, otherwise for an application chain.
    pub sharding_flag: u64,
    /// The node through which a transaction goes to an application chain.
    pub via: Option<Address>,
    /// The chain id of a typed transaction; 0 in other forms, which have it in V.
    pub typed_chain_id: u64,
    /// The accounts and slots that a typed transaction names in advance; none in other forms.
    pub access_list: Vec<AccessListEntry>,
    /// V as it is stored: chain id and recovery id; [`CLASSIC_V_BIT`] is set in a classic
    /// transaction. In a typed transaction it is the parity.
    pub v: U256,
    /// The r of the signature.
    pub r: U256,
    /// The s of the signature.
    pub s: U256,
}

impl Transaction {
    /// The system transaction with `tx_nonce`, the account nonce of [`crate::SYSTEM_SENDER`].
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
            typed_chain_id: 0,
            access_list: Vec::new(),
            v: U256::ZERO,
            r: U256::ZERO,
            s: U256::ZERO,
        }
    }

    /// Whether this is a system transaction. Its sender is [`crate::SYSTEM_SENDER`].
    pub fn is_system(&self) -> bool {
        self.syscnt != 0 || self.form == TxForm::System
    }

    /// The stored form: a list of nine fields for [`TxForm::Ethereum`], the type and a list of
    /// eleven fields for [`TxForm::AccessList`], otherwise a list of twelve. It is hashed, and it
    /// is a value of the trie of transactions.
    pub fn encode(&self) -> Vec<u8> {
        self.with_stored_fields(|fields| {
            if !self.is_typed() {
                return encode_fields_to_vec(fields);
            }
            let mut out = Vec::with_capacity(1 + fields_length(fields));
            out.push(self.tx_type());
            encode_fields(fields, &mut out);
            out
        })
    }

    /// Length of the stored form, in bytes.
    pub fn encoded_length(&self) -> usize {
        self.with_stored_fields(|fields| usize::from(self.is_typed()) + fields_length(fields))
    }

    /// The raw form, as a client sends it: nine fields for [`TxForm::Classic`] (V without
    /// [`CLASSIC_V_BIT`]), otherwise the stored form.
    pub fn encode_raw(&self) -> Vec<u8> {
        match (self.form, self.ethereum_v()) {
            (TxForm::Classic, Some(v)) => {
                self.with_nine_fields(&[&v, &self.r, &self.s], encode_fields_to_vec)
            }
            _ => self.encode(),
        }
    }

    /// The transaction hash: Keccak-256 of the stored form.
    pub fn hash(&self) -> B256 {
        keccak256(self.encode())
    }

    /// The hash that Ethereum libraries compute for the transaction: Keccak-256 of the RLP of the
    /// raw form. `None` for forms that Ethereum does not have.
    pub fn ethereum_hash(&self) -> Option<B256> {
        self.ethereum_v().map(|_| keccak256(self.encode_raw()))
    }

    /// V without [`CLASSIC_V_BIT`]. `None` for forms that Ethereum does not have.
    pub fn ethereum_v(&self) -> Option<U256> {
        match self.form {
            TxForm::Classic => Some(self.v & !CLASSIC_V_BIT),
            TxForm::Ethereum | TxForm::AccessList => Some(self.v),
            TxForm::Native | TxForm::System => None,
        }
    }

    /// The address of the contract that a transaction of `sender` with `tx_nonce` creates.
    pub fn created_address(sender: &Address, tx_nonce: u64) -> Address {
        sender.create(tx_nonce)
    }

    fn with_stored_fields<T>(&self, work: impl FnOnce(&[&dyn Encodable]) -> T) -> T {
        let signature: [&dyn Encodable; 3] = [&self.v, &self.r, &self.s];
        match self.form {
            TxForm::Ethereum => self.with_nine_fields(&signature, work),
            TxForm::AccessList => self.with_access_list_fields(&signature, work),
            _ => self.with_twelve_fields(&signature, work),
        }
    }

    /// Calls `work` with the twelve fields. `last` are the last three.
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

    /// Calls `work` with the nine fields. `last` are the last three: V, r and s. For the signing
    /// hash they are the chain id and two zeros, or are absent if there is no chain id.
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

/// The stored form as an item of a list, as it is in the body of a block: a typed transaction is a
/// string of bytes there.
impl Encodable for Transaction {
    fn encode(&self, out: &mut dyn BufMut) {
        self.with_stored_fields(|fields| {
            if self.is_typed() {
                let payload_length = 1 + fields_length(fields);
                RlpHeader {
                    list: false,
                    payload_length,
                }
                .encode(out);
                out.put_u8(self.tx_type());
            }
            encode_fields(fields, out);
        });
    }

    fn length(&self) -> usize {
        let payload_length = self.encoded_length();
        if !self.is_typed() {
            return payload_length;
        }
        RlpHeader {
            list: false,
            payload_length,
        }
        .length_with_payload()
    }
}

/// An address, encoded as 20 bytes, or as no bytes for `None`.
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
