//! The messages between SCSs (docs/microchain-design.md, 7): their content, and its bytes.
//!
//! Nothing is believed because of an id in a message: only signatures and hashes count. Each kind
//! has a bound, and what is longer is an error before it is read.

use std::sync::Arc;

use chain::application::SIGNATURE_BYTES;
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{
    Address, B256, Block, Bytes, DecodeError, Encodable, Header, SecretKey, Transaction, TxRules,
};

use crate::block::{HeaderRefusal, sign, signed_digest, signer};
use crate::event::MemberMessage;
use crate::snapshot::{SnapshotAnswer, SnapshotContent, SnapshotRequest};

/// A sync request, to one receiver.
pub(crate) const SYNC_REQUEST: i32 = 1;
/// The answer to a sync request, to one receiver.
pub(crate) const SYNC_ANSWER: i32 = 2;
pub(crate) const BLOCK: i32 = 64;
/// The head of a member.
pub(crate) const STATE: i32 = 65;
/// Transactions that wait.
pub(crate) const TRANSACTIONS: i32 = 66;
/// Proof that a member signed two blocks of one slot.
pub(crate) const EVIDENCE: i32 = 67;
/// All statuses that the engine reads.
#[cfg(test)]
pub(crate) const STATUSES: [i32; 6] = [SYNC_REQUEST, SYNC_ANSWER, BLOCK, STATE, TRANSACTIONS, EVIDENCE];

/// The most bytes of a message with one block.
pub(crate) const BLOCK_BYTES_MAX: usize = 2 << 20;
/// The most blocks of a sync answer.
pub(crate) const ANSWER_BLOCKS_MAX: usize = 128;
/// Blocks are added to an answer while it has at most so many bytes.
pub(crate) const ANSWER_BYTES_FILL: usize = 1 << 20;
/// The most hashes of a sync request.
pub(crate) const REQUEST_HASHES_MAX: usize = 40;
/// The most transactions of a message.
pub(crate) const RELAYED_MAX: usize = 64;
/// The most bytes of a message with transactions.
pub(crate) const RELAYED_BYTES_MAX: usize = 512 << 10;
/// The prefix of each payload.
const MARK: &[u8] = b"mc1";
/// The prefix of each payload about a snapshot. SCSs that know no snapshots drop it.
const SNAPSHOT_MARK: &[u8] = b"mcs";
/// The prefix of the bytes of a state that are signed.
const STATE_TEXT: &[u8] = b"\x19MicroChain state";

/// The head of a member, as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberState {
    /// Seconds of a slot.
    pub period_secs: u64,
    /// Number of the head.
    pub number: u64,
    /// Hash of the head.
    pub head: B256,
    /// Hash of the last flush that it knows; zero for none.
    pub flush: B256,
    /// The slot in which it was sent.
    pub slot: u64,
}

impl MemberState {
    fn rlp(&self) -> Vec<u8> {
        encode_fields_to_vec(&[
            &self.period_secs,
            &self.number,
            &self.head,
            &self.flush,
            &self.slot,
        ])
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerContent {
    Block(Box<Block>),
    State {
        state: MemberState,
        signature: [u8; SIGNATURE_BYTES],
    },
    Transactions(Vec<Transaction>),
    /// Two headers of one slot.
    Evidence(Box<[Header; 2]>),
    SyncRequest {
        /// Known hashes, the newest first.
        known: Vec<B256>,
        /// The number of blocks that are wanted.
        count: u64,
    },
    /// Blocks in order.
    SyncAnswer(Vec<Block>),
    SnapshotRequest(SnapshotRequest),
    SnapshotAnswer(Box<SnapshotAnswer>),
}

impl PeerContent {
    /// Reads a message. `None` if it is none of this protocol.
    ///
    /// # Errors
    /// [`DecodeError`] for a status of this protocol with another payload.
    pub(crate) fn decode(status: i32, payload: &[u8]) -> Result<Option<Self>, DecodeError> {
        let max = match status {
            BLOCK => BLOCK_BYTES_MAX,
            STATE => 512,
            TRANSACTIONS => RELAYED_BYTES_MAX,
            EVIDENCE => 16 << 10,
            SYNC_REQUEST => 4096,
            SYNC_ANSWER => ANSWER_BYTES_FILL + BLOCK_BYTES_MAX,
            _ => return Ok(None),
        };
        if payload.len() > max {
            return Ok(None);
        }
        let Ok(mut fields) = RlpReader::open(payload, "message") else {
            return Ok(None);
        };
        match fields.slice("message.mark") {
            Ok(MARK) => {}
            Ok(SNAPSHOT_MARK) => return Self::decode_snapshot(status, fields),
            _ => return Ok(None),
        }
        let content = match status {
            BLOCK => Self::Block(Box::new(decode_block(fields.raw("message.block")?)?)),
            STATE => Self::State {
                state: MemberState {
                    period_secs: fields.u64("state.period")?,
                    number: fields.u64("state.number")?,
                    head: fields.fixed("state.head")?,
                    flush: fields.fixed("state.flush")?,
                    slot: fields.u64("state.slot")?,
                },
                signature: fields.fixed::<SIGNATURE_BYTES>("state.signature")?.0,
            },
            TRANSACTIONS => {
                let mut list = fields.list("message.transactions")?;
                let mut all = Vec::new();
                while !list.is_empty() && all.len() < RELAYED_MAX {
                    let raw = list.raw("message.transactions")?;
                    all.push(Transaction::decode_stored(raw, TxRules::Moac)?);
                }
                Self::Transactions(all)
            }
            EVIDENCE => {
                let one = Header::decode(fields.raw("evidence.header")?)?;
                let other = Header::decode(fields.raw("evidence.header")?)?;
                Self::Evidence(Box::new([one, other]))
            }
            SYNC_REQUEST => {
                let mut list = fields.list("request.known")?;
                let mut known = Vec::new();
                while !list.is_empty() && known.len() < REQUEST_HASHES_MAX {
                    known.push(list.fixed("request.known")?);
                }
                let count = fields.u64("request.count")?;
                Self::SyncRequest { known, count }
            }
            _ => {
                let mut list = fields.list("answer.blocks")?;
                let mut blocks = Vec::new();
                while !list.is_empty() && blocks.len() < ANSWER_BLOCKS_MAX {
                    blocks.push(decode_block(list.raw("answer.blocks")?)?);
                }
                Self::SyncAnswer(blocks)
            }
        };
        Ok(Some(content))
    }

    /// Reads a message about a snapshot behind its mark.
    fn decode_snapshot(status: i32, mut fields: RlpReader<'_>) -> Result<Option<Self>, DecodeError> {
        let kind = fields.u64("snapshot.kind")?;
        let content = fields.slice("snapshot.content")?;
        Ok(match (status, kind) {
            (SYNC_REQUEST, 0 | 1) => Some(Self::SnapshotRequest(SnapshotRequest::read(kind, content)?)),
            (SYNC_ANSWER, 0 | 1) => Some(Self::SnapshotAnswer(Box::new(SnapshotAnswer {
                content: SnapshotContent::read(kind, content)?,
                signature: fields.fixed::<SIGNATURE_BYTES>("snapshot.signature")?.0,
            }))),
            _ => None,
        })
    }

    /// The status of the message.
    pub(crate) const fn status(&self) -> i32 {
        match self {
            Self::Block(_) => BLOCK,
            Self::State { .. } => STATE,
            Self::Transactions(_) => TRANSACTIONS,
            Self::Evidence(_) => EVIDENCE,
            Self::SyncRequest { .. } | Self::SnapshotRequest(_) => SYNC_REQUEST,
            Self::SyncAnswer(_) | Self::SnapshotAnswer(_) => SYNC_ANSWER,
        }
    }

    /// The message, from `sender` to `receiver`, or to all.
    pub(crate) fn message(&self, sender: Address, receiver: Option<Address>) -> MemberMessage {
        MemberMessage {
            status: self.status(),
            sender,
            receiver,
            payload: self.encode(),
        }
    }

    fn encode(&self) -> Bytes {
        let with_mark = |fields: &[&dyn Encodable]| {
            let mut all: Vec<&dyn Encodable> = vec![&MARK];
            all.extend(fields);
            Bytes::from(encode_fields_to_vec(&all))
        };
        match self {
            Self::Block(block) => with_mark(&[&**block]),
            Self::State { state, signature } => with_mark(&[
                &state.period_secs,
                &state.number,
                &state.head,
                &state.flush,
                &state.slot,
                &&signature[..],
            ]),
            Self::Transactions(all) => with_mark(&[all]),
            Self::Evidence(headers) => with_mark(&[&headers[0], &headers[1]]),
            Self::SyncRequest { known, count } => with_mark(&[known, count]),
            Self::SyncAnswer(blocks) => with_mark(&[blocks]),
            Self::SnapshotRequest(request) => {
                let (kind, content) = request.fields();
                encode_fields_to_vec(&[&SNAPSHOT_MARK, &kind, &content]).into()
            }
            Self::SnapshotAnswer(answer) => {
                let (kind, content) = answer.content.fields();
                encode_fields_to_vec(&[&SNAPSHOT_MARK, &kind, &content, &&answer.signature[..]]).into()
            }
        }
    }
}

fn decode_block(rlp: &[u8]) -> Result<Block, DecodeError> {
    Block::decode(rlp, TxRules::Moac)
}

/// A signed state, as a message content.
pub(crate) fn signed_state(state: MemberState, chain: &Address, key: &SecretKey) -> PeerContent {
    let signature = sign(key, &signed_digest(STATE_TEXT, chain, &state.rlp()));
    PeerContent::State { state, signature }
}

/// The signer of a state.
///
/// # Errors
/// [`HeaderRefusal`] if nobody did.
pub(crate) fn state_signer(
    state: &MemberState,
    signature: &[u8; SIGNATURE_BYTES],
    chain: &Address,
) -> Result<Address, HeaderRefusal> {
    signer(&signed_digest(STATE_TEXT, chain, &state.rlp()), signature)
}

/// Transactions as a message content.
pub(crate) fn relayed(transactions: &[Arc<Transaction>]) -> PeerContent {
    PeerContent::Transactions(transactions.iter().map(|one| (**one).clone()).collect())
}

#[cfg(test)]
mod tests {
    use primitives::{TxForm, U256, UnsignedTransaction};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::snapshot::SnapshotPlace;

    fn all() -> Vec<PeerContent> {
        let key = SecretKey::from_bytes(&[7; 32]).unwrap();
        let header = Header {
            difficulty: U256::from(1),
            number: 5,
            extra_data: vec![1; 100].into(),
            ..Default::default()
        };
        let transaction = UnsignedTransaction {
            sharding_flag: 1,
            ..Default::default()
        }
        .sign(&key, 100, TxForm::Native);
        let block = Block {
            header: header.clone(),
            transactions: vec![transaction.clone()],
            uncles: Vec::new(),
        };
        let state = MemberState {
            period_secs: 10,
            number: 3,
            head: B256::repeat_byte(1),
            flush: B256::ZERO,
            slot: 17,
        };
        vec![
            PeerContent::Block(Box::new(block.clone())),
            signed_state(state, &Address::ZERO, &key),
            PeerContent::Transactions(vec![transaction]),
            PeerContent::Evidence(Box::new([header.clone(), header])),
            PeerContent::SyncRequest {
                known: vec![B256::repeat_byte(3)],
                count: 128,
            },
            PeerContent::SyncAnswer(vec![block.clone(), block.clone()]),
            PeerContent::SnapshotRequest(SnapshotRequest::Page {
                block: B256::repeat_byte(5),
                from: SnapshotPlace::before(B256::repeat_byte(6)),
            }),
            PeerContent::SnapshotAnswer(Box::new(SnapshotAnswer::new(
                SnapshotContent::Blocks(vec![block]),
                &Address::ZERO,
                &key,
            ))),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for content in all() {
            let message = content.message(Address::ZERO, None);
            let read = PeerContent::decode(message.status, &message.payload);
            assert_eq!(read, Ok(Some(content)));
        }
    }

    #[test]
    fn cut_messages_are_no_messages() {
        for content in all() {
            let message = content.message(Address::ZERO, None);
            for len in 0..message.payload.len() {
                let read = PeerContent::decode(message.status, &message.payload[..len]);
                assert!(!matches!(read, Ok(Some(_))), "{content:?} {len}");
            }
        }
        assert_eq!(PeerContent::decode(BLOCK, b"\xc4other"), Ok(None));
        assert_eq!(PeerContent::decode(99, &all()[0].encode()), Ok(None));
        assert_eq!(PeerContent::decode(STATE, &[0xc0; 600]), Ok(None));
    }

    /// A status, one of those that are read more often than others.
    fn any_status() -> impl Strategy<Value = i32> {
        prop_oneof![9 => select(&STATUSES[..]), 1 => any::<i32>()]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(status in any_status(), bytes in vec(any::<u8>(), 0..600)) {
            let marked = [&b"\xf8\x80\x83mc1"[..], &bytes].concat();
            for payload in [&bytes, &marked] {
                let _ = PeerContent::decode(status, payload);
            }
        }

        #[test]
        fn changed_messages_are_other_messages_or_none(
            which in 0..8_usize,
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let message = all().remove(which).message(Address::ZERO, None);
            let mut payload = message.payload.to_vec();
            for (index, byte) in changes {
                let at = index.index(payload.len());
                payload[at] ^= byte;
            }
            if let Ok(Some(content)) = PeerContent::decode(message.status, &payload) {
                // A payload that is taken has one form only.
                let again = content.message(Address::ZERO, None);
                let read = PeerContent::decode(again.status, &again.payload);
                prop_assert_eq!(read, Ok(Some(content)));
            }
        }
    }

    #[test]
    fn a_state_is_signed() {
        let key = SecretKey::from_bytes(&[7; 32]).unwrap();
        let PeerContent::State { mut state, signature } = all().remove(1) else {
            panic!("the second one is a state");
        };
        let signed = |state: &MemberState| state_signer(state, &signature, &Address::ZERO);
        assert_eq!(signed(&state), Ok(key.address()));
        state.number += 1;
        assert_ne!(signed(&state), Ok(key.address()));
    }
}
