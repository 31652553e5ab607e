//! Fetching headers: a download with one peer whose claim is followed, with the help of all others.
//!
//! | stage | asked | of whom |
//! |---|---|---|
//! | head | the header of the claimed head, and some below it | the peer |
//! | ancestor | headers that show where its chain leaves ours | the peer |
//! | skeleton | every 192nd header | the peer |
//! | segments | what lies between | everyone |
//!
//! The first segment comes from the peer alone. The others are asked for when the seals of the
//! first one are right (`proofs`).
//!
//! Usually there is one download. It ends when the claimed head is stored, or when it turns out
//! that the claim cannot be followed. If the best header does not rise for a while, downloads with
//! other peers begin side by side, and a peer that does not keep the least rate loses its download
//! (`choice`).

mod answers;
mod choice;
mod proofs;

use std::time::Duration;

use chain::View;
use primitives::{B256, U256};
use store::StoreError;

use super::ancestor::{AncestorSearch, HeaderPoint};
use super::jobs::SyncJob;
use super::roster::{OVERTAKE_TIME, QuestionKind};
use super::segments::{SEGMENT_HEADERS, SegmentFill};
use super::vouchers::linked_hashes;
use super::{CLAIM_RETRY, HEADER_LEAD_MAX, QuestionTopic, Synchronizer};
use crate::messages::{HeadersRequest, HeadersStart};
use crate::peers::{PeerId, PeerRequest, RequestTicket};

/// Headers that are asked for together with the claimed head. A short gap needs no other question.
const HEAD_HEADERS: u64 = 32;
const SKELETON_HEADERS: u64 = 128;
/// The most headers of a job, but for those of the last segment.
const JOB_HEADERS: usize = 1024;
/// The segments that are asked for before a seal of the download was found right.
const UNPROVEN_SEGMENTS: usize = 1;
/// The skeletons that do not fit and cost a peer its place.
const BROKEN_MAX: u32 = 3;

/// A question to the peer of a download, or to another one for it.
#[derive(Clone, Debug)]
pub(super) enum DownloadQuestion {
    /// The head and some headers below it.
    Head,
    /// The header at which the chains part.
    Ancestor,
    /// Every 192nd header from this one on.
    Skeleton(u64),
    /// The segment with this highest header: the headers from the second hash downwards.
    Segment(B256, B256),
}

#[derive(Clone, Debug)]
enum DownloadStage {
    Head,
    Ancestor(AncestorSearch),
    Skeleton,
    Segments(SegmentFill),
}

/// A claim that is being followed.
#[derive(Clone, Debug)]
pub(super) struct HeaderDownload {
    id: u64,
    /// The peer whose claim it is.
    master: PeerId,
    target: B256,
    /// The number of the target, once its header is here.
    target_number: Option<u64>,
    /// The total difficulty that the peer claims; `None` if it only announced the block.
    claimed: Option<U256>,
    stage: DownloadStage,
    /// The highest header of the peer's chain that is stored here.
    tip: HeaderPoint,
    /// The number at which the chain leaves ours.
    base: u64,
    /// The highest number at which it might leave ours, when it was asked for that.
    common_max: u64,
    /// The download began to find out whether its chain is another one than that of the best
    /// header, and the answer is not known yet or is yes.
    is_witness: bool,
    /// The open question to the master, and since when it is open.
    open: Option<(RequestTicket, Duration)>,
    /// The time since which the lowest segment is the lowest.
    lowest_since: Duration,
    /// The time since which the download waits for peers: it began then, or its last headers were
    /// stored.
    waits_since: Duration,
    /// The number of times that headers were stored.
    stored: u32,
    broken: u32,
}

impl HeaderDownload {
    /// Later downloads have higher numbers.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Whether headers of it were found right, with their seals.
    pub(super) const fn is_proven(&self) -> bool {
        self.stored > 0
    }

    /// The headers of the next skeleton. None if a segment reaches up to the head.
    fn skeleton_headers(&self) -> u64 {
        let head = self.target_number.unwrap_or(0);
        let above = head.saturating_sub(self.tip.number).saturating_sub(1);
        (above / SEGMENT_HEADERS).min(SKELETON_HEADERS)
    }

    /// The number of the head that is claimed, once its header is here.
    pub(super) const fn target_number(&self) -> Option<u64> {
        self.target_number
    }
}

/// Headers that the chain is checking.
#[derive(Clone, Debug)]
pub(super) struct HeadersInWork {
    download: u64,
    master: PeerId,
    target: B256,
    hashes: Vec<B256>,
    end: HeaderPoint,
    begun: Duration,
}

impl Synchronizer {
    /// Ends the download of a peer. Answers to its questions will be of no use.
    fn end_download(&mut self, master: PeerId) {
        self.downloads.retain(|download| download.master != master);
    }

    /// Ends the download of a peer. The claim is looked at again later.
    fn postpone(&mut self, master: PeerId, target: &B256) {
        self.end_download(master);
        self.roster.postpone(master, target, self.now + CLAIM_RETRY);
    }

    /// Ends the download of a peer. The claim is of no use, or was followed to its end.
    fn settle(&mut self, master: PeerId, target: &B256) {
        self.end_download(master);
        self.roster.settle(master, target);
    }

    pub(super) fn download_peer_left(&mut self, peer: PeerId) {
        self.end_download(peer);
        for download in &mut self.downloads {
            if let DownloadStage::Segments(fill) = &mut download.stage {
                fill.remove_peer(peer);
            }
        }
    }

    /// Takes a download out. Whoever does so puts it back unless it has ended.
    fn take_download(&mut self, id: u64) -> Option<HeaderDownload> {
        let at = self.downloads.iter().position(|download| download.id == id)?;
        Some(self.downloads.remove(at))
    }

    /// Goes on with the downloads, and begins new ones.
    pub(super) fn go_on_with_headers(&mut self, view: &View) -> Result<(), StoreError> {
        self.end_slow_downloads();
        self.begin_downloads(view)?;
        let mut ids: Vec<_> = self.downloads.iter().map(|download| download.id).collect();
        // Each time another one is the first to give its headers to the chain.
        let by = usize::from(ids.len() > 1);
        ids.rotate_left(by);
        for id in ids {
            // Each turn either ends, or goes on to another stage.
            while let Some(mut download) = self.take_download(id) {
                let go_on = self.advance(&mut download);
                if go_on.ended {
                    break;
                }
                self.downloads.push(download);
                if !go_on.again {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Asks what the stage of the download needs.
    fn advance(&mut self, download: &mut HeaderDownload) -> Turn {
        match &mut download.stage {
            DownloadStage::Head => {
                let request = HeadersRequest {
                    start: HeadersStart::Hash(download.target),
                    amount: HEAD_HEADERS,
                    skip: 0,
                    reverse: true,
                };
                self.ask_master(download, request, DownloadQuestion::Head);
                Turn::WAITS
            }
            DownloadStage::Ancestor(search) => match search.found() {
                Some(found) => {
                    if !self.is_needed(download, found) {
                        self.postpone(download.master, &download.target);
                        return Turn::ENDED;
                    }
                    download.tip = found;
                    download.base = found.number;
                    download.stage = DownloadStage::Skeleton;
                    Turn::GOES_ON
                }
                None => {
                    let request = search.request();
                    self.ask_master(download, request, DownloadQuestion::Ancestor);
                    Turn::WAITS
                }
            },
            DownloadStage::Skeleton => self.advance_skeleton(download),
            DownloadStage::Segments(_) => self.advance_segments(download),
        }
    }

    fn advance_skeleton(&mut self, download: &mut HeaderDownload) -> Turn {
        let target = HeaderPoint {
            number: download.target_number.unwrap_or(0),
            hash: download.target,
        };
        if self.chain.best.number > self.chain.head.saturating_add(HEADER_LEAD_MAX) {
            // No question to the peer is open.
            (self.advanced_at, download.waits_since) = (self.now, self.now);
            return Turn::WAITS;
        }
        let amount = download.skeleton_headers();
        if amount == 0 {
            download.stage = DownloadStage::Segments(SegmentFill::new(download.tip, &[target]));
            download.lowest_since = self.now;
            return Turn::GOES_ON;
        }
        let first = download.tip.number + SEGMENT_HEADERS;
        let request = HeadersRequest {
            start: HeadersStart::Number(first),
            amount,
            skip: SEGMENT_HEADERS - 1,
            reverse: false,
        };
        self.ask_master(download, request, DownloadQuestion::Skeleton(first));
        Turn::WAITS
    }

    fn advance_segments(&mut self, download: &mut HeaderDownload) -> Turn {
        let is_proven = download.is_proven();
        let DownloadStage::Segments(fill) = &mut download.stage else {
            return Turn::WAITS;
        };
        if self.headers_job.is_none() && self.now >= self.chain_pause {
            match fill.take_complete(JOB_HEADERS) {
                Ok(headers) if headers.is_empty() => {}
                Ok(headers) => {
                    download.lowest_since = self.now;
                    self.headers_job = Some(HeadersInWork {
                        download: download.id,
                        master: download.master,
                        target: download.target,
                        hashes: linked_hashes(&headers),
                        end: fill.below(),
                        begun: self.now,
                    });
                    self.actions.jobs.push(SyncJob::Headers(headers));
                }
                Err(fault) => {
                    // The peer may have changed its chain meanwhile. It may do so a few times.
                    download.broken += 1;
                    if download.broken >= BROKEN_MAX {
                        self.drop_liar(download.master, fault.to_string());
                        return Turn::ENDED;
                    }
                    download.stage = DownloadStage::Head;
                    return Turn::GOES_ON;
                }
            }
        }
        if fill.is_empty() {
            if self.headers_job.is_none() {
                download.stage = DownloadStage::Skeleton;
                return if Some(download.tip.number) >= download.target_number {
                    self.settle(download.master, &download.target);
                    Turn::ENDED
                } else {
                    Turn::GOES_ON
                };
            }
            return Turn::WAITS;
        }
        let waited = self.now.saturating_sub(download.lowest_since);
        let most = if is_proven { usize::MAX } else { UNPROVEN_SEGMENTS };
        let mut orders = Vec::new();
        let mut overtaken = None;
        for peer in self.roster.best_first(QuestionKind::Headers, self.now) {
            let Some(entry) = self.roster.get(peer) else {
                continue;
            };
            if entry.header_questions > 0 || self.now < entry.rest_until {
                continue;
            }
            let is_asked = is_proven || peer == download.master;
            if overtaken.is_none()
                && waited > entry.overtakes_after(QuestionKind::Headers)
                && let Some((slow, top, request)) = fill.assign_again(peer)
            {
                overtaken = Some(slow);
                download.lowest_since = self.now;
                orders.push((peer, top, request));
            } else if is_asked && let Some((top, request)) = fill.assign(peer, most) {
                orders.push((peer, top, request));
            }
        }
        for (peer, top, request) in orders {
            let HeadersStart::Hash(first) = request.start else {
                continue;
            };
            let ticket = self.next_ticket();
            let topic = QuestionTopic::Download(download.id, DownloadQuestion::Segment(top, first));
            self.ask(ticket, peer, PeerRequest::Headers(request), topic);
        }
        if let Some(slow) = overtaken.filter(|_| waited > OVERTAKE_TIME)
            && let Some(fault) = self.roster.overtaken(slow)
        {
            fill.remove_peer(slow);
            self.drop_peer(slow, fault);
            if slow == download.master {
                return Turn::ENDED;
            }
        }
        Turn::WAITS
    }

    /// Asks the master, unless a question is open.
    fn ask_master(
        &mut self,
        download: &mut HeaderDownload,
        request: HeadersRequest,
        question: DownloadQuestion,
    ) {
        if download.open.is_some() {
            return;
        }
        let ticket = self.next_ticket();
        download.open = Some((ticket, self.now));
        let topic = QuestionTopic::Download(download.id, question);
        self.ask(ticket, download.master, PeerRequest::Headers(request), topic);
    }

    /// A question of a download will have no answer.
    pub(super) fn download_unanswered(&mut self, peer: PeerId, id: u64, question: &DownloadQuestion) {
        let Some(download) = self.downloads.iter_mut().find(|download| download.id == id) else {
            return;
        };
        match (question, &mut download.stage) {
            (DownloadQuestion::Segment(top, _), DownloadStage::Segments(fill)) => fill.release(top, peer),
            (DownloadQuestion::Segment(..), _) => {}
            _ => {
                let (master, target) = (download.master, download.target);
                self.postpone(master, &target);
            }
        }
    }
}

/// The end of a turn of a download.
#[derive(Clone, Copy, Debug)]
struct Turn {
    ended: bool,
    again: bool,
}

impl Turn {
    const WAITS: Self = Self {
        ended: false,
        again: false,
    };
    const GOES_ON: Self = Self {
        ended: false,
        again: true,
    };
    const ENDED: Self = Self {
        ended: true,
        again: false,
    };
}
