//! Answers requests for parts of recent states, each with its proof.
//!
//! | limit | value |
//! |---|---|
//! | bytes of an answer | as many as were asked for, at most [`ANSWER_BYTES`], and the entry that exceeds them |
//! | one storage beyond that | a tenth |
//! | accounts of a request for storages | [`STORAGE_ACCOUNTS_MAX`] |
//! | codes, trie nodes | [`ITEMS_MAX`] |
//!
//! An answer to a request for a state that is not served has no entries and no proof. At least one
//! entry is sent, however few bytes are asked for. Source: ethereum/devp2p, `caps/snap.md`.

#[cfg(test)]
mod tests;

use chain::trie::{NodeSource, StoredLeaf, prove_range, row_of_node};
use primitives::{B256, Bytes, EMPTY_CODE_HASH, EMPTY_ROOT, U256};
use store::{AccountRecord, StoreError};

use super::serve::ANSWER_BYTES;
use crate::messages::snap::{
    AccountRange, AccountRangeRequest, ByteCodesRequest, PathSet, SnapMessage, StorageRanges,
    StorageRangesRequest, TrieNodesRequest, account_bytes, slot_bytes,
};

/// The most codes of an answer, and the most trie nodes that are looked up for one.
pub(crate) const ITEMS_MAX: usize = 1024;
/// The most accounts of a request for storages that are looked at.
pub(crate) const STORAGE_ACCOUNTS_MAX: usize = 4096;
/// The longest path, in nibbles.
const PATH_NIBBLES_MAX: usize = 64;

/// The recent states of a chain.
pub trait SnapSource: Send + Sync {
    /// The state with this root, if it is that of one of the last 128 canonical blocks and not of
    /// block 0. All reads of the result see one moment of the store.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    fn state(&self, root: &B256) -> Result<Option<Box<dyn SnapState + '_>>, StoreError>;

    /// The code with this hash.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    fn code(&self, hash: &B256) -> Result<Option<Bytes>, StoreError>;
}

/// One state: accounts by the hashes of their addresses, slots by the hashes of their numbers.
/// Methods give [`StoreError`] when the store fails.
pub trait SnapState {
    /// The account with this hash.
    fn account(&self, hash: &B256) -> Result<Option<AccountRecord>, StoreError>;

    /// Hands over the accounts from the hash `from` on, in order, until `visit` returns `false`.
    fn accounts(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, AccountRecord) -> bool,
    ) -> Result<(), StoreError>;

    /// Hands over the slots of an account from the hash `from` on, in order, until `visit` returns
    /// `false`. No value is zero.
    fn slots(
        &self,
        account: &B256,
        from: &B256,
        visit: &mut dyn FnMut(B256, U256) -> bool,
    ) -> Result<(), StoreError>;

    /// The RLP of the node at a path of the state's trie, or of the storage trie of `account`. The
    /// path has one nibble per byte. A node that is embedded in its parent is none.
    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
}

/// The trie of a state, or of an account's storage.
struct TrieOf<'a> {
    state: &'a dyn SnapState,
    account: Option<&'a B256>,
}

impl NodeSource for TrieOf<'_> {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.node(self.account, path)?.map(row_of_node))
    }

    /// Leaves come as nodes, too.
    fn leaf(&self, _path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        Ok(None)
    }
}

impl TrieOf<'_> {
    fn prove(&self, root: B256, origin: &B256, last: Option<&B256>) -> Result<Vec<Bytes>, StoreError> {
        let nodes = prove_range(self, &[], root, origin, last)?;
        Ok(nodes.into_iter().map(Bytes::from).collect())
    }
}

/// Cuts off what [`answer`] would not look at, so that a request that waits takes little memory.
pub(crate) fn cut(request: &mut SnapMessage) {
    match request {
        SnapMessage::GetByteCodes(_, request) => {
            request.hashes.truncate(ITEMS_MAX);
            request.hashes.shrink_to_fit();
        }
        SnapMessage::GetStorageRanges(_, request) => {
            request.accounts.truncate(STORAGE_ACCOUNTS_MAX);
            request.accounts.shrink_to_fit();
        }
        SnapMessage::GetTrieNodes(_, request) => {
            request.paths.truncate(ITEMS_MAX);
            let mut left = ITEMS_MAX;
            for set in &mut request.paths {
                set.truncate(left.max(1) + 1);
                left = left.saturating_sub(set.len());
            }
        }
        _ => {}
    }
}

/// The answer to `request`. `None` if the message is no request. Trie nodes are looked up while
/// `has_time` says so.
///
/// # Errors
/// [`StoreError`] if the state cannot be read.
pub(crate) fn answer(
    source: &dyn SnapSource,
    request: &SnapMessage,
    has_time: &dyn Fn() -> bool,
) -> Result<Option<SnapMessage>, StoreError> {
    Ok(Some(match request {
        SnapMessage::GetAccountRange(id, request) => {
            SnapMessage::AccountRange(*id, account_range(source, request)?)
        }
        SnapMessage::GetStorageRanges(id, request) => {
            SnapMessage::StorageRanges(*id, storage_ranges(source, request)?)
        }
        SnapMessage::GetByteCodes(id, request) => SnapMessage::ByteCodes(*id, codes(source, request)?),
        SnapMessage::GetTrieNodes(id, request) => {
            SnapMessage::TrieNodes(*id, trie_nodes(source, request, has_time)?)
        }
        _ => return Ok(None),
    }))
}

/// The bytes that an answer may have before its last entry.
fn soft_cap(asked: u64) -> usize {
    usize::try_from(asked).unwrap_or(usize::MAX).min(ANSWER_BYTES)
}

fn account_range(source: &dyn SnapSource, request: &AccountRangeRequest) -> Result<AccountRange, StoreError> {
    let Some(state) = source.state(&request.root)? else {
        return Ok(AccountRange::default());
    };
    let (mut accounts, mut bytes) = (Vec::new(), 0);
    let cap = soft_cap(request.bytes);
    state.accounts(&request.origin, &mut |hash, account| {
        bytes += account_bytes(&account);
        accounts.push((hash, account));
        hash < request.limit && bytes <= cap
    })?;
    let last = accounts.last().map(|(hash, _)| hash);
    let trie = TrieOf {
        state: &*state,
        account: None,
    };
    // Always, even for the whole trie: some nodes refuse an answer without it.
    let proof = trie.prove(request.root, &request.origin, last)?;
    Ok(AccountRange { accounts, proof })
}

fn storage_ranges(
    source: &dyn SnapSource,
    request: &StorageRangesRequest,
) -> Result<StorageRanges, StoreError> {
    let mut answer = StorageRanges::default();
    let Some(state) = source.state(&request.root)? else {
        return Ok(answer);
    };
    let cap = soft_cap(request.bytes);
    let hard_cap = cap + cap / 10;
    let mut bytes = 0;
    for (index, hash) in request.accounts.iter().take(STORAGE_ACCOUNTS_MAX).enumerate() {
        if index > 0 && bytes >= cap {
            break;
        }
        let (origin, limit) = if index == 0 {
            (request.origin, request.limit)
        } else {
            (B256::ZERO, B256::repeat_byte(0xff))
        };
        let (mut slots, mut is_cut) = (Vec::new(), false);
        state.slots(hash, &origin, &mut |slot, value| {
            if bytes >= hard_cap && !(index == 0 && slots.is_empty()) {
                is_cut = true;
                return false;
            }
            bytes += slot_bytes(&value);
            slots.push((slot, value));
            slot < limit
        })?;
        let needs_proof = origin != B256::ZERO || is_cut;
        let last = slots.last().map(|(slot, _)| *slot);
        if last.is_some() {
            answer.slots.push(slots);
        }
        if needs_proof {
            if is_cut && last.is_none() {
                // The storages before it are whole.
                break;
            }
            let account = state.account(hash)?;
            let root = account.map_or(EMPTY_ROOT, |account| account.storage_root);
            let trie = TrieOf {
                state: &*state,
                account: Some(hash),
            };
            answer.proof = trie.prove(root, &origin, last.as_ref())?;
            break;
        }
    }
    Ok(answer)
}

fn codes(source: &dyn SnapSource, request: &ByteCodesRequest) -> Result<Vec<Bytes>, StoreError> {
    let (mut codes, mut bytes) = (Vec::new(), 0);
    for hash in request.hashes.iter().take(ITEMS_MAX) {
        let code = if *hash == EMPTY_CODE_HASH {
            Some(Bytes::new())
        } else {
            source.code(hash)?
        };
        if let Some(code) = code {
            bytes += code.len();
            codes.push(code);
        }
        if bytes > soft_cap(request.bytes) {
            break;
        }
    }
    Ok(codes)
}

fn trie_nodes(
    source: &dyn SnapSource,
    request: &TrieNodesRequest,
    has_time: &dyn Fn() -> bool,
) -> Result<Vec<Bytes>, StoreError> {
    let Some(state) = source.state(&request.root)? else {
        return Ok(Vec::new());
    };
    let (mut nodes, mut bytes, mut lookups) = (Vec::new(), 0, 0);
    for set in &request.paths {
        let (owner, paths) = split_set(set);
        let mut known = None;
        if let Some(hash) = owner {
            lookups += 1;
            match state.account(&hash)? {
                Some(account) => known = Some((hash, account.storage_root)),
                // Left out, with all of its paths.
                None => continue,
            }
        }
        for path in paths {
            let node = match nibbles(path) {
                Some(_) if known.is_some_and(|(_, root)| root == EMPTY_ROOT) => None,
                Some(path) => state.node(known.as_ref().map(|(hash, _)| hash), &path)?,
                None => None,
            };
            lookups += 1;
            let node = Bytes::from(node.unwrap_or_default());
            bytes += node.len();
            nodes.push(node);
            if bytes > soft_cap(request.bytes) || lookups >= ITEMS_MAX || !has_time() {
                return Ok(nodes);
            }
        }
    }
    Ok(nodes)
}

/// The account whose storage trie the paths are of, and the paths.
fn split_set(set: &PathSet) -> (Option<B256>, &[Bytes]) {
    match set.split_first() {
        Some((first, paths)) if !paths.is_empty() => {
            let hash = (first.len() <= 32).then(|| B256::left_padding_from(first));
            // No account has a longer hash, so nothing is found.
            (Some(hash.unwrap_or_default()), paths)
        }
        _ => (None, set),
    }
}

/// The nibbles of a path in hex-prefix encoding. `None` if no node can be there.
fn nibbles(path: &[u8]) -> Option<Vec<u8>> {
    let Some((first, rest)) = path.split_first() else {
        return Some(Vec::new());
    };
    // Values have no nodes of their own.
    let is_value = first & 0x20 != 0;
    let odd = (first & 0x10 != 0).then_some(first & 0xf);
    let length = rest.len() * 2 + usize::from(odd.is_some());
    if is_value || length > PATH_NIBBLES_MAX {
        return None;
    }
    let pairs = rest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    Some(odd.into_iter().chain(pairs).collect())
}
