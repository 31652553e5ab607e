//! The fork id of a chain (EIP-2124), by which nodes of different networks recognize each other
//! early.
//!
//! The fork id is a checksum of the hash of block 0 and of the past forks, and the block of the
//! next fork. Only Ethereum's family has it. Source: docs/p2p.md, 6.

use alloy_eip2124::{ForkFilter, ForkFilterKey, Head};
use chain::ChainSpec;
use chain::spec::ChainFamily;
use primitives::{B256, hex};

/// Judges the fork ids of others, for a node at block `head`. It also has the node's own. `None`
/// for the public network's family, which has no fork ids.
pub fn fork_filter(spec: &ChainSpec, genesis_hash: B256, head: u64) -> Option<ForkFilter> {
    if spec.family != ChainFamily::Ethereum {
        return None;
    }
    let keys = spec.fork_blocks().into_iter().map(ForkFilterKey::Block);
    let head = fork_head(head);
    Some(ForkFilter::new(head, genesis_hash, spec.genesis.timestamp, keys))
}

/// The checksum of block 0 and of the forks up to `block` (EIP-2124); `None` for a family without
/// fork ids.
pub fn fork_hash(spec: &ChainSpec, genesis_hash: B256, block: u64) -> Option<[u8; 4]> {
    fork_filter(spec, genesis_hash, block).map(|filter| filter.current().hash.0)
}

/// Returns the rules that a node at block `head` knows, for its log: those of the next block, the
/// next ones, and the last ones, each with its first block and its fork id. `None` for a family
/// without fork ids.
pub fn known_rules(spec: &ChainSpec, genesis_hash: B256, head: u64) -> Option<String> {
    let at = |block: u64| {
        let hash = fork_hash(spec, genesis_hash, block)?;
        Some(format!("from block {block} on (fork id {})", hex::encode(hash)))
    };
    let mut blocks = spec.fork_blocks();
    blocks.sort_unstable();
    let next_block = head.saturating_add(1);
    let current = blocks.iter().rev().find(|block| **block <= next_block);
    let current = at(current.copied().unwrap_or_default())?;
    let next = blocks.iter().find(|block| **block > next_block);
    let next = next.map_or_else(|| Some("none that is known".to_owned()), |block| at(*block))?;
    let last = match &spec.unsupported {
        Some((name, block)) => {
            format!("this program does not have `{name}`: the node stops before block {block}")
        }
        None => format!("last known {}", at(blocks.last().copied().unwrap_or_default())?),
    };
    Some(format!("current {current}; next {next}; {last}"))
}

/// The head for [`ForkFilter::set_head`]. Forks begin at blocks, so the number is all that counts.
pub(crate) fn fork_head(number: u64) -> Head {
    Head {
        number,
        ..Head::default()
    }
}

#[cfg(test)]
mod tests {
    use alloy_eip2124::{ForkHash, ForkId};
    use chain::spec::{DaoFork, ETHEREUM_FORKS, ForkBlock, RuleTable};
    use primitives::b256;

    use super::*;

    const MAINNET: B256 = b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");

    fn ethereum(first_blocks: [ForkBlock; ETHEREUM_FORKS.len()]) -> ChainSpec {
        ChainSpec {
            family: ChainFamily::Ethereum,
            rules: RuleTable::ethereum(first_blocks),
            ..ChainSpec::dev()
        }
    }

    fn mainnet() -> ChainSpec {
        let forks = [
            Some(1_150_000),
            Some(2_463_000),
            Some(2_675_000),
            Some(2_675_000),
            Some(4_370_000),
            Some(7_280_000),
            Some(7_280_000),
            Some(9_069_000),
            Some(9_200_000),
            None,
            None,
            None,
        ];
        ChainSpec {
            dao: Some(DaoFork {
                block: 1_920_000,
                support: true,
            }),
            unsupported: Some(("Berlin".to_owned(), 12_244_000)),
            ..ethereum(forks)
        }
    }

    const fn id(hash: u32, next: u64) -> ForkId {
        ForkId {
            hash: ForkHash(hash.to_be_bytes()),
            next,
        }
    }

    /// The first six rows are in EIP-2124, the others in go-ethereum's `core/forkid`.
    #[test]
    fn ids_of_ethereums_main_network() {
        for (head, expected) in [
            (0, id(0xfc64_ec04, 1_150_000)),
            (1_149_999, id(0xfc64_ec04, 1_150_000)),
            (1_150_000, id(0x97c2_c34c, 1_920_000)),
            (1_920_000, id(0x91d1_f948, 2_463_000)),
            (2_463_000, id(0x7a64_da13, 2_675_000)),
            (2_675_000, id(0x3edd_5b10, 4_370_000)),
            (4_370_000, id(0xa00b_c324, 7_280_000)),
            (7_280_000, id(0x668d_b0af, 9_069_000)),
            (9_069_000, id(0x879d_6e30, 9_200_000)),
            (9_200_000, id(0xe029_e991, 12_244_000)),
        ] {
            let filter = fork_filter(&mainnet(), MAINNET, head).expect("Ethereum's family");
            assert_eq!(filter.current(), expected, "{head}");
        }
    }

    #[test]
    fn the_log_says_which_rules_are_known() {
        let spec = ChainSpec::classic();
        let genesis = spec.genesis_hash.expect("a public network");
        let at = |head| known_rules(&spec, genesis, head).expect("Ethereum's family");
        assert_eq!(
            at(19_249_998),
            "current from block 14525000 on (fork id 7fd1bb25); \
             next from block 19250000 on (fork id be46d57c); \
             last known from block 19250000 on (fork id be46d57c)"
        );
        assert_eq!(
            at(19_249_999),
            "current from block 19250000 on (fork id be46d57c); next none that is known; \
             last known from block 19250000 on (fork id be46d57c)"
        );
        assert!(at(0).starts_with("current from block 0 on (fork id fc64ec04); next from block 1150000 on"));
        let later = known_rules(&mainnet(), MAINNET, 0).expect("Ethereum's family");
        assert!(
            later.ends_with("does not have `Berlin`: the node stops before block 12244000"),
            "{later}"
        );
        assert_eq!(known_rules(&ChainSpec::dev(), MAINNET, 0), None);
    }

    /// Source: docs/etc.md, 1.
    #[test]
    fn ids_of_ethereum_classic_and_mordor() {
        // Beside the first block of each row, its next and its last block, and some early ones: the
        // heads of core-geth's `core/forkid` are among them.
        let check = |spec: &ChainSpec, rows: &[(u64, u32, u64)]| {
            let genesis = spec.genesis_hash.expect("a public network");
            for (first, hash, next) in rows.iter().copied() {
                let last = next.checked_sub(1).unwrap_or(u64::MAX);
                let early: &[u64] = if first == 0 { &[1, 2, 3, 9, 10] } else { &[] };
                for head in early.iter().copied().chain([first, first + 1, last]) {
                    let filter = fork_filter(spec, genesis, head).expect("Ethereum's family");
                    assert_eq!(filter.current(), id(hash, next), "{} {head}", spec.name);
                }
            }
        };
        check(
            &ChainSpec::classic(),
            &[
                (0, 0xfc64_ec04, 1_150_000),
                (1_150_000, 0x97c2_c34c, 2_500_000),
                (2_500_000, 0xdb06_803f, 3_000_000),
                (3_000_000, 0xaff4_bed4, 5_000_000),
                (5_000_000, 0xf79a_63c0, 5_900_000),
                (5_900_000, 0x7448_99d6, 8_772_000),
                (8_772_000, 0x518b_59c6, 9_573_000),
                (9_573_000, 0x7ba2_2882, 10_500_839),
                (10_500_839, 0x9007_bfcc, 11_700_000),
                (11_700_000, 0xdb63_a1ca, 13_189_133),
                (13_189_133, 0x0f6b_f187, 14_525_000),
                (14_525_000, 0x7fd1_bb25, 19_250_000),
                (19_250_000, 0xbe46_d57c, 0),
            ],
        );
        check(
            &ChainSpec::mordor(),
            &[
                (0, 0x1757_82aa, 301_243),
                (301_243, 0x604f_6ee1, 999_983),
                (999_983, 0xf42f_5539, 2_520_000),
                (2_520_000, 0x66b5_c286, 3_985_893),
                (3_985_893, 0x92b3_23e0, 5_520_000),
                (5_520_000, 0x8c9b_1797, 9_957_000),
                (9_957_000, 0x3a6b_00d7, 0),
            ],
        );
    }

    /// Source: docs/p2p.md, 6.
    #[test]
    fn forks_at_block_0_do_not_count() {
        let mut forks = [None; ETHEREUM_FORKS.len()];
        (forks[0], forks[7]) = (Some(0), Some(0));
        let spec = ethereum(forks);
        let filter = fork_filter(&spec, MAINNET, 5).expect("Ethereum's family");
        assert_eq!(filter.current(), id(0xfc64_ec04, 0));
        assert_eq!(fork_filter(&ChainSpec::main(), MAINNET, 5), None);
    }

    #[test]
    fn other_networks_are_recognized() {
        // Rows of core-geth's `core/forkid`, for peers of Ethereum's main network.
        for (head, remote, is_accepted) in [
            (7_279_999, id(0xa00b_c324, 0), true),
            (7_279_999, id(0xa00b_c324, 7_280_000), true),
            (7_279_999, id(0xa00b_c324, u64::MAX), true),
            (7_280_000, id(0xa00b_c324, 7_280_000), true),
            (7_987_396, id(0xa00b_c324, 7_280_000), true),
            (7_987_396, id(0x3edd_5b10, 4_370_000), true),
            (7_279_999, id(0x668d_b0af, 0), true),
            (4_369_999, id(0xa00b_c324, 0), true),
            (7_987_396, id(0xa00b_c324, 0), false),
            (7_987_396, id(0x5cdd_c0e1, 0), false),
            (7_279_999, id(0x5cdd_c0e1, 0), false),
            (7_987_396, id(0xafec_6b27, 0), false),
            (7_279_999, id(0xa00b_c324, 7_279_999), false),
        ] {
            let filter = fork_filter(&mainnet(), MAINNET, head).expect("Ethereum's family");
            assert_eq!(filter.validate(remote).is_ok(), is_accepted, "{head} {remote:?}");
        }
        // Ethereum Classic and Ethereum have the same block 0.
        let classic = fork_filter(&ChainSpec::classic(), MAINNET, 20_000_000).expect("Ethereum's family");
        assert!(classic.validate(id(0xbe46_d57c, 0)).is_ok());
        assert!(classic.validate(id(0x0eb4_40f6, 12_965_000)).is_err());
        let mut filter = fork_filter(&mainnet(), MAINNET, 7_987_396).expect("Ethereum's family");
        filter.set_head(fork_head(9_100_000));
        assert_eq!(filter.current(), id(0x879d_6e30, 9_200_000));
    }
}
