//! Which blocks the import refuses, stores as side blocks, and makes the head. A refusal leaves
//! every row of every table as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::evm::execute::TransactionError;
use chain::import::{BlockId, ImportError, Imported};
use chain::rules::HeaderError;
use chain::rules::body::{BodyError, SenderError, transactions_root};
use chain::rules::seal::SealCheck;
use chain::{ChainSpec, View};
use ethash::{LightCaches, SealError};
use primitives::{B256, Block, Bloom, Header, Transaction, TxForm, U256, uncles_hash};
use store::TableId;

use crate::common::{Maker, Node, Plan, account, coins, easy_spec, key, sign, unsigned};

fn id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

fn head(reverted: &[Block], applied: &[Block]) -> Imported {
    Imported::Head {
        reverted: reverted.iter().rev().map(id).collect(),
        applied: applied.iter().map(id).collect(),
    }
}

/// A node with nine blocks and a side block, and a valid tenth block which the tests alter.
struct Scene {
    maker: Maker,
    node: Node,
    blocks: Vec<Block>,
    valid: Block,
}

impl Scene {
    fn new() -> Self {
        let mut maker = Maker::new(ChainSpec::dev());
        let blocks = maker.line(maker.genesis, 9, 1);
        let side = maker.block(blocks[7].header.parent_hash, Plan::marked(2));
        let transfer = sign(0, &unsigned(0, Some(account(1)), 5, &[]));
        // The init code runs LOG0 with one byte, so that the block has a log.
        let logger = sign(0, &unsigned(1, None, 0, &[0x60, 1, 0x60, 0, 0xa0]));
        let valid = maker.block(blocks[8].hash(), Plan::with(vec![transfer, logger]));
        let node = Node::new(&maker.spec);
        node.take(&blocks);
        assert_eq!(node.import(&side).expect("valid"), Imported::Side);
        Self {
            maker,
            node,
            blocks,
            valid,
        }
    }

    /// Alters the valid block. The node must refuse it and change no row. Returns the error.
    fn refused(&self, alter: impl FnOnce(&mut Block)) -> ImportError {
        let mut block = self.valid.clone();
        alter(&mut block);
        let (before, at) = (self.node.rows(), self.node.head());
        let error = self.node.import(&block).expect_err("an altered block");
        assert!(before == self.node.rows(), "{error} left something behind");
        assert_eq!(self.node.head(), at);
        assert!(!error.to_string().is_empty());
        error
    }

    fn with_transactions(&self, transactions: Vec<Transaction>) -> ImportError {
        self.refused(|block| {
            block.header.transactions_root = transactions_root(&transactions);
            block.transactions = transactions;
        })
    }

    fn with_uncles(&self, uncles: &[&Header]) -> ImportError {
        self.refused(|block| {
            block.uncles = uncles.iter().copied().cloned().collect();
            block.header.uncles_hash = uncles_hash(&block.uncles);
        })
    }
}

macro_rules! assert_is {
    ($got:expr, $pattern:pat) => {
        let got = $got;
        assert!(matches!(got, $pattern), "{got:?}");
    };
}

#[test]
fn headers_that_are_refused() {
    use ImportError::Header as H;
    let scene = Scene::new();
    let header = |alter: &dyn Fn(&mut Header)| scene.refused(|block| alter(&mut block.header));
    assert_is!(
        header(&|h| h.parent_hash = B256::repeat_byte(1)),
        ImportError::UnknownParent(_)
    );
    assert_is!(header(&|h| h.number += 1), H(HeaderError::Number { .. }));
    assert_is!(header(&|h| h.timestamp -= 1), H(HeaderError::Timestamp { .. }));
    assert_is!(
        header(&|h| h.gas_limit += 9_000_000 / 1024),
        H(HeaderError::GasLimit { .. })
    );
    assert_is!(
        header(&|h| h.gas_limit -= 9_000_000 / 1024),
        H(HeaderError::GasLimit { .. })
    );
    assert_is!(
        header(&|h| h.gas_used = h.gas_limit + 1),
        H(HeaderError::GasUsed { .. })
    );
    assert_is!(
        header(&|h| h.difficulty += U256::from(1)),
        H(HeaderError::Difficulty { .. })
    );
    assert_is!(
        header(&|h| h.difficulty = U256::ZERO),
        H(HeaderError::Difficulty { .. })
    );
    assert_is!(
        header(&|h| h.extra_data = vec![0; 33].into()),
        H(HeaderError::ExtraData { .. })
    );
    let valid = &scene.valid;
    let early = scene
        .node
        .importer
        .import(valid, Some(valid.header.timestamp - 1));
    assert_is!(early, Err(H(HeaderError::Future { .. })));
    let in_time = scene.node.importer.import(valid, Some(valid.header.timestamp));
    assert_eq!(in_time.expect("valid"), head(&[], std::slice::from_ref(valid)));
}

#[test]
fn roots_bloom_and_gas_are_recomputed() {
    let scene = Scene::new();
    let header = |alter: &dyn Fn(&mut Header)| scene.refused(|block| alter(&mut block.header));
    assert_is!(header(&|h| h.state_root.0[0] ^= 1), ImportError::StateRoot { .. });
    assert_is!(
        header(&|h| h.receipts_root.0[0] ^= 1),
        ImportError::ReceiptsRoot { .. }
    );
    assert_is!(header(&|h| h.logs_bloom = Bloom::ZERO), ImportError::Bloom { .. });
    assert_is!(header(&|h| h.gas_used -= 1), ImportError::GasUsed { .. });
    assert_is!(
        header(&|h| h.beneficiary.0[0] ^= 1),
        ImportError::StateRoot { .. }
    );
    let root = header(&|h| h.transactions_root.0[0] ^= 1);
    assert_is!(root, ImportError::Body(BodyError::TransactionsRoot { .. }));
    let uncles = header(&|h| h.uncles_hash.0[0] ^= 1);
    assert_is!(uncles, ImportError::Body(BodyError::UnclesHash { .. }));
    let fewer = scene.refused(|block| drop(block.transactions.pop()));
    assert_is!(fewer, ImportError::Body(BodyError::TransactionsRoot { .. }));
    scene.node.import(&scene.valid).expect("valid");
}

#[test]
fn transactions_that_are_refused() {
    use ImportError::Transaction as T;
    let scene = Scene::new();
    let one = |transaction: Transaction| scene.with_transactions(vec![transaction]);
    let plain = unsigned(0, Some(account(1)), 5, &[]);
    let altered = |change: &dyn Fn(&mut primitives::UnsignedTransaction)| {
        let mut plain = plain.clone();
        change(&mut plain);
        one(sign(0, &plain))
    };
    let foreign = one(plain.sign(&key(0), 101, TxForm::Native));
    assert_is!(
        foreign,
        ImportError::Body(BodyError::Sender {
            index: 0,
            error: SenderError::ChainId { got: Some(101), .. }
        })
    );
    let mut broken = sign(0, &plain);
    broken.r = U256::ZERO;
    assert_is!(
        one(broken),
        ImportError::Body(BodyError::Sender {
            error: SenderError::Signature(_),
            ..
        })
    );
    let mut high_s = sign(0, &plain);
    high_s.s = primitives::SECP256K1_ORDER - high_s.s;
    // v has the other recovery id: the two values of v are 35 and 36 plus twice the chain id.
    high_s.v = U256::from(71 + 400) - high_s.v;
    let second = scene.with_transactions(vec![sign(0, &plain), high_s]);
    assert_is!(
        second,
        ImportError::Body(BodyError::Sender {
            index: 1,
            error: SenderError::Signature(_)
        })
    );
    let system = one(Transaction::system(0));
    assert_is!(
        system,
        ImportError::Body(BodyError::Sender {
            error: SenderError::System,
            ..
        })
    );
    assert_is!(
        altered(&|t| t.syscnt = 1),
        ImportError::Body(BodyError::Sender {
            error: SenderError::System,
            ..
        })
    );
    assert_is!(
        altered(&|t| t.tx_nonce = 1),
        T {
            error: TransactionError::NonceTooHigh { got: 1, expected: 0 },
            ..
        }
    );
    assert_is!(
        altered(&|t| t.gas = 999),
        T {
            error: TransactionError::IntrinsicGas {
                got: 999,
                expected: 1000
            },
            ..
        }
    );
    assert_is!(
        altered(&|t| t.gas = 9_000_001),
        T {
            error: TransactionError::BlockGas { left: 9_000_000, .. },
            ..
        }
    );
    assert_is!(
        altered(&|t| t.value = coins(1_000_000)),
        T {
            error: TransactionError::Funds { .. },
            ..
        }
    );
    assert_is!(
        altered(&|t| t.gas_price = U256::MAX),
        T {
            error: TransactionError::Other(_),
            ..
        }
    );
    let twice = scene.with_transactions(vec![sign(0, &plain), sign(0, &plain)]);
    assert_is!(
        twice,
        T {
            index: 1,
            error: TransactionError::NonceTooLow { got: 0, expected: 1 },
            ..
        }
    );
}

#[test]
fn an_uncle_needs_no_hash_that_the_network_demands_of_blocks() {
    let mut maker = Maker::new(ChainSpec::dev());
    let main = maker.line(maker.genesis, 3, 1);
    let beside = maker.block(main[1].hash(), Plan::marked(2));
    let mut with_uncle = Plan::marked(1);
    with_uncle.uncles = vec![beside.header.clone()];
    let nephew = maker.block(main[2].hash(), with_uncle);
    let spec = ChainSpec {
        required_hashes: BTreeMap::from([(3, main[2].hash())]),
        ..ChainSpec::dev()
    };
    let node = Node::new(&Arc::new(spec));
    node.take(&main[..2]);
    assert_is!(
        node.import(&beside),
        Err(ImportError::Header(HeaderError::RequiredHash { number: 3, .. }))
    );
    node.take(&[main[2].clone(), nephew.clone()]);
    assert_eq!(node.head(), nephew.hash());
}

#[test]
fn uncles_that_are_refused() {
    use ImportError::Body as B;
    let mut scene = Scene::new();
    // A side block on each of the last nine ancestors. The node does not know these blocks.
    let parents: Vec<B256> = scene
        .blocks
        .iter()
        .map(|block| block.header.parent_hash)
        .collect();
    let mut uncle_on = |index: usize| scene.maker.block(parents[index], Plan::marked(3)).header;
    let uncles: Vec<Header> = (0..9).map(&mut uncle_on).collect();
    let sibling = scene.maker.block(scene.blocks[8].hash(), Plan::marked(4)).header;
    // The block is number 10; its uncles have numbers 4 to 9.
    let three = [&uncles[6], &uncles[7], &uncles[8]];
    assert_is!(
        scene.with_uncles(&three),
        B(BodyError::UncleCount { got: 3, max: 2 })
    );
    assert_is!(
        scene.with_uncles(&[&uncles[8], &uncles[8]]),
        B(BodyError::UncleTwice(_))
    );
    assert_is!(
        scene.with_uncles(&[&scene.blocks[7].header]),
        B(BodyError::UncleIsAncestor(_))
    );
    assert_is!(scene.with_uncles(&[&sibling]), B(BodyError::UncleParent(_)));
    assert_is!(scene.with_uncles(&[&uncles[2]]), B(BodyError::UncleParent(_)));
    let mut orphan = uncles[8].clone();
    orphan.parent_hash = B256::repeat_byte(5);
    assert_is!(scene.with_uncles(&[&orphan]), B(BodyError::UncleParent(_)));
    let mut heavy = uncles[8].clone();
    heavy.difficulty += U256::from(1);
    let got = scene.with_uncles(&[&heavy]);
    assert_is!(
        got,
        B(BodyError::UncleHeader {
            error: HeaderError::Difficulty { .. },
            ..
        })
    );
    for (number, uncle) in [(9, &uncles[8]), (4, &uncles[3])] {
        let mut plan = Plan::marked(6);
        plan.uncles = vec![uncle.clone()];
        assert_eq!(uncle.number, number);
        let block = scene.maker.block(scene.blocks[8].hash(), plan);
        assert!(scene.node.import(&block).is_ok(), "uncle {number} is near enough");
    }
    // An uncle can be included only once on a branch.
    let included = scene.node.head();
    let mut again = scene.maker.block(included, Plan::marked(7));
    again.uncles = vec![uncles[8].clone()];
    again.header.uncles_hash = uncles_hash(&again.uncles);
    assert_is!(scene.node.import(&again), Err(B(BodyError::UncleTwice(_))));
}

#[test]
fn seals_are_checked_on_blocks_and_uncles() {
    let caches = LightCaches::with_sizes(1024, 32 * 1024);
    let cache = caches.get(ethash::Epoch::ethash(0)).expect("a small cache");
    let seal = |header: &mut Header, good: bool| {
        let (hash, boundary) = (header.header_hash(), ethash::boundary(&header.difficulty));
        let tried = (0..).map(|nonce| (nonce, cache.hash(&hash, nonce)));
        let (nonce, found) = tried
            .into_iter()
            .find(|(_, found)| ethash::meets_boundary(&found.final_hash, &boundary) == good)
            .expect("there is one");
        (header.pow_nonce, header.mix_hash) = (nonce, found.mix_hash);
    };
    let mut maker = Maker::new(easy_spec());
    let node = Node::with_seals(&maker.spec, SealCheck::Ethash(caches));
    let empty = node.rows();
    let mut first = maker.block(maker.genesis, Plan::default());
    assert_is!(node.import(&first), Err(ImportError::Seal(_)));
    seal(&mut first.header, false);
    let above = node.import(&first);
    assert_is!(
        above,
        Err(ImportError::Seal(chain::rules::seal::SealCheckError::Seal(
            SealError::AboveBoundary { .. }
        )))
    );
    seal(&mut first.header, true);
    let mut mixed = first.clone();
    mixed.header.mix_hash.0[0] ^= 1;
    assert_is!(node.import(&mixed), Err(ImportError::Seal(_)));
    assert!(empty == node.rows());
    assert_eq!(
        node.import(&first).expect("sealed"),
        head(&[], std::slice::from_ref(&first))
    );

    maker.blocks.insert(first.hash(), first.clone());
    let mut uncle = maker.block(maker.genesis, Plan::marked(1)).header;
    for good in [false, true] {
        seal(&mut uncle, good);
        let mut plan = Plan::marked(2);
        plan.uncles = vec![uncle.clone()];
        // The maker does not check seals, so only the node checks the uncle's seal.
        let mut block = maker.block(first.hash(), plan);
        seal(&mut block.header, true);
        let got = node.import(&block);
        if good {
            assert!(matches!(got, Ok(Imported::Head { .. })), "{got:?}");
        } else {
            assert_is!(got, Err(ImportError::Body(BodyError::UncleSeal { .. })));
        }
    }
}

#[test]
fn known_side_and_heavier() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::new(&maker.spec);
    let a = maker.line(maker.genesis, 3, 1);
    let b = maker.line(maker.genesis, 4, 2);
    node.take(&a);
    let before = node.rows();
    for block in &a {
        assert_eq!(node.import(block).expect("known"), Imported::Known);
    }
    assert!(before == node.rows());
    assert_is!(node.import(&b[1]), Err(ImportError::UnknownParent(_)));
    // The branch is lighter, then equally heavy: the block that was seen first stays the head.
    for block in &b[..3] {
        assert_eq!(node.import(block).expect("valid"), Imported::Side);
        assert_eq!(node.import(block).expect("known"), Imported::Known);
        assert_eq!(node.head(), a[2].hash());
    }
    assert_eq!(node.import(&b[3]).expect("heavier"), head(&a, &b));
    assert_eq!(node.head(), b[3].hash());
    let fresh = crate::common::rows(&maker.fresh(b[3].hash()));
    for table in [
        "account_by_hash",
        "state_history_by_hash",
        "block_to_changes",
        "path_to_branch",
        "number_to_hash",
        "meta",
    ] {
        assert!(
            fresh[table] == node.rows()[table],
            "{table} is as if there were no other branch"
        );
    }
    // The first branch becomes the heavier one again.
    let more = maker.line(a[2].hash(), 2, 3);
    assert_eq!(node.import(&more[0]).expect("as heavy"), Imported::Side);
    let all: Vec<Block> = a.iter().chain(&more).cloned().collect();
    assert_eq!(node.import(&more[1]).expect("heavier"), head(&b, &all));
}

#[test]
fn a_branch_is_executed_when_it_becomes_the_heavier_one() {
    const LENGTH: usize = 12;
    let mut maker = Maker::new(ChainSpec::dev());
    let main = maker.line(maker.genesis, LENGTH, 1);
    let branch = maker.line(maker.genesis, LENGTH + 1, 2);
    let node = Node::new(&maker.spec);
    node.take(&main);
    // The same branch with a wrong state root in its middle. Later blocks have the new parent
    // hashes.
    let mut altered = branch.clone();
    altered[9].header.state_root.0[0] ^= 1;
    for index in 10..altered.len() {
        altered[index].header.parent_hash = altered[index - 1].hash();
    }
    for block in &altered[..LENGTH] {
        assert_eq!(node.import(block).expect("not executed yet"), Imported::Side);
    }
    let refused = |block: &Block| {
        let error = node.import(block).expect_err("a branch with an invalid block");
        assert_eq!(node.head(), main[LENGTH - 1].hash());
        match error {
            ImportError::Branch {
                number: 10,
                hash,
                error,
            } if hash == altered[9].hash() => *error,
            other => panic!("{other} is not about block 10"),
        }
    };
    assert_is!(refused(&altered[LENGTH]), ImportError::StateRoot { .. });
    // From then on the invalid block is not executed again for any block of its branch.
    let after = node.rows();
    assert_is!(node.import(&altered[9]), Err(ImportError::KnownInvalid { .. }));
    let mut other = altered[10].clone();
    other.header.extra_data = vec![7].into();
    let error = refused(&other);
    assert!(
        error.to_string().contains("refused before: state root: got"),
        "{error}"
    );
    assert!(after == node.rows());
    // The valid branch becomes the canonical chain.
    for block in &branch[..LENGTH] {
        node.import(block).expect("valid");
    }
    assert_eq!(
        node.import(&branch[LENGTH]).expect("heavier"),
        head(&main, &branch)
    );
    let next = maker.line(branch[LENGTH].hash(), 1, 5);
    assert_eq!(node.import(&next[0]).expect("valid"), head(&[], &next));
}

#[test]
fn of_transactions_whose_positions_share_a_row_the_right_one_is_found() {
    let mut maker = Maker::new(easy_spec());
    let transfer = |nonce| sign(1, &unsigned(nonce, Some(account(2)), 1, &[]));
    let block = maker.block(maker.genesis, Plan::with(vec![transfer(0), transfer(1)]));
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&block));
    let wanted = block.transactions[1].hash();
    let batch = node.store.batch().expect("batch");
    batch
        .write(|tables| tables.put(TableId::TransactionToPosition, &wanted[..8], &[1, 0, 1, 1]))
        .expect("written");
    batch.commit().expect("committed");
    let view = View::new(&node.store, maker.spec.clone()).expect("view");
    assert_eq!(view.transaction_positions(&wanted).expect("read").len(), 2);
    let (_, index) = view.transaction(&wanted).expect("read").expect("found");
    assert_eq!(index, 1);
    // The same first bytes, and no such transaction.
    let mut absent = wanted;
    absent[31] ^= 1;
    assert!(view.transaction(&absent).expect("read").is_none());
}
