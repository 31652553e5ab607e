//! Takes the answers to the questions of a download.

use chain::View;
use primitives::{B256, Header};
use store::StoreError;

use super::{DownloadQuestion, DownloadStage, HEAD_HEADERS, HeaderDownload};
use crate::messages::PeerMessage;
use crate::peers::PeerId;
use crate::sync::ancestor::{AncestorSearch, HeaderPoint};
use crate::sync::claims::implausible;
use crate::sync::roster::stalls;
use crate::sync::segments::{SEGMENT_HEADERS, SegmentAnswer, SegmentFill, wrong_link};
use crate::sync::{MISS_RETRY, Synchronizer};

impl Synchronizer {
    /// Takes an answer to a question of a download.
    pub(in crate::sync) fn download_answer(
        &mut self,
        view: &View,
        peer: PeerId,
        id: u64,
        question: DownloadQuestion,
        answer: PeerMessage,
    ) -> Result<(), StoreError> {
        let PeerMessage::BlockHeaders(_, headers) = answer else {
            return Ok(());
        };
        let Some(mut download) = self.take_download(id) else {
            return Ok(());
        };
        if !matches!(question, DownloadQuestion::Segment(..)) {
            download.open = None;
        }
        let ended = match question {
            DownloadQuestion::Head => self.take_head(view, &mut download, headers)?,
            DownloadQuestion::Ancestor => self.take_ancestor(view, &mut download, &headers)?,
            DownloadQuestion::Skeleton(first) => self.take_skeleton(&mut download, first, &headers),
            DownloadQuestion::Segment(top, asked) => {
                self.take_segment(&mut download, peer, (&top, &asked), headers)
            }
        };
        if !ended {
            self.downloads.push(download);
        }
        Ok(())
    }

    /// The head and some headers below it have come. Returns whether the download has ended.
    fn take_head(
        &mut self,
        view: &View,
        download: &mut HeaderDownload,
        mut headers: Vec<Header>,
    ) -> Result<bool, StoreError> {
        let master = download.master;
        let Some(first) = headers.first() else {
            // The peer has not imported it yet, or has another head by now, or never had this one.
            self.roster.missed(master, &download.target, self.now, MISS_RETRY);
            return Ok(true);
        };
        let top = HeaderPoint {
            number: first.number,
            hash: download.target,
        };
        if headers.len() as u64 > HEAD_HEADERS {
            let got = headers.len();
            self.drop_liar(
                master,
                format!("headers: got {got}, expected at most {HEAD_HEADERS}"),
            );
            return Ok(true);
        }
        if let Some(wrong) = wrong_link(top, &headers) {
            self.drop_liar(master, wrong.to_string());
            return Ok(true);
        }
        let (got, least) = (headers.len() as u64, HEAD_HEADERS.min(top.number));
        if got < least {
            self.drop_short(master, format!("headers: got {got}, expected at least {least}"));
            return Ok(true);
        }
        let best = self.chain.best.total_difficulty;
        if let Some(head) = headers.first()
            && let Some(claimed) = download.claimed
            && let Some(text) = implausible(claimed, head, best)
        {
            self.drop_liar(master, text);
            return Ok(true);
        }
        download.target_number = Some(top.number);
        for at in 0..headers.len() {
            let hash = headers[at].parent_hash;
            let Some(number) = headers[at].number.checked_sub(1) else {
                let got = headers[at].hash();
                let text = format!("block 0: got {got}, expected {}", self.genesis);
                self.drop_liar(master, text);
                return Ok(true);
            };
            if view.known_header(&hash)?.is_some() {
                headers.truncate(at + 1);
                download.tip = HeaderPoint { number, hash };
                download.base = number;
                download.stage = DownloadStage::Segments(SegmentFill::complete(download.tip, headers));
                download.lowest_since = self.now;
                return Ok(false);
            }
        }
        let lowest = headers.last().map_or(top.number, |header| header.number);
        let unknown = lowest.min(self.chain.best.number.saturating_add(1)).max(1);
        download.common_max = unknown - 1;
        download.stage = DownloadStage::Ancestor(AncestorSearch::new(self.genesis, unknown));
        Ok(false)
    }

    fn take_ancestor(
        &mut self,
        view: &View,
        download: &mut HeaderDownload,
        headers: &[Header],
    ) -> Result<bool, StoreError> {
        let DownloadStage::Ancestor(search) = &mut download.stage else {
            return Ok(false);
        };
        let taken = search.take(headers, |hash| {
            view.known_header(hash).map(|known| known.is_some())
        })?;
        let Err(fault) = taken else { return Ok(false) };
        self.end_broken(download, fault.to_string());
        Ok(true)
    }

    /// The peer gives few of the headers that it must have.
    fn drop_short(&mut self, peer: PeerId, text: String) {
        self.drop_peer(peer, stalls(text));
    }

    /// The peer does not stand by its claim. That can happen; not too often.
    fn end_broken(&mut self, download: &HeaderDownload, text: String) {
        self.postpone(download.master, &download.target);
        tracing::debug!(peer = download.master.0, text, "a claim cannot be followed");
        if let Some(fault) = self.roster.overtaken(download.master) {
            self.drop_peer(download.master, fault);
        }
    }

    fn take_skeleton(&mut self, download: &mut HeaderDownload, first: u64, headers: &[Header]) -> bool {
        let amount = download.skeleton_headers();
        let expected = (0..amount).map(|at| first + at * SEGMENT_HEADERS);
        let numbers = headers.iter().map(|header| header.number);
        let target = HeaderPoint {
            number: download.target_number.unwrap_or(0),
            hash: download.target,
        };
        if !numbers.eq(expected) {
            let (got, number) = (headers.len(), headers.first().map(|header| header.number));
            let text = format!("skeleton: got {got} headers from {number:?}, expected {amount} from {first}");
            self.end_broken(download, text);
            return true;
        }
        let point = |header: &Header| HeaderPoint {
            number: header.number,
            hash: header.hash(),
        };
        let mut tops: Vec<_> = headers
            .iter()
            .filter(|header| header.number < target.number)
            .map(point)
            .collect();
        if tops
            .last()
            .is_none_or(|last| target.number - last.number <= SEGMENT_HEADERS)
        {
            tops.push(target);
        }
        download.stage = DownloadStage::Segments(SegmentFill::new(download.tip, &tops));
        download.lowest_since = self.now;
        false
    }

    fn take_segment(
        &mut self,
        download: &mut HeaderDownload,
        peer: PeerId,
        (top, asked): (&B256, &B256),
        headers: Vec<Header>,
    ) -> bool {
        let DownloadStage::Segments(fill) = &mut download.stage else {
            return false;
        };
        match fill.take(top, asked, peer, headers) {
            SegmentAnswer::Taken => false,
            SegmentAnswer::Lacking if peer != download.master => false,
            SegmentAnswer::Lacking => {
                if fill.lacks_lowest(peer) {
                    self.end_broken(download, "the peer lacks headers of its own skeleton".to_owned());
                    return true;
                }
                false
            }
            SegmentAnswer::Short(text) => {
                fill.remove_peer(peer);
                self.drop_short(peer, text);
                peer == download.master
            }
            SegmentAnswer::Wrong(text) => {
                fill.remove_peer(peer);
                self.drop_liar(peer, text);
                peer == download.master
            }
        }
    }
}
