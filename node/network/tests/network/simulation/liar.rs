//! Peers that lie, stall and vanish. A liar knows the chain of an honest node and shows something
//! else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chain::rules::difficulty::next_difficulty;
use network::WireFamily;
use network::testing::{
    HeadersRequest, HeadersStart, PeerBody, PeerMessage, PeerStatus, REQUEST_TIMEOUT_MAX,
    REQUEST_TIMEOUT_MIN, serve::ServeLimits, serve::answer,
};
use primitives::{B256, Header, Transaction, TxForm, U256};
use store::BlockReads;

use crate::simulation::chain::{GENESIS_SECS, START_SECS, SimChain, seal};

/// The behaviour of a liar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Answers nothing.
    Silent,
    /// Claims a head that does not exist.
    NoHead,
    /// Has a valid branch from block 0 on, with many headers and little weight.
    Endless,
    /// The same with a branch that takes long to fetch.
    Long,
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
    /// Makes up a long chain without seals and sends its headers one at a time, each within a
    /// second.
    OneAtATime,
    /// Makes up a long chain without seals. Each answer is whole and takes almost a second.
    Tardy,
    /// Makes up a long chain whose headers have good form and no seals, and is quick.
    NoSeals,
    /// Claims a total difficulty of more bits than there can be.
    Huge,
    /// Claims a total difficulty that its head cannot have.
    Implausible,
    /// Gives the headers of the honest chain, and large bodies of no block.
    LargeBodies,
    /// Tells the truth, each time just before the longest time for an answer is over.
    Late,
    /// Tells the truth, each time just before the shortest time for an answer is over.
    Slow,
}

pub(crate) const LIES: [Lie; 14] = [
    Lie::Silent,
    Lie::NoHead,
    Lie::Endless,
    Lie::BadSeal,
    Lie::OtherBodies,
    Lie::NoBodies,
    Lie::BadState,
    Lie::Junk,
    Lie::OneAtATime,
    Lie::Tardy,
    Lie::NoSeals,
    Lie::Huge,
    Lie::Implausible,
    Lie::LargeBodies,
];

/// Peers that do not lie, but are much slower than others.
pub(crate) const SLOW_ONES: [Lie; 2] = [Lie::Late, Lie::Slow];

/// Headers that a liar builds on the honest chain.
const FORGED: u64 = 80;
/// The slow ones answer so much earlier than the timeout. A link takes up to 300 ms both ways.
const MARGIN: Duration = Duration::from_millis(400);
/// Headers of the branch of little weight.
const ENDLESS: u64 = 6_000;
/// The same for one that takes long to fetch.
const LONG: u64 = 32_000;
/// Headers of a chain that is made up, more than the honest one has.
const MADE_UP: u64 = 100;
/// Seconds between two headers of it.
const STEP_SECS: u64 = 13;
/// The time for an answer that comes within a second, without the link.
const TARDY: Duration = Duration::from_millis(800);
/// Gas of a forged block: enough for its transaction.
const BODY_GAS: u64 = 21_000;
/// Transactions of a large body.
const LARGE_BODY: usize = 2_000;

/// A transaction without a right signature.
fn transaction(tx_nonce: u64) -> Transaction {
    Transaction {
        form: TxForm::Native,
        syscnt: 0,
        ..Transaction::system(tx_nonce)
    }
}

/// See the module.
pub(crate) struct Liar {
    lie: Lie,
    honest: Arc<SimChain>,
    /// The headers of its own, ascending.
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
            Lie::Silent | Lie::NoHead | Lie::Junk | Lie::Huge | Lie::LargeBodies | Lie::Late | Lie::Slow => {}
            Lie::Endless => liar.forge_light(ENDLESS),
            Lie::Long => liar.forge_light(LONG),
            Lie::OneAtATime | Lie::Tardy | Lie::NoSeals | Lie::Implausible => {
                let count = liar.honest.view().head_number() + MADE_UP;
                liar.forge_from_genesis(count, STEP_SECS);
            }
            _ => {
                let head = liar.honest.view().head().header.clone();
                liar.forge(head, FORGED, 1);
            }
        }
        liar
    }

    /// Whether the liar knows this chain.
    pub(crate) fn knows(&self, chain: &Arc<SimChain>) -> bool {
        Arc::ptr_eq(&self.honest, chain)
    }

    /// Whether the chain that the liar knows can be read now.
    pub(crate) fn can_read(&self) -> bool {
        self.honest.look().is_some()
    }

    /// The hashes of its own headers.
    pub(crate) fn forged(&self) -> impl Iterator<Item = B256> + '_ {
        self.own.iter().map(Header::hash)
    }

    /// Builds headers of little weight on block 0: a long time is between them.
    fn forge_light(&mut self, count: u64) {
        self.forge_from_genesis(count, (START_SECS - GENESIS_SECS) / (count + 1));
    }

    fn forge_from_genesis(&mut self, count: u64, step: u64) {
        let view = self.honest.view();
        let genesis = view.header(0).expect("read").expect("block 0").1.header;
        self.forge(genesis, count, step);
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
                gas_used: self.body().len() as u64 * BODY_GAS,
                extra_data: vec![0xff, self.lie as u8].into(),
                state_root: parent.state_root,
                ..Header::default()
            };
            header.transactions_root = chain::rules::body::transactions_root(&self.body());
            header.uncles_hash = primitives::uncles_hash(&[]);
            header.receipts_root = primitives::EMPTY_ROOT;
            seal(&mut header);
            let is_sealed = match self.lie {
                Lie::BadSeal => at % 7 != 6,
                Lie::OneAtATime | Lie::Tardy | Lie::NoSeals | Lie::Implausible => false,
                _ => true,
            };
            if !is_sealed {
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
            Lie::Endless | Lie::Long => Vec::new(),
            _ => vec![transaction(0)],
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
        let weight = view.head().total_difficulty;
        let total_difficulty = match self.lie {
            // The truth, which is no more than that of others.
            Lie::Late | Lie::Slow | Lie::LargeBodies => weight,
            Lie::Huge => U256::from(1) << 200,
            Lie::Implausible => U256::from(1) << 99,
            // As little more as it takes to be followed.
            Lie::Endless | Lie::Long => weight + U256::from(1),
            _ => weight + self.plausible_excess(),
        };
        PeerStatus {
            version,
            network_id,
            total_difficulty,
            head,
            genesis,
            fork_id: None,
        }
    }

    /// The part of its claim beyond the weight of the honest chain.
    fn plausible_excess(&self) -> U256 {
        let of_head = |head: &Header| head.difficulty * U256::from(head.number);
        let usual = || U256::from(1u64 << 50);
        self.own.last().map_or_else(usual, of_head)
    }

    /// The time that it takes for an answer.
    pub(crate) fn thinks(&self, message: &PeerMessage) -> Duration {
        let asks_for_head = |request: &HeadersRequest| {
            let head = self.own.last().map(Header::hash);
            head.is_some_and(|head| request.start == HeadersStart::Hash(head))
        };
        match self.lie {
            // The liar is quick until it is followed.
            Lie::OneAtATime | Lie::Tardy if matches!(message, PeerMessage::GetBlockHeaders(_, request) if asks_for_head(request)) => {
                Duration::ZERO
            }
            Lie::Late => REQUEST_TIMEOUT_MAX - MARGIN,
            Lie::Slow => REQUEST_TIMEOUT_MIN - MARGIN,
            Lie::OneAtATime | Lie::Tardy => TARDY,
            _ => Duration::ZERO,
        }
    }

    /// The answer to a message.
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
                    transactions: vec![transaction(99)],
                    uncles: Vec::new(),
                };
                Some(PeerMessage::BlockBodies(*id, vec![body; hashes.len()]))
            }
            (Lie::LargeBodies, PeerMessage::GetBlockBodies(id, hashes)) => {
                let body = PeerBody {
                    transactions: vec![transaction(99); LARGE_BODY],
                    uncles: Vec::new(),
                };
                Some(PeerMessage::BlockBodies(*id, vec![body; hashes.len()]))
            }
            (Lie::OneAtATime, PeerMessage::GetBlockHeaders(id, request)) => {
                let mut headers = self.headers(request);
                headers.truncate(1);
                Some(PeerMessage::BlockHeaders(*id, headers))
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

    /// The header of its own chain, or one of the honest chain below.
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
                    let number = record.map(|record| record.header.number);
                    // The liar has a header of its own in place of this one.
                    let is_other = |number: &u64| self.own.first().is_none_or(|own| *number < own.number);
                    number.filter(is_other)
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
