//! Ethereum Classic's own tests: real headers and blocks, and core-geth's condensed chains.
//!
//! The header of block 11,700,000 is the first with Etchash. `CLASSIC_JUDGES` names a folder with
//! what else judges (docs/etc.md, 4): the condensed chains of core-geth (folders with a
//! `*.conf.json` and an `export.rlp.gz`), and real blocks (`block_*.blocks`). Without it they are
//! left out.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::ChainSpec;
use chain::rules::body::{senders, transactions_root};
use chain::rules::check_header;
use chain::rules::seal::SealCheck;
use ethash::{Epoch, LightCaches};
use flate2::read::GzDecoder;
use primitives::rlp::RlpReader;
use primitives::{Block, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header, TxRules, U256, address, b256};

use crate::common::Node;

/// Block 11,700,000 of Ethereum Classic, as any node of the network serves it.
fn first_etchash_header() -> Header {
    Header {
        parent_hash: b256!("adaa50fd7a72baa19df873163b563c7cfa5ad254ca8dcf3b019076499e219e2e"),
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: address!("df7d7e053933b5cc24372f878c90e62dadad5d42"),
        state_root: b256!("373bd9a0991eff6c03f5ead0f25a0466a2ae10cf80cb37bd51d144f68668af29"),
        transactions_root: EMPTY_ROOT,
        receipts_root: EMPTY_ROOT,
        difficulty: U256::from(0x317d_f020_bde4u64),
        number: 11_700_000,
        gas_limit: 0x7a_6d21,
        timestamp: 0x5fc2_a999,
        extra_data: b"stratum-eu-1".into(),
        mix_hash: b256!("5f688fe8043392fd60d661edd5744dcb3d557042d3e472e7a708294c34216fb8"),
        pow_nonce: 0x6971_0a74_3181_b923,
        ..Default::default()
    }
}

#[test]
fn the_first_seal_of_etchash_is_right() {
    let header = first_etchash_header();
    let hash = b256!("3cdbd6d80f7fd983ac2a6b13230f56c61dc58cef3deeaeaffda36ca5efc6cb31");
    assert_eq!(header.hash(), hash);
    let seals = SealCheck::Ethash(LightCaches::new());
    let spec = ChainSpec::classic();
    assert_eq!(spec.schedule.epoch(11_700_000), Epoch::etchash(195));
    seals.check_seal(&spec, &header).expect("a right seal");
    let changed = Header {
        pow_nonce: header.pow_nonce + 1,
        ..header
    };
    assert!(seals.check_seal(&spec, &changed).is_err());
}

/// Block 10,000,000 of Ethereum Classic, with Ethash. Source: etclabscore/open-etc-pool, pull
/// request 47, whose author asked a public node.
fn header_of_ethash() -> Header {
    Header {
        parent_hash: b256!("c30ce5be0729bbba8fdfad0a7e63e144661533e261b8c46fe8c17f8ae32cbbc5"),
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: address!("0073cf1b9230cf3ee8cab1971b8dbef21ea7b595"),
        state_root: b256!("72295b0f3a32caca037dc0b2941517c42f58cc322fd59d93fb9f4343690062fe"),
        transactions_root: b256!("222c814f9fa5fe63899dd415623eea2a31df844743fbda32339b788fad74ea5b"),
        receipts_root: b256!("5a192cfacfa828e351d620219f8b164bc450c03a3ee437e136de609250d9d05c"),
        difficulty: U256::from(0x8d51_aa3e_06d7u64),
        number: 10_000_000,
        gas_limit: 0x79_f39e,
        gas_used: 0x6b_3220,
        timestamp: 0x5e70_68d0,
        extra_data: b"EthereumClassicPPLNS/2miners".into(),
        mix_hash: b256!("eeecef23e81ea2b635fe4ddb1b0a73f672185442c580d7ef3c069269566b9fe6"),
        pow_nonce: 0x2e56_4000_11aa_68bb,
        ..Default::default()
    }
}

/// Block 15,000,000 of Ethereum Classic, with Etchash. It has an uncle and logs. Source: as block
/// 10,000,000.
fn header_of_etchash() -> Header {
    // The bits of the bloom that are set: byte and value.
    const BLOOM: [(usize, u8); 23] = [
        (14, 0x1),
        (17, 0x40),
        (18, 0x80),
        (35, 0x20),
        (54, 0x4),
        (60, 0x41),
        (89, 0x10),
        (93, 0x20),
        (94, 0x20),
        (99, 0x40),
        (100, 0x2),
        (109, 0x80),
        (110, 0x8),
        (111, 0x20),
        (113, 0x20),
        (153, 0x1),
        (178, 0x20),
        (184, 0x8),
        (208, 0x10),
        (210, 0x2),
        (214, 0x2),
        (222, 0x20),
        (244, 0x4),
    ];
    let mut bloom = [0; 256];
    for (byte, value) in BLOOM {
        bloom[byte] = value;
    }
    Header {
        parent_hash: b256!("ebf1b5d82c42d8fa8dcce8cb2a3a24cc9247a2781bed92e692db93a1061cc8e2"),
        uncles_hash: b256!("04f61d1bb93de95612070cddb43a70dcf8170395029266b9a85e300a30ace389"),
        beneficiary: address!("8ccfe15255cddcd20fc667fc508936c74e91e5c1"),
        state_root: b256!("050bc26b273da87b05812dc37c9dbc22399fa012d3833a7b6e0addbb3debbcb7"),
        transactions_root: b256!("c068e810273bb69f4bf9a87de71a9ca07b51df4db2a139155bd7bdc54e3368b4"),
        receipts_root: b256!("1cb808c3d7074667a9b8014a6d1c2b8e77ab8a4f4ea4fc21aa82ff3cbe874a30"),
        logs_bloom: bloom.into(),
        difficulty: U256::from(0x1_4435_0f51_ecabu64),
        number: 15_000_000,
        gas_limit: 0x7a_1200,
        gas_used: 0x2_60bb,
        timestamp: 0x6266_8324,
        extra_data: b"Cruxpool PPS/us".into(),
        mix_hash: b256!("d42078e487ac321317e73b98cf8f6f70e5c30bbc38c1cf8d11fc03add955a096"),
        pow_nonce: 0x5172_2f9f_5fe9_570d,
    }
}

/// The hash of a header without its seal cannot be looked up anywhere. So the seal is right only if
/// this hash, the epoch, both hashes of Ethash and the difficulty are those of the network.
#[test]
fn seals_before_and_after_etchash_are_right() {
    let seals = SealCheck::Ethash(LightCaches::new());
    let spec = ChainSpec::classic();
    for (header, epoch) in [
        (header_of_ethash(), Epoch::ethash(333)),
        (header_of_etchash(), Epoch::etchash(250)),
    ] {
        let number = header.number;
        assert_eq!(spec.schedule.epoch(number), epoch, "{number}");
        seals.check_seal(&spec, &header).expect("a right seal");
        let changes: [fn(&mut Header); 3] = [
            |header| header.pow_nonce ^= 1,
            |header| header.gas_used += 1,
            |header| header.difficulty += U256::from(1),
        ];
        for change in changes {
            let mut changed = header.clone();
            change(&mut changed);
            assert!(seals.check_seal(&spec, &changed).is_err(), "{number}");
        }
    }
}

/// The folder with the other judges.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CLASSIC_JUDGES").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: CLASSIC_JUDGES is not set; it names a folder with chains and blocks");
    }
    folder
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The blocks of a file, each of which is one RLP item.
fn blocks(bytes: &[u8]) -> Vec<Block> {
    let mut items = RlpReader::over(bytes);
    let mut blocks = Vec::new();
    while !items.is_empty() {
        let item = items.raw("block").expect("an item");
        blocks.push(Block::decode(item, TxRules::Ethereum).expect("a block"));
    }
    blocks
}

/// Two blocks of Ethereum Classic from its first year: seals, senders, and the rules of headers.
#[test]
fn real_blocks_follow_the_rules() {
    let Some(folder) = folder() else { return };
    let mut found = Vec::new();
    for path in entries(&folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("block_") {
            found.extend(blocks(&std::fs::read(&path).expect("readable")));
        }
    }
    let seals = SealCheck::Ethash(LightCaches::new());
    let spec = ChainSpec::classic();
    for block in &found {
        let number = block.header.number;
        seals.check_seal(&spec, &block.header).expect("a right seal");
        assert_eq!(
            transactions_root(&block.transactions),
            block.header.transactions_root
        );
        let senders = senders(&spec, number, &block.transactions).expect("senders");
        println!("block {number}: {} transactions", senders.len());
    }
    for pair in found.windows(2) {
        assert_eq!(pair[1].header.parent_hash, pair[0].header.hash());
        check_header(&spec, &pair[1].header, &pair[0].header, None).expect("a header that follows the rules");
    }
    println!("{} real blocks", found.len());
    assert!(!found.is_empty(), "the folder has no block_*.blocks");
}

/// All blocks with their real seals, up to the last one.
#[test]
fn condensed_chains_are_imported() {
    let Some(folder) = folder() else { return };
    let seals = LightCaches::new();
    let mut chains = 0;
    for chain in entries(&folder).into_iter().filter(|path| path.is_dir()) {
        let files = entries(&chain);
        let ends = |path: &&PathBuf, end: &str| path.to_string_lossy().ends_with(end);
        let Some(config) = files.iter().find(|path| ends(path, ".conf.json")) else {
            continue;
        };
        let text = std::fs::read_to_string(config).expect("readable");
        let spec = ChainSpec::from_genesis_file("condensed", &text)
            .expect("a genesis file")
            .spec;
        let file = std::fs::File::open(chain.join("export.rlp.gz")).expect("readable");
        let mut bytes = Vec::new();
        GzDecoder::new(file).read_to_end(&mut bytes).expect("a gzip file");
        let node = Node::with_seals(&Arc::new(spec), SealCheck::Ethash(seals.clone()));
        let (mut imported, mut transactions) = (0, 0);
        for block in blocks(&bytes).iter().filter(|block| block.header.number > 0) {
            let number = block.header.number;
            node.import(block)
                .unwrap_or_else(|error| panic!("{}: block {number}: {error}", chain.display()));
            imported += 1;
            transactions += block.transactions.len();
        }
        println!(
            "{}: {imported} blocks, {transactions} transactions",
            chain.display()
        );
        chains += 1;
    }
    assert!(chains > 0, "the folder has no condensed chains");
}
