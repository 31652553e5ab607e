//! Everything that is known beside the canonical chain: side blocks and bare headers, as a tree.
//!
//! The tree is read from the store when it is needed: when there is too much of it, when a branch
//! is too old, and when a block has turned out invalid. Knows rows and weights; decides nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use primitives::{B256, U256};
use store::{HeaderReads, StoreError, Tables};

/// A side block or a bare header.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForkNode {
    pub(super) number: u64,
    pub(super) parent: B256,
    pub(super) total_difficulty: U256,
    /// Whether it is a side block.
    pub(super) has_body: bool,
}

/// Side blocks and bare headers, by hash.
#[derive(Debug, Default)]
pub(super) struct ForkTree {
    nodes: HashMap<B256, ForkNode>,
}

impl ForkTree {
    pub(super) fn read(source: &impl HeaderReads) -> Result<Self, StoreError> {
        let mut nodes = HashMap::new();
        for side in source.side_blocks()? {
            let node = ForkNode {
                number: side.number,
                parent: side.parent,
                total_difficulty: side.total_difficulty,
                has_body: true,
            };
            nodes.insert(side.hash, node);
        }
        source.for_each_bare_header(|hash, bare| {
            let node = ForkNode {
                number: bare.header.number,
                parent: bare.header.parent_hash,
                total_difficulty: bare.total_difficulty,
                has_body: false,
            };
            nodes.insert(hash, node);
        })?;
        Ok(Self { nodes })
    }

    pub(super) fn get(&self, hash: &B256) -> Option<&ForkNode> {
        self.nodes.get(hash)
    }

    /// The number of side blocks (`has_body`) or bare headers.
    pub(super) fn count(&self, has_body: bool) -> usize {
        self.nodes
            .values()
            .filter(|node| node.has_body == has_body)
            .count()
    }

    /// The hashes, ascending by number.
    fn by_number(&self) -> Vec<B256> {
        let mut hashes: Vec<_> = self.nodes.keys().copied().collect();
        hashes.sort_unstable_by_key(|hash| (self.nodes[hash].number, *hash));
        hashes
    }

    /// The bytes of each side block.
    pub(super) fn side_sizes(&self, source: &impl HeaderReads) -> Result<HashMap<B256, u64>, StoreError> {
        let sides = self.nodes.iter().filter(|(_, node)| node.has_body);
        let size =
            |(hash, node): (&B256, &ForkNode)| Ok((*hash, source.block_bytes(node.number, hash)? as u64));
        sides.map(size).collect()
    }

    /// The hash of the most total difficulty, and that difficulty. Among equals, any.
    pub(super) fn heaviest(&self) -> Option<(B256, ForkNode)> {
        let weight = |(hash, node): &(&B256, &ForkNode)| (node.total_difficulty, Reverse(**hash));
        let (hash, node) = self.nodes.iter().max_by_key(weight)?;
        Some((*hash, *node))
    }

    /// `hash` and everything that builds on it, ascending by number. `hash` itself need not be in
    /// the tree.
    pub(super) fn subtree(&self, hash: &B256) -> Vec<B256> {
        let mut inside = HashSet::from([*hash]);
        let order = self.by_number();
        let found = order.into_iter().filter(|one| {
            let is_inside = one == hash || inside.contains(&self.nodes[one].parent);
            if is_inside {
                inside.insert(*one);
            }
            is_inside
        });
        found.collect()
    }

    /// The part of the tree that `tip` builds on, with `tip`.
    pub(super) fn path(&self, tip: &B256) -> HashSet<B256> {
        let mut path = HashSet::new();
        let mut hash = *tip;
        while let Some(node) = self.nodes.get(&hash)
            && path.insert(hash)
        {
            hash = node.parent;
        }
        path
    }

    /// The blocks to remove so that `excess` side blocks (`has_body`) or bare headers are gone:
    /// ends of branches, those with the least `weight` first, and the blocks that build on them.
    /// Nothing of `keep` is among them, and only blocks that `may_go`. Each counts as its `size`:
    /// 1, or its bytes.
    pub(super) fn weakest(
        &self,
        has_body: bool,
        excess: u64,
        keep: &HashSet<B256>,
        weight: impl Fn(&B256, &ForkNode) -> U256,
        may_go: impl Fn(&ForkNode) -> bool,
        size: impl Fn(&B256) -> u64,
    ) -> Vec<B256> {
        let mut children: HashMap<B256, usize> = HashMap::new();
        // Bare headers on side blocks. They go with their side block.
        let mut hangers: HashMap<B256, Vec<B256>> = HashMap::new();
        for (hash, node) in &self.nodes {
            if node.has_body == has_body {
                *children.entry(node.parent).or_default() += 1;
            } else if has_body {
                hangers.entry(node.parent).or_default().push(*hash);
            }
        }
        let entry = |hash: B256| {
            let node = self.nodes.get(&hash)?;
            let is_candidate = node.has_body == has_body && !keep.contains(&hash) && may_go(node);
            is_candidate.then(|| Reverse((weight(&hash, node), hash)))
        };
        let ends = self.nodes.keys().filter(|hash| !children.contains_key(*hash));
        let mut heap: BinaryHeap<_> = ends.filter_map(|hash| entry(*hash)).collect();
        let (mut gone, mut removed) = (0, Vec::new());
        while gone < excess
            && let Some(Reverse((_, hash))) = heap.pop()
        {
            gone += size(&hash);
            let mut waiting = vec![hash];
            while let Some(hash) = waiting.pop() {
                removed.push(hash);
                waiting.extend(hangers.remove(&hash).into_iter().flatten());
            }
            let parent = self.nodes[&hash].parent;
            if let Some(left) = children.get_mut(&parent) {
                *left -= 1;
                if *left == 0 {
                    heap.extend(entry(parent));
                }
            }
        }
        removed
    }

    /// The most total difficulty of each side block and the bare headers that build on it.
    pub(super) fn weights_with_headers(&self) -> HashMap<B256, U256> {
        let mut weights: HashMap<B256, U256> = HashMap::new();
        for hash in self.by_number().into_iter().rev() {
            let node = &self.nodes[&hash];
            let weight = weights.get(&hash).copied().unwrap_or_default();
            let weight = weight.max(node.total_difficulty);
            weights.insert(hash, weight);
            if !node.has_body {
                let parent = weights.entry(node.parent).or_default();
                *parent = (*parent).max(weight);
            }
        }
        weights
    }

    /// The work of each branch: the difficulty that was added since it left the canonical chain.
    pub(super) fn own_work(&self, source: &impl HeaderReads) -> Result<HashMap<B256, U256>, StoreError> {
        let mut bases: HashMap<B256, U256> = HashMap::new();
        let mut work = HashMap::new();
        for hash in self.by_number() {
            let node = &self.nodes[&hash];
            let base = match bases.get(&node.parent) {
                Some(base) => *base,
                None => source
                    .known_header(&node.parent)?
                    .map_or(U256::ZERO, |parent| parent.total_difficulty),
            };
            bases.insert(hash, base);
            work.insert(hash, node.total_difficulty.saturating_sub(base));
        }
        Ok(work)
    }

    /// Removes rows and nodes of side blocks and bare headers.
    pub(super) fn remove(&mut self, tables: &mut Tables<'_>, hashes: &[B256]) -> Result<(), StoreError> {
        for hash in hashes {
            match self.nodes.remove(hash) {
                Some(node) if node.has_body => tables.delete_side_block(node.number, hash)?,
                Some(_) => tables.delete_bare_header(hash)?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(mark: u8) -> B256 {
        B256::repeat_byte(mark)
    }

    /// Nodes as (mark, mark of the parent, number, total difficulty, side block).
    fn tree(nodes: &[(u8, u8, u64, u64, bool)]) -> ForkTree {
        let node = |&(mark, parent, number, difficulty, has_body): &(u8, u8, u64, u64, bool)| {
            let node = ForkNode {
                number,
                parent: hash(parent),
                total_difficulty: U256::from(difficulty),
                has_body,
            };
            (hash(mark), node)
        };
        ForkTree {
            nodes: nodes.iter().map(node).collect(),
        }
    }

    /// Side blocks 1, 2, 3 and 4, and on 3 the bare headers 5 and 6; a bare header 7 on the chain.
    fn scene() -> ForkTree {
        tree(&[
            (1, 0, 5, 50, true),
            (2, 1, 6, 60, true),
            (3, 1, 6, 55, true),
            (4, 0, 5, 52, true),
            (5, 3, 7, 90, false),
            (6, 5, 8, 95, false),
            (7, 0, 9, 91, false),
        ])
    }

    fn marks(hashes: Vec<B256>) -> Vec<u8> {
        hashes.into_iter().map(|hash| hash[0]).collect()
    }

    #[test]
    fn what_builds_on_a_block_goes_with_it() {
        let tree = scene();
        assert_eq!(marks(tree.subtree(&hash(1))), [1, 2, 3, 5, 6]);
        assert_eq!(marks(tree.subtree(&hash(0))), [1, 4, 2, 3, 5, 6, 7]);
        assert!(tree.subtree(&hash(9)).is_empty());
        assert_eq!(tree.heaviest().map(|(hash, _)| hash), Some(hash(6)));
        assert_eq!(tree.path(&hash(6)), HashSet::from([1, 3, 5, 6].map(hash)));
    }

    #[test]
    fn the_weakest_ends_go_first() {
        let tree = scene();
        let weights = tree.weights_with_headers();
        let sides = |excess, keep: &[u8]| {
            let keep = keep.iter().map(|mark| hash(*mark)).collect();
            marks(tree.weakest(true, excess, &keep, |hash, _| weights[hash], |_| true, |_| 1))
        };
        // Side block 3 counts as 95, because of the headers on it.
        assert_eq!(sides(1, &[]), [4]);
        assert_eq!(sides(2, &[]), [4, 2]);
        assert_eq!(sides(3, &[]), [4, 2, 3, 5, 6]);
        assert_eq!(sides(9, &[]), [4, 2, 3, 5, 6, 1]);
        assert_eq!(sides(9, &[1, 4]), [2, 3, 5, 6]);
        let bare = |may_go: fn(&ForkNode) -> bool| {
            let weight = |_: &B256, node: &ForkNode| node.total_difficulty;
            marks(tree.weakest(false, 9, &HashSet::new(), weight, may_go, |_| 1))
        };
        assert_eq!(bare(|_| true), [7, 6, 5]);
        assert_eq!(bare(|node| node.number < 9), [6, 5]);
        // Block 4 is large enough for both.
        let weight = |hash: &B256, _: &ForkNode| weights[hash];
        let size = |hash: &B256| if hash[0] == 4 { 100 } else { 1 };
        let large = tree.weakest(true, 2, &HashSet::new(), weight, |_| true, size);
        assert_eq!(marks(large), [4]);
    }
}
