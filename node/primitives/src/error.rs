//! Why bytes are not a transaction, header, block or receipt.
//!
//! Knows the shape of the types; what is wrong in the RLP itself is in [`crate::rlp`],
//! and what is wrong in a signature is in [`crate::SignatureError`].

use crate::rlp::RlpError;

/// Why bytes do not decode to one of the chain's types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field, or the list around all fields, is not the RLP it should be.
    #[error("{field}: {cause}")]
    Field {
        /// The field, as `transaction.gas`.
        field: &'static str,
        /// What is wrong with it.
        cause: RlpError,
    },
    /// A list has another number of fields.
    #[error("{what}: got {got} fields, expected {expected}")]
    FieldCount {
        /// The list, as `header`.
        what: &'static str,
        /// How many fields it has.
        got: usize,
        /// How many it should have.
        expected: &'static str,
    },
    /// A client sent an envelope of EIP-2718, whose first byte names its type.
    #[error(
        "transaction type not supported: got type {got:#04x} (EIP-2718), expected a list of {expected} fields"
    )]
    Typed {
        /// The type.
        got: u8,
        /// How many fields there should be.
        expected: &'static str,
    },
    /// An entry of a list inside a block or receipt is wrong.
    #[error("{list}[{index}]: {cause}")]
    Entry {
        /// The list, as `transactions`.
        list: &'static str,
        /// The entry's position, from 0.
        index: usize,
        /// What is wrong with the entry.
        cause: Box<Self>,
    },
    /// V carries the bit of a classic transaction, but a field is set that the 9-field form lacks.
    #[error("transaction.{field}: got {got}, expected {expected} in a classic transaction")]
    NotClassic {
        /// The field.
        field: &'static str,
        /// Its value.
        got: String,
        /// What a classic transaction has there.
        expected: &'static str,
    },
    /// V of a 9-field transaction reaches the bit that marks its stored form.
    #[error("transaction.v: got {got_bits} bits, expected at most {bound_bits} in 9 fields")]
    ClassicV {
        /// The bits of V.
        got_bits: usize,
        /// How many it may have.
        bound_bits: usize,
    },
    /// A client sent what only a block builder may make.
    #[error("a system transaction (syscnt {syscnt}) was sent, expected a signed one")]
    SystemTransaction {
        /// Its `syscnt`.
        syscnt: u64,
    },
    /// The first field of a receipt is neither a status nor a state root.
    #[error("receipt.outcome: got 0x{got}, expected 0x01, no bytes or 32 bytes")]
    Outcome {
        /// The bytes in hex, at most 33 of them.
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
        /// How many it may have.
        bound: usize,
    },
}

impl DecodeError {
    /// For `map_err`: puts the field's name before an RLP error.
    pub(crate) fn field(field: &'static str) -> impl FnOnce(RlpError) -> Self {
        move |cause| Self::Field { field, cause }
    }

    /// For `map_err`: puts an entry's position before its error.
    pub(crate) fn entry(list: &'static str, index: usize) -> impl FnOnce(Self) -> Self {
        move |cause| Self::Entry {
            list,
            index,
            cause: Box::new(cause),
        }
    }
}
