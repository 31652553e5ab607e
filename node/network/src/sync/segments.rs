//! The headers between two points of a skeleton, fetched from many peers.
//!
//! The skeleton is a list of hashes with gaps, from one peer. A segment is what lies between two of
//! them. It is asked for by its highest hash, downwards. So each answer proves itself: its first
//! header has the hash that was asked for, and each other one is the parent of the one before. A
//! peer that lacks the hash answers with nothing, which is no fault. One that has it has all
//! headers below, too. So an answer with few of them is a fault ([`SEGMENT_PART_MIN`]).
//!
//! The headers that wait are bounded in bytes ([`FILL_BYTES_MAX`]): only the lowest missing segment
//! is asked for beyond that. Knows headers; sends nothing.

use std::collections::{BTreeMap, VecDeque};

use primitives::{B256, Header};

use super::ancestor::HeaderPoint;
use super::fault::HeadersFault;
use crate::messages::{HeadersRequest, HeadersStart};
use crate::peers::PeerId;

/// The most headers of a segment: what every node answers with at once.
pub(super) const SEGMENT_HEADERS: u64 = 192;
/// An answer has so many headers, if so many were asked for. Every known node answers with all of
/// them.
const SEGMENT_PART_MIN: u64 = 64;
/// The most extra data of a header. The rules allow less.
pub(super) const EXTRA_DATA_MAX: usize = 1024;
/// The most bytes of headers that wait or are on their way, as far as is known.
const FILL_BYTES_MAX: usize = 16 << 20;
/// The most peers that are asked for a segment at a time.
const ASKED_MAX: usize = 4;

/// Headers that are asked for together.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    top: HeaderPoint,
    /// The headers that came, highest first.
    headers: Vec<Header>,
    /// The bytes that it takes.
    held: usize,
    next: HeaderPoint,
    /// Number of the header below the segment.
    below: u64,
    /// The peers that are asked now, in order. At most [`ASKED_MAX`].
    asked: Vec<PeerId>,
}

impl Segment {
    const fn new(below: u64, top: HeaderPoint) -> Self {
        Self {
            top,
            headers: Vec::new(),
            held: 0,
            next: top,
            below,
            asked: Vec::new(),
        }
    }

    const fn is_complete(&self) -> bool {
        self.next.number <= self.below
    }

    /// Headers that are not here.
    const fn missing(&self) -> u64 {
        self.next.number.saturating_sub(self.below)
    }

    /// Bytes that the headers take, or will take.
    fn bytes(&self) -> usize {
        let asked = if self.asked.is_empty() { 0 } else { self.missing() };
        let asked = usize::try_from(asked).unwrap_or(usize::MAX);
        self.held
            .saturating_add(size_of::<Header>().saturating_mul(asked))
    }
}

/// Memory that a header takes, in bytes.
fn header_bytes(header: &Header) -> usize {
    size_of::<Header>() + header.extra_data.len()
}

/// Returns the fault of headers that a peer has sent. `None` if they are the header `first` and the
/// ones below it.
pub(super) fn wrong_link(first: HeaderPoint, headers: &[Header]) -> Option<HeadersFault> {
    let mut expected = first;
    for header in headers {
        let got = header.hash();
        if got != expected.hash {
            let expected = expected.hash;
            return Some(HeadersFault::Hash { got, expected });
        }
        if header.number != expected.number {
            let (got, expected) = (header.number, expected.number);
            return Some(HeadersFault::Number { got, expected });
        }
        if header.extra_data.len() > EXTRA_DATA_MAX {
            let got = header.extra_data.len();
            return Some(HeadersFault::ExtraData { got });
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
    /// The number from which on a peer lacks the headers. Whoever lacks one lacks those above it.
    lacking: BTreeMap<PeerId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentAnswer {
    /// The answer was of use.
    Taken,
    /// The peer does not have the headers.
    Lacking,
    /// The peer has sent few of the headers that it has.
    Short(String),
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
        Self {
            segments,
            below,
            lacking: BTreeMap::new(),
        }
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
            ..Self::new(below, &[])
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn bytes(&self) -> usize {
        self.segments
            .iter()
            .map(Segment::bytes)
            .fold(0, usize::saturating_add)
    }

    fn lacks(lacking: &BTreeMap<PeerId, u64>, peer: PeerId, segment: &Segment) -> bool {
        lacking.get(&peer).is_some_and(|from| segment.top.number >= *from)
    }

    /// Chooses a segment for `peer`: the lowest of the first `most` that nobody is asked for.
    /// Returns its highest header's hash, which names it, and the question.
    pub(super) fn assign(&mut self, peer: PeerId, most: usize) -> Option<(B256, HeadersRequest)> {
        let is_full = self.bytes() > FILL_BYTES_MAX;
        let lowest = self.segments.iter().position(|segment| !segment.is_complete())?;
        let most = if is_full { most.min(lowest + 1) } else { most };
        let lacking = &self.lacking;
        let is_free = |segment: &&mut Segment| {
            !segment.is_complete() && segment.asked.is_empty() && !Self::lacks(lacking, peer, segment)
        };
        let segment = self.segments.iter_mut().take(most).find(is_free)?;
        segment.asked.push(peer);
        Some((segment.top.hash, Self::request(segment)))
    }

    /// Asks one more peer for the lowest segment, because those that are asked take long. Returns
    /// who was asked last, too.
    pub(super) fn assign_again(&mut self, peer: PeerId) -> Option<(PeerId, B256, HeadersRequest)> {
        let segment = self.segments.front_mut()?;
        let slow = *segment.asked.last()?;
        if segment.is_complete()
            || segment.asked.len() >= ASKED_MAX
            || segment.asked.contains(&peer)
            || Self::lacks(&self.lacking, peer, segment)
        {
            return None;
        }
        segment.asked.push(peer);
        Some((slow, segment.top.hash, Self::request(segment)))
    }

    const fn request(segment: &Segment) -> HeadersRequest {
        HeadersRequest {
            start: HeadersStart::Hash(segment.next.hash),
            amount: segment.missing(),
            skip: 0,
            reverse: true,
        }
    }

    /// Forgets that `peer` was asked for the segment `top`.
    pub(super) fn release(&mut self, top: &B256, peer: PeerId) {
        if let Some(segment) = self.segment(top) {
            segment.asked.retain(|asked| *asked != peer);
        }
    }

    pub(super) fn remove_peer(&mut self, peer: PeerId) {
        for segment in &mut self.segments {
            segment.asked.retain(|asked| *asked != peer);
        }
        self.lacking.remove(&peer);
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
            let top = segment.top.number;
            let from = self.lacking.entry(peer).or_insert(top);
            *from = top.min(*from);
            return SegmentAnswer::Lacking;
        }
        if segment.is_complete() || segment.next.hash != *asked {
            // Another peer was faster.
            return SegmentAnswer::Taken;
        }
        let (room, got) = (segment.missing(), headers.len() as u64);
        if got > room {
            return SegmentAnswer::Wrong(format!("headers: got {got}, expected at most {room}"));
        }
        if let Some(wrong) = wrong_link(segment.next, &headers) {
            return SegmentAnswer::Wrong(wrong.to_string());
        }
        let least = room.min(SEGMENT_PART_MIN);
        if got < least {
            return SegmentAnswer::Short(format!("headers: got {got}, expected at least {least}"));
        }
        if let Some(last) = headers.last() {
            segment.next = HeaderPoint {
                number: last.number.saturating_sub(1),
                hash: last.parent_hash,
            };
        }
        segment.held += headers.iter().map(header_bytes).sum::<usize>();
        segment.headers.extend(headers);
        SegmentAnswer::Taken
    }

    /// Whether the peer lacks the lowest segment.
    pub(super) fn lacks_lowest(&self, peer: PeerId) -> bool {
        self.segments
            .front()
            .is_some_and(|segment| Self::lacks(&self.lacking, peer, segment))
    }

    /// Takes out the headers of the lowest complete segments, ascending, but not many more than
    /// `most`.
    ///
    /// # Errors
    /// The fault, if a segment does not build on the one below.
    pub(super) fn take_complete(&mut self, most: usize) -> Result<Vec<Header>, HeadersFault> {
        let mut taken = Vec::new();
        while let Some(segment) = self.segments.front()
            && segment.is_complete()
            && taken.len() < most
        {
            if segment.next.hash != self.below.hash {
                let (got, expected) = (segment.next.hash, self.below.hash);
                let number = self.below.number.saturating_add(1);
                return Err(HeadersFault::Parent {
                    number,
                    got,
                    expected,
                });
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

    fn assign(fill: &mut SegmentFill, peer: PeerId) -> Option<(B256, HeadersRequest)> {
        fill.assign(peer, usize::MAX)
    }

    #[test]
    fn segments_come_in_any_order_and_in_parts() {
        const HALF: usize = SEGMENT_PART_MIN as usize;
        let genesis = Header::default();
        let all = line(&genesis, 4 + 2 * SEGMENT_PART_MIN, 0);
        let last = all.len() - 1;
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[3]), point(&all[last])]);
        let (low, request) = assign(&mut fill, ONE).expect("a segment");
        assert_eq!(
            (request.amount, request.start),
            (4, HeadersStart::Hash(all[3].hash()))
        );
        let (high, request) = assign(&mut fill, TWO).expect("a segment");
        assert_eq!((request.amount, request.reverse), (2 * SEGMENT_PART_MIN, true));
        assert_eq!(assign(&mut fill, ONE), None);
        // The upper segment comes in two parts.
        let middle = last - HALF;
        let taken = fill.take(&high, &all[last].hash(), TWO, down(&all[middle + 1..]));
        assert_eq!(taken, SegmentAnswer::Taken);
        let (again, request) = assign(&mut fill, ONE).expect("the rest");
        assert_eq!(
            (again, request.start),
            (high, HeadersStart::Hash(all[middle].hash()))
        );
        fill.take(&high, &all[middle].hash(), ONE, down(&all[4..=middle]));
        assert_eq!(fill.take_complete(1000), Ok(Vec::new()));
        fill.take(&low, &all[3].hash(), ONE, down(&all[..4]));
        assert_eq!(fill.take_complete(1000), Ok(all));
        assert!(fill.is_empty());
    }

    #[test]
    fn an_answer_with_few_of_the_headers_is_a_fault() {
        let genesis = Header::default();
        let all = line(&genesis, SEGMENT_HEADERS, 0);
        let top = point(&all[all.len() - 1]);
        let check = |count: u64| {
            let mut fill = SegmentFill::new(point(&genesis), &[top]);
            assign(&mut fill, ONE);
            let headers = down(&all[all.len() - count as usize..]);
            fill.take(&top.hash, &top.hash, ONE, headers)
        };
        for count in [1, SEGMENT_PART_MIN - 1] {
            assert!(matches!(check(count), SegmentAnswer::Short(_)), "{count}");
        }
        for count in [SEGMENT_PART_MIN, SEGMENT_HEADERS] {
            assert_eq!(check(count), SegmentAnswer::Taken, "{count}");
        }
    }

    #[test]
    fn bytes_are_bounded_but_the_lowest_segment_is_asked_for() {
        let genesis = Header::default();
        let top = |at: u64| {
            let mut hash = B256::ZERO;
            hash.0[..8].copy_from_slice(&at.to_be_bytes());
            let number = at * SEGMENT_HEADERS;
            HeaderPoint { number, hash }
        };
        let tops: Vec<_> = (1..1000).map(top).collect();
        let mut fill = SegmentFill::new(point(&genesis), &tops);
        assert!(fill.clone().assign(ONE, 1).is_some());
        assert!(assign(&mut fill, ONE).is_some());
        assert_eq!(
            fill.assign(TWO, 1),
            None,
            "only the first one was to be asked for"
        );
        let asked = 1
            + (2..10_000)
                .take_while(|peer| assign(&mut fill, PeerId(*peer)).is_some())
                .count();
        let of_segment = size_of::<Header>() * SEGMENT_HEADERS as usize;
        assert_eq!(asked, FILL_BYTES_MAX / of_segment + 1);
        fill.release(&tops[0].hash, ONE);
        let lowest = assign(&mut fill, TWO).map(|(top, _)| top);
        assert_eq!(lowest, Some(tops[0].hash));
    }

    #[test]
    fn whoever_lacks_a_segment_is_not_asked_for_those_above() {
        let genesis = Header::default();
        let all = line(&genesis, 6, 0);
        let tops = [1, 3, 5].map(|at| point(&all[at]));
        let mut fill = SegmentFill::new(point(&genesis), &tops);
        assert!(assign(&mut fill, ONE).is_some());
        let (top, _) = assign(&mut fill, TWO).expect("the second one");
        assert_eq!(fill.take(&top, &top, TWO, Vec::new()), SegmentAnswer::Lacking);
        assert_eq!(assign(&mut fill, TWO), None);
        assert_eq!(
            assign(&mut fill, PeerId(3)).map(|(top, _)| top),
            Some(tops[1].hash)
        );
    }

    #[test]
    fn answers_that_do_not_fit_are_told_apart() {
        let genesis = Header::default();
        let (all, other) = (line(&genesis, 4, 0), line(&genesis, 4, 1));
        let fill = SegmentFill::new(point(&genesis), &[point(&all[3])]);
        let top = all[3].hash();
        let check = |headers: Vec<Header>| {
            let mut fill = fill.clone();
            assign(&mut fill, ONE);
            let answer = fill.take(&top, &top, ONE, headers);
            (answer, assign(&mut fill, ONE).is_some())
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
        assign(&mut wrong, ONE);
        wrong.take(&top, &top, ONE, down(&all[1..]));
        assert!(wrong.take_complete(9).is_err());
    }

    #[test]
    fn a_slow_peer_is_overtaken() {
        let genesis = Header::default();
        let all = line(&genesis, 4, 0);
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[3])]);
        assert_eq!(fill.assign_again(TWO), None, "nobody is asked");
        let (top, request) = assign(&mut fill, ONE).expect("a segment");
        assert_eq!(fill.assign_again(ONE), None);
        assert_eq!(fill.assign_again(TWO), Some((ONE, top, request)));
        let third = fill.assign_again(PeerId(3)).map(|(slow, ..)| slow);
        assert_eq!(third, Some(TWO), "the one that was asked last");
        assert!(fill.assign_again(PeerId(4)).is_some());
        assert_eq!(fill.assign_again(PeerId(5)), None, "four are asked");
        fill.take(&top, &top, TWO, down(&all));
        assert_eq!(fill.take(&top, &top, ONE, down(&all)), SegmentAnswer::Taken);
        assert_eq!(fill.take_complete(9).map(|headers| headers.len()), Ok(4));
    }

    #[test]
    fn a_peer_that_has_gone_is_not_waited_for() {
        let genesis = Header::default();
        let all = line(&genesis, 2, 0);
        let mut fill = SegmentFill::new(point(&genesis), &[point(&all[1])]);
        assign(&mut fill, ONE);
        assert_eq!(assign(&mut fill, TWO), None);
        fill.remove_peer(ONE);
        assert!(assign(&mut fill, TWO).is_some());
        let mut here = SegmentFill::complete(point(&genesis), down(&all));
        assert_eq!(assign(&mut here, ONE), None);
        assert_eq!(here.take_complete(9), Ok(all));
    }
}
