//! Computes the root of a trie from sorted entries, without keeping nodes.
//!
//! `db check` compares the result with the trie that is changed in place. The two share only the
//! encoding of nodes, so that a fault in one does not hide in the other.
//! Source: Ethereum Yellow Paper, appendix D.

use alloy_rlp::{EMPTY_STRING_CODE, Encodable};
use primitives::{B256, EMPTY_ROOT, keccak256};

use super::node::{NodeReference, push_hex_prefix, reference_of, wrap_list};

/// Length of a key in nibbles.
const KEY_NIBBLES: usize = 64;

/// The root of the trie that has `value(entry)` under each entry's key.
///
/// The keys must be strictly ascending, and no value may be empty.
///
/// # Errors
/// Any error of `value`.
pub(crate) fn sorted_root<T, E>(
    entries: &[(B256, T)],
    value: &mut impl FnMut(&T) -> Result<Vec<u8>, E>,
) -> Result<B256, E> {
    debug_assert!(
        entries.is_sorted_by(|a, b| a.0 < b.0),
        "keys are strictly ascending"
    );
    if entries.is_empty() {
        return Ok(EMPTY_ROOT);
    }
    Ok(keccak256(node(entries, 0, value)?))
}

/// The RLP of the node at nibble `depth` that has these entries. Their keys are equal up to there.
fn node<T, E>(
    entries: &[(B256, T)],
    depth: usize,
    value: &mut impl FnMut(&T) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let (first, last) = (&entries[0], &entries[entries.len() - 1]);
    let path = |to: usize| -> Vec<u8> { (depth..to).map(|at| nibble(&first.0, at)).collect() };
    if entries.len() == 1 {
        let mut payload = Vec::with_capacity(128);
        push_hex_prefix(&path(KEY_NIBBLES), true, &mut payload);
        value(&first.1)?.as_slice().encode(&mut payload);
        return Ok(list(payload));
    }
    // The keys are sorted, so a prefix that the first and the last share is common to all.
    let fork = (depth..KEY_NIBBLES).find(|at| nibble(&first.0, *at) != nibble(&last.0, *at));
    let fork = fork.unwrap_or(KEY_NIBBLES - 1);
    let branch = branch(entries, fork, value)?;
    if fork == depth {
        return Ok(branch);
    }
    let mut payload = Vec::with_capacity(72);
    push_hex_prefix(&path(fork), false, &mut payload);
    push_reference(&branch, &mut payload);
    Ok(list(payload))
}

fn branch<T, E>(
    entries: &[(B256, T)],
    depth: usize,
    value: &mut impl FnMut(&T) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut payload = Vec::with_capacity(17 * 33 + 3);
    let mut rest = entries;
    for child in 0..16 {
        let count = rest.partition_point(|(key, _)| nibble(key, depth) <= child);
        let (below, after) = rest.split_at(count);
        rest = after;
        if below.is_empty() {
            payload.push(EMPTY_STRING_CODE);
        } else {
            push_reference(&node(below, depth + 1, value)?, &mut payload);
        }
    }
    // All keys have the same length, so no branch has a value.
    payload.push(EMPTY_STRING_CODE);
    Ok(list(payload))
}

fn nibble(key: &B256, at: usize) -> u8 {
    let byte = key[at / 2];
    if at.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0xf
    }
}

fn push_reference(rlp: &[u8], out: &mut Vec<u8>) {
    match reference_of(rlp) {
        NodeReference::Hash(hash) => hash.encode(out),
        NodeReference::Inline(rlp) => out.extend_from_slice(&rlp),
    }
}

fn list(mut payload: Vec<u8>) -> Vec<u8> {
    wrap_list(0, &mut payload);
    payload
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::trie::{NoNodes, Trie};

    fn check(entries: &BTreeMap<B256, Vec<u8>>) {
        let mut trie = Trie::in_memory();
        for (key, value) in entries {
            trie.insert(&NoNodes, key.as_slice(), value).unwrap();
        }
        let sorted: Vec<_> = entries.iter().map(|(key, value)| (*key, value)).collect();
        let root = sorted_root(&sorted, &mut |value| Ok::<_, Infallible>((*value).clone()));
        assert_eq!(root.unwrap(), trie.root());
    }

    #[test]
    fn small_tries() {
        check(&BTreeMap::new());
        check(&[(B256::repeat_byte(1), vec![5])].into());
        // A branch at the last nibble, whose children are embedded in it.
        check(
            &[0x10, 0x11, 0x1f]
                .map(|last| (B256::with_last_byte(last), vec![last]))
                .into(),
        );
    }

    proptest! {
        #[test]
        fn agrees_with_the_trie_changed_in_place(
            keys in proptest::collection::vec((proptest::collection::vec(0u8..3, 32), any::<u8>(), 1usize..40), 0..40)
        ) {
            let entries = keys
                .into_iter()
                .map(|(key, byte, length)| (B256::from_slice(&key), vec![byte.max(1); length]))
                .collect();
            check(&entries);
        }

        #[test]
        fn agrees_on_random_keys(entries: BTreeMap<[u8; 32], [u8; 33]>) {
            let entries = entries.into_iter().map(|(k, v)| (B256::from(k), v.to_vec())).collect();
            check(&entries);
        }
    }
}
