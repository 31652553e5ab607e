//! Contracts, checks and conversions that several test modules use.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chain::check::{CheckEvent, CheckFault, CheckSummary, check_store};
use chain::import::BlockId;
use chain::import::stream_import::import_stream;
use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, Transaction};
use store::Store;

use crate::common::{Maker, Node, account, deploys, hex, sign, unsigned};

/// The address of the contract that [`create_slot_writer`] creates.
pub(crate) fn slot_writer() -> Address {
    Transaction::created_address(&account(0), 0)
}

/// The first transaction of dev account 0: it creates a contract that writes a slot and emits a
/// log.
pub(crate) fn create_slot_writer() -> Transaction {
    // SSTORE(word 0, word 1), LOG0.
    let code = deploys(&hex("6020 35 6000 35 55 6020 6000 a0"));
    sign(0, &unsigned(0, None, 0, &code))
}

/// Transaction `nonce` of dev account 0: it writes a slot of the contract [`slot_writer`].
pub(crate) fn write_slot(nonce: u64, slot: u8, value: u8) -> Transaction {
    let data = [B256::with_last_byte(slot), B256::with_last_byte(value)].concat();
    sign(0, &unsigned(nonce, Some(slot_writer()), 0, &data))
}

/// The number and hash of a block.
pub(crate) fn block_id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

/// A view of the node's chain as it is now.
pub(crate) fn view(node: &Node, maker: &Maker) -> View {
    View::new(&node.store, maker.spec.clone()).expect("a store with a head")
}

/// A new node that has imported these blocks from a stream.
pub(crate) fn import_as_stream<'b>(
    spec: &Arc<ChainSpec>,
    blocks: impl IntoIterator<Item = &'b Block>,
) -> Node {
    let node = Node::new(spec);
    import_as_stream_into(&node, blocks);
    node
}

/// Imports these blocks from a stream.
pub(crate) fn import_as_stream_into<'b>(node: &Node, blocks: impl IntoIterator<Item = &'b Block>) {
    let bytes: Vec<u8> = blocks.into_iter().flat_map(Block::encode).collect();
    let input = Box::new(Cursor::new(bytes));
    import_stream(&node.importer, input, &AtomicBool::new(false), |_| ()).expect("valid blocks");
}

/// Checks a store. Returns the check's counts and its faults.
pub(crate) fn check_faults(store: &Store, spec: &ChainSpec, full: bool) -> (CheckSummary, Vec<CheckFault>) {
    let mut faults = Vec::new();
    let summary = check_store(store, spec, full, &AtomicBool::new(false), &mut |event| {
        if let CheckEvent::Fault(fault) = event {
            faults.push(fault.clone());
        }
    });
    (summary.expect("a store with a chain"), faults)
}

/// Asserts that a full check of the store finds no fault.
#[track_caller]
pub(crate) fn assert_sound(store: &Store, spec: &ChainSpec) {
    assert_eq!(check_faults(store, spec, true).1, []);
}
