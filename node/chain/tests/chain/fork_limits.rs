//! Blocks beside the canonical chain are bounded, and those with little work go first. Deep
//! reorganizations are done in parts, and have a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chain::import::{ForkLimits, ImportError, Imported, StateRetention};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, Block};
use store::{BlockReads, HeaderReads, Store};

use crate::common::{Maker, Node, rows};
use crate::headers::{headers, id};
use crate::scenes::check_faults;

fn small() -> ForkLimits {
    ForkLimits {
        side_blocks_max: 8,
        side_block_age_max: 20,
        bare_headers_max: 16,
        ..ForkLimits::default()
    }
}

fn stored(node: &Node, maker: &Maker, blocks: &[Block]) -> usize {
    let view = node.view(&maker.spec);
    let is_stored = |block: &&Block| view.block_by_hash(&block.hash()).expect("read").is_some();
    blocks.iter().filter(is_stored).count()
}

#[test]
fn side_blocks_are_bounded_and_the_lightest_go_first() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::limited(&maker.spec, small());
    let main = maker.line(maker.genesis, 15, 1);
    node.take(&main);
    // A branch near to the head, then many blocks that leave the chain further below.
    let near = maker.line(main[9].hash(), 4, 2);
    for block in &near {
        assert_eq!(node.import(block).expect("kept"), Imported::Side);
    }
    let mut refused = 0;
    for mark in 10..40 {
        let far = maker.line(main[4].hash(), 1, mark);
        match node.import(&far[0]) {
            Ok(imported) => assert_eq!(imported, Imported::Side),
            Err(ImportError::TooManySideBlocks { max: 8, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        let sides = node
            .store
            .snapshot()
            .expect("snapshot")
            .side_blocks()
            .expect("read");
        assert!(sides.len() <= 8);
        assert_eq!(stored(&node, &maker, &near), 4);
    }
    assert!(refused > 0, "a block that is the lightest itself is refused");
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn the_blocks_of_the_best_header_chain_are_kept_whatever_comes() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::limited(&maker.spec, small());
    node.take(&maker.line(maker.genesis, 14, 1));
    // Its headers are heavier than the chain, and its bodies come one by one.
    let branch = maker.line(maker.genesis, 15, 2);
    assert_eq!(node.import_headers(headers(&branch)).expect("valid"), 15);
    for (index, block) in branch.iter().enumerate() {
        let imported = node.import(block).expect("kept");
        assert_eq!(matches!(imported, Imported::Head { .. }), index == 14);
        let junk = maker.line(branch[index].header.parent_hash, 1, 100 + index as u8);
        let _ = node.import(&junk[0]);
        assert_eq!(stored(&node, &maker, &branch), index + 1);
    }
    assert_eq!(node.head(), branch[14].hash());
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn old_side_blocks_are_refused_and_removed() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::limited(&maker.spec, small());
    let main = maker.line(maker.genesis, 300, 1);
    let side = maker.line(main[200].hash(), 3, 2);
    let late = maker.line(main[0].hash(), 1, 3);
    node.take(&main[..210]);
    for block in &side {
        assert_eq!(node.import(block).expect("kept"), Imported::Side);
    }
    assert_eq!(node.import_headers(headers(&late)).expect("taken"), 1);
    let refused = node.import(&late[0]).expect_err("too old");
    assert!(
        matches!(refused, ImportError::SideBlockAge { got: 2, lowest: 190 }),
        "{refused}"
    );
    node.take(&main[210..]);
    assert_eq!(stored(&node, &maker, &side), 0);
    let view = node.view(&maker.spec);
    assert_eq!(view.known_header(&late[0].hash()).expect("read"), None);
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn headers_without_bodies_are_bounded_and_those_of_little_work_go_first() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::limited(&maker.spec, small());
    let main = maker.line(maker.genesis, 12, 1);
    node.take(&main);
    let worked = maker.line(maker.genesis, 8, 2);
    assert_eq!(node.import_headers(headers(&worked)).expect("taken"), 8);
    let known = |blocks: &[Block]| {
        let view = node.view(&maker.spec);
        let is_known = |block: &&Block| view.known_header(&block.hash()).expect("read").is_some();
        blocks.iter().filter(is_known).count()
    };
    let mut others = Vec::new();
    let mut second = Maker::new(ChainSpec::dev());
    for mark in 10..40 {
        let short = second.line(second.genesis, 2, mark);
        assert_eq!(node.import_headers(headers(&short)).expect("taken"), 2);
        assert_eq!((known(&short), known(&worked)), (2, 8), "the newest are there");
        others.extend(short);
        assert!(known(&others) + 8 <= 16);
    }
    // A chain that is longer than what is allowed must wait for its bodies.
    let long = second.line(second.genesis, 17, 3);
    let refused = node.import_headers(headers(&long)).expect_err("too many");
    assert!(
        matches!(refused, ImportError::TooManyHeaders { got: 17, max: 16 }),
        "{refused}"
    );
    assert_eq!(known(&long), 0);
    assert_eq!(node.import_headers(headers(&long[..16])).expect("taken"), 16);
    assert_eq!(node.view(&maker.spec).best_header().expect("read"), id(&long[15]));
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn a_header_that_is_refused_is_named_and_nothing_is_stored() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::new(&maker.spec);
    let line = maker.line(maker.genesis, 5, 1);
    let before = node.rows();
    let refused = |run: Vec<primitives::Header>| {
        let error = node.import_headers(run).expect_err("refused");
        assert!(before == node.rows());
        error
    };
    let unknown = refused(headers(&line[1..]));
    assert!(matches!(unknown, ImportError::UnknownParent(hash) if hash == line[0].hash()));
    let mut gap = headers(&line);
    gap.remove(2);
    let error = refused(gap).to_string();
    assert!(
        error.starts_with("header 4 (") && error.contains("parent hash: got"),
        "{error}"
    );
    let mut wrong = headers(&line);
    wrong[4].gas_limit += 9_000_000;
    let error = refused(wrong).to_string();
    assert!(
        error.starts_with("header 5 (") && error.contains("gas limit: got"),
        "{error}"
    );
    assert_eq!(node.import_headers(Vec::new()).expect("nothing"), 0);
}

#[test]
fn a_body_that_proves_invalid_takes_the_headers_on_it_away() {
    let mut maker = Maker::new(ChainSpec::dev());
    let node = Node::new(&maker.spec);
    let main = maker.line(maker.genesis, 3, 1);
    node.take(&main[..1]);
    let mut bad = maker.line(main[0].hash(), 5, 2);
    bad[1].header.state_root.0[0] ^= 1;
    for index in 2..bad.len() {
        bad[index].header.parent_hash = bad[index - 1].hash();
    }
    node.import_headers(headers(&bad))
        .expect("their headers are valid");
    node.import_headers(headers(&main[1..])).expect("valid");
    assert_eq!(node.view(&maker.spec).best_header().expect("read"), id(&bad[4]));
    // Another body with the same header says nothing about the header.
    let mut other = bad[0].clone();
    other.uncles.push(main[0].header.clone());
    assert!(node.import(&other).is_err());
    assert_eq!(node.view(&maker.spec).best_header().expect("read"), id(&bad[4]));
    node.import(&bad[0]).expect("valid");
    let error = node.import(&bad[1]).expect_err("a wrong state root");
    assert!(matches!(error, ImportError::StateRoot { .. }), "{error}");
    let view = node.view(&maker.spec);
    assert_eq!(view.best_header().expect("read"), id(&main[2]));
    assert_eq!(
        view.missing_bodies(9).expect("read"),
        [id(&main[1]), id(&main[2])]
    );
    for block in &bad[1..] {
        assert_eq!(view.known_header(&block.hash()).expect("read"), None);
        let again = node
            .import_headers(vec![block.header.clone()])
            .expect_err("refused");
        assert!(again.to_string().contains("refused before"), "{again}");
        let again = node.import(block).expect_err("refused");
        assert!(again.to_string().contains("refused before"), "{again}");
    }
    node.take(&main[1..]);
    assert_eq!(node.head(), main[2].hash());
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn the_head_returns_if_a_block_is_invalid_after_some_parts() {
    const LENGTH: usize = 30;
    let mut maker = Maker::new(ChainSpec::dev());
    let limits = ForkLimits {
        reorg_part_blocks: 4,
        ..ForkLimits::default()
    };
    let node = Node::limited(&maker.spec, limits);
    let main = maker.line(maker.genesis, LENGTH, 1);
    node.take(&main);
    let before = rows(&node.store);
    for wrong in [0, 1, 17, LENGTH] {
        let mut branch = maker.line(maker.genesis, LENGTH + 1, 2 + wrong as u8);
        branch[wrong].header.state_root.0[0] ^= 1;
        for index in wrong + 1..branch.len() {
            branch[index].header.parent_hash = branch[index - 1].hash();
        }
        node.take(&branch[..LENGTH]);
        let error = node.import(&branch[LENGTH]).expect_err("invalid");
        assert!(error.to_string().contains("state root: got"), "{error}");
        assert_eq!(node.head(), main[LENGTH - 1].hash());
        assert_eq!(stored(&node, &maker, &branch), wrong);
        let after = rows(&node.store);
        for table in [
            "meta",
            "account_by_hash",
            "storage_by_hash",
            "state_history_by_hash",
            "path_to_branch",
            "number_to_hash",
        ] {
            assert!(before[table] == after[table], "{table}, block {wrong}");
        }
        assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
    }
}

#[test]
fn a_reorganization_that_is_too_deep_is_refused() {
    let mut maker = Maker::new(ChainSpec::dev());
    let limits = ForkLimits {
        reorg_depth_max: Some(3),
        ..ForkLimits::default()
    };
    let node = Node::limited(&maker.spec, limits);
    let main = maker.line(maker.genesis, 4, 1);
    node.take(&main);
    let deep = maker.line(maker.genesis, 5, 2);
    node.take(&deep[..4]);
    let error = node.import(&deep[4]).expect_err("too deep");
    assert!(
        matches!(error, ImportError::ReorgDepth { got: 4, max: 3 }),
        "{error}"
    );
    let error = node.import_headers(headers(&deep[4..])).expect_err("too deep");
    assert!(
        matches!(error, ImportError::ReorgDepth { got: 4, max: 3 }),
        "{error}"
    );
    assert_eq!(node.head(), main[3].hash());
    let shallow = maker.line(main[0].hash(), 4, 3);
    assert_eq!(node.import_headers(headers(&shallow)).expect("near enough"), 4);
    node.take(&shallow);
    assert_eq!(node.head(), shallow[3].hash());
}

/// A branch of headers that comes in parts is refused once the head has gone too far beside it.
#[test]
fn a_branch_that_comes_in_parts_keeps_its_depth() {
    let mut maker = Maker::new(ChainSpec::dev());
    let limits = ForkLimits {
        reorg_depth_max: Some(3),
        ..ForkLimits::default()
    };
    let node = Node::limited(&maker.spec, limits);
    let main = maker.line(maker.genesis, 6, 1);
    let branch = maker.line(main[0].hash(), 20, 2);
    node.take(&main[..4]);
    for part in branch[..12].chunks(4) {
        assert_eq!(node.import_headers(headers(part)).expect("near enough"), 4);
    }
    assert_eq!(
        node.view(&maker.spec).best_header().expect("read"),
        id(&branch[11])
    );
    node.take(&main[4..]);
    let error = node.import_headers(headers(&branch[12..])).expect_err("too deep");
    assert!(
        matches!(error, ImportError::ReorgDepth { got: 5, max: 3 }),
        "{error}"
    );
    assert_eq!(node.head(), main[5].hash());
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

/// The branch leaves the chain at block 0 and has somewhat more work. With MESS it stays beside the
/// chain until it has as much as the curve asks for.
#[test]
fn a_late_branch_needs_more_work_with_mess() {
    let mut maker = Maker::new(ChainSpec::dev());
    let with_mess = || ForkLimits {
        mess_head_age_secs_max: Some(u64::MAX),
        ..ForkLimits::default()
    };
    // Four hours: the factor is above 18, and below 20.
    let main = maker.slow_line(maker.genesis, 4, 1, 3600);
    let branch = maker.line(maker.genesis, 80, 2);
    let new = |limits| {
        let node = Node::limited(&maker.spec, limits);
        node.take(&main);
        node
    };
    let without = new(ForkLimits::default());
    without.take(&branch[..5]);
    assert_eq!(without.head(), branch[4].hash());
    // An old head, as after a night without network.
    let stale = new(ForkLimits {
        mess_head_age_secs_max: Some(0),
        ..ForkLimits::default()
    });
    stale.take(&branch[..5]);
    assert_eq!(stale.head(), branch[4].hash());
    // As blocks.
    let node = new(with_mess());
    node.take(&branch[..72]);
    assert_eq!(node.head(), main[3].hash());
    node.take(&branch[72..]);
    assert_eq!(node.head(), branch[79].hash());
    // As headers in parts, then bodies. Headers that are not enough are kept.
    let node = new(with_mess());
    let best = || node.view(&maker.spec).best_header().expect("read").hash;
    assert_eq!(node.import_headers(headers(&branch[..40])).expect("stored"), 40);
    assert_eq!(node.import_headers(headers(&branch[40..72])).expect("stored"), 32);
    assert_eq!(best(), main[3].hash());
    assert_eq!(node.import_headers(headers(&branch[72..])).expect("stored"), 8);
    assert_eq!(best(), branch[79].hash());
    // The first of them are not enough alone, but the whole branch was.
    node.take(&branch[..5]);
    assert_eq!(node.head(), branch[4].hash());
    node.take(&branch[5..]);
    assert_eq!(node.head(), branch[79].hash());
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn a_branch_that_mess_keeps_beside_the_chain_does_not_win_by_an_invalid_child() {
    let mut maker = Maker::new(ChainSpec::dev());
    // As above: the branch needs some nineteen times the work, which the invalid block brings.
    let main = maker.slow_line(maker.genesis, 4, 1, 3600);
    let branch = maker.line(maker.genesis, 80, 2);
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Off,
        forks: ForkLimits {
            mess_head_age_secs_max: Some(u64::MAX),
            ..ForkLimits::default()
        },
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(1),
        extra_data: Default::default(),
        states: StateRetention::Archive,
    };
    let chain = Chain::open(Store::in_memory().expect("store"), config).expect("opened");
    for block in &main {
        chain.import(block.clone()).expect("valid");
    }
    let heads = chain.subscribe();
    let mut refused = None;
    for block in &branch {
        let mut invalid = block.clone();
        invalid.header.state_root.0[0] ^= 1;
        match chain.import(invalid) {
            // With too little work a block is not executed. Then it is a side block.
            Ok(Imported::Side) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                refused = Some((block.header.number, error));
                break;
            }
        }
        chain.import(block.clone()).expect("valid");
    }
    let (number, error) = refused.expect("a block with enough work");
    assert!(number > 70, "block {number} was executed: {error}");
    let view = chain.view().expect("view");
    assert_eq!(view.head_id(), id(&main[3]));
    drop(chain);
    assert_eq!(heads.iter().count(), 0, "the head never moved");
}

#[test]
fn side_blocks_are_bounded_in_bytes() {
    const BLOCKS: u64 = 8;
    let mut maker = Maker::new(ChainSpec::dev());
    let main = maker.line(maker.genesis, 15, 1);
    let near = maker.line(main[9].hash(), 4, 2);
    let measured = Node::limited(&maker.spec, small());
    measured.take(&main);
    measured.take(&near);
    let view = measured.store.snapshot().expect("snapshot");
    let bytes = |block: &Block| {
        let bytes = view.block_bytes(block.header.number, &block.hash());
        bytes.expect("read") as u64
    };
    let limits = ForkLimits {
        side_bytes_max: BLOCKS * bytes(&near[0]),
        ..ForkLimits::default()
    };
    let max = limits.side_bytes_max;
    let node = Node::limited(&maker.spec, limits);
    node.take(&main);
    for block in &near {
        assert_eq!(node.import(block).expect("kept"), Imported::Side);
    }
    let mut refused = 0;
    for mark in 10..60 {
        let far = maker.line(main[4].hash(), 1, mark);
        match node.import(&far[0]) {
            Ok(imported) => assert_eq!(imported, Imported::Side),
            Err(ImportError::TooManySideBytes { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        let view = node.store.snapshot().expect("snapshot");
        let sides = view.side_blocks().expect("read");
        let sizes = sides.iter().map(|side| view.block_bytes(side.number, &side.hash));
        let all: usize = sizes.map(|size| size.expect("read")).sum();
        assert!(all as u64 <= max, "{all}");
        assert!(sides.len() >= BLOCKS as usize / 2, "{}", sides.len());
        assert_eq!(stored(&node, &maker, &near), 4, "the heaviest stay");
    }
    assert!(refused > 0, "a block that is the lightest itself is refused");
    // Blocks that a reorganization has taken back count, too.
    let branch = maker.line(main[4].hash(), 20, 99);
    assert_eq!(node.import_headers(headers(&branch)).expect("heavier"), 20);
    node.take(&branch);
    assert_eq!(node.head(), branch[19].hash());
    let _ = node.import(&maker.line(main[4].hash(), 1, 100)[0]);
    let view = node.store.snapshot().expect("snapshot");
    let sides = view.side_blocks().expect("read");
    let sizes = sides.iter().map(|side| view.block_bytes(side.number, &side.hash));
    let all: usize = sizes.map(|size| size.expect("read")).sum();
    assert!(all as u64 <= max, "{all}");
    drop(view);
    assert_eq!(check_faults(&node.store, &maker.spec, false).1, []);
}

#[test]
fn readers_see_the_old_head_until_the_new_one_is_there() {
    const LENGTH: usize = 40;
    let mut maker = Maker::new(ChainSpec::dev());
    let main = maker.line(maker.genesis, LENGTH, 1);
    let branch = maker.line(maker.genesis, LENGTH + 1, 2);
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Off,
        forks: ForkLimits {
            reorg_part_blocks: 1,
            ..ForkLimits::default()
        },
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(1),
        extra_data: Default::default(),
        states: StateRetention::Archive,
    };
    let chain = Chain::open(Store::in_memory().expect("store"), config).expect("opened");
    for block in main.iter().chain(&branch[..LENGTH]) {
        chain.import(block.clone()).expect("valid");
    }
    let heads = chain.subscribe();
    let allowed = [id(&main[LENGTH - 1]), id(&branch[LENGTH])];
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (chain, stop) = (chain.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let view = chain.view().expect("reads go on");
                assert!(allowed.contains(&view.head_id()), "{:?}", view.head_id());
                let parent = view
                    .header(view.head_number() - 1)
                    .expect("read")
                    .expect("canonical");
                assert_eq!(parent.0, view.head().header.parent_hash);
            }
        })
    };
    let imported = chain.import(branch[LENGTH].clone()).expect("heavier");
    assert_eq!(chain.view().expect("view").head_id(), allowed[1]);
    stop.store(true, Ordering::Release);
    reader.join().expect("no other head was seen");
    let Imported::Head { reverted, applied } = imported else {
        panic!("{imported:?}")
    };
    assert_eq!((reverted.len(), applied.len()), (LENGTH, LENGTH + 1));
    let event = heads.recv().expect("an event");
    assert_eq!(
        (&event.reverted, &event.applied),
        (&reverted, &applied),
        "one event for all parts"
    );
}
