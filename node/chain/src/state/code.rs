//! Contract code in memory: what was read, within a bound, and what was created since the last
//! save.
//!
//! This module knows codes and their hashes, but neither accounts nor the store.

use primitives::B256;
use revm::bytecode::Bytecode;
use revm::primitives::B256Map;

/// If the code that was read takes more bytes than this, it is forgotten.
const READ_CODE_BYTES_MAX: usize = 16 << 20;

/// Contract code by hash.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeCache {
    /// Code that the source has. It may be forgotten at any time.
    read: CodeMap,
    /// Code that the source may lack.
    unsaved: CodeMap,
}

/// Codes, and the sum of their lengths.
#[derive(Clone, Debug, Default)]
struct CodeMap {
    codes: B256Map<Bytecode>,
    bytes: usize,
}

impl CodeMap {
    fn insert(&mut self, hash: B256, code: Bytecode) {
        let bytes = code.original_byte_slice().len();
        if self.codes.insert(hash, code).is_none() {
            self.bytes += bytes;
        }
    }
}

impl CodeCache {
    pub(super) fn get(&self, hash: &B256) -> Option<&Bytecode> {
        self.read.codes.get(hash).or_else(|| self.unsaved.codes.get(hash))
    }

    /// Keeps code that the source has. May forget other such code.
    pub(super) fn keep_read(&mut self, hash: B256, code: Bytecode) {
        if self.read.bytes > READ_CODE_BYTES_MAX {
            self.read = CodeMap::default();
        }
        self.read.insert(hash, code);
    }

    /// Keeps code that a block has created until [`Self::save`].
    pub(super) fn keep_created(&mut self, hash: B256, code: Bytecode) {
        self.unsaved.insert(hash, code);
    }

    /// From now on the source has all code.
    pub(super) fn save(&mut self) {
        for (hash, code) in std::mem::take(&mut self.unsaved).codes {
            self.keep_read(hash, code);
        }
    }

    /// Bytes of all code in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.read.bytes + self.unsaved.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_was_read_is_bounded_and_created_code_stays() {
        const LEN: usize = READ_CODE_BYTES_MAX / 4;
        let code = |mark: u8| Bytecode::new_legacy(vec![mark; LEN].into());
        let hash = B256::repeat_byte;
        let mut cache = CodeCache::default();
        cache.keep_created(hash(200), code(200));
        for mark in 0..20 {
            cache.keep_read(hash(mark), code(mark));
            cache.keep_read(hash(mark), code(mark));
            assert!(cache.get(&hash(mark)).is_some());
            assert!(cache.get(&hash(200)).is_some());
            assert!(cache.bytes() <= READ_CODE_BYTES_MAX + 2 * LEN, "{mark}");
        }
        cache.save();
        assert!(cache.unsaved.codes.is_empty());
        for mark in 0..20 {
            cache.keep_read(hash(mark), code(mark));
        }
        assert!(cache.get(&hash(200)).is_none(), "the source has it");
    }
}
