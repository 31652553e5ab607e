//! Snapshots for SCSs that join: the state after the last block of a flush, in pages, and the few
//! blocks that go with it (docs/microchain-design.md, 7.1). The content of the messages, and how a
//! page is read from a chain.

use chain::View;
use chain::application::SIGNATURE_BYTES;
use chain::import::BlockId;
use chain::trie::{account_value, read_account_value};
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{
    Address, B256, Block, Bytes, DecodeError, EMPTY_CODE_HASH, EMPTY_ROOT, SecretKey, TxRules, U256,
    keccak256,
};
use store::{AccountKey, AccountRecord, StateReads, StoreError};

use crate::block::{HeaderRefusal, sign, signed_digest, signer};

/// The most blocks that go with a state: the one that names the members, the one with the creation
/// of DappBase, and the one of the state.
pub(crate) const SNAPSHOT_BLOCKS_MAX: usize = 3;
/// The most bytes of these blocks.
pub(crate) const SNAPSHOT_BLOCK_BYTES_MAX: usize = 2 << 20;
/// A page ends with the entry that makes it longer than this.
pub(crate) const PAGE_BYTES_FILL: usize = 512 << 10;
/// The prefix of the bytes of an answer that are signed.
const ANSWER_TEXT: &[u8] = b"\x19MicroChain snapshot";
/// Bytes that an account and a slot take in a page, roughly.
const ACCOUNT_BYTES: usize = 160;
const SLOT_BYTES: usize = 66;

/// A place in a state: before this slot of this account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotPlace {
    /// The hash of the account's address.
    pub(crate) account: B256,
    /// The hash of the slot's number; zero for the account itself.
    pub(crate) slot: B256,
}

impl SnapshotPlace {
    /// The place before all of an account.
    pub(crate) const fn before(account: B256) -> Self {
        Self {
            account,
            slot: B256::ZERO,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.account, self.slot].concat()
    }

    /// `None` if these bytes are no place.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (account, slot) = bytes.split_at_checked(32)?;
        (slot.len() == 32).then(|| Self {
            account: B256::from_slice(account),
            slot: B256::from_slice(slot),
        })
    }
}

/// An account of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotAccount {
    /// The hash of the address.
    pub(crate) key: B256,
    pub(crate) account: AccountRecord,
    /// The code; empty if there is none, or if an earlier page has it.
    pub(crate) code: Bytes,
    /// Slots, by the hash of their number, ascending.
    pub(crate) slots: Vec<(B256, U256)>,
}

/// A part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotPage {
    /// The block of the state.
    pub(crate) block: B256,
    /// The place at which the page begins.
    pub(crate) from: SnapshotPlace,
    /// The place at which the next page begins; `None` if this is the last one.
    pub(crate) next: Option<SnapshotPlace>,
    /// Accounts, by the hash of their address, ascending.
    pub(crate) accounts: Vec<SnapshotAccount>,
}

impl SnapshotPage {
    /// Reads the page of the state after `block` that begins at `from`. It ends when it has about
    /// `fill` bytes.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails. The state must be kept.
    pub(crate) fn read(
        view: &View,
        block: &BlockId,
        from: SnapshotPlace,
        fill: usize,
    ) -> Result<Self, StoreError> {
        let (mut next, mut bytes, mut accounts) = (None, 0, Vec::new());
        let snapshot = view.snapshot();
        let walked = snapshot.walk_accounts(&AccountKey(from.account), block.number, |walked| {
            let key = walked.key.0;
            if bytes >= fill {
                next = Some(SnapshotPlace::before(key));
                return Err(PageStop::Full);
            }
            let low = if key == from.account {
                from.slot
            } else {
                B256::ZERO
            };
            let mut entry = SnapshotAccount {
                key,
                account: walked.account,
                code: Bytes::new(),
                slots: Vec::new(),
            };
            if low.is_zero() {
                entry.code = view.code_by_hash(&walked.account.code_hash)?.into();
            }
            bytes += ACCOUNT_BYTES + entry.code.len();
            let is_whole = if walked.account.storage_root == EMPTY_ROOT {
                Ok(())
            } else {
                snapshot.walk_slots(&walked.storage(), &low, block.number, |slot| {
                    if bytes >= fill {
                        next = Some(SnapshotPlace {
                            account: key,
                            slot: slot.hash,
                        });
                        return Err(PageStop::Full);
                    }
                    bytes += SLOT_BYTES;
                    entry.slots.push((slot.hash, slot.value));
                    Ok(())
                })
            };
            accounts.push(entry);
            is_whole
        });
        match walked {
            Ok(()) | Err(PageStop::Full) => {}
            Err(PageStop::Store(error)) => return Err(error),
        }
        Ok(Self {
            block: block.hash,
            from,
            next,
            accounts,
        })
    }

    /// Whether the entries ascend from the begin to the end that the page names, and each code has
    /// its hash. Whether they are right shows the root of the whole state.
    pub(crate) fn is_in_order(&self) -> bool {
        let mut at = self.from;
        for (index, entry) in self.accounts.iter().enumerate() {
            let continues = index == 0 && entry.key == self.from.account && !self.from.slot.is_zero();
            let place = SnapshotPlace::before(entry.key);
            if (!continues && place < at) || (continues && !entry.code.is_empty()) {
                return false;
            }
            let code_hash = entry.account.code_hash;
            let has_code = continues || code_hash == EMPTY_CODE_HASH || keccak256(&entry.code) == code_hash;
            if !has_code {
                return false;
            }
            at = at.max(place);
            for (slot, value) in &entry.slots {
                let place = SnapshotPlace {
                    account: entry.key,
                    slot: *slot,
                };
                if place < at || value.is_zero() {
                    return false;
                }
                at = place;
            }
        }
        self.next
            .is_none_or(|next| next > at && next > self.from && !self.accounts.is_empty())
    }

    /// The bytes that the page has, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let entry = |one: &SnapshotAccount| ACCOUNT_BYTES + one.code.len() + SLOT_BYTES * one.slots.len();
        self.accounts.iter().map(entry).sum::<usize>() as u64
    }

    fn encode(&self) -> Vec<u8> {
        let accounts: Vec<Bytes> = self.accounts.iter().map(SnapshotAccount::encode).collect();
        let next = self.next.map(SnapshotPlace::to_bytes).unwrap_or_default();
        encode_fields_to_vec(&[&self.block, &&self.from.to_bytes()[..], &&next[..], &accounts])
    }

    fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(rlp, "page")?;
        let block = fields.fixed("page.block")?;
        let from = SnapshotPlace::from_bytes(&fields.fixed::<64>("page.from")?.0).unwrap_or_default();
        let next = SnapshotPlace::from_bytes(fields.slice("page.next")?);
        let mut list = fields.list("page.accounts")?;
        let mut accounts = Vec::new();
        while !list.is_empty() {
            accounts.push(SnapshotAccount::decode(list.slice("page.accounts")?)?);
        }
        Ok(Self {
            block,
            from,
            next,
            accounts,
        })
    }
}

impl SnapshotAccount {
    fn encode(&self) -> Bytes {
        let hashes: Vec<B256> = self.slots.iter().map(|(hash, _)| *hash).collect();
        let values: Vec<U256> = self.slots.iter().map(|(_, value)| *value).collect();
        let value = account_value(&self.account);
        encode_fields_to_vec(&[&self.key, &&value[..], &self.code, &hashes, &values]).into()
    }

    fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(rlp, "page.account")?;
        let key = fields.fixed("account.key")?;
        let account = read_account_value(fields.slice("account.value")?)?;
        let code = fields.bytes("account.code")?;
        let mut hashes = fields.list("account.slots")?;
        let mut values = fields.list("account.values")?;
        let mut slots = Vec::new();
        while !hashes.is_empty() {
            slots.push((hashes.fixed("account.slots")?, values.u256("account.values")?));
        }
        Ok(Self {
            key,
            account,
            code,
            slots,
        })
    }
}

/// The reason why the walk of a page stopped.
enum PageStop {
    Full,
    Store(StoreError),
}

impl From<StoreError> for PageStop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A question about a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotRequest {
    /// The blocks that go with the state after block `end`, the last one of the last flush.
    Blocks {
        /// Its number.
        end: u64,
    },
    /// A page of the state after a block.
    Page {
        /// The block.
        block: B256,
        /// The place at which the page begins.
        from: SnapshotPlace,
    },
}

impl SnapshotRequest {
    /// The fields of the message after its mark.
    pub(crate) fn fields(&self) -> (u64, Bytes) {
        match self {
            Self::Blocks { end } => (0, encode_fields_to_vec(&[end]).into()),
            Self::Page { block, from } => (1, encode_fields_to_vec(&[block, &&from.to_bytes()[..]]).into()),
        }
    }

    /// Reads the fields of a message.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no request.
    pub(crate) fn read(kind: u64, rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(rlp, "snapshot.request")?;
        if kind == 0 {
            let end = fields.u64("request.end")?;
            return Ok(Self::Blocks { end });
        }
        let block = fields.fixed("request.block")?;
        let from = SnapshotPlace::from_bytes(&fields.fixed::<64>("request.from")?.0);
        Ok(Self::Page {
            block,
            from: from.unwrap_or_default(),
        })
    }
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotContent {
    /// Blocks, ascending. The last one is that of the state.
    Blocks(Vec<Block>),
    Page(SnapshotPage),
}

/// An answer, signed by the member that gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotAnswer {
    pub(crate) content: SnapshotContent,
    pub(crate) signature: [u8; SIGNATURE_BYTES],
}

impl SnapshotAnswer {
    /// Signs a content.
    pub(crate) fn new(content: SnapshotContent, chain: &Address, key: &SecretKey) -> Self {
        let signature = sign(key, &content.digest(chain));
        Self { content, signature }
    }

    /// The member that has signed.
    ///
    /// # Errors
    /// [`HeaderRefusal`] if nobody did.
    pub(crate) fn signer(&self, chain: &Address) -> Result<Address, HeaderRefusal> {
        signer(&self.content.digest(chain), &self.signature)
    }
}

impl SnapshotContent {
    fn digest(&self, chain: &Address) -> B256 {
        let (kind, bytes) = self.fields();
        signed_digest(ANSWER_TEXT, chain, &encode_fields_to_vec(&[&kind, &bytes]))
    }

    /// The fields of the message after its mark, without the signature.
    pub(crate) fn fields(&self) -> (u64, Bytes) {
        match self {
            Self::Blocks(blocks) => (0, encode_fields_to_vec(&[blocks]).into()),
            Self::Page(page) => (1, page.encode().into()),
        }
    }

    /// Reads the fields of a message.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no answer.
    pub(crate) fn read(kind: u64, rlp: &[u8]) -> Result<Self, DecodeError> {
        if kind != 0 {
            return Ok(Self::Page(SnapshotPage::decode(rlp)?));
        }
        let list = RlpReader::open(rlp, "snapshot.answer")?.list("answer.blocks")?;
        Ok(Self::Blocks(read_blocks(list)?))
    }
}

/// Reads the blocks that go with a state.
///
/// # Errors
/// [`DecodeError`] if one is no block.
pub(crate) fn read_blocks(mut list: RlpReader<'_>) -> Result<Vec<Block>, DecodeError> {
    let mut blocks = Vec::new();
    while !list.is_empty() && blocks.len() < SNAPSHOT_BLOCKS_MAX {
        blocks.push(Block::decode(list.raw("answer.blocks")?, TxRules::Moac)?);
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> SnapshotPage {
        let hash = B256::repeat_byte;
        let account = |code: &[u8]| AccountRecord {
            tx_nonce: 1,
            balance: U256::from(5),
            storage_root: EMPTY_ROOT,
            code_hash: keccak256(code),
        };
        SnapshotPage {
            block: hash(9),
            from: SnapshotPlace {
                account: hash(1),
                slot: hash(2),
            },
            next: Some(SnapshotPlace {
                account: hash(3),
                slot: hash(8),
            }),
            accounts: vec![
                SnapshotAccount {
                    key: hash(1),
                    account: account(&[1]),
                    code: Bytes::new(),
                    slots: vec![(hash(2), U256::from(7)), (hash(3), U256::from(8))],
                },
                SnapshotAccount {
                    key: hash(3),
                    account: account(&[2, 2]),
                    code: vec![2, 2].into(),
                    slots: vec![(hash(7), U256::from(9))],
                },
            ],
        }
    }

    #[test]
    fn a_page_is_in_order_or_refused() {
        assert!(page().is_in_order());
        type Change = fn(&mut SnapshotPage);
        let changes: [Change; 7] = [
            |page| page.accounts.swap(0, 1),
            |page| page.accounts[1].slots[0].0 = B256::repeat_byte(9),
            |page| page.accounts[0].slots.swap(0, 1),
            |page| page.accounts[0].slots[0].1 = U256::ZERO,
            |page| page.accounts[1].code = vec![2].into(),
            |page| page.accounts[0].code = vec![1].into(),
            |page| page.next = Some(page.from),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = page();
            change(&mut changed);
            assert!(!changed.is_in_order(), "change {index}");
        }
    }

    #[test]
    fn an_answer_is_signed_and_read_again() {
        let key = SecretKey::from_bytes(&[7; 32]).unwrap();
        let chain = Address::repeat_byte(4);
        let mut answer = SnapshotAnswer::new(SnapshotContent::Page(page()), &chain, &key);
        let (kind, bytes) = answer.content.fields();
        assert_eq!(SnapshotContent::read(kind, &bytes), Ok(answer.content.clone()));
        assert_eq!(answer.signer(&chain), Ok(key.address()));
        assert_ne!(answer.signer(&Address::ZERO), Ok(key.address()));
        answer.content = SnapshotContent::Blocks(Vec::new());
        assert_ne!(answer.signer(&chain), Ok(key.address()));
    }
}
