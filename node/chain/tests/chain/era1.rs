//! Era1 files: the first 8,192 blocks of the real chain are imported with their seals, and served
//! from their file; files of our own are read as they were written; every damage is found and has
//! its block.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use chain::block_files::BlockFiles;
use chain::era1::accumulator::accumulator;
use chain::era1::{
    Era1Archive, Era1Error, Era1FileError, Era1Index, Era1Name, Era1Reader, Era1Writer, check_receipts,
};
use chain::genesis::{classic_with_accounts, ensure_genesis};
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_blocks};
use chain::import::{BlockId, Importer, OldBlocks};
use chain::rules::seal::SealCheck;
use chain::stream::{BlockStreamError, RawBlock};
use chain::trace::{Trace, TraceRequest, Tracer};
use chain::{ChainSpec, View};
use ethash::LightCaches;
use primitives::{Block, ReceiptForm, TxRules, U256, b256};
use store::{AncientReads, ArchiveSlot, BlockReads, Store, StoreError, StoreOptions};

use crate::common::{Maker, Node, Plan, account, sign, unsigned};
use crate::scenes::assert_sound;

/// The file of the real chain in its own form.
const NAME: &str = "mainnet-00000-5ec1ffb8.era1";

/// The bytes of the published file with blocks 0 to 8,191.
fn real_file() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors/era1")
        .join(format!("{NAME}.zst"));
    let packed = std::fs::read(path).expect("a file of the repository");
    zstd::decode_all(&packed[..]).expect("a Zstandard frame")
}

/// Imports files, by their names and contents.
fn import(
    importer: &Importer,
    files: Vec<(PathBuf, Vec<u8>)>,
) -> (StreamImportProgress, Result<(), StreamImportError>) {
    let paths = files.iter().map(|(path, _)| path.clone()).collect();
    let open = move |path: &Path| -> std::io::Result<Box<dyn Read + Send>> {
        let found = files.iter().find(|(name, _)| name == path);
        let (_, bytes) = found.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(bytes.clone())))
    };
    let mut last = StreamImportProgress::default();
    let source = BlockFiles::new(paths, 0, Box::new(open));
    let result = import_blocks(importer, Box::new(source), &AtomicBool::new(false), |now| {
        last = *now
    });
    (last, result)
}

/// A store in `folder` with the archive that is put into the slot.
fn open(folder: &Path, slot: &ArchiveSlot) -> Store {
    let options = StoreOptions {
        archive: slot.clone(),
        ..StoreOptions::default()
    };
    Store::open(folder, &options).expect("a store")
}

#[test]
fn the_real_chain_is_imported_and_served_from_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files");
    std::fs::create_dir(&files).expect("a folder");
    let bytes = real_file();
    std::fs::write(files.join(NAME), &bytes).expect("written");
    let spec = Arc::new(classic_with_accounts());
    let slot = ArchiveSlot::default();
    let store = open(folder.path(), &slot);
    ensure_genesis(&store, &spec).expect("genesis");
    let archive = Era1Archive::open(&files, spec.clone()).expect("a folder of whole files");
    assert_eq!(archive.blocks(), 8192);
    assert!(slot.set(Arc::new(archive)));
    let seals = SealCheck::Ethash(LightCaches::new());
    let importer = Importer::new(store.clone(), spec.clone(), seals);
    let (done, result) = import(&importer, vec![(NAME.into(), bytes.clone())]);
    result.expect("the real chain is valid");
    assert_eq!(
        (done.blocks, done.known, done.bytes),
        (8191, 1, bytes.len() as u64)
    );

    let view = View::new(&store, spec).expect("a head");
    assert_eq!(view.head_number(), 8191);
    assert_eq!(
        view.head().total_difficulty,
        U256::from(1_344_623_723_034_024_u64)
    );
    let snapshot = store.snapshot().expect("snapshot");
    assert_eq!(snapshot.ancient_count().expect("read"), 7936);
    assert!(snapshot.needs_archive().expect("read"));
    // Nothing of these blocks is in the store's own file.
    let own = std::fs::metadata(folder.path().join(store::BLOCKS_FILE_NAME)).expect("a file");
    assert_eq!(own.len(), 4096);
    let (mut uncles, mut first_with_uncle) = (0, None);
    let mut hashes = Vec::new();
    let mut reader = Era1Reader::new(&bytes[..], NAME.into());
    while let Some(raw) = reader.read_block().expect("a whole file") {
        let number = raw.header.number;
        let block = view.block(number).expect("read").expect("stored");
        assert_eq!(block.hash, raw.hash);
        assert_eq!(
            Some(block.record.total_difficulty),
            raw.published.as_ref().map(|(_, total)| *total)
        );
        let decoded = raw.decode(TxRules::Ethereum).expect("a block");
        assert_eq!(block.body.uncles, decoded.uncles, "block {number}");
        assert_eq!(view.receipts(&block.id()).expect("read"), Some(Vec::new()));
        uncles += decoded.uncles.len();
        if !decoded.uncles.is_empty() && first_with_uncle.is_none() {
            first_with_uncle = Some(block);
        }
        hashes.push((raw.hash, block_total(&raw)));
    }
    assert_eq!(
        accumulator(&hashes),
        b256!("0x5ec1ffb8c3b146f42606c74ced973dc16ec5a107c0345858c343fc94780b4218")
    );
    assert_eq!(uncles, 1410);
    // A block with an uncle is traced: it runs on the state of its parent and has no transactions.
    let block = first_with_uncle.expect("the real chain has uncles");
    let number = block.record.header.number;
    let request = TraceRequest::new(Tracer::Replay { changes: true }, Duration::from_secs(10));
    assert_eq!(
        view.trace_block(&block, &request).expect("traced"),
        Vec::<Trace>::new()
    );
    let balance = |number| {
        let account = view
            .account(&block.record.header.beneficiary, number)
            .expect("read");
        account.map_or(U256::ZERO, |account| account.balance)
    };
    // Five coins for the block and a 32nd of it for each uncle.
    let reward = U256::from(5_000_000_000_000_000_000_u64);
    let included = U256::from(block.body.uncles.len()) * (reward / U256::from(32));
    assert_eq!(balance(number) - balance(number - 1), reward + included);
    drop((view, snapshot));

    // Without the archive a block is not read, and the error says where it is.
    let hash = hashes[5].0;
    drop((importer, store));
    let without = open(folder.path(), &ArchiveSlot::default());
    let error = without
        .snapshot()
        .expect("snapshot")
        .body(5, &hash, TxRules::Ethereum);
    assert!(
        matches!(error, Err(StoreError::Archive { number: 5, .. })),
        "{error:?}"
    );
}

const fn block_total(raw: &RawBlock) -> U256 {
    raw.published.as_ref().expect("an Era1 file has it").1
}

/// A chain of `count` blocks with transfers.
fn chain(count: u64) -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(ChainSpec::dev());
    let mut blocks = Vec::new();
    let (mut tip, mut nonce) = (maker.genesis, 0);
    for number in 0..count {
        let transfers = (0..number % 3).map(|_| {
            nonce += 1;
            sign(0, &unsigned(nonce - 1, Some(account(1)), 5, &[]))
        });
        let block = maker.block(tip, Plan::with(transfers.collect()));
        tip = block.hash();
        blocks.push(block);
    }
    (maker, blocks)
}

/// The blocks from `first` to the head of a store as one file, with its name.
fn file(view: &View, first: u64, last: u64) -> (PathBuf, Vec<u8>) {
    let mut writer = Era1Writer::new(Vec::new(), view.spec().receipt_form()).expect("memory");
    let mut rows = Vec::new();
    for number in first..=last {
        let stored = view.block(number).expect("read").expect("stored");
        let receipts = view.receipts(&stored.id()).expect("read").expect("executed");
        let block = Block {
            header: stored.record.header,
            transactions: stored.body.transactions,
            uncles: stored.body.uncles,
        };
        writer
            .add(&block, &receipts, stored.record.total_difficulty)
            .expect("memory");
        rows.push((stored.hash, stored.record.total_difficulty));
    }
    let name = Era1Name::new("dev", first, &accumulator(&rows));
    (name.to_string().into(), writer.finish().expect("memory"))
}

fn source(maker: &Maker, blocks: &[Block]) -> View {
    let node = Node::new(&maker.spec);
    node.take(blocks);
    View::new(&node.store, maker.spec.clone()).expect("a head")
}

#[test]
fn files_are_read_as_they_were_written() {
    let (maker, blocks) = chain(40);
    let view = source(&maker, &blocks);
    let node = Node::new(&maker.spec);
    // Two files, the second of which begins within the first's range of blocks.
    let files = vec![file(&view, 0, 20), file(&view, 21, 40)];
    let (done, result) = import(&node.importer, files.clone());
    result.expect("imported");
    assert_eq!((done.blocks, done.known), (40, 1));
    let expected = Node::new(&maker.spec);
    expected.take(&blocks);
    assert_eq!(node.rows(), expected.rows());
    let (done, result) = import(&node.importer, files);
    result.expect("all known");
    assert_eq!((done.blocks, done.known), (0, 41));
    // The second file alone builds on nothing that is stored.
    let alone = Node::new(&maker.spec);
    let (_, result) = import(&alone.importer, vec![file(&view, 21, 40)]);
    let error = result.expect_err("no parent");
    assert_eq!(error.block(), Some(21), "{error}");
    // Bytes decide, not names: RLP blocks in a file with this name.
    let rlp = blocks.iter().flat_map(Block::encode).collect();
    let (done, result) = import(&alone.importer, vec![("x.era1".into(), rlp)]);
    result.expect("imported");
    assert_eq!(done.blocks, 40);
}

#[test]
fn old_blocks_with_transactions_are_served_from_a_folder() {
    let (maker, blocks) = chain(40);
    let view = source(&maker, &blocks);
    let folder = tempfile::tempdir().expect("a folder");
    let files = [file(&view, 0, 20), file(&view, 21, 30)];
    for (path, bytes) in &files {
        std::fs::write(folder.path().join(path), bytes).expect("written");
    }
    let index = Era1Index::open(&folder.path().join(&files[1].0)).expect("a whole file");
    assert_eq!((index.first(), index.last()), (21, 30));
    assert_eq!(index.last_hash().expect("read"), blocks[29].hash());
    let slot = ArchiveSlot::default();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let store = open(&data, &slot);
    ensure_genesis(&store, &maker.spec).expect("genesis");
    let archive = Era1Archive::open(folder.path(), maker.spec.clone()).expect("whole files");
    slot.set(Arc::new(archive));
    let importer = Importer::new(store.clone(), maker.spec.clone(), SealCheck::Off)
        .moving(OldBlocks { depth: 3, step: 2 });
    for block in &blocks {
        importer.import(block, None).expect("valid");
    }
    let snapshot = store.snapshot().expect("snapshot");
    assert_eq!(snapshot.ancient_count().expect("read"), 38);
    let served = View::new(&store, maker.spec.clone()).expect("a head");
    for number in 0..=40 {
        let (got, expected) = (served.block(number), view.block(number));
        let (got, expected) = (
            got.expect("read").expect("stored"),
            expected.expect("read").expect("stored"),
        );
        assert_eq!(format!("{got:?}"), format!("{expected:?}"));
        assert_eq!(
            served.receipts(&got.id()).expect("read"),
            view.receipts(&expected.id()).expect("read")
        );
        for transaction in &expected.body.transactions {
            assert!(served.transaction(&transaction.hash()).expect("read").is_some());
        }
    }
    // The blocks from 31 on are in the store's own file.
    let own = std::fs::metadata(data.join(store::BLOCKS_FILE_NAME)).expect("a file");
    assert!(own.len() > 4096);
    assert_sound(&store, &maker.spec);
    // A reorganization takes blocks back out of the archive.
    importer.set_head(25).expect("set back");
    let view = View::new(&store, maker.spec.clone()).expect("a head");
    assert_eq!(view.head_number(), 25);
    let id = BlockId {
        number: 25,
        hash: blocks[24].hash(),
    };
    assert!(view.receipts(&id).expect("read").is_some());
    for block in &blocks[25..] {
        importer.import(block, None).expect("valid");
    }
    assert_sound(&store, &maker.spec);
    // A file that is damaged later gives an error that names it, and other blocks are read.
    let path = folder.path().join(&files[0].0);
    let mut bytes = files[0].1.clone();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0);
    std::fs::write(&path, bytes).expect("written");
    let view = View::new(&store, maker.spec).expect("a head");
    let faults: Vec<_> = (0..=20).filter_map(|number| view.block(number).err()).collect();
    assert!(!faults.is_empty() && faults.len() < 20, "{faults:?}");
    let text = faults[0].to_string();
    assert!(text.contains(&*files[0].0.to_string_lossy()), "{text}");
    assert!(view.block(25).is_ok());
}

/// Reads a file up to its fault. Returns the number of blocks before it.
fn read(name: &str, bytes: &[u8]) -> (u64, Result<(), Era1FileError>) {
    let (blocks, result) = read_blocks(name, bytes);
    (blocks.len() as u64, result)
}

/// Reads a file up to its fault. Returns the RLP of the blocks before it.
fn read_blocks(name: &str, bytes: &[u8]) -> (Vec<Vec<u8>>, Result<(), Era1FileError>) {
    let mut reader = Era1Reader::new(bytes, name.into());
    let mut blocks = Vec::new();
    loop {
        match reader.read_block() {
            Ok(Some(raw)) => {
                // The import checks receipts on all processors.
                let (receipts, _) = raw.published.expect("an Era1 file has them");
                if let Err(error) = check_receipts(&receipts, &raw.header) {
                    let fault = Era1FileError {
                        path: name.into(),
                        block: Some(raw.header.number),
                        error: Box::new(error),
                    };
                    return (blocks, Err(fault));
                }
                blocks.push(raw.rlp);
            }
            Ok(None) => return (blocks, Ok(())),
            Err(error) => return (blocks, Err(error)),
        }
    }
}

#[test]
fn every_damage_is_found_and_has_its_block() {
    let (maker, blocks) = chain(6);
    let view = source(&maker, &blocks);
    let (path, bytes) = file(&view, 0, 6);
    let name = path.to_string_lossy().into_owned();
    assert!(matches!(read(&name, &bytes), (7, Ok(()))));
    // A file that is cut anywhere gives the whole blocks before the cut.
    for cut in (0..bytes.len()).step_by(7) {
        let (whole, result) = read(&name, &bytes[..cut]);
        let error = result.expect_err("a cut file");
        assert!(whole <= 7);
        // The block at which the file ends is the one after those that are whole.
        assert!(
            error.block == Some(whole) || error.block == Some(whole.saturating_sub(1)),
            "{cut}: {error}"
        );
    }
    // Each changed byte is found, by the checksums of the compression or by what the bytes mean.
    // Only a copy of zeros from another place changes nothing.
    let whole = read_blocks(&name, &bytes).0;
    let mut harmless = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let (blocks, result) = read_blocks(&name, &changed);
        if result.is_ok() {
            assert_eq!(blocks, whole, "byte {at}");
            harmless += 1;
        }
    }
    assert!(harmless * 50 < bytes.len(), "{harmless} of {} bytes", bytes.len());
    let check = |bytes: &[u8], name: &str, fits: fn(&Era1Error) -> bool| {
        let (_, result) = read(name, bytes);
        let error = result.expect_err("a bad file");
        assert!(fits(&error.error), "{error}");
    };
    check(&[&bytes[..], &[0]].concat(), &name, |error| {
        matches!(error, Era1Error::Cut { .. } | Era1Error::Trailing)
    });
    let twice = [&bytes[..], &bytes[..]].concat();
    check(&twice, &name, |error| matches!(error, Era1Error::Trailing));
    check(&bytes, "dev-00001-00000000.era1", |error| {
        matches!(error, Era1Error::Name { .. })
    });
    check(b"", &name, |error| {
        matches!(
            error,
            Era1Error::Order {
                got: "an empty file",
                ..
            }
        )
    });
    // Entries of other types are skipped.
    let other = [0x77, 0x77, 3, 0, 0, 0, 0, 0, 1, 2, 3];
    let extra = [&bytes[..8], &other, &bytes[8..]].concat();
    // Every block moves by the length of the new entry, and so does the index.
    assert!(matches!(read(&name, &extra), (7, Ok(()))));
    // An absurd length takes no memory.
    let long = [&bytes[..8], &[3, 0, 255, 255, 255, 255, 0, 0]].concat();
    check(&long, &name, |error| matches!(error, Era1Error::Length { .. }));
}

#[test]
fn receipts_and_total_difficulties_of_others_are_refused() {
    let (maker, blocks) = chain(6);
    let view = source(&maker, &blocks);
    // Written by hand with a fault in block 4.
    let with = |receipts_of: u64, more: u64| {
        let mut writer = Era1Writer::new(Vec::new(), ReceiptForm::Five).expect("memory");
        for number in 0..=6 {
            let stored = view.block(number).expect("read").expect("stored");
            let id = if number == 4 {
                view.header(receipts_of).expect("read").expect("stored").0
            } else {
                stored.hash
            };
            let number_of = if number == 4 { receipts_of } else { number };
            let receipts = view.receipts(&BlockId {
                number: number_of,
                hash: id,
            });
            let block = Block {
                header: stored.record.header,
                transactions: stored.body.transactions,
                uncles: stored.body.uncles,
            };
            let extra = if number == 4 { more } else { 0 };
            let total = stored.record.total_difficulty + U256::from(extra);
            writer
                .add(&block, &receipts.expect("read").expect("executed"), total)
                .expect("memory");
        }
        writer.finish().expect("memory")
    };
    let check = |bytes: Vec<u8>, fits: fn(&StreamImportError) -> bool| {
        let node = Node::new(&maker.spec);
        let (done, result) = import(&node.importer, vec![("dev.era1".into(), bytes)]);
        let error = result.expect_err("a bad file");
        assert!(fits(&error), "{error}");
        assert_eq!(done.blocks, 3, "the blocks before stay: {error}");
    };
    check(with(2, 0), |error| {
        matches!(error, StreamImportError::Published { number: 4, error, .. }
            if matches!(**error, Era1Error::ReceiptsRoot { .. }))
    });
    check(with(4, 1), |error| match error {
        StreamImportError::Stream(BlockStreamError::Source(error)) => {
            error.downcast_ref::<Era1FileError>().is_some_and(|error| {
                error.block == Some(4) && matches!(*error.error, Era1Error::TotalDifficulty { .. })
            })
        }
        _ => false,
    });
    // The first block of a file is compared with the stored parent.
    let node = Node::new(&maker.spec);
    node.take(&blocks[..3]);
    let mut writer = Era1Writer::new(Vec::new(), ReceiptForm::Five).expect("memory");
    writer.add(&blocks[3], &[], U256::from(1)).expect("memory");
    let (_, result) = import(
        &node.importer,
        vec![("x".into(), writer.finish().expect("memory"))],
    );
    let error = result.expect_err("a wrong total difficulty");
    assert!(
        error.to_string().contains("total difficulty: got 1, expected"),
        "{error}"
    );
    assert_eq!(error.block(), Some(4));
}
