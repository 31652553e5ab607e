//! Each way to lie, against one honest peer: the liar loses its place, the honest one does not, and
//! the state is right.

use primitives::{Bytes, U256};

use super::world::{Manner, SnapWorld};
use crate::messages::snap::SnapMessage;
use crate::peers::PeerId;

/// A way to lie. Returns whether the answer could be changed in that way.
type Lie = fn(&SnapMessage, &mut SnapMessage) -> bool;

const ACCOUNT_LIES: [(&str, Lie); 11] = [
    ("value", |_, answer| {
        with_accounts(answer, 1, |range| range.accounts[0].1.balance += U256::from(1))
    }),
    ("first dropped", |_, answer| {
        with_accounts(answer, 2, |range| {
            let _ = range.accounts.remove(0);
        })
    }),
    ("last dropped", |_, answer| {
        with_accounts(answer, 2, |range| {
            let _ = range.accounts.pop();
        })
    }),
    ("middle dropped", |_, answer| {
        with_accounts(answer, 3, |range| {
            let _ = range.accounts.remove(1);
        })
    }),
    ("order", |_, answer| {
        with_accounts(answer, 2, |range| range.accounts.swap(0, 1))
    }),
    ("duplicate", |_, answer| {
        with_accounts(answer, 1, |range| range.accounts.push(range.accounts[0]))
    }),
    ("no edge", |_, answer| {
        with_accounts(answer, 1, |range| {
            let _ = range.proof.pop();
        })
    }),
    ("no root", |_, answer| {
        with_accounts(answer, 1, |range| {
            let _ = range.proof.remove(0);
        })
    }),
    ("extra node", |_, answer| {
        with_accounts(answer, 1, |range| {
            range.proof.push(Bytes::from_static(&[0xc2, 0x20, 1]))
        })
    }),
    ("no proof", |_, answer| {
        with_accounts(answer, 1, |range| range.proof.clear())
    }),
    ("empty with entries to the right", |_, answer| {
        with_accounts(answer, 1, |range| range.accounts.clear())
    }),
];

const OTHER_LIES: [(&str, Lie); 10] = [
    ("slot value", |_, answer| {
        with_slots(answer, |slots| slots[0].1 += U256::from(1))
    }),
    ("slot dropped", |_, answer| {
        with_slots(answer, |slots| {
            let _ = slots.remove(0);
        })
    }),
    ("last slot dropped", |_, answer| {
        with_slots(answer, |slots| {
            let _ = slots.pop();
        })
    }),
    ("storages of others", |_, answer| match answer {
        SnapMessage::StorageRanges(_, ranges)
            if ranges.slots.len() > 1 && ranges.slots[0] != ranges.slots[1] =>
        {
            ranges.slots.swap(0, 1);
            true
        }
        _ => false,
    }),
    ("more storages than accounts", |_, answer| match answer {
        SnapMessage::StorageRanges(_, ranges) => {
            ranges.slots.extend(vec![Vec::new(); 5000]);
            true
        }
        _ => false,
    }),
    ("another code", |_, answer| match answer {
        SnapMessage::ByteCodes(_, codes) if !codes.is_empty() => {
            codes[0] = Bytes::from_static(&[0xfe]);
            true
        }
        _ => false,
    }),
    ("more codes than asked for", |_, answer| match answer {
        SnapMessage::ByteCodes(_, codes) => {
            codes.extend(vec![Bytes::new(); 2000]);
            true
        }
        _ => false,
    }),
    ("more nodes than asked for", |_, answer| match answer {
        SnapMessage::TrieNodes(_, nodes) => {
            nodes.extend(vec![Bytes::new(); 2000]);
            true
        }
        _ => false,
    }),
    ("another node", |_, answer| match answer {
        SnapMessage::TrieNodes(_, nodes) if !nodes.is_empty() => {
            nodes[0] = Bytes::from_static(&[0xc2, 0x20, 1]);
            true
        }
        _ => false,
    }),
    ("an answer to another question", |_, answer| {
        *answer = SnapMessage::TrieNodes(0, vec![Bytes::from_static(&[1])]);
        true
    }),
];

fn with_accounts(
    answer: &mut SnapMessage,
    least: usize,
    lie: fn(&mut crate::messages::snap::AccountRange),
) -> bool {
    match answer {
        SnapMessage::AccountRange(_, range) if range.accounts.len() >= least => {
            lie(range);
            true
        }
        _ => false,
    }
}

fn with_slots(answer: &mut SnapMessage, lie: fn(&mut Vec<(primitives::B256, U256)>)) -> bool {
    match answer {
        SnapMessage::StorageRanges(_, ranges) => match ranges.slots.last_mut() {
            Some(slots) if slots.len() > 1 => {
                lie(slots);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn check(name: &str, lie: Lie) {
    let mut world = SnapWorld::new(3, &[Manner::Honest, Manner::Liar(lie), Manner::Honest]);
    if !matches!(name, "another node" | "more nodes than asked for") {
        // Nodes are asked for only after the pivot has moved.
        world.block_interval = u64::MAX;
    }
    world.run();
    let dropped: Vec<_> = world.dropped.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(dropped, [PeerId(2)], "{name}: {:?}", world.dropped);
}

#[test]
fn liars_about_accounts_lose_their_place() {
    for (name, lie) in ACCOUNT_LIES {
        check(name, lie);
    }
}

#[test]
fn liars_about_the_rest_lose_their_place() {
    for (name, lie) in OTHER_LIES {
        check(name, lie);
    }
}
