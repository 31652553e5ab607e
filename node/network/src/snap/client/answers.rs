//! Checks the answers of peers, and hands on what they prove.

use std::time::Duration;

use chain::trie::{account_value, slot_value, verify_range};
use primitives::{B256, Bytes, EMPTY_ROOT, U256, keccak256};
use store::{AccountRecord, StoreError};

use super::heal::{NodePlace, WalkError};
use super::path::next_key;
use super::peer::{AnswerGain, AskKind};
use super::sink::SnapSink;
use super::{SnapAction, SnapClient};
use crate::messages::snap::{AccountRange, SnapMessage, StorageRanges, account_bytes, slot_bytes};
use crate::peers::{FAULT_BAN, PeerFault, PeerId};
use crate::rlpx::RlpxDisconnect;

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) peer: PeerId,
    pub(super) kind: AskKind,
    /// The root of the state that was asked for.
    pub(super) root: B256,
    pub(super) content: Content,
}

/// The content of a question.
#[derive(Debug)]
pub(super) enum Content {
    /// Accounts of the part that begins at `origin`.
    Accounts { origin: B256, last: B256 },
    /// Whole storages: accounts and roots.
    Storages(Vec<(B256, B256)>),
    /// A chunk of a large storage.
    Chunk {
        account: B256,
        root: B256,
        origin: B256,
        last: B256,
    },
    /// Codes.
    Codes(Vec<B256>),
    /// Trie nodes.
    Nodes(Vec<(NodePlace, B256)>),
    /// The answer is of no use any more.
    Forgotten,
}

/// The judgement about an answer.
enum Verdict {
    /// Something is proven.
    Good(AnswerGain),
    /// The peer does not have the state.
    Stateless,
    /// The peer has sent what is not so.
    Lie(String),
}

impl SnapClient {
    /// Notes that a question must be asked again.
    pub(super) fn give_back(&mut self, content: Content) {
        match content {
            Content::Accounts { origin, .. } => {
                if let Some(part) = self.load.parts.iter_mut().find(|part| part.next == origin) {
                    part.is_asked = false;
                }
            }
            Content::Storages(storages) => {
                for (_, root) in storages {
                    self.load.storage_failed(&root);
                }
            }
            Content::Chunk { account, origin, .. } => {
                let large = self.load.large.get_mut(&account);
                let chunk =
                    large.and_then(|large| large.chunks.iter_mut().find(|chunk| chunk.next == origin));
                if let Some(chunk) = chunk {
                    chunk.is_asked = false;
                }
            }
            Content::Codes(hashes) => self.load.wanted_codes.missing.extend(hashes),
            Content::Nodes(nodes) => {
                if let Some(walk) = &mut self.walk {
                    walk.put_back(nodes);
                }
            }
            Content::Forgotten => {}
        }
    }

    pub(super) fn answered(
        &mut self,
        asked: Asked,
        answer: SnapMessage,
        took: Duration,
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        let Asked {
            peer,
            kind,
            root,
            content,
        } = asked;
        let verdict = match (content, answer) {
            // The peer took longer than the pivot stayed, or was overtaken by chance. If it happens
            // again and again, others are asked first.
            (Content::Forgotten, _) => Verdict::Good(AnswerGain {
                bytes: 0,
                is_partial: true,
            }),
            (Content::Accounts { origin, last }, SnapMessage::AccountRange(_, range)) => {
                let verdict = self.accounts_came(root, (origin, last), &range, sink)?;
                self.judged(verdict, Content::Accounts { origin, last })
            }
            (Content::Storages(storages), SnapMessage::StorageRanges(_, ranges)) => {
                self.storages_came(storages, ranges, sink)?
            }
            (
                Content::Chunk {
                    account,
                    root,
                    origin,
                    last,
                },
                SnapMessage::StorageRanges(_, ranges),
            ) => {
                let verdict = self.chunk_came((account, root), (origin, last), ranges, sink)?;
                self.judged(
                    verdict,
                    Content::Chunk {
                        account,
                        root,
                        origin,
                        last,
                    },
                )
            }
            (Content::Codes(hashes), SnapMessage::ByteCodes(_, codes)) => {
                self.codes_came(hashes, &codes, sink)?
            }
            (Content::Nodes(nodes), SnapMessage::TrieNodes(_, rlps)) => {
                self.nodes_came(nodes, &rlps, sink)?
            }
            (content, answer) => {
                self.give_back(content);
                Verdict::Lie(format!(
                    "got an answer of code {} to another question",
                    answer.code()
                ))
            }
        };
        match verdict {
            Verdict::Good(gain) => {
                let bytes = gain.bytes;
                self.figures.bytes += bytes;
                match kind {
                    AskKind::Accounts => {}
                    AskKind::Storages => self.figures.slot_bytes += bytes,
                    AskKind::Codes => self.figures.code_bytes += bytes,
                    AskKind::Nodes => self.figures.healed_bytes += bytes,
                }
                self.peers.ended(peer, kind, Some(gain), took);
            }
            Verdict::Stateless => {
                self.peers.ended(peer, kind, Some(AnswerGain::NONE), took);
                self.peers.is_stateless(peer, root);
            }
            Verdict::Lie(text) => {
                self.peers.ended(peer, kind, None, took);
                self.peers.is_stateless(peer, root);
                let fault = PeerFault {
                    text,
                    disconnect: RlpxDisconnect::Subprotocol,
                    banned: FAULT_BAN,
                };
                self.actions.push(SnapAction::Drop { peer, fault });
            }
        }
        Ok(())
    }

    /// Gives the question back if its answer is not good.
    fn judged(&mut self, verdict: Verdict, content: Content) -> Verdict {
        if !matches!(verdict, Verdict::Good(_)) {
            self.give_back(content);
        }
        verdict
    }

    fn accounts_came(
        &mut self,
        root: B256,
        (origin, last): (B256, B256),
        range: &AccountRange,
        sink: &dyn SnapSink,
    ) -> Result<Verdict, StoreError> {
        let AccountRange { accounts, proof } = range;
        if accounts.is_empty() && proof.is_empty() && root != EMPTY_ROOT {
            return Ok(Verdict::Stateless);
        }
        let (keys, values): (Vec<_>, Vec<_>) = accounts
            .iter()
            .map(|(hash, account)| (*hash, account_value(account)))
            .unzip();
        let more = match verify_range(root, origin, &keys, &values, proof) {
            Ok(more) => more,
            Err(error) => return Ok(Verdict::Lie(format!("accounts: {error}"))),
        };
        let bytes: usize = accounts.iter().map(|(_, account)| account_bytes(account)).sum();
        let (within, until) = within(accounts, last, more);
        let index = self.load.parts.iter().position(|part| part.next == origin);
        if let Some(index) = index {
            let rows: Vec<(B256, AccountRecord)> = within.to_vec();
            self.load.accounts_came(index, rows, until, sink)?;
        }
        Ok(Verdict::Good(AnswerGain {
            bytes: bytes as u64,
            is_partial: until < last,
        }))
    }

    fn storages_came(
        &mut self,
        storages: Vec<(B256, B256)>,
        ranges: StorageRanges,
        sink: &mut dyn SnapSink,
    ) -> Result<Verdict, StoreError> {
        let StorageRanges { mut slots, proof } = ranges;
        let verdict = if slots.len() > storages.len() {
            Verdict::Lie(format!(
                "got {} storages, expected at most {}",
                slots.len(),
                storages.len()
            ))
        } else if slots.is_empty() && proof.is_empty() {
            Verdict::Stateless
        } else {
            if slots.is_empty() {
                slots.push(Vec::new());
            }
            Verdict::Good(AnswerGain {
                bytes: 0,
                is_partial: slots.len() < storages.len(),
            })
        };
        let mut rest = storages.into_iter();
        let mut verdict = verdict;
        if let Verdict::Good(gain) = &mut verdict {
            let count = slots.len();
            for (index, slots) in slots.into_iter().enumerate() {
                let Some((account, root)) = rest.next() else { break };
                let own_proof: &[Bytes] = if index + 1 == count { &proof } else { &[] };
                match verify_slots(root, B256::ZERO, &slots, own_proof) {
                    Ok(more) => {
                        gain.bytes += slots_bytes(&slots);
                        gain.is_partial |= more;
                        if more {
                            self.figures.slots += slots.len() as u64;
                            self.load.large_came(account, root, &slots, sink)?;
                        } else {
                            self.load.storage_came(root, slots);
                        }
                    }
                    Err(lie) => {
                        self.load.storage_failed(&root);
                        verdict = lie;
                        break;
                    }
                }
            }
        }
        for (_, root) in rest {
            self.load.storage_failed(&root);
        }
        Ok(verdict)
    }

    fn chunk_came(
        &mut self,
        (account, root): (B256, B256),
        (origin, last): (B256, B256),
        ranges: StorageRanges,
        sink: &mut dyn SnapSink,
    ) -> Result<Verdict, StoreError> {
        let StorageRanges { mut slots, proof } = ranges;
        if slots.is_empty() && proof.is_empty() {
            return Ok(Verdict::Stateless);
        }
        if slots.len() > 1 {
            return Ok(Verdict::Lie(format!(
                "got {} storages, expected one",
                slots.len()
            )));
        }
        let slots = slots.pop().unwrap_or_default();
        let more = match verify_slots(root, origin, &slots, &proof) {
            Ok(more) => more,
            Err(lie) => return Ok(lie),
        };
        let bytes = slots_bytes(&slots);
        let (rows, until) = within(&slots, last, more);
        sink.replace_slots(&account, &origin, &until, rows)?;
        self.figures.slots += rows.len() as u64;
        if let Some(large) = self.load.large.get_mut(&account)
            && let Some(at) = large.chunks.iter().position(|chunk| chunk.next == origin)
        {
            match next_key(&until) {
                Some(next) if until < last => {
                    (large.chunks[at].next, large.chunks[at].is_asked) = (next, false);
                }
                _ => {
                    large.chunks.remove(at);
                }
            }
        }
        Ok(Verdict::Good(AnswerGain {
            bytes,
            is_partial: until < last,
        }))
    }

    fn codes_came(
        &mut self,
        hashes: Vec<B256>,
        codes: &[Bytes],
        sink: &mut dyn SnapSink,
    ) -> Result<Verdict, StoreError> {
        if codes.is_empty() {
            self.load.wanted_codes.missing.extend(hashes);
            return Ok(Verdict::Stateless);
        }
        let mut rest = hashes.into_iter();
        let (mut missing, mut bytes, mut lie) = (Vec::new(), 0, None);
        for code in codes {
            let got = keccak256(code);
            // The peer has left out the hashes before it.
            let mut skipped = Vec::new();
            let found = loop {
                match rest.next() {
                    Some(hash) if hash == got => break true,
                    Some(hash) => skipped.push(hash),
                    None => break false,
                }
            };
            missing.extend(skipped);
            if !found {
                lie = Some(format!(
                    "got a code with hash {got}, which was not asked for there"
                ));
                break;
            }
            sink.put_code(&got, code)?;
            bytes += code.len() as u64;
            self.figures.codes += 1;
            self.load.wanted_codes.note_here(got);
            if let Some(walk) = &mut self.walk {
                walk.code_came(&got, &mut self.figures, sink)?;
            }
        }
        missing.extend(rest);
        let is_partial = !missing.is_empty();
        self.load.wanted_codes.missing.extend(missing);
        Ok(lie.map_or(Verdict::Good(AnswerGain { bytes, is_partial }), Verdict::Lie))
    }

    fn nodes_came(
        &mut self,
        nodes: Vec<(NodePlace, B256)>,
        rlps: &[Bytes],
        sink: &mut dyn SnapSink,
    ) -> Result<Verdict, StoreError> {
        let Some(walk) = &mut self.walk else {
            return Ok(Verdict::Good(AnswerGain::NONE));
        };
        if rlps.len() > nodes.len() {
            let (got, most) = (rlps.len(), nodes.len());
            walk.put_back(nodes);
            let lie = format!("got {got} trie nodes, expected at most {most}");
            return Ok(Verdict::Lie(lie));
        }
        if rlps.iter().all(|rlp| rlp.is_empty()) {
            walk.put_back(nodes);
            return Ok(Verdict::Stateless);
        }
        let mut rest = nodes.into_iter();
        let (mut missing, mut bytes, mut lie) = (Vec::new(), 0, None);
        for rlp in rlps.iter().filter(|rlp| !rlp.is_empty()) {
            let got = keccak256(rlp);
            let mut found = None;
            for (place, hash) in rest.by_ref() {
                if hash == got {
                    found = Some(place);
                    break;
                }
                missing.push((place, hash));
            }
            let Some(place) = found else {
                lie = Some(format!(
                    "got a trie node with hash {got}, which was not asked for there"
                ));
                break;
            };
            bytes += rlp.len() as u64;
            let counts = (&mut self.load.wanted_codes, &mut self.figures);
            match walk.node_came(&place, rlp, counts, sink) {
                Ok(()) => {}
                Err(WalkError::Store(error)) => return Err(error),
                // The root vouches for it, so no peer has better ones. The next pivot may.
                Err(error) => tracing::warn!(%error, "a node of the pivot's state is left out"),
            }
        }
        missing.extend(rest);
        let is_partial = !missing.is_empty();
        walk.put_back(missing);
        Ok(lie.map_or(Verdict::Good(AnswerGain { bytes, is_partial }), Verdict::Lie))
    }
}

/// Whether the storage has slots after these. If they are not proven, the peer has lied.
fn verify_slots(root: B256, origin: B256, slots: &[(B256, U256)], proof: &[Bytes]) -> Result<bool, Verdict> {
    let (keys, values): (Vec<_>, Vec<_>) = slots
        .iter()
        .map(|(hash, value)| (*hash, slot_value(value)))
        .unzip();
    verify_range(root, origin, &keys, &values, proof).map_err(|error| Verdict::Lie(format!("slots: {error}")))
}

fn slots_bytes(slots: &[(B256, U256)]) -> u64 {
    slots.iter().map(|(_, value)| slot_bytes(value) as u64).sum()
}

/// The rows up to `last`, and the end of the range that they are all of: `last`, or the last row if
/// there may be more.
fn within<T>(rows: &[(B256, T)], last: B256, more: bool) -> (&[(B256, T)], B256) {
    let count = rows.partition_point(|(key, _)| *key <= last);
    let until = match rows.last() {
        Some((key, _)) if more && *key < last => *key,
        _ => last,
    };
    (&rows[..count], until)
}
