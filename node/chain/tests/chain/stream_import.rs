//! Streams of blocks: an import by runs writes the same rows as an import block by block, whatever
//! the stream contains and wherever it ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chain::ChainSpec;
use chain::import::ImportError;
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_stream};
use chain::rules::HeaderError;
use chain::rules::seal::SealCheck;
use ethash::LightCaches;
use primitives::Block;

use crate::common::{Maker, Node, Plan, account, sign, unsigned};

fn encode(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(Block::encode).collect()
}

fn import(node: &Node, bytes: Vec<u8>) -> (StreamImportProgress, Result<(), StreamImportError>) {
    let mut last = StreamImportProgress::default();
    let input = Box::new(std::io::Cursor::new(bytes));
    let result = import_stream(&node.importer, input, &AtomicBool::new(false), |now| last = *now);
    (last, result)
}

/// Block 0 and `count` blocks with transfers after it.
fn chain(count: u64) -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(ChainSpec::dev());
    let mut blocks = vec![genesis_block(&maker.spec)];
    for number in 0..count {
        let tip = blocks.last().expect("a block").hash();
        let transfer = |from: usize| sign(from, &unsigned(number, Some(account(from + 1)), 5, &[]));
        blocks.push(maker.block(tip, Plan::with((0..3).map(transfer).collect())));
    }
    (maker, blocks)
}

fn genesis_block(spec: &ChainSpec) -> Block {
    Block {
        header: chain::genesis::genesis_header(spec),
        transactions: Vec::new(),
        uncles: Vec::new(),
    }
}

/// A node that has imported the blocks one by one.
fn one_by_one(spec: &Arc<ChainSpec>, blocks: &[Block]) -> Node {
    let node = Node::new(spec);
    node.take(blocks);
    node
}

#[test]
fn a_run_writes_the_same_rows_as_single_imports() {
    let (maker, blocks) = chain(600);
    let node = Node::new(&maker.spec);
    let (done, result) = import(&node, encode(&blocks));
    result.expect("imported");
    let gas = blocks.iter().map(|block| block.header.gas_used).sum();
    let expected = StreamImportProgress {
        bytes: encode(&blocks).len() as u64,
        blocks: 600,
        known: 1,
        transactions: 1800,
        gas,
        pending: 0,
        read_bytes: encode(&blocks).len() as u64,
    };
    assert_eq!(done, expected);
    assert_eq!(node.rows(), one_by_one(&maker.spec, &blocks[1..]).rows());
    let (again, result) = import(&node, encode(&blocks));
    result.expect("all known");
    assert_eq!((again.blocks, again.known), (0, 601));
}

#[test]
fn side_blocks_and_uncles_are_imported_one_by_one() {
    let (mut maker, mut blocks) = chain(5);
    let side = maker.block(blocks[4].hash(), Plan::marked(9));
    let mut with_uncle = Plan::with(vec![sign(0, &unsigned(5, Some(account(1)), 1, &[]))]);
    with_uncle.uncles = vec![side.header.clone()];
    let tip = maker.block(blocks[5].hash(), with_uncle);
    let other = maker.line(side.hash(), 3, 8);
    blocks.extend([side.clone(), tip, side]);
    blocks.extend(other);
    let node = Node::new(&maker.spec);
    let (done, result) = import(&node, encode(&blocks));
    result.expect("imported");
    assert_eq!((done.blocks, done.known), (10, 2));
    let expected = Node::new(&maker.spec);
    for block in &blocks[1..] {
        expected.import(block).expect("valid");
    }
    assert_eq!(node.rows(), expected.rows());
}

/// Imports a stream with an error at block 5. The four blocks before it must be stored.
#[track_caller]
fn check_broken(maker: &Maker, blocks: &[Block], bytes: Vec<u8>, fits: impl Fn(&StreamImportError) -> bool) {
    let node = Node::new(&maker.spec);
    let (done, result) = import(&node, bytes);
    let error = result.expect_err("a stream with an error");
    assert!(fits(&error), "{error}");
    assert_eq!(done.blocks, 4, "{error}");
    assert_eq!(node.rows(), one_by_one(&maker.spec, &blocks[1..5]).rows());
}

#[test]
fn an_invalid_block_is_named_and_the_blocks_before_it_stay() {
    let (maker, blocks) = chain(9);
    let altered = |change: fn(&mut Block)| {
        let mut all = blocks.clone();
        change(&mut all[5]);
        encode(&all)
    };
    let refused = |expected: fn(&ImportError) -> bool| move |error: &StreamImportError| matches!(error, StreamImportError::Refused { number: 5, error, .. } if expected(error));
    let state_root = altered(|block| block.header.state_root.0[0] ^= 1);
    check_broken(
        &maker,
        &blocks,
        state_root,
        refused(|e| matches!(e, ImportError::StateRoot { .. })),
    );
    let gas = altered(|block| block.header.gas_used += 1);
    check_broken(
        &maker,
        &blocks,
        gas,
        refused(|e| matches!(e, ImportError::GasUsed { .. })),
    );
    let body = altered(|block| drop(block.transactions.pop()));
    check_broken(
        &maker,
        &blocks,
        body,
        refused(|e| matches!(e, ImportError::Body(_))),
    );
    let parent = altered(|block| block.header.parent_hash.0[0] ^= 1);
    check_broken(
        &maker,
        &blocks,
        parent,
        refused(|e| matches!(e, ImportError::UnknownParent(_))),
    );
    let missing = encode(&[&blocks[..5], &blocks[6..]].concat());
    check_broken(&maker, &blocks, missing, |error| {
        matches!(error, StreamImportError::Refused { number: 6, .. })
    });
}

#[test]
fn damage_is_reported_with_its_place() {
    let (maker, blocks) = chain(9);
    let before = encode(&blocks[..5]);
    let bytes = encode(&blocks);
    let offset = before.len() as u64;
    check_broken(
        &maker,
        &blocks,
        bytes[..before.len() + 100].to_vec(),
        |e| matches!(e, StreamImportError::Stream(chain::stream::BlockStreamError::Truncated { offset: at, got: 100, .. }) if *at == offset),
    );
    check_broken(
        &maker,
        &blocks,
        [&before, &b"garbage"[..]].concat(),
        |e| matches!(e, StreamImportError::Stream(chain::stream::BlockStreamError::NoList { offset: at, .. }) if *at == offset),
    );
    // The last byte of the block is its empty list of uncles.
    let end = before.len() + blocks[5].size();
    let mut no_body = bytes;
    no_body[end - 1] = 0x80;
    check_broken(
        &maker,
        &blocks,
        no_body,
        |e| matches!(e, StreamImportError::Body { number: 5, offset: at, .. } if *at == offset),
    );
    let node = Node::new(&maker.spec);
    assert!(matches!(
        import(&node, Vec::new()).1,
        Err(StreamImportError::Empty)
    ));
}

#[test]
fn a_truncated_stream_can_be_given_again() {
    let (maker, blocks) = chain(6);
    let bytes = encode(&blocks);
    let expected = one_by_one(&maker.spec, &blocks[1..]).rows();
    for cut in (1..bytes.len()).step_by(97) {
        let node = Node::new(&maker.spec);
        let (first, _) = import(&node, bytes[..cut].to_vec());
        let (second, result) = import(&node, bytes.clone());
        result.expect("imported");
        assert_eq!(first.blocks + second.blocks, 6);
        assert_eq!(node.rows(), expected, "cut at {cut}");
    }
}

#[test]
fn a_stream_of_another_chain_is_refused() {
    let (maker, _) = chain(0);
    let mut other = ChainSpec::dev();
    other.genesis.timestamp = 9;
    let node = Node::new(&maker.spec);
    let before = node.rows();
    let (_, result) = import(&node, encode(&[genesis_block(&other)]));
    assert!(
        matches!(result, Err(StreamImportError::OtherGenesis { .. })),
        "{result:?}"
    );
    assert_eq!(node.rows(), before);
}

#[test]
fn the_import_ends_where_unsupported_rules_begin() {
    let text = r#"{"config": {"chainId": 100, "homesteadBlock": 0, "londonBlock": 3}, "difficulty": 131072, "gasLimit": 9000000}"#;
    let mut spec = ChainSpec::from_genesis_file("x", text).expect("a file").spec;
    spec.difficulty = chain::spec::DifficultyRule::Constant(2);
    let mut open_ended = spec.clone();
    open_ended.unsupported = None;
    let mut maker = Maker::new(open_ended);
    let blocks = maker.line(maker.genesis, 4, 1);
    let node = Node::new(&Arc::new(spec));
    let (done, result) = import(&node, encode(&blocks));
    let error = result.expect_err("unsupported rules");
    assert!(error.to_string().contains("londonBlock"), "{error}");
    assert!(
        matches!(error, StreamImportError::Refused { number: 3, .. }),
        "{error}"
    );
    assert_eq!(done.blocks, 2);
}

/// Gives its bytes, then sets a flag and blocks for ever.
struct BlockingReader {
    bytes: std::io::Cursor<Vec<u8>>,
    flag: Arc<AtomicBool>,
}

impl Read for BlockingReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.bytes.read(buffer)? {
            0 => {
                self.flag.store(true, Ordering::Release);
                loop {
                    std::thread::park();
                }
            }
            read => Ok(read),
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_the_stream() {
    let (maker, blocks) = chain(300);
    let node = Node::new(&maker.spec);
    let stop = Arc::new(AtomicBool::new(false));
    let input = BlockingReader {
        bytes: std::io::Cursor::new(encode(&blocks)),
        flag: stop.clone(),
    };
    let mut last = StreamImportProgress::default();
    let result = import_stream(&node.importer, Box::new(input), &stop, |now| last = *now);
    assert!(
        matches!(result, Err(StreamImportError::Interrupted)),
        "{result:?}"
    );
    let imported = usize::try_from(last.blocks).expect("few");
    assert_eq!(node.rows(), one_by_one(&maker.spec, &blocks[1..=imported]).rows());
    let (rest, result) = import(&node, encode(&blocks));
    result.expect("imported");
    assert_eq!(last.blocks + rest.blocks, 300);
    let transactions: usize = blocks[1..].iter().map(|block| block.transactions.len()).sum();
    assert_eq!(last.transactions + rest.transactions, transactions as u64);
}

#[test]
fn headers_of_far_epochs_make_no_light_cache() {
    let caches = LightCaches::with_sizes(1024, 32 * 1024);
    let (maker, blocks) = chain(1);
    let epochs: Vec<u32> = (1..40).map(|index| index * 50).collect();
    // The first builds on block 0, each other one on the one before. No number follows.
    let mut parent = blocks[0].hash();
    let far: Vec<Block> = epochs
        .iter()
        .map(|epoch| {
            let mut block = blocks[1].clone();
            block.header.number = u64::from(*epoch) * 30_000;
            block.header.parent_hash = parent;
            parent = block.hash();
            block
        })
        .collect();
    // In the second stream the last header of an epoch and the first of the next one follow each
    // other, but they build on no stored block.
    let mut pairs = far.clone();
    for pair in pairs.chunks_exact_mut(2) {
        pair[0].header.number = pair[1].header.number - 1;
        pair[1].header.parent_hash = pair[0].hash();
    }
    for stream in [&far, &pairs] {
        let node = Node::with_seals(&maker.spec, SealCheck::Ethash(caches.clone()));
        let (done, result) = import(&node, encode(stream));
        let error = result.expect_err("not of this chain");
        assert!(
            matches!(&error, StreamImportError::Refused { error, .. }
                if matches!(**error, ImportError::Header(HeaderError::Number { .. }))),
            "{error}"
        );
        assert_eq!(done.blocks, 0);
        let made = |epoch: &u32| caches.get_ready(ethash::Epoch::ethash(*epoch)).is_some();
        let near = epochs.iter().flat_map(|epoch| [epoch - 1, *epoch, epoch + 1]);
        assert_eq!(near.filter(made).count(), 0);
    }
}
