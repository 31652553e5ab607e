//! A miner over `mc_getWork` with an independent implementation of Ethash.

use e2e::Vnode;
use e2e::clients::python;
use serde_json::json;

/// Blocks to seal. Each takes the library some twelve seconds of processor time.
const BLOCKS: usize = 2;

#[test]
fn an_outside_miner_with_its_own_ethash_seals_blocks() {
    let Some(clients) = python() else { return };
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let sealed = clients.run("outside_miner.py", &json!({"url": node.url(), "blocks": BLOCKS}));
    let sealed = sealed.as_array().expect("a list");
    assert_eq!((sealed.len(), node.head()), (BLOCKS, BLOCKS as u128));
    for (one, number) in sealed.iter().zip(1..) {
        let block = node.block(number);
        assert_eq!(
            (&block["nonce"], &block["mixHash"]),
            (&one["nonce"], &one["mixHash"])
        );
        assert_eq!(one["block"], block);
    }
}
