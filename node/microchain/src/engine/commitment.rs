//! The hash of a proposal: what members vote for (docs/microchain-design.md, 4).
//!
//! The hash commits to everything that is proposed, in a form that the chain base computes, too. So
//! a vote for it cannot count for another list of redemptions on any branch of the base chain.

use primitives::rlp::encode_fields_to_vec;
use primitives::{Address, B256, U256, keccak256};

use crate::contract::Proposal;

/// The begin of a hash that the chain base compares with what is proposed: `BOUND` of
/// `contracts/MicroChainState.sol`.
const BOUND: &[u8; 8] = b"mcflush2";
/// The begin of a bound hash that also names the branch of the base chain: `ANCHORED` of the same
/// file. The first bytes of the hash of the base block before the turn follow.
const ANCHORED: &[u8; 4] = b"mcf3";

/// The hash that a proposal commits to: `newHash`.
pub(super) fn commitment(chain: &Address, proposal: &Proposal, block: &B256) -> B256 {
    let mut hash = content(chain, proposal, block);
    hash.0[..BOUND.len()].copy_from_slice(BOUND);
    hash
}

/// A bound hash that names the base block before the turn, so that no other branch of the base
/// chain takes the proposal.
pub(super) fn with_anchor(mut hash: B256, base_block: &B256) -> B256 {
    let (tag, anchor) = hash.0[..BOUND.len()].split_at_mut(ANCHORED.len());
    tag.copy_from_slice(ANCHORED);
    anchor.copy_from_slice(&base_block[..anchor.len()]);
    hash
}

/// Whether a hash commits to the content that a bound hash commits to, on whatever branch.
pub(super) fn is_commitment(hash: &B256, bound: &B256) -> bool {
    let is_tagged = hash.starts_with(BOUND) || hash.starts_with(ANCHORED);
    is_tagged && hash[BOUND.len()..] == bound[BOUND.len()..]
}

/// The hash of all that is proposed: of the fields, then of one redemption after the other.
fn content(chain: &Address, proposal: &Proposal, block: &B256) -> B256 {
    let number = |number: u64| B256::from(U256::from(number));
    let rewards = proposal.distribution.iter().copied().map(B256::from);
    let members = proposal.members.iter().map(Address::into_word);
    let bad_actors = proposal.bad_actors.iter().copied().map(number);
    let lists = hash_of(rewards.chain(members).chain(bad_actors));
    let fields = hash_of([
        number(proposal.starting_block),
        number(proposal.start),
        number(proposal.end),
        number(proposal.users.len() as u64),
        number(proposal.members.len() as u64),
    ]);
    let head = hash_of([
        chain.into_word(),
        proposal.last_approved,
        proposal.via.into_word(),
        *block,
        fields,
        lists,
    ]);
    let redemptions = proposal.users.iter().zip(&proposal.tokens);
    redemptions.fold(head, |content, (user, tokens)| {
        hash_of([content, user.into_word(), B256::from(*tokens)])
    })
}

fn hash_of(words: impl IntoIterator<Item = B256>) -> B256 {
    let bytes: Vec<u8> = words.into_iter().flat_map(|word| word.0).collect();
    keccak256(bytes)
}

/// The hash that flushes of the first release committed to. No proposal has it any more, but the
/// last flush of a chain may.
pub(super) fn first_commitment(chain: &Address, proposal: &Proposal, block: &B256) -> B256 {
    let version = 1u64;
    keccak256(encode_fields_to_vec(&[
        &version,
        chain,
        &proposal.last_approved,
        &proposal.starting_block,
        &proposal.start,
        &proposal.end,
        block,
        &proposal.distribution,
        &proposal.users,
        &proposal.tokens,
        &proposal.bad_actors,
    ]))
}

/// Whether a flush covers the chain that ends with this block.
pub(super) fn covers(chain: &Address, approved: &Proposal, block: &B256) -> bool {
    is_commitment(&approved.hash, &commitment(chain, approved, block))
        || first_commitment(chain, approved, block) == approved.hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        let address = Address::repeat_byte;
        Proposal {
            last_approved: B256::repeat_byte(2),
            start: 3,
            end: 4,
            starting_block: 5,
            distribution: [6u64, 7].map(U256::from).to_vec(),
            members: [8, 9].map(address).to_vec(),
            bad_actors: vec![1],
            via: address(10),
            users: [11, 12].map(address).to_vec(),
            tokens: [13u64, 14].map(U256::from).to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn each_field_is_committed_to() {
        type Change = fn(&mut Proposal);
        let chain = Address::repeat_byte(1);
        let block = B256::repeat_byte(15);
        let hash = |change: Change| {
            let mut changed = proposal();
            change(&mut changed);
            commitment(&chain, &changed, &block)
        };
        let same = hash(|_| ());
        assert_eq!(&same[..8], BOUND);
        let changes: [Change; 13] = [
            |one| one.last_approved = B256::ZERO,
            |one| one.start += 1,
            |one| one.end += 1,
            |one| one.starting_block += 1,
            |one| one.distribution[1] += U256::from(1),
            |one| one.distribution.swap(0, 1),
            |one| one.members.swap(0, 1),
            |one| one.bad_actors.clear(),
            |one| one.via = Address::ZERO,
            |one| one.users.swap(0, 1),
            |one| one.tokens.swap(0, 1),
            |one| {
                one.users.pop();
                one.tokens.pop();
            },
            |one| one.users[0] = Address::ZERO,
        ];
        for (place, change) in changes.into_iter().enumerate() {
            assert_ne!(hash(change), same, "change {place}");
        }
        let anchored = with_anchor(same, &B256::repeat_byte(16));
        assert!(is_commitment(&anchored, &same) && is_commitment(&same, &same));
        assert_eq!(anchored[..8], *b"mcf3\x10\x10\x10\x10");
        assert!(!is_commitment(&anchored, &hash(|one| one.end += 1)));
        assert!(!is_commitment(&B256::repeat_byte(16), &B256::repeat_byte(16)));
        assert_ne!(commitment(&Address::ZERO, &proposal(), &block), same);
        assert_ne!(commitment(&chain, &proposal(), &B256::ZERO), same);
    }
}
