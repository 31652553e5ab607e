//! Proofs of accounts and slots (EIP-1186).

use chain::import::KEPT_TRIES;
use chain::proof::AccountProof;
use primitives::{Address, B256, U256};
use serde::Serialize;

use super::lookup::stored_number;
use super::request::Word;
use crate::budget::reserve_values;
use crate::decode::FromParam;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::JsonOf;
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Data, ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// Bytes that are reserved for the proof of an account or of a slot. The paths of a trie with 4
/// billion keys have 8 branches of 532 bytes.
const PROOF_LEN: usize = 8 * 532;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_getProof", ["address", "positions", "block"], proof).summary(
            "Returns an account and slots of its storage, with the trie nodes that prove them against \
             the state root of the block, which must be one of the last 128.",
        ),
    ]
}

/// A slot's position, which the answer repeats in its form: QUANTITY, or DATA of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotPosition {
    slot: U256,
    is_data: bool,
}

impl FromParam for SlotPosition {
    const TYPE: WireType = <Word as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let Word(slot) = Word::from_json(json)?;
        let is_data = json.len() == "\"0x\"".len() + 64;
        Ok(Self { slot, is_data })
    }
}

impl Described for SlotPosition {
    const TYPE: WireType = <Self as FromParam>::TYPE;
}

impl Serialize for SlotPosition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_data {
            Data(B256::from(self.slot)).serialize(serializer)
        } else {
            Quantity(self.slot).serialize(serializer)
        }
    }
}

/// An account with its proof, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountProofObject<'a> {
    address: Data<Address>,
    account_proof: Vec<Data<&'a [u8]>>,
    balance: Quantity<U256>,
    code_hash: Data<B256>,
    nonce: Quantity,
    storage_hash: Data<B256>,
    storage_proof: Vec<SlotProofObject<'a>>,
}

impl Described for AccountProofObject<'_> {
    const TYPE: WireType = WireType::Named("AccountProof");
}

#[derive(Serialize)]
struct SlotProofObject<'a> {
    key: SlotPosition,
    value: Quantity<U256>,
    proof: Vec<Data<&'a [u8]>>,
}

/// `mc_getProof`.
fn proof(
    node: &Node,
    (address, positions, at): (Address, Vec<SlotPosition>, BlockRef),
) -> RpcResult<JsonOf<AccountProofObject<'static>>> {
    let view = node.view()?;
    let number = stored_number(&view, at, "proof")?;
    reserve_values(PROOF_LEN * (1 + positions.len()))?;
    let slots: Vec<_> = positions.iter().map(|position| position.slot).collect();
    let Some(proof) = view.proof(number, &address, &slots).map_err(failure)? else {
        let (oldest, head) = (view.oldest_tries().map_err(failure)?, view.head_number());
        return Err(RpcError::refused(format!(
            "no proof of block {number}: trie nodes are kept for the last {KEPT_TRIES} blocks, expected block {oldest} to {head}"
        )));
    };
    JsonOf::write(&object(address, &positions, &proof))
}

fn object<'a>(
    address: Address,
    positions: &[SlotPosition],
    proof: &'a AccountProof,
) -> AccountProofObject<'a> {
    let slots = positions.iter().zip(&proof.slots);
    AccountProofObject {
        address: Data(address),
        account_proof: nodes(&proof.nodes),
        balance: Quantity(proof.balance),
        code_hash: Data(proof.code_hash),
        nonce: Quantity(proof.tx_nonce),
        storage_hash: Data(proof.storage_root),
        storage_proof: slots
            .map(|(position, slot)| SlotProofObject {
                key: *position,
                value: Quantity(slot.value),
                proof: nodes(&slot.nodes),
            })
            .collect(),
    }
}

fn nodes(nodes: &[Vec<u8>]) -> Vec<Data<&[u8]>> {
    nodes.iter().map(|node| Data(node.as_slice())).collect()
}
