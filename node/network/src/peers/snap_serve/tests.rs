//! Every limit of the answers, and that they prove themselves.

use chain::trie::{account_value, hex_prefix, slot_value, verify_range};
use primitives::keccak256;

use super::*;
use crate::peers::snap_memory::{MemoryChain, MemoryState, account};

const ALL: B256 = B256::repeat_byte(0xff);

fn accounts_of(chain: &MemoryChain, root: B256, origin: B256, limit: B256, bytes: u64) -> AccountRange {
    let request = AccountRangeRequest {
        root,
        origin,
        limit,
        bytes,
    };
    let answer = answer(chain, &SnapMessage::GetAccountRange(9, request), &|| true);
    match answer.expect("in memory") {
        Some(SnapMessage::AccountRange(9, range)) => range,
        other => panic!("{other:?}"),
    }
}

fn storages_of(
    chain: &MemoryChain,
    accounts: &[B256],
    (origin, limit): (B256, B256),
    bytes: u64,
) -> StorageRanges {
    let request = StorageRangesRequest {
        root: chain.head_root(),
        accounts: accounts.to_vec(),
        origin,
        limit,
        bytes,
    };
    let answer = answer(chain, &SnapMessage::GetStorageRanges(1, request), &|| true);
    match answer.expect("in memory") {
        Some(SnapMessage::StorageRanges(1, ranges)) => ranges,
        other => panic!("{other:?}"),
    }
}

/// Plain accounts that count 49 bytes each.
fn plain_chain() -> MemoryChain {
    chain_with_balances(12)
}

/// Plain accounts with balances of so many bytes. Each account counts 37 bytes more.
fn chain_with_balances(len: usize) -> MemoryChain {
    let mut state = MemoryState::default();
    for number in 0_u64..300 {
        let record = AccountRecord {
            balance: U256::from(1) << (len * 8 - 1),
            ..AccountRecord::default()
        };
        assert_eq!(account_bytes(&record), 32 + 5 + len);
        state.put_account(keccak256(number.to_be_bytes()), record);
    }
    MemoryChain::of(state)
}

fn next(hash: B256, by: i64) -> B256 {
    let number = U256::from_be_bytes(hash.0);
    let moved = if by < 0 {
        number - U256::from(-by)
    } else {
        number + U256::from(by)
    };
    B256::from(moved)
}

#[test]
fn an_answer_ends_with_the_entry_that_exceeds_the_bytes() {
    let chain = plain_chain();
    let root = chain.head_root();
    for (bytes, expected) in [
        (4000, 4000 / 49 + 1),
        (3000, 3000 / 49 + 1),
        (2000, 2000 / 49 + 1),
        (49, 2),
        (48, 1),
        (1, 1),
        (0, 1),
        (u64::MAX, 300),
    ] {
        let range = accounts_of(&chain, root, B256::ZERO, ALL, bytes);
        assert_eq!(range.accounts.len(), expected, "{bytes} bytes");
        let (keys, values): (Vec<_>, Vec<_>) = range
            .accounts
            .iter()
            .map(|(hash, account)| (*hash, account_value(account)))
            .unzip();
        assert!(!range.proof.is_empty(), "even for the whole trie");
        let more = verify_range(root, B256::ZERO, &keys, &values, &range.proof).expect("proven");
        assert_eq!(more, expected < 300);
    }
}

/// The figures of geth's `devp2p rlpx snap-test`. Its accounts count 53 bytes each, and in an older
/// state 52.
#[test]
fn answers_have_as_many_accounts_as_those_of_geth() {
    let count = |balance, bytes| {
        let chain = chain_with_balances(balance);
        let range = accounts_of(&chain, chain.head_root(), B256::ZERO, ALL, bytes);
        range.accounts.len()
    };
    assert_eq!(
        [4000, 3000, 2000, 1, 0].map(|bytes| count(16, bytes)),
        [76, 57, 38, 1, 1]
    );
    assert_eq!(count(15, 4000), 77);
}

#[test]
fn ends_of_account_ranges() {
    let chain = plain_chain();
    let root = chain.head_root();
    let all: Vec<B256> = accounts_of(&chain, root, B256::ZERO, ALL, u64::MAX)
        .accounts
        .iter()
        .map(|(hash, _)| *hash)
        .collect();
    let (first, second) = (all[0], all[1]);
    #[track_caller]
    fn check(chain: &MemoryChain, origin: B256, limit: B256, expected: &[B256]) {
        let range = accounts_of(chain, chain.head_root(), origin, limit, 4000);
        let hashes: Vec<_> = range.accounts.iter().map(|(hash, _)| *hash).collect();
        assert_eq!(hashes, expected);
        assert!(!range.proof.is_empty());
    }
    check(&chain, next(first, -500), next(first, 1), &[first, second]);
    check(&chain, next(first, -500), next(first, -450), &[first]);
    check(&chain, B256::ZERO, B256::ZERO, &[first]);
    check(&chain, next(first, 1), next(first, 1), &[second]);
    // An origin behind the limit.
    check(&chain, first, next(first, -1), &[first]);
    check(&chain, first, B256::ZERO, &[first]);
    // Nothing is right of the last account, and that is proven.
    check(&chain, next(all[299], 1), ALL, &[]);
    let none = accounts_of(&chain, root, next(all[299], 1), ALL, 1);
    let proven = verify_range(root, next(all[299], 1), &[], &[], &none.proof);
    assert!(!proven.expect("proven"));
}

#[test]
fn states_that_are_not_served_have_no_entries_and_no_proof() {
    let mut chain = plain_chain();
    let genesis = chain.head_root();
    chain.make_genesis();
    for _ in 0..130 {
        chain.next_block(|state| state.touch());
    }
    let with_storage = chain.roots();
    for (root, is_served) in [
        (B256::repeat_byte(0x13), false),
        (genesis, false),
        (with_storage[with_storage.len() - 1], true),
        (with_storage[with_storage.len() - 128], true),
        (with_storage[with_storage.len() - 129], false),
    ] {
        let range = accounts_of(&chain, root, B256::ZERO, ALL, 4000);
        assert_eq!(!range.accounts.is_empty(), is_served);
        assert_eq!(!range.proof.is_empty(), is_served);
        let request = TrieNodesRequest {
            root,
            paths: vec![vec![Bytes::from_static(&[0])]],
            bytes: 500,
        };
        let answer = answer(&chain, &SnapMessage::GetTrieNodes(1, request), &|| true);
        let Ok(Some(SnapMessage::TrieNodes(1, nodes))) = answer else {
            panic!("nodes")
        };
        assert_eq!(nodes.len(), usize::from(is_served));
        assert!(nodes.iter().all(|node| keccak256(node) == root));
    }
}

/// Accounts 1 to 4 with 3, 100, 100 and 0 slots.
fn chain_with_storages() -> (MemoryChain, [B256; 4]) {
    let mut state = MemoryState::default();
    let hashes = [0x11, 0x22, 0x33, 0x44].map(B256::repeat_byte);
    for (hash, slots) in hashes.iter().zip([3_u64, 100, 100, 0]) {
        state.put_account(*hash, account(7));
        for slot in 0..slots {
            state.put_slot(*hash, keccak256(slot.to_be_bytes()), U256::from(slot + 1));
        }
    }
    state.put_code(&[0x60, 0]);
    state.put_code(&[0x60, 1, 2]);
    (MemoryChain::of(state), hashes)
}

#[test]
fn storages_are_whole_or_proven() {
    let (chain, hashes) = chain_with_storages();
    let root = |hash: &B256| {
        let state = chain
            .state(&chain.head_root())
            .expect("in memory")
            .expect("served");
        state
            .account(hash)
            .expect("in memory")
            .expect("there")
            .storage_root
    };
    let lengths = |ranges: &StorageRanges| ranges.slots.iter().map(Vec::len).collect::<Vec<_>>();
    // Three whole storages need no proof, and an empty one is left out.
    let all = storages_of(&chain, &hashes, (B256::ZERO, ALL), 1 << 20);
    assert_eq!((lengths(&all), all.proof.len()), (vec![3, 100, 100], 0));
    // The first account beyond the cap is cut and proven. A tenth more is allowed.
    let cut = storages_of(&chain, &hashes, (B256::ZERO, ALL), 1000);
    let bytes: usize = cut
        .slots
        .iter()
        .flatten()
        .map(|(_, value)| slot_bytes(value))
        .sum();
    assert!((1100..1100 + 34).contains(&bytes), "{bytes}");
    assert_eq!(cut.slots.len(), 2);
    let verify = |hash: &B256, origin: B256, ranges: &StorageRanges| {
        let slots = ranges.slots.last().cloned().unwrap_or_default();
        let (keys, values): (Vec<_>, Vec<_>) = slots
            .iter()
            .map(|(slot, value)| (*slot, slot_value(value)))
            .unzip();
        verify_range(root(hash), origin, &keys, &values, &ranges.proof).expect("proven")
    };
    assert!(verify(&hashes[1], B256::ZERO, &cut));
    // Between cap and hard cap an account is finished, and no other is begun.
    let whole = storages_of(&chain, &hashes[1..], (B256::ZERO, ALL), 3200);
    assert_eq!((lengths(&whole), whole.proof.len()), (vec![100], 0));
    // An origin needs a proof, even if nothing is cut.
    let slots = all.slots[0].clone();
    let from = next(slots[0].0, 1);
    let right = storages_of(&chain, &hashes, (from, ALL), 1 << 20);
    assert_eq!(right.slots, [slots[1..].to_vec()]);
    assert!(!verify(&hashes[0], from, &right));
    // The limit is for the first account only, and the first slot behind it is included.
    let some = storages_of(&chain, &hashes[..1], (from, slots[1].0), 500);
    assert_eq!(some.slots, [slots[1..2].to_vec()]);
    let beyond = storages_of(&chain, &hashes[..1], (from, next(slots[1].0, 1)), 500);
    assert_eq!(beyond.slots, [slots[1..].to_vec()]);
    // Nothing right of the origin: no list, but a proof.
    let none = storages_of(&chain, &hashes[..1], (next(slots[2].0, 1), ALL), 500);
    assert!(none.slots.is_empty() && !verify(&hashes[0], next(slots[2].0, 1), &none));
    // One slot, however few bytes.
    assert_eq!(
        storages_of(&chain, &hashes, (B256::ZERO, ALL), 0).slots[0].len(),
        1
    );
    let unknown = storages_of(&chain, &[B256::ZERO], (B256::ZERO, ALL), 500);
    assert_eq!(unknown, StorageRanges::default());
}

#[test]
fn codes_in_the_order_of_the_request() {
    let (chain, _) = chain_with_storages();
    let (one, two) = (keccak256([0x60, 0]), keccak256([0x60, 1, 2]));
    #[track_caller]
    fn check(chain: &MemoryChain, hashes: &[B256], bytes: u64, expected: &[usize]) {
        let request = ByteCodesRequest {
            hashes: hashes.to_vec(),
            bytes,
        };
        let answer = answer(chain, &SnapMessage::GetByteCodes(1, request), &|| true);
        let Ok(Some(SnapMessage::ByteCodes(1, codes))) = answer else {
            panic!("codes")
        };
        assert_eq!(codes.iter().map(|code| code.len()).collect::<Vec<_>>(), expected);
    }
    check(&chain, &[two, one, B256::ZERO, one], 1000, &[3, 2, 2]);
    check(&chain, &[one, two], 1, &[2]);
    check(&chain, &[one, two], 0, &[2]);
    check(&chain, &[EMPTY_CODE_HASH; 3], 1000, &[0, 0, 0]);
    check(&chain, &[chain.head_root(), EMPTY_ROOT], 1000, &[]);
    check(&chain, &[one; ITEMS_MAX + 5], 1 << 20, &[2; ITEMS_MAX]);
}

#[test]
fn nodes_and_empty_places() {
    let (chain, hashes) = chain_with_storages();
    let nodes = |paths: Vec<PathSet>, bytes, has_time| {
        let request = TrieNodesRequest {
            root: chain.head_root(),
            paths,
            bytes,
        };
        let answer = answer(&chain, &SnapMessage::GetTrieNodes(1, request), &|| has_time);
        match answer {
            Ok(Some(SnapMessage::TrieNodes(1, nodes))) => nodes,
            other => panic!("{other:?}"),
        }
    };
    let path = |path: &[u8]| Bytes::copy_from_slice(path);
    let key = &hashes[0];
    // All paths to a key: the root and the leaf are nodes, the others lead to none.
    let prefixes: Vec<PathSet> = (0..=64)
        .map(|length: usize| {
            let nibbles: Vec<u8> = key
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 0xf])
                .take(length)
                .collect();
            vec![Bytes::from(hex_prefix(&nibbles))]
        })
        .collect();
    let found = nodes(prefixes, 5000, true);
    assert_eq!(found.len(), 65);
    assert_eq!(found.iter().filter(|node| !node.is_empty()).count(), 2);
    assert_eq!(keccak256(&found[0]), chain.head_root());
    // A path that is much too long, and one that leads to a value.
    assert_eq!(
        nodes(vec![vec![path(&[0; 60])], vec![path(&[0x20])]], 500, true),
        [path(&[]), path(&[])]
    );
    // Storage tries: an unknown account is left out, one without storage has empty places.
    let owner = path(hashes[1].as_slice());
    let sets = vec![
        vec![path(&[1]), path(&[0])],
        vec![owner, path(&[0]), path(&[0x1b]), path(&[0, 0, 0, 0])],
        vec![path(hashes[3].as_slice()), path(&[0])],
    ];
    let found = nodes(sets, 50_000, true);
    assert_eq!(
        found.iter().map(|node| node.is_empty()).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    // Bytes, look-ups and time are bounded.
    let many = vec![vec![path(&[0])]; 3000];
    assert_eq!(nodes(many.clone(), 1, true).len(), 1);
    assert_eq!(nodes(many.clone(), 1 << 30, true).len(), ITEMS_MAX);
    assert_eq!(nodes(many, 1 << 30, false).len(), 1);
    assert_eq!(nodes(Vec::new(), 500, true).len(), 0);
    let request = TrieNodesRequest {
        root: B256::ZERO,
        paths: vec![vec![path(&[0]); 9000], vec![path(&[0]); 9000]],
        bytes: 1,
    };
    let mut request = SnapMessage::GetTrieNodes(1, request);
    cut(&mut request);
    let SnapMessage::GetTrieNodes(_, request) = request else {
        panic!("a request")
    };
    assert!(request.paths.iter().map(Vec::len).sum::<usize>() <= ITEMS_MAX + 4);
}
