//! The extra data of an application chain's blocks: RLP \[1, base, since, list\], then a signature.
//!
//! Knows the form. Whether the signature is that of the right member is not judged here.

use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{Address, Bytes, DecodeError};

/// The most bytes of a block's extra data.
pub const EXTRA_BYTES_MAX: usize = 4096;
/// The most members of an application chain.
pub const MEMBERS_MAX: usize = 100;
/// Bytes of the signature at the end of the extra data: r, s, and 0 or 1.
pub const SIGNATURE_BYTES: usize = 65;
/// The version of the form.
const VERSION: u64 = 1;

/// The fields in the extra data of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockExtra {
    /// The base block that the producer went by.
    pub base: u64,
    /// The number of the block that named the members in force; its own number if it names them.
    pub since: u64,
    /// The members from this block on; empty if they are as before.
    pub list: Vec<Address>,
}

/// The reason why extra data cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtraError {
    /// The length is wrong.
    #[error(
        "extra data: got {got} bytes, expected more than {SIGNATURE_BYTES} and at most {EXTRA_BYTES_MAX}"
    )]
    Length {
        /// Bytes of the extra data.
        got: usize,
    },
    /// The form is wrong.
    #[error("extra data: {0}")]
    Form(#[from] DecodeError),
    /// The version is unknown.
    #[error("version of the extra data: got {got}, expected {VERSION}")]
    Version {
        /// The version.
        got: u64,
    },
    /// The list of members breaks a rule.
    #[error(
        "members in the extra data: got {got} with {wrong}, expected at most {MEMBERS_MAX}, none twice, none zero"
    )]
    Members {
        /// The number of them.
        got: usize,
        /// The fault.
        wrong: &'static str,
    },
}

impl BlockExtra {
    /// The part that is signed.
    pub(crate) fn encode_unsigned(&self) -> Vec<u8> {
        encode_fields_to_vec(&[&VERSION, &self.base, &self.since, &self.list])
    }

    /// The extra data with this signature.
    pub fn encode(&self, signature: &[u8; SIGNATURE_BYTES]) -> Bytes {
        let mut bytes = self.encode_unsigned();
        bytes.extend(signature);
        bytes.into()
    }

    /// Splits extra data into the signed part and the signature.
    ///
    /// # Errors
    /// [`ExtraError::Length`] if it is too short or too long.
    pub const fn split(extra: &[u8]) -> Result<(&[u8], &[u8; SIGNATURE_BYTES]), ExtraError> {
        let got = extra.len();
        match extra.split_last_chunk() {
            Some((signed, signature)) if !signed.is_empty() && got <= EXTRA_BYTES_MAX => {
                Ok((signed, signature))
            }
            _ => Err(ExtraError::Length { got }),
        }
    }

    /// Reads the extra data of a block.
    ///
    /// # Errors
    /// [`ExtraError`] if it has another form.
    pub fn decode(extra: &[u8]) -> Result<Self, ExtraError> {
        let (signed, _) = Self::split(extra)?;
        let mut fields = RlpReader::open(signed, "extra data")?;
        fields.expect_count("extra data", 4, "4")?;
        let version = fields.u64("extra data.version")?;
        if version != VERSION {
            return Err(ExtraError::Version { got: version });
        }
        let base = fields.u64("extra data.base")?;
        let since = fields.u64("extra data.since")?;
        let mut members = fields.list("extra data.list")?;
        let mut list = Vec::new();
        while !members.is_empty() {
            let member = members.address("extra data.list")?;
            let wrong = if list.len() == MEMBERS_MAX {
                Some("too many")
            } else if member.is_zero() {
                Some("the zero address")
            } else if list.contains(&member) {
                Some("one of them twice")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                let got = list.len() + 1;
                return Err(ExtraError::Members { got, wrong });
            }
            list.push(member);
        }
        Ok(Self { base, since, list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(list: &[u8]) -> BlockExtra {
        BlockExtra {
            base: 1000,
            since: 7,
            list: list.iter().map(|byte| Address::repeat_byte(*byte)).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for list in [&[][..], &[1], &(1..=100).collect::<Vec<_>>()] {
            let one = extra(list);
            let bytes = one.encode(&[9; 65]);
            assert!(bytes.len() <= EXTRA_BYTES_MAX);
            assert_eq!(BlockExtra::decode(&bytes), Ok(one));
            assert_eq!(BlockExtra::split(&bytes).unwrap().1, &[9; 65]);
        }
    }

    #[test]
    fn wrong_lists_and_forms_are_errors() {
        let decode = |one: &BlockExtra| BlockExtra::decode(&one.encode(&[9; 65]));
        let members = |list: &[u8]| matches!(decode(&extra(list)), Err(ExtraError::Members { .. }));
        assert!(members(&[0]) && members(&[1, 2, 1]) && members(&(1..=101).collect::<Vec<_>>()));
        let bytes = extra(&[1]).encode(&[9; 65]);
        for len in 0..bytes.len() {
            assert!(BlockExtra::decode(&bytes[..len]).is_err(), "{len}");
        }
        assert!(matches!(
            BlockExtra::decode(&[1; 5000]),
            Err(ExtraError::Length { got: 5000 })
        ));
        let mut other = extra(&[]).encode(&[9; 65]).to_vec();
        other[1] = 2;
        assert_eq!(BlockExtra::decode(&other), Err(ExtraError::Version { got: 2 }));
    }
}
