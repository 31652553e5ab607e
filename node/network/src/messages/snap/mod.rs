//! The messages of the capability `snap/1`: parts of a state, with proofs.
//!
//! A satellite of `eth`: it has no Status, and is used only on a connection that has `eth`, too.
//! Inside of this package its codes follow [`codes::SNAP`](super::codes::SNAP), so that one message
//! type serves both. Source: ethereum/devp2p, `caps/snap.md`.

mod codec;
#[cfg(test)]
mod tests;

pub(crate) use codec::{account_bytes, slot_bytes};

use primitives::{B256, Bytes, U256};
use store::AccountRecord;

use super::types::RequestId;
use crate::rlpx::OfferedCapability;

/// The capability as it is offered in a Hello.
pub const SNAP_OFFER: OfferedCapability = OfferedCapability {
    name: "snap",
    version: 1,
    length: 8,
};
/// The largest message, in bytes.
pub(crate) const SNAP_MESSAGE_BYTES_MAX: usize = 10 << 20;

/// Asks for accounts of a state, in order of their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRangeRequest {
    /// The root of the state.
    pub root: B256,
    /// The first hash.
    pub origin: B256,
    /// The answer ends with the first account at or behind this hash.
    pub limit: B256,
    /// The answer ends with the account that makes it longer than this.
    pub bytes: u64,
}

/// Accounts by the hashes of their addresses, and the nodes that prove the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountRange {
    /// The accounts.
    pub accounts: Vec<(B256, AccountRecord)>,
    /// The nodes on the paths of both ends.
    pub proof: Vec<Bytes>,
}

/// Asks for the storages of accounts, in order of the hashes of their slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageRangesRequest {
    /// The root of the state.
    pub root: B256,
    /// The hashes of the accounts' addresses.
    pub accounts: Vec<B256>,
    /// The first hash of a slot of the first account. Of the other accounts all slots are meant.
    pub origin: B256,
    /// The first account's answer ends with the first slot at or behind this hash.
    pub limit: B256,
    /// The answer ends with the slot that makes it longer than this.
    pub bytes: u64,
}

/// Slots by their hashes, a list for each account, and the nodes that prove the last list if it is
/// not a whole storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageRanges {
    /// The slots of each account.
    pub slots: Vec<Vec<(B256, U256)>>,
    /// The nodes on the paths of both ends of the last list.
    pub proof: Vec<Bytes>,
}

/// Asks for codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteCodesRequest {
    /// The hashes of the codes.
    pub hashes: Vec<B256>,
    /// The answer ends with the code that makes it longer than this.
    pub bytes: u64,
}

/// Paths of one trie. One path is of the state's trie. Of more, the first is the hash of an
/// account's address, and the others are of its storage trie. Paths are in hex-prefix encoding.
pub type PathSet = Vec<Bytes>;

/// Asks for trie nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrieNodesRequest {
    /// The root of the state.
    pub root: B256,
    /// The paths of the nodes. No set is empty.
    pub paths: Vec<PathSet>,
    /// The answer ends with the node that makes it longer than this.
    pub bytes: u64,
}

/// A message of `snap/1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapMessage {
    /// Asks for accounts.
    GetAccountRange(RequestId, AccountRangeRequest),
    /// Answers with accounts.
    AccountRange(RequestId, AccountRange),
    /// Asks for slots.
    GetStorageRanges(RequestId, StorageRangesRequest),
    /// Answers with slots.
    StorageRanges(RequestId, StorageRanges),
    /// Asks for codes.
    GetByteCodes(RequestId, ByteCodesRequest),
    /// Answers with codes, in the order of the request. Those that are not known are left out.
    ByteCodes(RequestId, Vec<Bytes>),
    /// Asks for trie nodes.
    GetTrieNodes(RequestId, TrieNodesRequest),
    /// Answers with nodes, in the order of the request. Where there is no node, there are no bytes.
    TrieNodes(RequestId, Vec<Bytes>),
}

impl SnapMessage {
    /// The code, counted from the capability's first one.
    pub const fn code(&self) -> u64 {
        match self {
            Self::GetAccountRange(..) => codec::GET_ACCOUNT_RANGE,
            Self::AccountRange(..) => codec::ACCOUNT_RANGE,
            Self::GetStorageRanges(..) => codec::GET_STORAGE_RANGES,
            Self::StorageRanges(..) => codec::STORAGE_RANGES,
            Self::GetByteCodes(..) => codec::GET_BYTE_CODES,
            Self::ByteCodes(..) => codec::BYTE_CODES,
            Self::GetTrieNodes(..) => codec::GET_TRIE_NODES,
            Self::TrieNodes(..) => codec::TRIE_NODES,
        }
    }

    /// Whether the message asks for something.
    pub const fn is_request(&self) -> bool {
        self.code().is_multiple_of(2)
    }

    /// The request that this message answers, or whose id it has.
    pub const fn request_id(&self) -> RequestId {
        match self {
            Self::GetAccountRange(id, _)
            | Self::AccountRange(id, _)
            | Self::GetStorageRanges(id, _)
            | Self::StorageRanges(id, _)
            | Self::GetByteCodes(id, _)
            | Self::ByteCodes(id, _)
            | Self::GetTrieNodes(id, _)
            | Self::TrieNodes(id, _) => *id,
        }
    }

    /// Gives the message another id.
    pub const fn set_request_id(&mut self, new: RequestId) {
        match self {
            Self::GetAccountRange(id, _)
            | Self::AccountRange(id, _)
            | Self::GetStorageRanges(id, _)
            | Self::StorageRanges(id, _)
            | Self::GetByteCodes(id, _)
            | Self::ByteCodes(id, _)
            | Self::GetTrieNodes(id, _)
            | Self::TrieNodes(id, _) => *id = new,
        }
    }
}
