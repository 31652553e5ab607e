//! Fetches a state from peers by `snap/1`: a state machine without sockets, clock and store.
//!
//! [`SnapClient::handle`] takes what has happened and returns what to do. Rows go to a
//! [`SnapSink`]. The pivot is the block whose state is fetched; it moves while the chain grows,
//! because peers give recent states only.
//!
//! 1. All accounts in ranges, with storages and codes (`load`). Each range is right for the pivot
//!    of its time, and is not fetched again when the pivot moves.
//! 2. [`SnapAction::Build`]: the store makes the trie of all rows, once and in order.
//! 3. The rows that differ from the pivot's state are found and replaced (`heal`), until the root
//!    is the pivot's. No node of a peer is stored, so no trie is on disk whose rows are missing.
//!
//! | a peer | what happens |
//! |---|---|
//! | does not have the state | is asked again after the pivot has moved |
//! | does not answer in time | another is asked |
//! | answers with little, again and again | others are asked first |
//! | answers after the pivot has moved | the answer is ignored, and the peer is asked again |
//! | sends what its proof or hash does not confirm | loses its place |
//!
//! Progress is stored with the rows, so that a killed process loses what came since the last
//! commit: at most [`COMMIT_BYTES`], or what came since [`SnapClient::save`]. Source:
//! ethereum/devp2p, `caps/snap.md`.

mod answers;
mod heal;
mod load;
mod path;
mod peer;
mod progress;
mod sink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::{B256, DecodeError, keccak256};
use store::StoreError;

use crate::messages::snap::{
    AccountRangeRequest, ByteCodesRequest, SnapMessage, StorageRangesRequest, TrieNodesRequest,
};
use crate::peers::{PeerFault, PeerId, RequestTicket};
use answers::{Asked, Content};
use heal::{Walk, path_sets};
use load::{LAST_KEY, Load};
use peer::{AskKind, SnapPeers};

pub use sink::{SnapFigures, SnapSink};

/// The pivot is so many blocks below the head.
pub const PIVOT_DEPTH: u64 = 64;
/// The pivot moves when the head is so many blocks above it: before peers give its state no more.
pub const PIVOT_AGE_MAX: u64 = 126;
/// Rows are committed when so many bytes of them have come.
pub const COMMIT_BYTES: u64 = 16 << 20;
/// Codes that are asked for at once.
const CODES_ASKED: usize = 84;
/// Trie nodes that are asked for at once.
const NODES_ASKED: usize = 384;
/// A storage counts so many bytes in a question, before its length is known.
const STORAGE_BYTES: u64 = 1024;
/// A node counts so many bytes in a question.
const NODE_BYTES: u64 = 600;

/// The block whose state is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapPivot {
    /// The number of the block.
    pub number: u64,
    /// The root of its state.
    pub root: B256,
}

/// The number of the block that the pivot should move to. `None` if it may stay.
pub fn next_pivot(head: u64, pivot: Option<u64>) -> Option<u64> {
    let is_young = |pivot: u64| pivot <= head && head < pivot + PIVOT_AGE_MAX;
    (!pivot.is_some_and(is_young)).then(|| head.saturating_sub(PIVOT_DEPTH))
}

/// An event for the download.
#[derive(Clone, Debug)]
pub enum SnapEvent {
    /// The pivot is this block now.
    Pivot(SnapPivot),
    /// A peer with `snap/1` has come.
    Joined(PeerId),
    /// A peer is gone.
    Left(PeerId),
    /// A peer has answered.
    Answer {
        /// The peer.
        peer: PeerId,
        /// The question.
        ticket: RequestTicket,
        /// The answer, of the kind that was asked for. Its content is not checked.
        answer: SnapMessage,
        /// The time that the answer took.
        took: Duration,
    },
    /// A peer did not answer in time, or was not asked.
    NotAnswered {
        /// The peer.
        peer: PeerId,
        /// The question.
        ticket: RequestTicket,
    },
    /// The trie of all rows is built; this is its root.
    Built(B256),
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapAction {
    /// Ask a peer. The id in the message is of no meaning.
    Ask {
        /// The peer.
        peer: PeerId,
        /// The ticket of the answer.
        ticket: RequestTicket,
        /// The question.
        request: SnapMessage,
    },
    /// End the connection with a peer.
    Drop {
        /// The peer.
        peer: PeerId,
        /// The reason.
        fault: PeerFault,
    },
    /// Build the trie of all rows in the sink, then tell [`SnapEvent::Built`].
    Build,
    /// The sink has the pivot's state.
    Done(SnapPivot),
}

/// The reason why stored progress cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapProgressError {
    /// A field has another form.
    #[error("progress of the state download: {0}")]
    Field(#[from] DecodeError),
    /// The bytes are of another program.
    #[error("progress of the state download: got version {got}, expected 1")]
    Version {
        /// The version.
        got: u64,
    },
    /// The phase is not known.
    #[error("progress of the state download: got phase {got}, expected at most 3")]
    SnapPhase {
        /// The number of the phase.
        got: u64,
    },
}

/// The step that a download is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapPhase {
    /// Ranges are fetched.
    #[default]
    Load,
    /// The trie of all rows is built.
    Build,
    /// Rows that differ are replaced.
    Heal,
    /// The state is whole.
    Done,
}

impl SnapPhase {
    const ALL: [Self; 4] = [Self::Load, Self::Build, Self::Heal, Self::Done];

    const fn code(self) -> u64 {
        self as u64
    }

    fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// The download of a state.
#[derive(Debug)]
pub struct SnapClient {
    phase: SnapPhase,
    pivot: Option<SnapPivot>,
    load: Load,
    walk: Option<Walk>,
    peers: SnapPeers,
    asked: BTreeMap<RequestTicket, Asked>,
    next_ticket: u64,
    figures: SnapFigures,
    /// `figures.bytes` at the last commit.
    committed_bytes: u64,
    /// [`SnapAction::Build`] was returned, and the trie is not built yet.
    is_building: bool,
    actions: Vec<SnapAction>,
}

impl SnapClient {
    /// A download that begins.
    pub fn new() -> Self {
        Self::from_parts(SnapPhase::Load, Load::begin(), SnapFigures::default())
    }

    /// A download that goes on. `progress` is what the sink got at its last commit.
    ///
    /// # Errors
    /// [`SnapProgressError`] if the bytes are not that.
    pub fn resume(progress: &[u8]) -> Result<Self, SnapProgressError> {
        let (phase, load, figures) = progress::decode(progress)?;
        Ok(Self::from_parts(phase, load, figures))
    }

    fn from_parts(phase: SnapPhase, load: Load, figures: SnapFigures) -> Self {
        Self {
            phase,
            pivot: None,
            load,
            walk: None,
            peers: SnapPeers::default(),
            asked: BTreeMap::new(),
            next_ticket: 1,
            figures,
            committed_bytes: figures.bytes,
            is_building: false,
            actions: Vec::new(),
        }
    }

    /// The step that the download is at.
    pub const fn phase(&self) -> SnapPhase {
        self.phase
    }

    /// The block whose state is fetched.
    pub const fn pivot(&self) -> Option<SnapPivot> {
        self.pivot
    }

    /// The counts since the begin.
    pub const fn figures(&self) -> SnapFigures {
        self.figures
    }

    /// The peers that may have the pivot's state.
    pub fn usable_peers(&self) -> usize {
        self.pivot.map_or(0, |pivot| self.peers.count_with(&pivot.root))
    }

    /// The part of all accounts that is handed over, from 0 to 1: hashes are spread evenly.
    pub fn loaded_share(&self) -> f64 {
        let left =
            |part: &load::AccountPart| path::high(&part.last).saturating_sub(path::high(&part.next)) as f64;
        let all: f64 = self.load.parts.iter().map(left).sum();
        (1.0 - all / u64::MAX as f64).clamp(0.0, 1.0)
    }

    /// Commits what was handed over since the last commit.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn save(&mut self, sink: &mut dyn SnapSink) -> Result<(), StoreError> {
        self.committed_bytes = self.figures.bytes;
        sink.commit(&progress::encode(self.phase, &self.load, &self.figures))
    }

    /// Takes what has happened. Returns what to do.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. The download can be resumed from the last commit.
    pub fn handle(
        &mut self,
        event: SnapEvent,
        sink: &mut dyn SnapSink,
    ) -> Result<Vec<SnapAction>, StoreError> {
        match event {
            SnapEvent::Pivot(pivot) => self.pivot_moved(pivot, sink)?,
            SnapEvent::Joined(peer) => self.peers.join(peer),
            SnapEvent::Left(peer) => {
                self.peers.leave(peer);
                let lost: Vec<_> = self.asked.extract_if(.., |_, asked| asked.peer == peer).collect();
                for (_, asked) in lost {
                    self.give_back(asked.content);
                }
            }
            SnapEvent::NotAnswered { peer, ticket } => {
                if let Some(asked) = self.asked.remove(&ticket) {
                    self.peers.ended(peer, asked.kind, None, Duration::ZERO);
                    self.give_back(asked.content);
                }
            }
            SnapEvent::Answer {
                ticket, answer, took, ..
            } => {
                if let Some(asked) = self.asked.remove(&ticket) {
                    self.answered(asked, answer, took, sink)?;
                }
            }
            SnapEvent::Built(_) => {
                self.is_building = false;
                if self.phase == SnapPhase::Build {
                    self.phase = SnapPhase::Heal;
                    self.begin_walk(sink)?;
                }
            }
        }
        self.go_on(sink)?;
        Ok(std::mem::take(&mut self.actions))
    }

    fn pivot_moved(&mut self, pivot: SnapPivot, sink: &mut dyn SnapSink) -> Result<(), StoreError> {
        if self.pivot.is_some_and(|old| old.root == pivot.root) {
            self.pivot = Some(pivot);
            return Ok(());
        }
        self.pivot = Some(pivot);
        // The questions for the old state are forgotten, but a peer is not asked before it has
        // answered, or was late.
        for asked in self.asked.values_mut() {
            asked.content = Content::Forgotten;
        }
        self.load.pivot_moved();
        // A whole state of a block that is not the pivot any more differs from the new pivot's.
        if matches!(self.phase, SnapPhase::Heal | SnapPhase::Done) {
            self.phase = SnapPhase::Heal;
            self.begin_walk(sink)?;
        }
        Ok(())
    }

    fn begin_walk(&mut self, sink: &mut dyn SnapSink) -> Result<(), StoreError> {
        let Some(pivot) = self.pivot else { return Ok(()) };
        // The walk compares with the trie of the rows that were committed.
        self.save(sink)?;
        self.walk = Some(Walk::begin(pivot.root, sink)?);
        Ok(())
    }

    fn go_on(&mut self, sink: &mut dyn SnapSink) -> Result<(), StoreError> {
        if self.phase == SnapPhase::Load {
            self.load.flush(&mut self.figures, sink)?;
            if self.load.is_done() {
                self.phase = SnapPhase::Build;
                self.save(sink)?;
            }
        }
        if self.figures.bytes - self.committed_bytes >= COMMIT_BYTES {
            self.save(sink)?;
        }
        if self.phase == SnapPhase::Build && !self.is_building {
            self.is_building = true;
            self.actions.push(SnapAction::Build);
        }
        if self.phase == SnapPhase::Heal {
            if self.walk.is_none() {
                self.begin_walk(sink)?;
            }
            self.end_walk(sink)?;
        }
        self.ask_all();
        Ok(())
    }

    /// Compares the root if all differences are replaced.
    fn end_walk(&mut self, sink: &mut dyn SnapSink) -> Result<(), StoreError> {
        let (Some(walk), Some(pivot)) = (&self.walk, self.pivot) else {
            return Ok(());
        };
        if !walk.is_done() {
            return Ok(());
        }
        self.save(sink)?;
        let own = sink.node(None, &[])?.map_or(primitives::EMPTY_ROOT, keccak256);
        self.walk = None;
        if own == pivot.root {
            self.phase = SnapPhase::Done;
            self.save(sink)?;
            self.actions.push(SnapAction::Done(pivot));
        } else {
            // The trie is not that of the rows.
            tracing::warn!(got = %own, expected = %pivot.root, "the fetched state has another root; its trie is built again");
            self.phase = SnapPhase::Build;
            self.is_building = true;
            self.actions.push(SnapAction::Build);
        }
        Ok(())
    }

    /// Asks idle peers as long as there is something to ask.
    fn ask_all(&mut self) {
        let Some(SnapPivot { root, .. }) = self.pivot else {
            return;
        };
        for kind in [
            AskKind::Storages,
            AskKind::Codes,
            AskKind::Nodes,
            AskKind::Accounts,
        ] {
            while let Some(peer) = self.peers.idle(kind, &root) {
                let bytes = self.peers.bytes_to_ask(peer);
                let question = match kind {
                    AskKind::Accounts => self.accounts_question(root, bytes),
                    AskKind::Storages => self.storages_question(root, bytes),
                    AskKind::Codes => self.codes_question(bytes),
                    AskKind::Nodes => self.nodes_question(root, bytes),
                };
                let Some((content, request)) = question else { break };
                let ticket = RequestTicket(self.next_ticket);
                self.next_ticket += 1;
                self.peers.asked(peer, kind, ticket);
                self.asked.insert(
                    ticket,
                    Asked {
                        peer,
                        kind,
                        root,
                        content,
                    },
                );
                self.actions.push(SnapAction::Ask {
                    peer,
                    ticket,
                    request,
                });
            }
        }
    }

    fn accounts_question(&mut self, root: B256, bytes: u64) -> Option<(Content, SnapMessage)> {
        let part = self.load.parts.iter_mut().find(|part| part.is_free())?;
        part.is_asked = true;
        let (origin, limit) = (part.next, part.last);
        let request = AccountRangeRequest {
            root,
            origin,
            limit,
            bytes,
        };
        let content = Content::Accounts { origin, last: limit };
        Some((content, SnapMessage::GetAccountRange(0, request)))
    }

    fn storages_question(&mut self, root: B256, bytes: u64) -> Option<(Content, SnapMessage)> {
        for (account, large) in &mut self.load.large {
            let Some(storage_root) = large.root else { continue };
            if let Some(chunk) = large.chunks.iter_mut().find(|chunk| !chunk.is_asked) {
                chunk.is_asked = true;
                let (origin, limit) = (chunk.next, chunk.last);
                let accounts = vec![*account];
                let request = StorageRangesRequest {
                    root,
                    accounts,
                    origin,
                    limit,
                    bytes,
                };
                let content = Content::Chunk {
                    account: *account,
                    root: storage_root,
                    origin,
                    last: limit,
                };
                return Some((content, SnapMessage::GetStorageRanges(0, request)));
            }
        }
        let most = usize::try_from(bytes / STORAGE_BYTES).unwrap_or(1).max(1);
        let storages = self.load.storages_to_ask(most);
        if storages.is_empty() {
            return None;
        }
        let accounts = storages.iter().map(|(account, _)| *account).collect();
        let (origin, limit) = (B256::ZERO, LAST_KEY);
        let request = StorageRangesRequest {
            root,
            accounts,
            origin,
            limit,
            bytes,
        };
        Some((
            Content::Storages(storages),
            SnapMessage::GetStorageRanges(0, request),
        ))
    }

    fn codes_question(&mut self, bytes: u64) -> Option<(Content, SnapMessage)> {
        let missing = &mut self.load.wanted_codes.missing;
        let hashes: Vec<_> = missing.drain(..missing.len().min(CODES_ASKED)).collect();
        if hashes.is_empty() {
            return None;
        }
        let request = ByteCodesRequest {
            hashes: hashes.clone(),
            bytes,
        };
        Some((Content::Codes(hashes), SnapMessage::GetByteCodes(0, request)))
    }

    fn nodes_question(&mut self, root: B256, bytes: u64) -> Option<(Content, SnapMessage)> {
        let most = usize::try_from(bytes / NODE_BYTES)
            .unwrap_or(NODES_ASKED)
            .min(NODES_ASKED);
        let nodes = self.walk.as_mut()?.take(most);
        if nodes.is_empty() {
            return None;
        }
        let request = TrieNodesRequest {
            root,
            paths: path_sets(&nodes),
            bytes,
        };
        Some((Content::Nodes(nodes), SnapMessage::GetTrieNodes(0, request)))
    }
}

impl Default for SnapClient {
    fn default() -> Self {
        Self::new()
    }
}
