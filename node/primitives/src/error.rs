//! Errors of decoding a transaction, header, block, receipt or log.
//!
//! Errors in the RLP itself are in [`crate::rlp`], errors in a signature in
//! [`crate::SignatureError`].

use crate::rlp::RlpError;

/// The reason why bytes do not decode to one of the chain's types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The RLP of a field, or of the list around all fields, is wrong.
    #[error("{field}: {cause}")]
    Field {
        /// The name of the field, for example `transaction.gas`.
        field: &'static str,
        /// The error in its RLP.
        cause: RlpError,
    },
    /// A list has the wrong number of fields.
    #[error("{what}: got {got} fields, expected {expected}")]
    FieldCount {
        /// The name of the list, for example `header`.
        what: &'static str,
        /// The number of its fields.
        got: usize,
        /// The number of fields that it should have, in words.
        expected: &'static str,
    },
    /// A transaction or receipt has a type (EIP-2718) that is not known. Its first byte is the
    /// type.
    #[error("transaction type not supported: got type {got:#04x} (EIP-2718), expected {expected}")]
    Typed {
        /// The type.
        got: u8,
        /// The start of a supported one, in words.
        expected: &'static str,
    },
    /// An entry of a list in a block or a receipt is wrong.
    #[error("{list}[{index}]: {cause}")]
    Entry {
        /// The name of the list, for example `block.transactions`.
        list: &'static str,
        /// The index of the entry, from 0.
        index: usize,
        /// The error in the entry.
        cause: Box<Self>,
    },
    /// V marks a classic transaction, but a field is set that a classic transaction does not have.
    #[error("transaction.{field}: got {got}, expected {expected} in a classic transaction")]
    NotClassic {
        /// The field.
        field: &'static str,
        /// Its value.
        got: String,
        /// The value that a classic transaction has there.
        expected: &'static str,
    },
    /// V of a 9-field transaction is so large that it reaches the bit which marks the stored form.
    #[error("transaction.v: got {got_bits} bits, expected at most {bound_bits} in 9 fields")]
    ClassicV {
        /// The number of bits of V.
        got_bits: usize,
        /// The largest allowed number of bits.
        bound_bits: usize,
    },
    /// A client sent a system transaction, which only the builder of a block may make.
    #[error("got a system transaction (syscnt {syscnt}), expected a signed one")]
    SystemTransaction {
        /// Its `syscnt`.
        syscnt: u64,
    },
    /// The first field of a receipt is neither a status nor a state root.
    #[error("receipt.outcome: got 0x{got}, expected 0x01, no bytes or 32 bytes")]
    Outcome {
        /// The bytes in hex, at most the first 33.
        got: String,
    },
    /// The fifth field of a receipt is not zero.
    #[error("receipt.tail: got {got}, expected 0")]
    ReceiptTail {
        /// Its value.
        got: u64,
    },
    /// A log has more topics than the virtual machine can write.
    #[error("log.topics: got more than {bound}, expected at most {bound}")]
    Topics {
        /// The largest allowed number of topics.
        bound: usize,
    },
}

impl DecodeError {
    /// For `map_err`: adds the name of the field to an RLP error.
    pub(crate) fn field(field: &'static str) -> impl FnOnce(RlpError) -> Self {
        move |cause| Self::Field { field, cause }
    }

    /// For `map_err`: adds the list and the index to the error of an entry.
    pub(crate) fn entry(list: &'static str, index: usize) -> impl FnOnce(Self) -> Self {
        move |cause| Self::Entry {
            list,
            index,
            cause: Box::new(cause),
        }
    }
}
