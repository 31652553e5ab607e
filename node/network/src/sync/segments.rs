//! The headers between two points of a skeleton, fetched from many peers.
//!
//! The skeleton is a list of hashes with gaps, from one peer. A segment is what lies between two of
//! them. It is asked for by its highest hash, downwards. So each answer proves itself: its first
//! header has the hash that was asked for, and each other one is the parent of the one before. A
//! peer that lacks the hash answers with nothing, which is no fault. Knows headers; sends nothing.

use std::collections::{BTreeSet, VecDeque};

use primitives::{B256, Header};

use super::ancestor::HeaderPoint;
use crate::messages::{HeadersRequest, HeadersStart};
use crate::peers::PeerId;

/// The most headers of a segment: what every node answers with at once.
pub(super) const SEGMENT_HEADERS: u64 = 192;
/// The most extra data of a header. The rules allow less.
const EXTRA_DATA_MAX: usize = 1024;

/// Headers that are asked for together.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// The highest header.
    top: HeaderPoint,
    /// What came, highest first.
    headers: Vec<Header>,
    /// The next header to ask for.
    next: HeaderPoint,
    /// Number of the header below the segment.
    below: u64,
    /// Who is asked now. At most two.
    asked: Vec<PeerId>,
    /// Who does not have it.
    lacking: BTreeSet<PeerId>,
}

impl Segment {
    const fn new(below: u64, top: HeaderPoint) -> Self {
        Self {
            top,
            headers: Vec::new(),
            next: top,
            below,
            asked: Vec::new(),
            lacking: BTreeSet::new(),
        }
    }

    const fn is_complete(&self) -> bool {
        self.next.number <= self.below
    }
}

/// What is wrong with headers that a peer has sent. `None` if they are the header `first` and the
/// ones below it.
pub(super) fn wrong_link(first: HeaderPoint, headers: &[Header]) -> Option<String> {
    let mut expected = first;
    for header in headers {
        let got = header.hash();
        if got != expected.hash {
            return Some(format!("hash of a header: got {got}, expected {}", expected.hash));
        }
        if header.number != expected.number {
            let (got, expected) = (header.number, expected.number);
            return Some(format!("number of a header: got {got}, expected {expected}"));
        }
        if header.extra_data.len() > EXTRA_DATA_MAX {
            let got = header.extra_data.len();
            return Some(format!(
                "extra data of a header: got {got} bytes, expected at most {EXTRA_DATA_MAX}"
            ));
        }
        expected = HeaderPoint {
            number: header.number.saturating_sub(1),
            hash: header.parent_hash,
        };
    }
    None
}

/// The segments of a skeleton, lowest first.
#[derive(Clone, Debug)]
pub(super) struct SegmentFill {
    segments: VecDeque<Segment>,
    /// The header below the first segment.
    below: HeaderPoint,
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentAnswer {
    /// It was of use.
    Taken,
    /// The peer does not have the headers.
    Lacking,
    /// The peer has sent other headers.
    Wrong(String),
}

impl SegmentFill {
    /// The segments from `below`, which is stored, up to each of `tops`, ascending.
    pub(super) fn new(below: HeaderPoint, tops: &[HeaderPoint]) -> Self {
        let mut lower = below.number;
        let mut segments = VecDeque::new();
        for top in tops {
            segments.push_back(Segment::new(lower, *top));
            lower = top.number;
        }
        Self { segments, below }
    }

    /// One segment that is here already: `headers`, highest first.
    pub(super) fn complete(below: HeaderPoint, headers: Vec<Header>) -> Self {
        let Some(first) = headers.first() else {
            return Self::new(below, &[]);
        };
        let top = HeaderPoint {
            number: first.number,
            hash: first.hash(),
        };
        let segment = Segment {
            headers,
            next: below,
            ..Segment::new(below.number, top)
        };
        Self {
            segments: VecDeque::from([segment]),
            below,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Chooses a segment for `peer`: the lowest that nobody is asked for. Returns its highest
    /// header's hash, which names it, and the question.
    pub(super) fn assign(&mut self, peer: PeerId) -> Option<(B256, HeadersRequest)> {
        let is_free = |segment: &&mut Segment| {
            !segment.is_complete() && segment.asked.is_empty() && !segment.lacking.contains(&peer)
        };
        let segment = self.segments.iter_mut().find(is_free)?;
        segment.asked.push(peer);
        Some((segment.top.hash, Self::request(segment)))
    }

    /// Asks one more peer for the lowest segment, because the one that is asked takes long. Returns
    /// who that is, too.
    pub(super) fn assign_again(&mut self, peer: PeerId) -> Option<(PeerId, B256, HeadersRequest)> {
        let segment = self.segments.front_mut()?;
        let [slow] = segment.asked[..] else { return None };
        if segment.is_complete() || slow == peer || segment.lacking.contains(&peer) {
            return None;
        }
        segment.asked.push(peer);
        Some((slow, segment.top.hash, Self::request(segment)))
    }

    const fn request(segment: &Segment) -> HeadersRequest {
        HeadersRequest {
            start: HeadersStart::Hash(segment.next.hash),
            amount: segment.next.number.saturating_sub(segment.below),
            skip: 0,
            reverse: true,
        }
    }

    /// Nobody waits for the answer of `peer` about the segment `top` any more.
    pub(super) fn release(&mut self, top: &B256, peer: PeerId) {
        if let Some(segment) = self.segment(top) {
            segment.asked.retain(|asked| *asked != peer);
        }
    }

    /// The peer is gone.
    pub(super) fn remove_peer(&mut self, peer: PeerId) {
        for segment in &mut self.segments {
            segment.asked.retain(|asked| *asked != peer);
            segment.lacking.remove(&peer);
        }
    }

    fn segment(&mut self, top: &B256) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.top.hash == *top)
    }

    /// Takes an answer about the segment `top`. `asked` is the hash that was asked for.
    pub(super) fn take(
        &mut self,
        top: &B256,
        asked: &B256,
        peer: PeerId,
        headers: Vec<Header>,
    ) -> SegmentAnswer {
        self.release(top, peer);
        let Some(segment) = self.segment(top) else {
            return SegmentAnswer::Taken;
        };
        if headers.is_empty() {
            segment.lacking.insert(peer);
            return SegmentAnswer::Lacking;
        }
        if segment.is_complete() || segment.next.hash != *asked {
            // Another peer was faster.
            return SegmentAnswer::Taken;
        }
        let room = segment.next.number - segment.below;
        if headers.len() as u64 > room {
            let got = headers.len();
            return SegmentAnswer::Wrong(format!("headers: got {got}, expected at most {room}"));
        }
        if let Some(wrong) = wrong_link(segment.next, &headers) {
            return SegmentAnswer::Wrong(wrong);
        }
        if let Some(last) = headers.last() {
            segment.next = HeaderPoint {
                number: last.number.saturating_sub(1),
                hash: last.parent_hash,
            };
        }
        segment.headers.extend(headers);
        SegmentAnswer::Taken
    }

    /// Who lacks the lowest segment.
    pub(super) fn lacks_lowest(&self, peer: PeerId) -> bool {
        self.segments
            .front()
            .is_some_and(|segment| segment.lacking.contains(&peer))
    }

    /// Takes out the headers of the lowest complete segments, ascending, but not many more than
    /// `most`.
    ///
    /// # Errors
    /// What is wrong, if a segment does not build on the one below.
    pub(super) fn take_complete(&mut self, most: usize) -> Result<Vec<Header>, String> {
        let mut taken = Vec::new();
        while let Some(segment) = self.segments.front()
            && segment.is_complete()
            && taken.len() < most
        {
            if segment.next.hash != self.below.hash {
                let (got, expected) = (segment.next.hash, self.below.hash);
                return Err(format!(
                    "parent of header {}: got {got}, expected {expected}",
                    self.below.number.saturating_add(1)
                ));
            }
            self.below = segment.top;
            if let Some(segment) = self.segments.pop_front() {
                taken.extend(segment.headers.into_iter().rev());
            }
        }
        Ok(taken)
    }

    /// The header below the lowest segment that is left.
    pub(super) const fn below(&self) -> HeaderPoint {
        self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` headers after `parent`, ascending.
    pub(in crate::sync) fn line(parent: &Header, count: u64, mark: u8) -> Vec<Header> {
        let mut last = parent.clone();
        let next = |_| {
            last = Header {
                number: last.number + 1,
                parent_hash: last.hash(),
                extra_data: vec![mark].into(),
                ..Default::default()
            };
            last.clone()
        };
        (0..count).map(next).collect()
    }

    fn point(header: &Header) -> HeaderPoint {
        HeaderPoint {
            number: header.number,
            hash: header.hash(),
        }
    }

    fn down(headers: &[Header]) -> Vec<Header> {
        headers.iter().rev().cloned().collect()
    }

    const ONE: PeerId = PeerId(1);
    const TWO: PeerId = PeerId(2);

    #[test]
    fn segments_come_in_any_order_and_in_parts() {
        let genesis = Header::default();
        let all = line(&genesis, 10, 0);
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[3]), point(&all[9])]);
        let (low, request) = fill.assign(ONE).expect("a segment");
        assert_eq!(
            (request.amount, request.start),
            (4, HeadersStart::Hash(all[3].hash()))
        );
        let (high, request) = fill.assign(TWO).expect("a segment");
        assert_eq!((request.amount, request.reverse), (6, true));
        assert_eq!(fill.assign(ONE), None);
        // The upper segment comes in two parts.
        let taken = fill.take(&high, &all[9].hash(), TWO, down(&all[7..]));
        assert_eq!(taken, SegmentAnswer::Taken);
        let (again, request) = fill.assign(ONE).expect("the rest");
        assert_eq!((again, request.start), (high, HeadersStart::Hash(all[6].hash())));
        fill.take(&high, &all[6].hash(), ONE, down(&all[4..7]));
        assert_eq!(fill.take_complete(100), Ok(Vec::new()));
        fill.take(&low, &all[3].hash(), ONE, down(&all[..4]));
        assert_eq!(fill.take_complete(100), Ok(all));
        assert!(fill.is_empty());
    }

    #[test]
    fn answers_that_do_not_fit_are_told_apart() {
        let genesis = Header::default();
        let (all, other) = (line(&genesis, 4, 0), line(&genesis, 4, 1));
        let fill = SegmentFill::new(point(&genesis), &[point(&all[3])]);
        let top = all[3].hash();
        let check = |headers: Vec<Header>| {
            let mut fill = fill.clone();
            fill.assign(ONE);
            let answer = fill.take(&top, &top, ONE, headers);
            (answer, fill.assign(ONE).is_some())
        };
        assert_eq!(check(Vec::new()), (SegmentAnswer::Lacking, false));
        assert_eq!(check(down(&all)), (SegmentAnswer::Taken, false));
        for headers in [
            down(&other),
            vec![all[3].clone(), all[1].clone()],
            line(&all[3], 5, 0),
        ] {
            assert!(matches!(check(headers), (SegmentAnswer::Wrong(_), true)));
        }
        let mut wrong = SegmentFill::new(point(&other[0]), &[point(&all[3])]);
        wrong.assign(ONE);
        wrong.take(&top, &top, ONE, down(&all[1..]));
        assert!(wrong.take_complete(9).is_err());
    }

    #[test]
    fn a_slow_peer_is_overtaken() {
        let genesis = Header::default();
        let all = line(&genesis, 4, 0);
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[3])]);
        assert_eq!(fill.assign_again(TWO), None, "nobody is asked");
        let (top, request) = fill.assign(ONE).expect("a segment");
        assert_eq!(fill.assign_again(ONE), None);
        assert_eq!(fill.assign_again(TWO), Some((ONE, top, request)));
        assert_eq!(fill.assign_again(PeerId(3)), None, "two are asked");
        fill.take(&top, &top, TWO, down(&all));
        assert_eq!(fill.take(&top, &top, ONE, down(&all)), SegmentAnswer::Taken);
        assert_eq!(fill.take_complete(9).map(|headers| headers.len()), Ok(4));
    }

    #[test]
    fn a_peer_that_has_gone_is_not_waited_for() {
        let genesis = Header::default();
        let all = line(&genesis, 2, 0);
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[1])]);
        fill.assign(ONE);
        assert_eq!(fill.assign(TWO), None);
        fill.remove_peer(ONE);
        assert!(fill.assign(TWO).is_some());
        let mut here = SegmentFill::complete(point(&genesis), down(&all));
        assert_eq!(here.assign(ONE), None);
        assert_eq!(here.take_complete(9), Ok(all));
    }
}
