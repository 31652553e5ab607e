//! Headers of a MicroChain's blocks: block 0, signatures, and the rules that need no state
//! (docs/microchain-design.md, 1).
//!
//! Knows headers, members and slots. Roots, bloom and gas are compared when a block is executed.

use chain::application::{BLOCK_GAS_LIMIT, BlockExtra, ExtraError, SIGNATURE_BYTES};
use primitives::rlp::encode_fields_to_vec;
use primitives::{
    Address, B256, Bytes, EMPTY_UNCLES_HASH, EcdsaSignature, Header, SecretKey, SignatureError, U256,
    keccak256, recover,
};

use crate::event::MicroChainSetup;

/// The prefix of the bytes that a block's producer signs. 0x19 begins no RLP list, so that the
/// signature of a block is never that of a transaction.
const BLOCK_TEXT: &[u8] = b"\x19MicroChain block";

/// The reason why a header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderRefusal {
    /// The extra data cannot be read.
    #[error(transparent)]
    Extra(#[from] ExtraError),
    /// A number is wrong.
    #[error("{field}: got {got}, expected {expected}")]
    Field {
        field: &'static str,
        /// The value in the header.
        got: u64,
        /// The value that it must have.
        expected: u64,
    },
    /// A field that must be empty is not.
    #[error("{0}: got a value, expected zero or none")]
    NotEmpty(&'static str),
    /// The time is not the begin of a slot after the parent's.
    #[error("time: got {got}, expected a multiple of {period} after {parent}")]
    Time {
        /// The time.
        got: u64,
        /// Seconds of a slot.
        period: u64,
        /// The parent's time.
        parent: u64,
    },
    /// The base block is lower than the parent's.
    #[error("base block: got {got}, expected at least the parent's {parent}")]
    Base {
        /// The base block.
        got: u64,
        /// The parent's.
        parent: u64,
    },
    /// Block 1 must name the members.
    #[error("block 1: got no list of members, expected one")]
    NoMembers,
    /// The slot is another member's.
    #[error("producer of the slot: got {got}, expected {expected:?}")]
    Producer {
        /// The coinbase.
        got: Address,
        /// The member whose slot it is.
        expected: Option<Address>,
    },
    /// The signature is no signature.
    #[error("signature of the block: {0}")]
    Signature(#[from] SignatureError),
    /// s is in the upper half.
    #[error("signature of the block: got a high s, expected a low one")]
    HighS,
    /// Somebody else signed.
    #[error("signer of the block: got {got}, expected {expected}")]
    Signer {
        /// The signer.
        got: Address,
        /// The coinbase.
        expected: Address,
    },
}

/// The extra data of block 0: everything in which two MicroChains differ.
pub(crate) fn genesis_extra(setup: &MicroChainSetup) -> Bytes {
    let version = 1u64;
    encode_fields_to_vec(&[
        &version,
        &setup.address,
        &setup.owner,
        &setup.supply,
        &setup.period_secs,
    ])
    .into()
}

/// The hash that a producer signs.
fn digest(chain: &Address, header: &Header) -> Result<B256, ExtraError> {
    let (signed, _) = BlockExtra::split(&header.extra_data)?;
    let unsigned = Header {
        extra_data: Bytes::copy_from_slice(signed),
        ..header.clone()
    };
    Ok(signed_digest(BLOCK_TEXT, chain, &unsigned.encode()))
}

/// The hash that is signed for a text of this protocol and some RLP. `text` begins with 0x19.
pub(crate) fn signed_digest(text: &[u8], chain: &Address, rlp: &[u8]) -> B256 {
    keccak256([text, chain.as_slice(), keccak256(rlp).as_slice()].concat())
}

/// A signature as this protocol writes it: r, s, then 0 or 1.
pub(crate) fn sign(key: &SecretKey, digest: &B256) -> [u8; SIGNATURE_BYTES] {
    let mut bytes = key.sign(digest).to_rsv();
    bytes[SIGNATURE_BYTES - 1] -= 27;
    bytes
}

/// The account that made a signature. Only a low s counts, so that nobody else can change it.
///
/// # Errors
/// [`HeaderRefusal`] if it is none.
pub(crate) fn signer(digest: &B256, signature: &[u8; SIGNATURE_BYTES]) -> Result<Address, HeaderRefusal> {
    let mut rsv = *signature;
    let v = rsv[SIGNATURE_BYTES - 1];
    rsv[SIGNATURE_BYTES - 1] = if v < 2 { v + 27 } else { 0 };
    let signature = EcdsaSignature::from_rsv(&rsv)?;
    if !signature.is_low_s() {
        return Err(HeaderRefusal::HighS);
    }
    Ok(recover(digest, &signature)?)
}

/// Signs a header whose extra data ends with space for the signature.
///
/// # Errors
/// [`ExtraError`] if there is no space.
pub(crate) fn sign_header(header: &mut Header, chain: &Address, key: &SecretKey) -> Result<(), ExtraError> {
    let signature = sign(key, &digest(chain, header)?);
    let (signed, _) = BlockExtra::split(&header.extra_data)?;
    header.extra_data = [signed, &signature[..]].concat().into();
    Ok(())
}

/// The signer of a header.
///
/// # Errors
/// [`HeaderRefusal`] if nobody did.
pub(crate) fn header_signer(header: &Header, chain: &Address) -> Result<Address, HeaderRefusal> {
    let (_, signature) = BlockExtra::split(&header.extra_data)?;
    signer(&digest(chain, header)?, signature)
}

/// The member whose slot this is.
pub(crate) fn owner_of_slot(members: &[Address], slot: u64) -> Option<Address> {
    let place = slot.checked_rem(members.len() as u64)?;
    members.get(place as usize).copied()
}

/// A parent, as far as its children depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParentBlock {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) timestamp: u64,
    /// The content of the header's extra data. For block 0 zeros.
    pub(crate) extra: BlockExtra,
    /// The members in force at it; none at block 0.
    pub(crate) members: Vec<Address>,
}

/// Checks a header as far as it needs no execution, and its signature at the end. Returns what its
/// extra data says.
///
/// # Errors
/// [`HeaderRefusal`] for the first broken rule.
pub(crate) fn check_block_header(
    setup: &MicroChainSetup,
    header: &Header,
    parent: &ParentBlock,
) -> Result<BlockExtra, HeaderRefusal> {
    let expect = |field, got, expected| {
        if got == expected {
            Ok(())
        } else {
            Err(HeaderRefusal::Field { field, got, expected })
        }
    };
    expect("number", header.number, parent.number + 1)?;
    expect("gas limit", header.gas_limit, BLOCK_GAS_LIMIT)?;
    expect("difficulty", header.difficulty.saturating_to(), 1)?;
    if header.uncles_hash != EMPTY_UNCLES_HASH {
        return Err(HeaderRefusal::NotEmpty("uncles"));
    }
    if !header.mix_hash.is_zero() || header.pow_nonce != 0 {
        return Err(HeaderRefusal::NotEmpty("seal"));
    }
    let (got, period) = (header.timestamp, setup.period_secs);
    if got <= parent.timestamp || got % period != 0 {
        return Err(HeaderRefusal::Time {
            got,
            period,
            parent: parent.timestamp,
        });
    }
    let extra = BlockExtra::decode(&header.extra_data)?;
    if extra.base < parent.extra.base {
        return Err(HeaderRefusal::Base {
            got: extra.base,
            parent: parent.extra.base,
        });
    }
    let (members, since) = if extra.list.is_empty() {
        (&parent.members, parent.extra.since)
    } else {
        (&extra.list, header.number)
    };
    if members.is_empty() {
        return Err(HeaderRefusal::NoMembers);
    }
    expect("block that names the members", extra.since, since)?;
    let owner = owner_of_slot(members, got / period);
    if owner != Some(header.beneficiary) {
        return Err(HeaderRefusal::Producer {
            got: header.beneficiary,
            expected: owner,
        });
    }
    let got = header_signer(header, &setup.address)?;
    if got != header.beneficiary {
        return Err(HeaderRefusal::Signer {
            got,
            expected: header.beneficiary,
        });
    }
    Ok(extra)
}

/// The header of the block after `parent`, before its execution. Its extra data ends with space for
/// the signature.
pub(crate) fn draft_header(
    parent: &ParentBlock,
    producer: Address,
    timestamp: u64,
    extra: &BlockExtra,
) -> Header {
    Header {
        parent_hash: parent.hash,
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: producer,
        difficulty: U256::from(1),
        number: parent.number + 1,
        gas_limit: BLOCK_GAS_LIMIT,
        timestamp,
        extra_data: extra.encode(&[0; SIGNATURE_BYTES]),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SecretKey {
        SecretKey::from_bytes(&[byte; 32]).unwrap()
    }

    fn setup() -> MicroChainSetup {
        MicroChainSetup {
            address: Address::repeat_byte(0xcc),
            owner: Address::repeat_byte(1),
            supply: U256::from(1000),
            period_secs: 10,
            chain_id: 100,
            withdrawal_min: U256::ZERO,
        }
    }

    fn parent() -> ParentBlock {
        ParentBlock {
            number: 4,
            hash: B256::repeat_byte(4),
            timestamp: 1000,
            extra: BlockExtra {
                base: 50,
                since: 1,
                list: Vec::new(),
            },
            members: [1, 2, 3].map(|byte| key(byte).address()).to_vec(),
        }
    }

    /// A signed child in slot 102, which is the first member's.
    fn child(change: impl FnOnce(&mut Header)) -> Header {
        let extra = BlockExtra {
            base: 51,
            since: 1,
            list: Vec::new(),
        };
        let mut header = draft_header(&parent(), key(1).address(), 1020, &extra);
        change(&mut header);
        sign_header(&mut header, &setup().address, &key(1)).unwrap();
        header
    }

    fn check(header: &Header) -> Result<BlockExtra, HeaderRefusal> {
        check_block_header(&setup(), header, &parent())
    }

    #[test]
    fn a_signed_header_of_the_right_member_is_taken() {
        let header = child(|_| ());
        assert_eq!(check(&header).unwrap().base, 51);
        assert_eq!(header_signer(&header, &setup().address), Ok(key(1).address()));
        // On another MicroChain the same bytes are signed by nobody known.
        assert_ne!(header_signer(&header, &Address::ZERO), Ok(key(1).address()));
    }

    #[test]
    fn each_broken_rule_has_its_error() {
        let refusal = |change: &dyn Fn(&mut Header)| check(&child(change)).unwrap_err();
        let is_field = |change: &dyn Fn(&mut Header)| matches!(refusal(change), HeaderRefusal::Field { .. });
        assert!(is_field(&|h| h.number = 6));
        assert!(is_field(&|h| h.gas_limit += 1));
        assert!(is_field(&|h| h.difficulty = U256::from(2)));
        assert!(matches!(
            refusal(&|h| h.timestamp = 1025),
            HeaderRefusal::Time { .. }
        ));
        assert!(matches!(
            refusal(&|h| h.timestamp = 1000),
            HeaderRefusal::Time { .. }
        ));
        assert!(matches!(
            refusal(&|h| h.timestamp = 1030),
            HeaderRefusal::Producer { .. }
        ));
        assert!(matches!(
            refusal(&|h| h.pow_nonce = 1),
            HeaderRefusal::NotEmpty(_)
        ));
        assert!(matches!(
            refusal(&|h| h.uncles_hash = B256::ZERO),
            HeaderRefusal::NotEmpty(_)
        ));
        let with_extra = |base, since, list| {
            let extra = BlockExtra { base, since, list };
            check(&child(|h| h.extra_data = extra.encode(&[0; 65])))
        };
        assert!(matches!(
            with_extra(49, 1, Vec::new()),
            Err(HeaderRefusal::Base { .. })
        ));
        assert!(matches!(
            with_extra(51, 2, Vec::new()),
            Err(HeaderRefusal::Field { .. })
        ));
        // With a new list the slot is that of the new list.
        let other = vec![key(2).address(), key(1).address()];
        assert!(matches!(
            with_extra(51, 5, other),
            Err(HeaderRefusal::Producer { .. })
        ));
        assert!(with_extra(51, 5, vec![key(1).address()]).is_ok());
    }

    #[test]
    fn a_wrong_signature_is_refused() {
        let mut unsigned = child(|_| ());
        let len = unsigned.extra_data.len();
        let mut bytes = unsigned.extra_data.to_vec();
        bytes[len - 65..].fill(0);
        unsigned.extra_data = bytes.into();
        assert!(matches!(check(&unsigned), Err(HeaderRefusal::Signature(_))));
        let mut header = child(|_| ());
        sign_header(&mut header, &setup().address, &key(2)).unwrap();
        assert!(matches!(check(&header), Err(HeaderRefusal::Signer { .. })));
        // The other s of the same signature gives another hash, so it is refused.
        let mut high = child(|_| ()).extra_data.to_vec();
        let s = U256::from_be_slice(&high[len - 33..len - 1]);
        let other = primitives::SECP256K1_ORDER - s;
        high[len - 33..len - 1].copy_from_slice(&other.to_be_bytes::<32>());
        high[len - 1] ^= 1;
        let header = Header {
            extra_data: high.into(),
            ..child(|_| ())
        };
        assert_eq!(check(&header), Err(HeaderRefusal::HighS));
    }
}
