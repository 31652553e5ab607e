//! Searches the header at which the chain of a peer leaves the headers that this node has.
//!
//! First headers with gaps below the lower head, then single headers, halving what is left. A
//! header counts as known whether it is canonical or not. Knows questions and answers; sends
//! nothing. Source: docs/p2p.md, 3.

use primitives::{B256, Header};

use super::fault::HeadersFault;
use crate::messages::{HeadersRequest, HeadersStart};

/// The most headers of the first question.
const SPAN_HEADERS: u64 = 12;
/// Headers that are left out between two of them.
const SPAN_SKIP: u64 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderPoint {
    pub(super) number: u64,
    pub(super) hash: B256,
}

/// A search for the highest known header of a peer's chain.
#[derive(Clone, Debug)]
pub(super) struct AncestorSearch {
    /// The highest header of the peer that is known here.
    known: HeaderPoint,
    /// The peer's header with this number is not known here, or does not exist.
    unknown: u64,
    /// Whether the question with gaps was answered.
    spanned: bool,
}

impl AncestorSearch {
    /// `genesis` is block 0, which both have. The peer's header `unknown` is not known here.
    pub(super) const fn new(genesis: B256, unknown: u64) -> Self {
        Self {
            known: HeaderPoint {
                number: 0,
                hash: genesis,
            },
            unknown,
            spanned: false,
        }
    }

    /// The highest common header, once it is known.
    pub(super) fn found(&self) -> Option<HeaderPoint> {
        (self.known.number.saturating_add(1) >= self.unknown).then_some(self.known)
    }

    pub(super) fn request(&self) -> HeadersRequest {
        if self.spanned {
            let middle = self.known.number + (self.unknown - self.known.number) / 2;
            return HeadersRequest {
                start: HeadersStart::Number(middle),
                amount: 1,
                skip: 0,
                reverse: false,
            };
        }
        let top = self.unknown.saturating_sub(1);
        HeadersRequest {
            start: HeadersStart::Number(top),
            amount: SPAN_HEADERS.min(top / (SPAN_SKIP + 1) + 1),
            skip: SPAN_SKIP,
            reverse: true,
        }
    }

    /// Takes the answer to [`Self::request`]. `is_known` says whether a header is known here.
    ///
    /// # Errors
    /// The fault of the answer, or the error of `is_known`.
    pub(super) fn take<E>(
        &mut self,
        headers: &[Header],
        mut is_known: impl FnMut(&B256) -> Result<bool, E>,
    ) -> Result<Result<(), HeadersFault>, E> {
        let request = self.request();
        let HeadersStart::Number(mut expected) = request.start else {
            return Ok(Ok(()));
        };
        if headers.is_empty() || headers.len() as u64 > request.amount {
            let (got, most) = (headers.len(), request.amount);
            return Ok(Err(HeadersFault::Count { got, most }));
        }
        for header in headers {
            if header.number != expected {
                let got = header.number;
                return Ok(Err(HeadersFault::Number { got, expected }));
            }
            let hash = header.hash();
            if is_known(&hash)? {
                self.known = HeaderPoint {
                    number: expected,
                    hash,
                };
                break;
            }
            self.unknown = expected;
            expected = expected.saturating_sub(SPAN_SKIP + 1);
        }
        self.spanned = true;
        if self.unknown == 0 {
            return Ok(Err(HeadersFault::Genesis));
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use super::*;

    fn header(number: u64, mark: u8) -> Header {
        Header {
            number,
            extra_data: vec![mark].into(),
            ..Default::default()
        }
    }

    /// The peer has `peer` headers above block 0, of which the first `common` are known here.
    fn search(peer: u64, own: u64, common: u64) -> (HeaderPoint, usize) {
        let theirs = |number: u64| header(number, u8::from(number > common));
        let known: HashSet<_> = (0..=common).map(|number| theirs(number).hash()).collect();
        let mut search = AncestorSearch::new(theirs(0).hash(), peer.min(own) + 1);
        let mut questions = 0;
        loop {
            if let Some(found) = search.found() {
                return (found, questions);
            }
            questions += 1;
            let request = search.request();
            let HeadersStart::Number(first) = request.start else {
                panic!("by number")
            };
            let step = request.skip + 1;
            let numbers = (0..request.amount).map(|at| first - at * step);
            let answer: Vec<_> = numbers.map(theirs).collect();
            let taken = search.take(&answer, |hash| Ok::<_, Infallible>(known.contains(hash)));
            assert_eq!(taken, Ok(Ok(())));
        }
    }

    #[test]
    fn the_highest_common_header_is_found() {
        for (peer, own, common) in [
            (1, 0, 0),
            (1, 1, 0),
            (5, 9, 5),
            (200, 210, 0),
            (200, 210, 199),
            (200, 210, 8),
            (100_000, 90_000, 89_000),
            (100_000, 90_000, 90_000),
            (1_000_000, 2_000_000, 3),
        ] {
            let (found, questions) = search(peer, own, common);
            assert_eq!(found.number, common, "{peer} {own}");
            assert!(questions <= 22, "{questions} for {peer} {own} {common}");
        }
        assert!(search(200, 210, 5).1 <= 6);
    }

    #[test]
    fn wrong_answers_are_named() {
        let check = |headers: &[Header], expected: &str| {
            let mut search = AncestorSearch::new(B256::ZERO, 40);
            let taken = search.take(headers, |_| Ok::<_, Infallible>(false));
            let error = taken.expect("the store works").expect_err("wrong").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[], "got 0, expected 1 to 3");
        check(&[header(38, 0)], "got 38, expected 39");
        check(&[header(39, 0), header(24, 0)], "got 24, expected 23");
        let many = [39, 23, 7, 0].map(|number| header(number, 0));
        check(&many, "got 4, expected 1 to 3");
        let mut search = AncestorSearch::new(B256::ZERO, 2);
        search.spanned = true;
        search.unknown = 1;
        assert_eq!(search.found().map(|point| point.number), Some(0));
    }
}
