//! The base chain at and below the head: its gas limit and the hashes of its blocks.
//!
//! The published service tells neither. A VNODE of this project runs code that is sent without the
//! address of a contract, and the code asks the virtual machine. A published VNODE calls the zero
//! address instead and answers with nothing.

use primitives::{B256, U256};

/// The gas limit of a base block that an SCS counts with if its VNODE does not tell it. A chain
/// whose blocks take less cannot have a chain base.
pub const BASE_GAS_LIMIT_ASSUMED: u64 = 9_000_000;
/// The highest gas limit that is believed.
const BASE_GAS_LIMIT_MAX: u64 = 1_000_000_000;
/// Hashes in the answer: more than a turn has blocks.
const HASHES: usize = 64;
/// Bytes of a word.
const WORD: usize = 32;
/// Words before the hashes: gas limit, number.
const WORDS_BEFORE: usize = 2;

/// Code that answers with the gas limit, the number of the head block, and the hashes of the
/// 64 blocks before it. It reverts, because then no code is stored and the answer has no
/// bound of its own.
pub const BRANCH_CODE: [u8; 42] = [
    0x45, 0x60, 0x00, 0x52, // memory[0] = GASLIMIT
    0x43, 0x60, 0x20, 0x52, // memory[32] = NUMBER
    0x60, 0x00, // back = 0
    0x5b, // loop, at 10: the stack has `back`
    0x80, 0x60, 0x01, 0x01, 0x43, 0x03, // NUMBER - (back + 1)
    0x40, // BLOCKHASH
    0x81, 0x60, 0x20, 0x02, 0x60, 0x40, 0x01, // 64 + 32 * back
    0x52, // MSTORE
    0x60, 0x01, 0x01, // back += 1
    0x80, 0x60, 0x40, 0x11, // 64 > back
    0x60, 0x0a, 0x57, // to the loop
    0x61, 0x08, 0x40, 0x60, 0x00, 0xfd, // REVERT with 2 + 64 words
];

/// The base chain at and below the head, as a VNODE of this project tells it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BaseBranch {
    /// The gas limit of the head block.
    pub gas_limit: u64,
    /// The number of the block before the head.
    pub number: u64,
    /// The hashes of that block and of those before it, in falling order.
    pub hashes: Vec<B256>,
}

impl BaseBranch {
    /// The hash of the block with this number, if it is among those that were told.
    pub(crate) fn hash_at(&self, number: u64) -> Option<B256> {
        let back = usize::try_from(self.number.checked_sub(number)?).ok()?;
        self.hashes.get(back).copied()
    }
}

/// Reads the answer to [`BRANCH_CODE`]. `None` if it is none.
pub fn read_branch(answer: &[u8]) -> Option<BaseBranch> {
    if answer.len() != (WORDS_BEFORE + HASHES) * WORD {
        return None;
    }
    let (words, _) = answer.as_chunks::<WORD>();
    let small = |word: &[u8; WORD]| u64::try_from(U256::from_be_bytes(*word)).ok();
    let gas_limit = small(&words[0])?.min(BASE_GAS_LIMIT_MAX);
    let number = small(&words[1])?.checked_sub(1)?;
    let hashes = words[WORDS_BEFORE..].iter().map(|word| B256::from(*word));
    let hashes: Vec<B256> = hashes.take_while(|hash| !hash.is_zero()).collect();
    (gas_limit > 0).then_some(BaseBranch {
        gas_limit,
        number,
        hashes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(gas_limit: u64, number: u64, hashes: usize) -> Vec<u8> {
        let mut words = vec![B256::from(U256::from(gas_limit)), B256::from(U256::from(number))];
        words.extend((0..HASHES).map(|back| {
            if back < hashes {
                B256::repeat_byte(back as u8 + 1)
            } else {
                B256::ZERO
            }
        }));
        words.into_iter().flat_map(|word| word.0).collect()
    }

    #[test]
    fn an_answer_is_read_or_refused() {
        let branch = read_branch(&answer(18_000_000, 3, 3)).unwrap();
        assert_eq!(
            (branch.gas_limit, branch.number, branch.hashes.len()),
            (18_000_000, 2, 3)
        );
        assert_eq!(branch.hashes[0], B256::repeat_byte(1));
        assert_eq!(
            read_branch(&answer(u64::MAX, 9, 64)).unwrap().gas_limit,
            BASE_GAS_LIMIT_MAX
        );
        assert_eq!(read_branch(&answer(0, 9, 64)), None);
        assert_eq!(read_branch(&answer(1, 0, 0)), None);
        assert_eq!(read_branch(&[]), None);
        assert_eq!(read_branch(&answer(1, 9, 64)[1..]), None);
        assert_eq!(read_branch(&[0xff; 66 * 32]), None);
    }
}
