//! Bodies that came and wait to be compared with headers: what is checked at once, how many may
//! wait, and whose turn it is.
//!
//! | what | bound |
//! |---|---|
//! | an answer that cannot be right, by counts | not compared ([`implausible_bodies`]) |
//! | answers that are being compared | [`RUNNING_MAX`], and one of each peer |
//! | bytes of all that wait or are compared | [`COMPARED_BYTES_MAX`] |
//!
//! Bodies of peers that have given right ones come first. When a peer loses its place, its bodies
//! are forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chain::ChainSpec;
use chain::evm::TX_GAS;
use chain::rules::UNCLES_MAX;
use primitives::{EMPTY_ROOT, EMPTY_UNCLES_HASH, Header, Transaction};

use super::jobs::{SyncJob, WantedBody};
use crate::messages::PeerBody;
use crate::peers::{PeerId, RequestTicket};

/// The most jobs that are under way, so that the thread has the next one at once.
const RUNNING_MAX: usize = 2;
/// The most bytes of bodies that wait to be compared or are compared. One answer may have more.
const COMPARED_BYTES_MAX: usize = 64 << 20;
/// The least gas of a transaction. Each one pays [`TX_GAS`] or more, and refunds give back at most
/// half.
const TRANSACTION_GAS_MIN: u64 = TX_GAS / 2;

/// Memory that transactions and uncles take, in bytes, with the senders of the transactions.
pub(super) fn body_bytes(transactions: &[Transaction], uncles: &[Header]) -> usize {
    let of_transaction = |one: &Transaction| {
        let slots: usize = one.access_list.iter().map(|entry| entry.slots.len()).sum();
        size_of::<Transaction>()
            + size_of::<primitives::Address>()
            + one.input.len()
            + size_of_val(one.access_list.as_slice())
            + slots * size_of::<primitives::B256>()
    };
    let of_uncle = |uncle: &Header| size_of::<Header>() + uncle.extra_data.len();
    let transactions: usize = transactions.iter().map(of_transaction).sum();
    transactions + uncles.iter().map(of_uncle).sum::<usize>()
}

/// Whether a body may be that of a header, by what can be counted. No root is computed.
fn is_plausible(spec: &ChainSpec, header: &Header, body: &PeerBody, gas: u64) -> bool {
    body.uncles.len() <= UNCLES_MAX
        && body.uncles.is_empty() == (header.uncles_hash == EMPTY_UNCLES_HASH)
        && body.transactions.is_empty() == (header.transactions_root == EMPTY_ROOT)
        && gas <= header.gas_used
        && (spec.system_contract || !body.transactions.iter().any(Transaction::is_system))
}

/// Returns the fault of bodies that came for these blocks, if it can be seen without a root.
pub(super) fn implausible_bodies(
    spec: &ChainSpec,
    wanted: &[WantedBody],
    bodies: &[PeerBody],
) -> Option<String> {
    let mut next = 0;
    for (at, body) in bodies.iter().enumerate() {
        // System transactions are not executed, so they use no gas.
        let executed = body.transactions.iter().filter(|one| !one.is_system()).count() as u64;
        let gas = executed.saturating_mul(TRANSACTION_GAS_MIN);
        let fits = |wanted: &WantedBody| is_plausible(spec, &wanted.header, body, gas);
        let Some(place) = wanted.iter().skip(next).position(fits) else {
            let (transactions, uncles) = (body.transactions.len(), body.uncles.len());
            return Some(format!(
                "body {at}: got {transactions} transactions and {uncles} uncles, expected those of a block \
                 that was asked for"
            ));
        };
        next += place + 1;
    }
    None
}

#[derive(Clone, Debug)]
pub(super) struct ReceivedBodies {
    /// The peer that has sent them; `None` if nobody was asked.
    pub(super) peer: Option<PeerId>,
    pub(super) ticket: RequestTicket,
    pub(super) wanted: Vec<WantedBody>,
    pub(super) bodies: Vec<PeerBody>,
    pub(super) took: Duration,
}

impl ReceivedBodies {
    pub(super) fn bytes(&self) -> usize {
        let bodies = self.bodies.iter();
        bodies
            .map(|body| size_of::<PeerBody>() + body_bytes(&body.transactions, &body.uncles))
            .sum()
    }
}

/// Bodies that are being compared with headers.
#[derive(Clone, Debug)]
pub(super) struct ComparedBodies {
    /// The peer that has sent them; `None` if nobody was asked.
    pub(super) peer: Option<PeerId>,
    pub(super) wanted: Vec<WantedBody>,
    pub(super) came: usize,
    pub(super) took: Duration,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Comparisons {
    waiting: VecDeque<(usize, ReceivedBodies)>,
    running: BTreeMap<RequestTicket, ComparedBodies>,
}

impl Comparisons {
    fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|(bytes, _)| *bytes);
        let running = self.running.values().map(|compared| compared.bytes);
        waiting.chain(running).fold(0, usize::saturating_add)
    }

    /// Takes bodies, which have so many bytes. `false` if there is no room: they are dropped.
    pub(super) fn add(&mut self, bytes: usize, received: ReceivedBodies) -> bool {
        let others = self.bytes();
        if others > 0 && others.saturating_add(bytes) > COMPARED_BYTES_MAX {
            return false;
        }
        self.waiting.push_back((bytes, received));
        true
    }

    /// The next job, if one may begin. `is_known` says of a peer that it has given right bodies.
    pub(super) fn next(&mut self, is_known: impl Fn(PeerId) -> bool) -> Option<SyncJob> {
        if self.running.len() >= RUNNING_MAX {
            return None;
        }
        let is_free = |received: &ReceivedBodies| {
            let running = self.running.values();
            received.peer.is_none() || running.clone().all(|compared| compared.peer != received.peer)
        };
        let free = self.waiting.iter().enumerate();
        let free = free.filter(|(_, (_, received))| is_free(received));
        // Among equals the one that came first.
        let at = free
            .min_by_key(|(_, (_, received))| received.peer.is_some_and(|peer| !is_known(peer)))
            .map(|(at, _)| at)?;
        let (bytes, received) = self.waiting.remove(at)?;
        let ReceivedBodies {
            peer,
            ticket,
            wanted,
            bodies,
            took,
        } = received;
        let compared = ComparedBodies {
            peer,
            wanted: wanted.clone(),
            came: bodies.len(),
            took,
            bytes,
        };
        self.running.insert(ticket, compared);
        Some(SyncJob::Bodies {
            ticket,
            wanted,
            bodies,
        })
    }

    /// A job has ended.
    pub(super) fn done(&mut self, ticket: RequestTicket) -> Option<ComparedBodies> {
        self.running.remove(&ticket)
    }

    /// Forgets what waits of a peer. Returns the tickets.
    pub(super) fn forget(&mut self, peer: PeerId) -> Vec<RequestTicket> {
        let of_peer = |(_, received): &(usize, ReceivedBodies)| received.peer == Some(peer);
        let gone = self.waiting.iter().filter(|waiting| of_peer(waiting));
        let tickets = gone.map(|(_, received)| received.ticket).collect();
        self.waiting.retain(|waiting| !of_peer(waiting));
        tickets
    }

    pub(super) fn forget_all(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use primitives::{B256, TxForm};

    use super::*;

    const ONE: PeerId = PeerId(1);
    const TWO: PeerId = PeerId(2);

    fn wanted(gas_used: u64, uncles: usize) -> WantedBody {
        let header = Header {
            gas_used,
            uncles_hash: if uncles == 0 {
                EMPTY_UNCLES_HASH
            } else {
                B256::ZERO
            },
            ..Header::default()
        };
        WantedBody {
            hash: header.hash(),
            header: Arc::new(header),
        }
    }

    fn plain_transaction() -> Transaction {
        Transaction {
            form: TxForm::Native,
            syscnt: 0,
            ..Transaction::system(0)
        }
    }

    fn body(transactions: usize, uncles: usize) -> PeerBody {
        PeerBody {
            transactions: vec![plain_transaction(); transactions],
            uncles: vec![Header::default(); uncles],
        }
    }

    fn received(peer: PeerId, ticket: u64, count: usize) -> ReceivedBodies {
        ReceivedBodies {
            peer: Some(peer),
            ticket: RequestTicket(ticket),
            wanted: vec![wanted(1000, 0)],
            bodies: vec![body(count, 0)],
            took: Duration::ZERO,
        }
    }

    fn ticket(job: Option<SyncJob>) -> Option<u64> {
        match job? {
            SyncJob::Bodies { ticket, .. } => Some(ticket.0),
            _ => None,
        }
    }

    #[test]
    fn bodies_that_cannot_be_right_are_seen_by_counting() {
        let spec = ChainSpec::main();
        let asked = [wanted(1000, 0), wanted(100_000, 2), wanted(500, 0)];
        let check = |bodies: &[PeerBody]| implausible_bodies(&spec, &asked, bodies).is_none();
        assert!(check(&[body(2, 0), body(200, 2), body(1, 0)]));
        assert!(check(&[body(200, 1)]), "the first one is missing");
        assert!(check(&[body(1, 0), body(1, 0)]), "the second one is missing");
        assert!(!check(&[body(3, 0)]), "more than the gas is enough for");
        assert!(!check(&[body(2, 0), body(201, 2)]));
        assert!(!check(&[body(1, 3)]), "too many uncles");
        assert!(!check(&[body(0, 0)]), "the header has transactions");
        assert!(!check(&[body(1, 0), body(1, 0), body(1, 0)]), "no place is left");
        let system = PeerBody {
            transactions: vec![Transaction::system(0); 500],
            uncles: Vec::new(),
        };
        assert!(check(std::slice::from_ref(&system)), "they use no gas");
        let classic = ChainSpec {
            system_contract: false,
            ..spec.clone()
        };
        assert!(implausible_bodies(&classic, &asked, &[system]).is_some());
    }

    #[test]
    fn each_peer_has_one_turn_and_known_ones_come_first() {
        let mut comparisons = Comparisons::default();
        for (at, peer) in [ONE, ONE, TWO, PeerId(3)].into_iter().enumerate() {
            assert!(comparisons.add(100, received(peer, at as u64, 1)));
        }
        let is_known = |peer| peer == PeerId(3);
        assert_eq!(ticket(comparisons.next(is_known)), Some(3));
        assert_eq!(ticket(comparisons.next(is_known)), Some(0));
        assert_eq!(ticket(comparisons.next(is_known)), None, "two are under way");
        assert!(comparisons.done(RequestTicket(3)).is_some());
        assert_eq!(
            ticket(comparisons.next(is_known)),
            Some(2),
            "peer 1 waits for its turn"
        );
        assert_eq!(comparisons.forget(ONE), [RequestTicket(1)]);
        assert!(comparisons.done(RequestTicket(0)).is_some());
        assert_eq!(ticket(comparisons.next(is_known)), None);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut comparisons = Comparisons::default();
        let big = COMPARED_BYTES_MAX + 1;
        assert!(
            comparisons.add(big, received(ONE, 1, 1)),
            "one answer may have more"
        );
        assert!(!comparisons.add(1, received(TWO, 2, 1)));
        assert_eq!(ticket(comparisons.next(|_| true)), Some(1));
        assert!(
            !comparisons.add(1, received(TWO, 2, 1)),
            "what is compared counts"
        );
        comparisons.done(RequestTicket(1));
        assert!(comparisons.add(1, received(TWO, 2, 1)));
        let of_one = received(ONE, 1, 1).bytes();
        assert!(received(ONE, 1, 1000).bytes() > of_one + 999 * size_of::<Transaction>());
    }
}
