//! Peers that lie, stall and vanish. A liar knows the chain of an honest node and shows something
//! else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chain::rules::difficulty::next_difficulty;
use network::messages::{HeadersRequest, HeadersStart, PeerBody, PeerMessage, PeerStatus, WireFamily};
use network::peers::serve::{ServeLimits, answer};
use network::requests::{REQUEST_TIMEOUT_MAX, REQUEST_TIMEOUT_MIN};
use primitives::{B256, Header, Transaction, U256};
use store::BlockReads;

use crate::chain::{START_SECS, SimChain, seal};

/// What a liar does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Answers nothing.
    Silent,
    /// Claims a head that does not exist.
    NoHead,
    /// Has a valid branch from block 0 on, with many headers and little weight.
    Endless,
    /// Builds a heavier chain with a wrong seal.
    BadSeal,
    /// Builds a heavier chain and sends other bodies.
    OtherBodies,
    /// Builds a heavier chain and sends no bodies.
    NoBodies,
    /// Builds a heavier chain whose states are wrong.
    BadState,
    /// Answers with what was not asked for.
    Junk,
    /// Tells the truth, each time just before the longest time for an answer is over.
    Late,
    /// Tells the truth, each time just before the shortest time for an answer is over.
    Slow,
}

pub(crate) const LIES: [Lie; 8] = [
    Lie::Silent,
    Lie::NoHead,
    Lie::Endless,
    Lie::BadSeal,
    Lie::OtherBodies,
    Lie::NoBodies,
    Lie::BadState,
    Lie::Junk,
];

/// They do not lie, but are much slower than others.
pub(crate) const SLOW_ONES: [Lie; 2] = [Lie::Late, Lie::Slow];

/// Headers that a liar builds on the honest chain.
const FORGED: u64 = 80;
/// How much earlier than the timeout the slow ones answer. A link takes up to 300 ms both ways.
const MARGIN: Duration = Duration::from_millis(400);
/// Headers of the branch of little weight.
const ENDLESS: u64 = 6_000;

/// See the module.
pub(crate) struct Liar {
    lie: Lie,
    honest: Arc<SimChain>,
    /// Its own headers, ascending.
    own: Vec<Header>,
    by_hash: HashMap<B256, usize>,
}

impl Liar {
    pub(crate) const fn lie(&self) -> Lie {
        self.lie
    }

    pub(crate) fn new(lie: Lie, honest: Arc<SimChain>) -> Self {
        let mut liar = Self {
            lie,
            honest,
            own: Vec::new(),
            by_hash: HashMap::new(),
        };
        match lie {
            Lie::Silent | Lie::NoHead | Lie::Junk | Lie::Late | Lie::Slow => {}
            Lie::Endless => {
                let view = liar.honest.view();
                let genesis = view.header(0).expect("read").expect("block 0").1.header;
                let step = (START_SECS - genesis.timestamp) / (ENDLESS + 1);
                liar.forge(genesis, ENDLESS, step);
            }
            _ => {
                let head = liar.honest.view().head().header.clone();
                liar.forge(head, FORGED, 1);
            }
        }
        liar
    }

    /// Builds headers on `parent`.
    fn forge(&mut self, mut parent: Header, count: u64, step: u64) {
        for at in 0..count {
            let timestamp = parent.timestamp + step;
            if timestamp > self.honest.now() {
                return;
            }
            let mut header = Header {
                parent_hash: parent.hash(),
                number: parent.number + 1,
                timestamp,
                difficulty: next_difficulty(&self.honest.spec, &parent, timestamp),
                gas_limit: parent.gas_limit,
                gas_used: 0,
                extra_data: vec![0xff, self.lie as u8].into(),
                state_root: parent.state_root,
                ..Header::default()
            };
            header.transactions_root = chain::rules::body::transactions_root(&self.body());
            header.uncles_hash = primitives::uncles_hash(&[]);
            header.receipts_root = primitives::EMPTY_ROOT;
            seal(&mut header);
            if self.lie == Lie::BadSeal && at % 7 == 6 {
                header.pow_nonce ^= 1;
            }
            self.by_hash.insert(header.hash(), self.own.len());
            self.own.push(header.clone());
            parent = header;
        }
    }

    /// The transactions of each forged block. Not none, so that they must be asked for.
    fn body(&self) -> Vec<Transaction> {
        match self.lie {
            Lie::Endless => Vec::new(),
            _ => vec![Transaction::system(0)],
        }
    }

    pub(crate) fn status(&self, network_id: u64, version: u64) -> PeerStatus {
        let view = self.honest.view();
        let genesis = view.canonical_hash(0).expect("read").expect("block 0");
        let head = match self.own.last() {
            Some(last) => last.hash(),
            None if self.lie == Lie::NoHead => B256::repeat_byte(0xee),
            None => view.head_hash(),
        };
        let claimed = if self.thinks().is_zero() { 1u64 << 50 } else { 0 };
        PeerStatus {
            version,
            network_id,
            total_difficulty: view.head().total_difficulty.saturating_add(U256::from(claimed)),
            head,
            genesis,
            fork_id: None,
        }
    }

    /// How long it takes for an answer.
    pub(crate) fn thinks(&self) -> Duration {
        match self.lie {
            Lie::Late => REQUEST_TIMEOUT_MAX - MARGIN,
            Lie::Slow => REQUEST_TIMEOUT_MIN - MARGIN,
            _ => Duration::ZERO,
        }
    }

    /// What it answers to a message.
    pub(crate) fn answers(&self, message: &PeerMessage) -> Option<PeerMessage> {
        match (self.lie, message) {
            (Lie::Silent, _) => None,
            (Lie::Junk, PeerMessage::GetBlockHeaders(id, request)) => {
                let header = Header {
                    number: 7,
                    ..Header::default()
                };
                let count = request.amount.min(3) as usize;
                Some(PeerMessage::BlockHeaders(*id, vec![header; count]))
            }
            (Lie::Junk | Lie::OtherBodies, PeerMessage::GetBlockBodies(id, hashes)) => {
                let body = PeerBody {
                    transactions: vec![Transaction::system(99)],
                    uncles: Vec::new(),
                };
                Some(PeerMessage::BlockBodies(*id, vec![body; hashes.len()]))
            }
            (Lie::NoBodies, PeerMessage::GetBlockBodies(id, _)) => {
                Some(PeerMessage::BlockBodies(*id, Vec::new()))
            }
            (_, PeerMessage::GetBlockBodies(id, hashes)) if self.by_hash.contains_key(&hashes[0]) => {
                let body = PeerBody {
                    transactions: self.body(),
                    uncles: Vec::new(),
                };
                let mine = hashes.iter().filter(|hash| self.by_hash.contains_key(*hash));
                Some(PeerMessage::BlockBodies(*id, vec![body; mine.count()]))
            }
            (_, PeerMessage::GetBlockHeaders(id, request)) if !self.own.is_empty() => {
                Some(PeerMessage::BlockHeaders(*id, self.headers(request)))
            }
            (_, request) => answer(&*self.honest, ServeLimits::of(WireFamily::Mc), request).expect("read"),
        }
    }

    /// Its own header, or one of the honest chain below.
    fn header(&self, number: u64) -> Option<Header> {
        let first = self.own.first()?.number;
        if number >= first {
            return self.own.get((number - first) as usize).cloned();
        }
        let snapshot = self.honest.view();
        let hash = snapshot.snapshot().canonical_hash(number).expect("read")?;
        Some(snapshot.header_by_hash(&hash).expect("read")?.header)
    }

    fn headers(&self, request: &HeadersRequest) -> Vec<Header> {
        let first = match request.start {
            HeadersStart::Number(number) => Some(number),
            HeadersStart::Hash(hash) => match self.by_hash.get(&hash) {
                Some(at) => Some(self.own[*at].number),
                None => {
                    let record = self.honest.view().header_by_hash(&hash).expect("read");
                    record.map(|record| record.header.number)
                }
            },
        };
        let Some(mut number) = first else {
            return Vec::new();
        };
        let mut headers = Vec::new();
        while headers.len() < request.amount.min(192) as usize
            && let Some(header) = self.header(number)
        {
            headers.push(header);
            let step = request.skip + 1;
            let next = if request.reverse {
                number.checked_sub(step)
            } else {
                number.checked_add(step)
            };
            let Some(next) = next else { break };
            number = next;
        }
        headers
    }
}
