//! The fork id of a chain (EIP-2124), by which nodes of different networks recognize each other
//! early.
//!
//! It is a checksum of the hash of block 0 and of the past forks, and the block of the next fork.
//! Only Ethereum's family has it. Source: docs/p2p.md, 6.

use alloy_eip2124::{ForkFilter, ForkFilterKey, Head};
use chain::ChainSpec;
use chain::spec::{ChainFamily, EthereumForks};
use primitives::B256;

/// Judges the fork ids of others, for a node at block `head`. It also has the node's own. `None`
/// for the public network's family, which has no fork ids.
pub fn fork_filter(spec: &ChainSpec, genesis_hash: B256, head: u64) -> Option<ForkFilter> {
    let ChainFamily::Ethereum(forks) = &spec.family else {
        return None;
    };
    let keys = fork_blocks(forks).into_iter().map(ForkFilterKey::Block);
    let head = fork_head(head);
    Some(ForkFilter::new(head, genesis_hash, spec.genesis.timestamp, keys))
}

/// The head for [`ForkFilter::set_head`]. Forks begin at blocks, so the number is all that counts.
pub fn fork_head(number: u64) -> Head {
    Head {
        number,
        ..Head::default()
    }
}

/// The first blocks of all forks. A fork counts even if a chain does not follow it, as other
/// clients count it by its line in the configuration.
fn fork_blocks(forks: &EthereumForks) -> Vec<u64> {
    let EthereumForks {
        homestead,
        dao,
        dao_support: _,
        eip150,
        eip155,
        eip158,
        byzantium,
        constantinople,
        petersburg,
        istanbul,
        muir_glacier,
        unsupported,
    } = forks;
    let known = [
        homestead,
        dao,
        eip150,
        eip155,
        eip158,
        byzantium,
        constantinople,
        petersburg,
        istanbul,
        muir_glacier,
    ];
    let next = unsupported.as_ref().map(|(_, first)| *first);
    known.into_iter().copied().chain([next]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use alloy_eip2124::{ForkHash, ForkId};
    use primitives::b256;

    use super::*;

    const MAINNET: B256 = b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");

    fn ethereum(forks: EthereumForks) -> ChainSpec {
        ChainSpec {
            family: ChainFamily::Ethereum(forks),
            ..ChainSpec::dev()
        }
    }

    fn mainnet() -> ChainSpec {
        ethereum(EthereumForks {
            homestead: Some(1_150_000),
            dao: Some(1_920_000),
            dao_support: true,
            eip150: Some(2_463_000),
            eip155: Some(2_675_000),
            eip158: Some(2_675_000),
            byzantium: Some(4_370_000),
            constantinople: Some(7_280_000),
            petersburg: Some(7_280_000),
            istanbul: Some(9_069_000),
            muir_glacier: Some(9_200_000),
            unsupported: Some(("Berlin".to_owned(), 12_244_000)),
        })
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

    /// Source: docs/p2p.md, 6.
    #[test]
    fn forks_at_block_0_do_not_count() {
        let spec = ethereum(EthereumForks {
            homestead: Some(0),
            istanbul: Some(0),
            ..EthereumForks::default()
        });
        let filter = fork_filter(&spec, MAINNET, 5).expect("Ethereum's family");
        assert_eq!(filter.current(), id(0xfc64_ec04, 0));
        assert_eq!(fork_filter(&ChainSpec::main(), MAINNET, 5), None);
    }

    #[test]
    fn other_networks_are_recognized() {
        let mut filter = fork_filter(&mainnet(), MAINNET, 7_987_396).expect("Ethereum's family");
        assert!(filter.validate(id(0x668d_b0af, 9_069_000)).is_ok());
        assert!(
            filter.validate(id(0xa00b_c324, 7_280_000)).is_ok(),
            "it is not synchronized yet"
        );
        assert!(filter.validate(id(0xafec_6b27, 0)).is_err(), "another network");
        filter.set_head(fork_head(9_100_000));
        assert_eq!(filter.current(), id(0x879d_6e30, 9_200_000));
    }
}
