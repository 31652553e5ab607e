//! Headers first: headers and blocks of a random forest come in a random order. The head is always
//! that of a simple model: the heaviest valid chain whose bodies are all here, and the first seen
//! among equals.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chain::import::{BlockId, ForkLimits, ImportError, Imported};
use chain::{ChainSpec, View};
use primitives::{B256, Block, Header, U256};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::common::{Maker, Node, Plan, account, rows, sign, unsigned};
use crate::scenes::check_faults;

pub(crate) fn id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

pub(crate) fn headers(blocks: &[Block]) -> Vec<Header> {
    blocks.iter().map(|block| block.header.clone()).collect()
}

impl Node {
    /// A node with other limits.
    pub(crate) fn limited(spec: &Arc<ChainSpec>, limits: ForkLimits) -> Self {
        let node = Self::new(spec);
        Self {
            importer: node.importer.with_limits(limits),
            store: node.store,
        }
    }

    /// Imports headers, each the parent of the next one. Returns how many are new.
    pub(crate) fn import_headers(&self, headers: Vec<Header>) -> Result<usize, ImportError> {
        let view = self.store.snapshot().expect("snapshot");
        let checked = self.importer.check_headers(&*view, headers, None)?;
        self.importer.import_headers(&checked).map(|done| done.added)
    }

    pub(crate) fn view(&self, spec: &Arc<ChainSpec>) -> View {
        View::new(&self.store, spec.clone()).expect("a store with a head")
    }
}

/// A block of the forest.
#[derive(Clone, Debug)]
struct RandomBlock {
    /// The parent, counted back from the newest block.
    parent: usize,
    /// Whether its state root is wrong.
    is_wrong: bool,
}

/// The next block or headers that come in.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Block(usize),
    /// The headers that lead to a block: the last ones, so many.
    Headers(usize, usize),
}

fn random_block() -> impl Strategy<Value = RandomBlock> {
    let parent = prop_oneof![6 => Just(0usize), 4 => 0..10usize];
    let is_wrong = prop_oneof![12 => Just(false), 1 => Just(true)];
    (parent, is_wrong).prop_map(|(parent, is_wrong)| RandomBlock { parent, is_wrong })
}

fn arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        4 => (0..64usize).prop_map(Arrival::Block),
        1 => (0..64usize, 1..6usize).prop_map(|(last, count)| Arrival::Headers(last, count)),
    ]
}

/// The blocks of the forest. A child of an invalid block is invalid, too.
struct Forest {
    blocks: Vec<Block>,
    /// Index of each block by hash.
    indexes: HashMap<B256, usize>,
    wrong: HashSet<B256>,
}

impl Forest {
    fn grow(maker: &mut Maker, plan: &[RandomBlock]) -> Self {
        let mut forest = Self {
            blocks: Vec::new(),
            indexes: HashMap::new(),
            wrong: HashSet::new(),
        };
        // Each block is made on the valid twin of its parent, because nothing can be executed on an
        // invalid one. Index 0 is block 0.
        let mut twins = vec![maker.genesis];
        let mut hashes = vec![maker.genesis];
        for (mark, random) in plan.iter().enumerate() {
            let parent = hashes.len() - 1 - random.parent.min(hashes.len() - 1);
            let depth = maker.path(twins[parent]).len() as u64;
            let transfer = sign(0, &unsigned(depth, Some(account(1 + mark % 9)), 1, &[]));
            let plan = Plan {
                transactions: vec![transfer],
                ..Plan::marked(mark as u8)
            };
            let twin = maker.block(twins[parent], plan);
            let mut block = twin.clone();
            block.header.parent_hash = hashes[parent];
            if random.is_wrong {
                block.header.state_root.0[0] ^= 1;
                forest.wrong.insert(block.hash());
            }
            let hash = block.hash();
            twins.push(twin.hash());
            hashes.push(hash);
            forest.indexes.insert(hash, forest.blocks.len());
            forest.blocks.push(block);
        }
        forest
    }

    fn get(&self, hash: &B256) -> Option<&Block> {
        self.indexes.get(hash).map(|index| &self.blocks[*index])
    }

    /// The blocks from block 1 to `tip`.
    fn path(&self, tip: &B256) -> Vec<&Block> {
        let (mut path, mut hash) = (Vec::new(), *tip);
        while let Some(block) = self.get(&hash) {
            path.push(block);
            hash = block.header.parent_hash;
        }
        path.reverse();
        path
    }

    fn builds_on(&self, block: &B256, ancestor: &B256) -> bool {
        self.path(block).iter().any(|one| one.hash() == *ancestor)
    }

    /// All blocks have the same difficulty.
    fn weight(&self, tip: &B256) -> usize {
        self.path(tip).len()
    }
}

/// The blocks and headers that a node should know.
struct Model<'a> {
    forest: &'a Forest,
    /// Whether the block is stored, for each known header.
    known: HashMap<B256, bool>,
    bad: HashSet<B256>,
    head: B256,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Known,
    Side,
    Head,
    Refused,
}

impl Model<'_> {
    fn block(&mut self, block: &Block) -> Outcome {
        let (hash, parent) = (block.hash(), block.header.parent_hash);
        if self.bad.contains(&hash) || self.bad.contains(&parent) {
            return Outcome::Refused;
        }
        if self.known.get(&hash) == Some(&true) {
            return Outcome::Known;
        }
        if self.known.get(&parent) != Some(&true) {
            return Outcome::Refused;
        }
        if self.forest.weight(&hash) <= self.forest.weight(&self.head) {
            self.known.insert(hash, true);
            return Outcome::Side;
        }
        let path = self.forest.path(&hash);
        let wrong = path.iter().find(|one| self.forest.wrong.contains(&one.hash()));
        if let Some(wrong) = wrong {
            let wrong = wrong.hash();
            let gone = |one: &B256| self.forest.builds_on(one, &wrong);
            self.bad.extend(self.known.keys().filter(|one| gone(one)));
            self.bad.insert(wrong);
            self.known.retain(|one, _| !self.forest.builds_on(one, &wrong));
            return Outcome::Refused;
        }
        self.known.insert(hash, true);
        self.head = hash;
        Outcome::Head
    }

    /// Whether headers are taken.
    fn headers(&mut self, run: &[Block]) -> bool {
        let Some(first) = run.first() else { return true };
        let parent = first.header.parent_hash;
        let is_bad = |hash: &B256| self.bad.contains(hash);
        if is_bad(&parent) || !self.known.contains_key(&parent) || run.iter().any(|one| is_bad(&one.hash())) {
            return false;
        }
        for block in run {
            self.known.entry(block.hash()).or_insert(false);
        }
        true
    }

    /// Compares what the node knows with the model.
    fn assert_same(&self, node: &Node, spec: &Arc<ChainSpec>) {
        assert_eq!(node.head(), self.head);
        let view = node.view(spec);
        for block in &self.forest.blocks {
            let hash = block.hash();
            let known = view.known_header(&hash).expect("read");
            assert_eq!(
                known.as_ref().map(|known| known.has_body),
                self.known.get(&hash).copied()
            );
            let stored = view.block_by_hash(&hash).expect("read");
            assert_eq!(stored.is_some(), self.known.get(&hash) == Some(&true));
            if let Some(known) = known {
                let weight = U256::from(512 * (self.forest.weight(&hash) + 1));
                assert_eq!(
                    (known.total_difficulty, known.header),
                    (weight, block.header.clone())
                );
            }
        }
        let best = view.best_header().expect("read");
        let heaviest = self.known.keys().map(|hash| self.forest.weight(hash)).max();
        let head_weight = self.forest.weight(&self.head);
        assert_eq!(
            self.forest.weight(&best.hash),
            heaviest.unwrap_or(0).max(head_weight)
        );
        if heaviest.unwrap_or(0) <= head_weight {
            assert_eq!(best.hash, self.head);
        }
        let path = self.forest.path(&best.hash);
        for (index, block) in path.iter().enumerate() {
            let by_number = view.best_chain_header(index as u64 + 1).expect("read");
            assert_eq!(by_number.map(|known| known.hash), Some(block.hash()));
        }
        assert_eq!(view.best_chain_header(path.len() as u64 + 1).expect("read"), None);
        let missing = path.iter().filter(|block| !self.known[&block.hash()]);
        let missing: Vec<_> = missing.map(|block| id(block)).collect();
        assert_eq!(view.missing_bodies(usize::MAX).expect("read"), missing);
        assert_eq!(
            view.missing_bodies(1).expect("read"),
            missing[..missing.len().min(1)]
        );
    }
}

fn check(plan: &[RandomBlock], arrivals: &[Arrival], part_blocks: usize) {
    let mut maker = Maker::new(ChainSpec::dev());
    let spec = maker.spec.clone();
    let forest = Forest::grow(&mut maker, plan);
    let limits = ForkLimits {
        reorg_part_blocks: part_blocks,
        ..ForkLimits::default()
    };
    let node = Node::limited(&spec, limits);
    let mut model = Model {
        forest: &forest,
        known: HashMap::from([(maker.genesis, true)]),
        bad: HashSet::new(),
        head: maker.genesis,
    };
    // In the end everything comes once more from the bottom up, so that the heaviest valid chain
    // wins.
    let again = (0..forest.blocks.len()).map(Arrival::Block);
    for arrival in arrivals.iter().copied().chain(again) {
        match arrival {
            Arrival::Block(index) => {
                let block = &forest.blocks[index % forest.blocks.len()];
                let outcome = match node.import(block) {
                    Ok(Imported::Known) => Outcome::Known,
                    Ok(Imported::Side) => Outcome::Side,
                    Ok(Imported::Head { .. }) => Outcome::Head,
                    Ok(Imported::Later) => panic!("there is no clock"),
                    Err(error) => {
                        assert!(error.store_error().is_none(), "{error}");
                        Outcome::Refused
                    }
                };
                assert_eq!(outcome, model.block(block), "{arrival:?}");
            }
            Arrival::Headers(last, count) => {
                let path = forest.path(&forest.blocks[last % forest.blocks.len()].hash());
                let run: Vec<Block> = path[path.len().saturating_sub(count)..]
                    .iter()
                    .map(|block| (*block).clone())
                    .collect();
                let taken = node.import_headers(headers(&run));
                assert_eq!(taken.is_ok(), model.headers(&run), "{arrival:?}: {taken:?}");
            }
        }
        model.assert_same(&node, &spec);
    }
    assert_eq!(check_faults(&node.store, &spec, false).1, []);
    let (got, fresh) = (node.rows(), rows(&maker.fresh(node.head())));
    for table in [
        "account_by_hash",
        "storage_by_hash",
        "state_history_by_hash",
        "path_to_branch",
        "number_to_hash",
    ] {
        assert!(got[table] == fresh[table], "{table} differs from a fresh import");
    }
}

proptest! {
    #![proptest_config(Config { cases: 48, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_head_is_that_of_the_model(
        plan in proptest::collection::vec(random_block(), 1..24),
        arrivals in proptest::collection::vec(arrival(), 0..60),
        part_blocks in 1..6usize,
    ) {
        check(&plan, &arrivals, part_blocks);
    }
}
