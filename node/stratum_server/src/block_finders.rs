//! The finders of the last blocks of this node: devices of this process, or workers.

use std::collections::VecDeque;

use ethash::B256;
use parking_lot::Mutex;

/// The most blocks that are remembered.
const FINDERS_MAX: usize = 256;

/// The finders of the last blocks, by header hash: the hash that miners get, which no two pieces of
/// work have in common.
#[derive(Debug, Default)]
pub struct BlockFinders(Mutex<VecDeque<(B256, String)>>);

impl BlockFinders {
    /// Notes who found the block with this header hash. The oldest note goes if there are too many.
    pub fn note(&self, header_hash: B256, finder: String) {
        let mut notes = self.0.lock();
        if notes.len() >= FINDERS_MAX {
            notes.pop_front();
        }
        notes.push_back((header_hash, finder));
    }

    /// The finder of the block with this header hash; `None` for nobody here, or too long ago.
    pub fn of(&self, header_hash: &B256) -> Option<String> {
        let notes = self.0.lock();
        let note = notes.iter().rev().find(|(known, _)| known == header_hash)?;
        Some(note.1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_finders_are_known() {
        let finders = BlockFinders::default();
        let hash = |number: usize| B256::left_padding_from(&number.to_be_bytes());
        for number in 0..=FINDERS_MAX {
            finders.note(hash(number), number.to_string());
        }
        assert_eq!(finders.of(&hash(0)), None);
        assert_eq!(finders.of(&hash(1)).as_deref(), Some("1"));
        assert_eq!(finders.of(&hash(FINDERS_MAX)).as_deref(), Some("256"));
    }
}
