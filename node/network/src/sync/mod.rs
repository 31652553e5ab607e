//! Getting the heaviest chain from peers: headers first, then bodies, then the import.
//!
//! [`Synchronizer`] decides. It is a state machine: it takes the time, news of peers and outcomes
//! of jobs, and returns orders to peers and jobs for the chain. It asks no clock, opens no socket
//! and starts no thread. What the chain has, it reads from a [`View`]. So it keeps nothing that a
//! restart would lose: headers and blocks that are stored are where the next start goes on.
//!
//! 1. A peer claims more total difficulty than the best header here. Its head header is asked for,
//!    then where its chain leaves ours (`ancestor`).
//! 2. The peer gives a skeleton: every 192nd hash. All peers fill it (`segments`, `headers`).
//! 3. The headers are checked, all of them with their seals, and stored as bare headers (`jobs`).
//! 4. The chain chooses the best header. Its missing bodies are asked of all peers (`window`,
//!    `bodies`), and are imported in order. While the state of a later block is fetched
//!    (`state_fetch`), they are written without being executed, with their receipts (`receipts`).
//!
//! Steps 1 to 3 and step 4 go on side by side, with bounds between them ([`HEADER_LEAD_MAX`]).
//!
//! | a peer | what happens |
//! |---|---|
//! | does not answer, or much later than others do | loses its place after a few times (`roster`) |
//! | sends headers or bodies that were not asked for | loses its place |
//! | has given a header whose seal, rules or block are wrong | loses its place (`vouchers`) |
//! | claims more total difficulty than there can be | loses its place (`claims`) |
//! | claims more total difficulty than it has | loses its place when its headers are here |
//! | sends few of the headers that it must have | loses its place (`segments`) |
//! | sends headers below the least rate | loses its download, then its place (`headers`) |
//! | sends headers without end and without weight | loses its place ([`ENDLESS_HEADERS`]) |
//! | gives headers whose bodies nobody has | loses its place, and the headers go |
//!
//! Blocks near the head come by gossip, without the synchronization. If one is missed, this is
//! where it comes from. Source: docs/p2p.md, 3.

mod ancestor;
mod bodies;
mod claims;
mod comparisons;
mod driver;
mod fault;
mod headers;
mod jobs;
mod network_watch;
mod receipts;
mod roster;
mod segments;
mod state_fetch;
mod vouchers;
mod window;

pub use driver::time_text;
pub(crate) use driver::{ChainSync, SyncShared};
pub use jobs::{ChainRefusal, SyncJob, SyncOutcome, SyncTarget, WantedBody, run_job};
pub use state_fetch::StateProgress;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chain::View;
use chain::import::{BlockId, PreparedBlock};
use primitives::{B256, U256};
use store::StoreError;

use crate::moment::Moment;
use crate::peers::{NEAR_BELOW, PeerFault, PeerId, PeerNews, PeerOrder, PeerRequest, RequestTicket};
use comparisons::Comparisons;
use headers::HeaderDownload;
use receipts::ReceiptQueue;
use roster::{ClaimOrder, QuestionKind, Roster, lies};
use vouchers::Vouchers;
use window::BodyWindow;
pub use window::WINDOW_BLOCKS;

/// Headers are fetched up to this number above the head, then bodies come first. The chain keeps
/// more bare headers than this.
pub(crate) const HEADER_LEAD_MAX: u64 = 65_536;
/// A branch may have twice as many headers as ours has from where it leaves ours, and so many more.
/// If it is not heavier then, it is one without end.
pub(crate) const ENDLESS_HEADERS: u64 = 4096;
/// No work is made while the best header chain has more blocks than this without bodies.
pub(crate) const FAR_BEHIND_BLOCKS: u64 = 64;
/// While so few blocks are missing, nothing is said about synchronizing.
pub(crate) const SHORT_GAP_BLOCKS: u64 = 4;

/// The state machine looks at the time at this interval while it has something to do.
const BUSY_INTERVAL: Duration = Duration::from_millis(250);
/// A head that a peer has told of usually comes by gossip. It is looked at after this time.
const GOSSIP_TIME: Duration = Duration::from_secs(1);
/// A claim that could not be followed is looked at again after this time.
const CLAIM_RETRY: Duration = Duration::from_secs(15);
/// A head that its peer does not have is asked for again after this time, then after twice as long.
const MISS_RETRY: Duration = Duration::from_secs(1);
/// Headers that are ahead of the clock are looked at again after this time.
const EARLY_RETRY: Duration = Duration::from_secs(2);
/// A peer that could not be asked rests for this long.
const BUSY_PEER_TIME: Duration = Duration::from_secs(1);
/// A pause after the chain could not take something for now.
const CHAIN_RETRY: Duration = Duration::from_secs(1);

/// The actions that follow.
#[derive(Debug, Default)]
pub struct SyncActions {
    /// Orders to peers, in order.
    pub orders: Vec<PeerOrder>,
    /// Jobs for the chain. Those of a kind must be done in order.
    pub jobs: Vec<SyncJob>,
}

/// The progress of a synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// The head when the synchronization began. `None` while there is nothing to catch up with.
    pub started_at: Option<u64>,
    /// The number of the head.
    pub head: u64,
    /// The number of the best header, whose seal is right.
    pub best_header: u64,
    /// The highest block that a peer was found to have.
    pub highest: u64,
    /// Blocks of the best header chain without bodies.
    pub missing: u64,
    /// Work is not to be handed out.
    pub far_behind: bool,
    /// The progress of the state that is fetched; `None` if all blocks are executed.
    pub state: Option<StateProgress>,
}

/// The stage of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStage {
    /// There is nothing to catch up with.
    Idle,
    /// Headers are fetched, and perhaps bodies, too.
    Headers,
    /// All headers are here, and bodies are fetched.
    Bodies,
}

impl SyncStage {
    /// The name, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Headers => "headers",
            Self::Bodies => "bodies",
        }
    }
}

impl SyncState {
    /// The stage.
    pub const fn stage(&self) -> SyncStage {
        if self.started_at.is_none() {
            SyncStage::Idle
        } else if self.best_header < self.highest {
            SyncStage::Headers
        } else {
            SyncStage::Bodies
        }
    }
}

#[derive(Clone, Debug)]
enum QuestionTopic {
    /// Something of the header download with this number.
    Download(u64, headers::DownloadQuestion),
    Bodies(Vec<WantedBody>),
    /// The receipts of these blocks.
    Receipts(Vec<Arc<PreparedBlock>>),
}

impl QuestionTopic {
    const fn kind(&self) -> QuestionKind {
        match self {
            Self::Download(..) => QuestionKind::Headers,
            Self::Bodies(_) | Self::Receipts(_) => QuestionKind::Bodies,
        }
    }
}

#[derive(Clone, Debug)]
struct OpenQuestion {
    peer: PeerId,
    topic: QuestionTopic,
}

/// The facts that the synchronization last read of the chain.
#[derive(Clone, Copy, Debug, Default)]
struct ChainState {
    head: u64,
    best: BestHeader,
}

#[derive(Clone, Copy, Debug, Default)]
struct BestHeader {
    number: u64,
    total_difficulty: U256,
}

/// Decides what to ask of whom, and what to do with it. See the module.
#[derive(Debug)]
pub struct Synchronizer {
    genesis: B256,
    roster: Roster,
    questions: BTreeMap<RequestTicket, OpenQuestion>,
    tickets: u64,
    downloads: Vec<HeaderDownload>,
    downloads_begun: u64,
    download_begun_at: Duration,
    /// The time at which the best header rose. The time that the chain needs for its work is added.
    advanced_at: Duration,
    /// There was no claim to follow.
    was_idle: bool,
    /// Hashes of the headers that are being checked and stored, and where they end.
    headers_job: Option<headers::HeadersInWork>,
    window: BodyWindow,
    vouchers: Vouchers,
    /// Comparisons of bodies that the chain is doing, and who has sent the bodies.
    comparisons: Comparisons,
    imports: usize,
    /// Blocks that are not executed and wait for their receipts.
    receipts: ReceiptQueue,
    /// Blocks up to this number are not executed, and those above wait.
    fill_limit: Option<u64>,
    /// The lowest missing body, and the time at which it became the lowest.
    front: Option<(BlockId, Duration)>,
    /// Nothing is given to the chain before this time.
    chain_pause: Duration,
    chain: ChainState,
    /// The chain may have changed since it was read.
    is_stale: bool,
    progress: SyncState,
    now: Duration,
    actions: SyncActions,
}

impl Synchronizer {
    /// A state machine without peers. `genesis` is the hash of block 0.
    pub fn new(genesis: B256) -> Self {
        Self {
            genesis,
            roster: Roster::default(),
            questions: BTreeMap::new(),
            tickets: 0,
            downloads: Vec::new(),
            downloads_begun: 0,
            download_begun_at: Duration::ZERO,
            advanced_at: Duration::ZERO,
            was_idle: true,
            headers_job: None,
            window: BodyWindow::default(),
            vouchers: Vouchers::default(),
            comparisons: Comparisons::default(),
            imports: 0,
            receipts: ReceiptQueue::default(),
            fill_limit: None,
            front: None,
            chain_pause: Duration::ZERO,
            chain: ChainState::default(),
            is_stale: true,
            progress: SyncState::default(),
            now: Duration::ZERO,
            actions: SyncActions::default(),
        }
    }

    /// Something has happened with peers.
    pub fn handle(&mut self, now: Moment, view: &View, news: PeerNews) -> SyncActions {
        self.now = now.elapsed;
        let taken = self.take_news(view, news);
        self.finish(view, taken)
    }

    /// A job has ended.
    pub fn job_done(&mut self, now: Moment, view: &View, outcome: SyncOutcome) -> SyncActions {
        self.now = now.elapsed;
        self.is_stale |= !matches!(outcome, SyncOutcome::Bodies { .. });
        let taken = self.take_outcome(view, outcome);
        self.finish(view, taken)
    }

    /// The time has come that [`Self::deadline`] has named.
    pub fn on_time(&mut self, now: Moment, view: &View) -> SyncActions {
        self.now = now.elapsed;
        self.is_stale = true;
        self.finish(view, Ok(()))
    }

    /// The time at which [`Self::on_time`] must be called, as in [`Moment::elapsed`].
    pub fn deadline(&self) -> Option<Duration> {
        if !self.downloads.is_empty()
            || self.headers_job.is_some()
            || !self.window.is_empty()
            || !self.receipts.is_empty()
        {
            return Some(self.now + BUSY_INTERVAL);
        }
        let best = self.chain.best.total_difficulty;
        let open = self.roster.open_heads(best, ClaimOrder::Weight, self.now);
        let soonest = self.now.max(self.chain_pause);
        open.into_iter().map(|head| head.look_at.max(soonest)).min()
    }

    /// The number of blocks whose bodies are fetched or wait for their import, at most
    /// [`WINDOW_BLOCKS`].
    pub fn window_blocks(&self) -> usize {
        self.window.len()
    }

    /// The number of peers.
    pub fn peer_count(&self) -> usize {
        self.roster.count()
    }

    /// The progress of the synchronization.
    pub const fn progress(&self) -> SyncState {
        self.progress
    }

    /// Goes on after something was taken in. If the store failed, all plans are made again later.
    fn finish(&mut self, view: &View, taken: Result<(), StoreError>) -> SyncActions {
        if let Err(error) = taken.and_then(|()| self.go_on(view)) {
            tracing::error!(%error, "the synchronization cannot read the chain; it begins again");
            self.downloads.clear();
            self.window = BodyWindow::default();
            self.imports -= self.receipts.clear().min(self.imports);
            self.chain_pause = self.now + CHAIN_RETRY;
            self.is_stale = true;
        }
        std::mem::take(&mut self.actions)
    }

    fn take_news(&mut self, view: &View, news: PeerNews) -> Result<(), StoreError> {
        match news {
            PeerNews::Joined(facts) => {
                self.roster.join(&facts, self.now);
                self.refuse_impossible(facts.peer, facts.total_difficulty);
                self.is_stale = true;
            }
            PeerNews::Left(peer) => self.forget_peer(peer),
            PeerNews::Head {
                peer,
                head,
                total_difficulty,
            } => {
                let look_at = self.now + GOSSIP_TIME;
                self.roster.claim(peer, head, total_difficulty, look_at);
                self.refuse_impossible(peer, total_difficulty);
            }
            PeerNews::DistantBlock {
                peer,
                hash,
                total_difficulty,
            } => {
                self.roster.claim(peer, hash, total_difficulty, self.now);
                self.refuse_impossible(peer, total_difficulty);
            }
            PeerNews::DistantAnnouncement { peer, blocks } => {
                // A block that is a little lower can still be the heavier one.
                let highest = blocks.into_iter().max_by_key(|block| block.number);
                let lowest = self.chain.best.number.saturating_sub(NEAR_BELOW);
                if let Some(block) = highest.filter(|block| block.number >= lowest) {
                    self.roster.hint(peer, &block, self.now + GOSSIP_TIME);
                }
            }
            PeerNews::Answer {
                peer,
                ticket,
                answer,
                took,
            } => {
                if let Some(question) = self.close_question(ticket) {
                    let kind = question.topic.kind();
                    match question.topic {
                        QuestionTopic::Download(download, question) => {
                            self.download_answer(view, peer, download, question, answer)?;
                        }
                        QuestionTopic::Bodies(wanted) => {
                            self.bodies_answer(view, peer, (ticket, wanted), answer, took);
                        }
                        QuestionTopic::Receipts(wanted) => {
                            let form = view.spec().receipt_form();
                            self.receipts_answer(peer, (ticket, wanted), answer, form);
                        }
                    }
                    if let Some(fault) = self.roster.answered(peer, kind, took) {
                        self.drop_peer(peer, fault);
                    }
                }
            }
            PeerNews::Late { peer, ticket } => {
                self.without_answer(ticket);
                if let Some(fault) = self.roster.late(peer) {
                    self.drop_peer(peer, fault);
                }
            }
            PeerNews::NotAsked { peer, ticket } => {
                // The peer is gone, or busy.
                let rest_until = self.now + BUSY_PEER_TIME;
                if let Some(entry) = self.roster.get(peer) {
                    entry.rest_until = rest_until;
                }
                self.without_answer(ticket);
            }
        }
        Ok(())
    }

    /// A question has no answer and will have none.
    fn without_answer(&mut self, ticket: RequestTicket) {
        let Some(question) = self.close_question(ticket) else {
            return;
        };
        match question.topic {
            QuestionTopic::Download(download, about) => {
                self.download_unanswered(question.peer, download, &about)
            }
            QuestionTopic::Bodies(_) => self.window.release(ticket),
            QuestionTopic::Receipts(_) => self.receipts.release(ticket),
        }
    }

    fn take_outcome(&mut self, view: &View, outcome: SyncOutcome) -> Result<(), StoreError> {
        match outcome {
            SyncOutcome::Headers(result) => self.headers_done(view, result)?,
            SyncOutcome::Bodies {
                ticket,
                blocks,
                wrong,
            } => self.bodies_compared(ticket, blocks, wrong),
            SyncOutcome::Blocks { stored, refusal } => self.blocks_done(stored, refusal),
            SyncOutcome::Forgotten | SyncOutcome::State(_) => {}
        }
        Ok(())
    }

    /// Makes new plans: which headers, which bodies, which import.
    fn go_on(&mut self, view: &View) -> Result<(), StoreError> {
        if self.is_stale {
            self.read_chain(view)?;
            self.is_stale = false;
        }
        self.go_on_with_headers(view)?;
        self.go_on_with_bodies(view);
        self.update_progress();
        Ok(())
    }

    fn read_chain(&mut self, view: &View) -> Result<(), StoreError> {
        let best = view.best_header()?;
        let weight = view.known_header(&best.hash)?;
        let total_difficulty = weight.map_or(U256::ZERO, |header| header.total_difficulty);
        if total_difficulty > self.chain.best.total_difficulty {
            self.advanced_at = self.now;
        }
        self.chain = ChainState {
            head: view.head_number(),
            best: BestHeader {
                number: best.number,
                total_difficulty,
            },
        };
        self.follow_window(view)
    }

    fn update_progress(&mut self) {
        let ChainState { head, best } = self.chain;
        let missing = self.window.front().map_or(0, |front| {
            best.number.saturating_add(1).saturating_sub(front.number)
        });
        // A number that nothing is known of counts only if there is no better one.
        let followed = self
            .downloads
            .iter()
            .min_by_key(|download| (!download.is_proven(), download.id()));
        let target = followed.and_then(HeaderDownload::target_number);
        let highest = best.number.max(target.unwrap_or(0)).max(head);
        let gap = missing.max(highest - head.min(highest));
        let is_busy = !self.downloads.is_empty() || missing > 0;
        // A heavier chain of unknown length may be a long one.
        let is_unknown = !self.downloads.is_empty() && target.is_none();
        let started_at = match self.progress.started_at {
            None if is_unknown || gap > SHORT_GAP_BLOCKS && is_busy => Some(head),
            Some(at) if is_busy => Some(at),
            _ => None,
        };
        // Work comes back when little is missing, and not already at the bound.
        let bound = if self.progress.far_behind {
            SHORT_GAP_BLOCKS
        } else {
            FAR_BEHIND_BLOCKS
        };
        self.progress = SyncState {
            started_at,
            head,
            best_header: best.number,
            highest,
            missing,
            far_behind: missing > bound,
            state: None,
        };
    }

    const fn next_ticket(&mut self) -> RequestTicket {
        self.tickets += 1;
        RequestTicket(self.tickets)
    }

    fn ask(&mut self, ticket: RequestTicket, peer: PeerId, request: PeerRequest, topic: QuestionTopic) {
        if let Some(entry) = self.roster.get(peer) {
            match topic {
                QuestionTopic::Download(..) => entry.header_questions += 1,
                QuestionTopic::Bodies(_) => entry.body_questions += 1,
                QuestionTopic::Receipts(_) => {}
            }
        }
        self.questions.insert(ticket, OpenQuestion { peer, topic });
        self.actions.orders.push(PeerOrder::Ask {
            peer,
            ticket,
            request,
        });
    }

    fn close_question(&mut self, ticket: RequestTicket) -> Option<OpenQuestion> {
        let question = self.questions.remove(&ticket)?;
        if let Some(entry) = self.roster.get(question.peer) {
            match question.topic {
                QuestionTopic::Download(..) => entry.header_questions -= 1,
                QuestionTopic::Bodies(_) => entry.body_questions -= 1,
                QuestionTopic::Receipts(_) => {}
            }
        }
        Some(question)
    }

    /// A peer loses its place.
    fn drop_peer(&mut self, peer: PeerId, fault: PeerFault) {
        if !fault.banned.is_zero() {
            self.roster.was_unfulfilled(peer, self.now);
        }
        if !self.roster.remove(peer) {
            return;
        }
        tracing::debug!(peer = peer.0, fault = %fault.text, "a peer loses its place");
        self.actions.orders.push(PeerOrder::Drop { peer, fault });
        self.forget_peer(peer);
    }

    /// A peer that claims what no peer can have loses its place.
    fn refuse_impossible(&mut self, peer: PeerId, total_difficulty: U256) {
        if let Some(text) = claims::impossible(total_difficulty) {
            self.drop_liar(peer, text);
        }
    }

    /// A peer has lied.
    fn drop_liar(&mut self, peer: PeerId, text: String) {
        self.drop_peer(peer, lies(text));
    }

    /// A peer is gone: nothing is expected of it.
    fn forget_peer(&mut self, peer: PeerId) {
        self.roster.remove(peer);
        let gone =
            |(ticket, question): (&RequestTicket, &OpenQuestion)| (question.peer == peer).then_some(*ticket);
        let tickets: Vec<_> = self.questions.iter().filter_map(gone).collect();
        for ticket in tickets {
            self.questions.remove(&ticket);
            self.window.release(ticket);
            self.receipts.release(ticket);
        }
        for ticket in self.comparisons.forget(peer) {
            self.window.release(ticket);
        }
        self.download_peer_left(peer);
    }
}
