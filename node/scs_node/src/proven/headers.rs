//! The headers of the base chain that an SCS has checked itself: a tree that grows from one header
//! which is believed.
//!
//! Each header has a parent in the tree, the difficulty that the rules ask for, and a seal. So a
//! VNODE needs the work of a miner for each header that it makes up.

use std::collections::BTreeMap;

use chain::rules::seal::{SealCheck, SealCheckError};
use chain::rules::{HeaderError, check_header};
use chain::spec::ChainSpec;
use microchain::branch::BaseBranch;
use primitives::{B256, Header, U256};

/// The fewest blocks below the head whose headers are kept. No reorganization goes deeper.
pub(super) const KEPT: u64 = 256;
/// The most blocks by which more are kept.
const KEPT_MORE: u64 = 64;
/// The most headers that are kept, those of other branches included: the ones below the head, and a
/// branch that leaves them at the deepest place and is ten times as long. Each takes some 0.7 kB.
const HEADERS_MAX: usize = 4096;
/// The last epoch at which the first header may be if no checkpoint names it and seals are checked.
/// Its light cache has 272 MiB. With a block each ten seconds it ends after 19 years.
const FIRST_EPOCH_MAX: u32 = 2047;
/// Hashes of a branch.
const BRANCH_HASHES: usize = 64;

/// The reason why a header of a VNODE is refused.
#[derive(Debug, thiserror::Error)]
pub enum BaseHeaderError {
    /// The header has another number than the one that was asked for.
    #[error("header: got number {got}, expected {expected}")]
    Number {
        /// The number.
        got: u64,
        /// The number that was asked for.
        expected: u64,
    },
    /// The VNODE does not tell the header.
    #[error("header {number}: got none, expected one")]
    Missing {
        /// The number.
        number: u64,
    },
    /// The first header is not the one that the operator has named.
    #[error("block {number}: got the hash {got}, expected that of the checkpoint, {expected}")]
    Checkpoint {
        /// The number.
        number: u64,
        /// The hash of the VNODE's block.
        got: B256,
        /// The hash of the checkpoint.
        expected: B256,
    },
    /// The header that would be believed is so high that its seal asks for much memory.
    #[error(
        "block {number} as the first one: got epoch {got}, expected at most {most}: name a block that you know with --verify-base.checkpoint"
    )]
    Epoch {
        /// The number.
        number: u64,
        /// Its epoch.
        got: u32,
        /// The last epoch at which a chain may begin without a checkpoint.
        most: u32,
    },
    /// The branch is long, and has less work than the one that was shown before.
    #[error(
        "header {number}: got a branch of {got} headers without more work, expected at most {most} headers"
    )]
    Length {
        /// The number.
        number: u64,
        /// The headers that would be kept.
        got: usize,
        /// The most that are kept.
        most: usize,
    },
    /// The header has no parent in the tree.
    #[error("header {number}: got the parent {got}, expected {expected} or one that follows it")]
    Branch {
        /// The number.
        number: u64,
        /// The hash of its parent.
        got: B256,
        /// The hash of the oldest header that is kept.
        expected: B256,
    },
    /// The header breaks a rule.
    #[error("header {number}: {error}")]
    Rule {
        /// The number.
        number: u64,
        /// The rule.
        error: HeaderError,
    },
    /// The seal is wrong, or cannot be checked.
    #[error("seal of header {number}: {error}")]
    Seal {
        /// The number.
        number: u64,
        /// The fault.
        error: SealCheckError,
    },
    /// The branch has less work than the one that was shown before.
    #[error("head {number}: got {got} work since block {since}, expected at least {expected}")]
    Work {
        /// The number of the head.
        number: u64,
        /// The work of the branch.
        got: U256,
        /// The work of the branch before.
        expected: U256,
        /// The number of the oldest header that is kept.
        since: u64,
    },
}

/// A header, and the work since the root.
#[derive(Clone, Debug)]
struct CheckedHeader {
    header: Header,
    work: U256,
}

/// The tree of checked headers.
#[derive(Debug)]
pub(super) struct HeaderTree {
    spec: ChainSpec,
    seals: SealCheck,
    known: BTreeMap<B256, CheckedHeader>,
    root: Header,
    head: Header,
}

impl HeaderTree {
    /// Grows from `root`, which is believed.
    pub(super) fn new(spec: ChainSpec, seals: SealCheck, root: Header) -> Self {
        let first = CheckedHeader {
            header: root.clone(),
            work: U256::ZERO,
        };
        Self {
            spec,
            seals,
            known: [(root.hash(), first)].into(),
            head: root.clone(),
            root,
        }
    }

    pub(super) const fn head(&self) -> &Header {
        &self.head
    }

    pub(super) const fn root(&self) -> &Header {
        &self.root
    }

    /// Whether a header or its parent is in the tree.
    pub(super) fn meets(&self, header: &Header) -> bool {
        self.known.contains_key(&header.parent_hash) || self.known.contains_key(&header.hash())
    }

    /// Takes headers that follow each other. `latest` is the latest allowed timestamp.
    ///
    /// # Errors
    /// [`BaseHeaderError`] for the first wrong one. Those before it stay in the tree.
    pub(super) fn take(&mut self, headers: &[Header], latest: Option<u64>) -> Result<(), BaseHeaderError> {
        let mut fresh: Vec<(B256, CheckedHeader)> = Vec::with_capacity(headers.len());
        let mut end = Ok(());
        for header in headers {
            let hash = header.hash();
            if self.known.contains_key(&hash) {
                continue;
            }
            match self.checked(header, fresh.last(), latest) {
                Ok(checked) => fresh.push((hash, checked)),
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        // Many seals at a time take a fraction of the time of one after the other.
        let unsealed: Vec<&Header> = fresh.iter().map(|(_, checked)| &checked.header).collect();
        let mut sealed = 0;
        let seals = self.seals.check_seals(&self.spec, &unsealed, |_, result| {
            sealed += usize::from(result.is_ok());
            result
        });
        if let (Err(error), Some((_, first))) = (seals, fresh.get(sealed)) {
            let number = first.header.number;
            end = Err(BaseHeaderError::Seal { number, error });
        }
        fresh.truncate(sealed);
        for (hash, checked) in fresh {
            self.make_room(&checked.header.parent_hash);
            if self.known.len() >= HEADERS_MAX {
                return Err(BaseHeaderError::Length {
                    number: checked.header.number,
                    got: self.known.len() + 1,
                    most: HEADERS_MAX,
                });
            }
            self.known.insert(hash, checked);
        }
        end
    }

    /// A header that breaks no rule, after a known one or after `before`. Its seal is not checked.
    fn checked(
        &self,
        header: &Header,
        before: Option<&(B256, CheckedHeader)>,
        latest: Option<u64>,
    ) -> Result<CheckedHeader, BaseHeaderError> {
        let number = header.number;
        let parent = match before {
            Some((hash, before)) => (*hash == header.parent_hash).then_some(before),
            None => self.known.get(&header.parent_hash),
        };
        let parent = parent.ok_or_else(|| BaseHeaderError::Branch {
            number,
            got: header.parent_hash,
            expected: before.map_or_else(|| self.root.hash(), |(hash, _)| *hash),
        })?;
        check_header(&self.spec, header, &parent.header, latest)
            .map_err(|error| BaseHeaderError::Rule { number, error })?;
        Ok(CheckedHeader {
            header: header.clone(),
            work: parent.work.saturating_add(header.difficulty),
        })
    }

    /// If the tree is full, keeps only the headers below the head and below the header `growing`.
    fn make_room(&mut self, growing: &B256) {
        if self.known.len() < HEADERS_MAX {
            return;
        }
        let mut rest = std::mem::take(&mut self.known);
        for end in [self.head.hash(), *growing] {
            let mut next = end;
            while let Some(known) = rest.remove(&next) {
                let hash = std::mem::replace(&mut next, known.header.parent_hash);
                self.known.insert(hash, known);
            }
        }
    }

    /// The hashes of at most [`KEPT`] blocks below a header of the tree, by number.
    pub(super) fn ancestors(&self, header: &Header) -> BTreeMap<u64, B256> {
        let mut ancestors = BTreeMap::new();
        let mut at = header;
        while (ancestors.len() as u64) < KEPT
            && let Some(parent) = self.known.get(&at.parent_hash)
        {
            ancestors.insert(parent.header.number, at.parent_hash);
            at = &parent.header;
        }
        ancestors
    }

    /// Makes a header of the tree the head, unless the head has more work.
    ///
    /// # Errors
    /// [`BaseHeaderError::Work`] if it has.
    pub(super) fn adopt(&mut self, header: &Header) -> Result<(), BaseHeaderError> {
        let work = |hash: &B256| self.known.get(hash).map_or(U256::ZERO, |known| known.work);
        let (got, expected) = (work(&header.hash()), work(&self.head.hash()));
        if got < expected {
            return Err(BaseHeaderError::Work {
                number: header.number,
                got,
                expected,
                since: self.root.number,
            });
        }
        self.head = header.clone();
        if self.head.number >= self.root.number + KEPT + KEPT_MORE {
            self.forget_old();
        }
        Ok(())
    }

    /// Makes the header that is [`KEPT`] blocks below the head the root.
    fn forget_old(&mut self) {
        let mut root = self.head.clone();
        while root.number + KEPT > self.head.number
            && let Some(parent) = self.known.get(&root.parent_hash)
        {
            root = parent.header.clone();
        }
        let hash = root.hash();
        let rooted = self.known.get(&hash).map_or(U256::ZERO, |known| known.work);
        let mut by_number: Vec<_> = std::mem::take(&mut self.known).into_iter().collect();
        by_number.sort_by_key(|(_, known)| known.header.number);
        // A branch that left below the root goes as a whole: nothing below is reorganized any more.
        for (other, mut known) in by_number {
            if other == hash || self.known.contains_key(&known.header.parent_hash) {
                known.work = known.work.saturating_sub(rooted);
                self.known.insert(other, known);
            }
        }
        self.root = root;
    }

    /// Whether the head is this header or has it below.
    pub(super) fn leads_to_head(&self, header: &Header) -> bool {
        let mut at = &self.head;
        while at.number > header.number
            && let Some(parent) = self.known.get(&at.parent_hash)
        {
            at = &parent.header;
        }
        at.hash() == header.hash()
    }

    /// The gas limit of the head and the hashes of the blocks before it, as the engine wants them.
    pub(super) fn branch(&self) -> Option<BaseBranch> {
        let number = self.head.number.checked_sub(1)?;
        let mut hashes = vec![self.head.parent_hash];
        while hashes.len() < BRANCH_HASHES
            && let Some(known) = hashes.last().and_then(|hash| self.known.get(hash))
            && known.header.number > 0
        {
            hashes.push(known.header.parent_hash);
        }
        Some(BaseBranch {
            gas_limit: self.head.gas_limit,
            number,
            hashes,
        })
    }
}

/// Checks that the light cache of the first header is no larger than a network has one.
///
/// # Errors
/// [`BaseHeaderError::Epoch`] if it is.
pub(super) fn check_first_epoch(spec: &ChainSpec, number: u64) -> Result<(), BaseHeaderError> {
    let got = spec.schedule.epoch(number).index;
    if got > FIRST_EPOCH_MAX {
        let most = FIRST_EPOCH_MAX;
        return Err(BaseHeaderError::Epoch { number, got, most });
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use chain::rules::difficulty::next_difficulty;
    use ethash::LightCaches;

    use super::*;

    /// Block 0 of the tests.
    pub(in crate::proven) fn first() -> Header {
        Header {
            gas_limit: 9_000_000,
            difficulty: U256::from(512),
            timestamp: 1000,
            ..Header::default()
        }
    }

    /// The header after `parent`, without a seal.
    pub(in crate::proven) fn next(parent: &Header, mark: u8) -> Header {
        let timestamp = parent.timestamp + 10;
        Header {
            parent_hash: parent.hash(),
            number: parent.number + 1,
            timestamp,
            difficulty: next_difficulty(&ChainSpec::dev(), parent, timestamp),
            gas_limit: parent.gas_limit,
            receipts_root: B256::repeat_byte(mark),
            ..Header::default()
        }
    }

    pub(in crate::proven) fn line(parent: &Header, mark: u8, count: usize) -> Vec<Header> {
        let mut headers: Vec<Header> = Vec::with_capacity(count);
        for _ in 0..count {
            headers.push(next(headers.last().unwrap_or(parent), mark));
        }
        headers
    }

    fn tree(seals: SealCheck) -> HeaderTree {
        HeaderTree::new(ChainSpec::dev(), seals, first())
    }

    fn refusal(headers: &[Header]) -> BaseHeaderError {
        tree(SealCheck::Off)
            .take(headers, Some(2000))
            .expect_err("refused")
    }

    #[test]
    fn a_chain_of_headers_grows_and_old_ones_are_forgotten() {
        let mut tree = tree(SealCheck::Off);
        let headers = line(&first(), 1, 400);
        tree.take(&headers, None).expect("they are right");
        for header in &headers {
            tree.adopt(header).expect("it has more work");
        }
        let oldest = tree.root().number;
        assert!((80..=144).contains(&oldest), "{oldest}");
        assert_eq!(tree.known.len() as u64, 401 - oldest);
        let branch = tree.branch().expect("a head");
        assert_eq!((branch.number, branch.hashes.len()), (399, 64));
        assert_eq!(branch.hashes[0], headers[398].hash());
        assert_eq!(branch.hashes[63], headers[335].hash());
        // Work counts from the oldest one on.
        let work = tree.known[&tree.head().hash()].work;
        assert_eq!(work, U256::from(512 * (400 - oldest)));
        assert!(tree.leads_to_head(&headers[300]) && !tree.leads_to_head(&next(&headers[299], 9)));
        // Nothing below the oldest one is reorganized any more.
        let fork = next(&headers[2], 9);
        assert!(!tree.meets(&fork));
        assert!(matches!(
            tree.take(&[fork], None),
            Err(BaseHeaderError::Branch { .. })
        ));
    }

    #[test]
    fn a_branch_that_left_below_the_root_is_forgotten() {
        let mut tree = tree(SealCheck::Off);
        let (headers, side) = (line(&first(), 1, 400), line(&first(), 2, 330));
        tree.take(&side, None).expect("they are right");
        tree.take(&headers, None).expect("they are right");
        for header in &headers {
            tree.adopt(header).expect("it has more work");
        }
        assert!(tree.root().number < 330);
        assert!(!tree.meets(&next(&side[329], 2)));
        assert_eq!(tree.known.len() as u64, 401 - tree.root().number);
    }

    #[test]
    fn other_branches_take_no_more_than_their_place() {
        let mut tree = tree(SealCheck::Off);
        let headers = line(&first(), 1, 300);
        tree.take(&headers, None).expect("they are right");
        tree.adopt(&headers[299]).expect("it has more work");
        // Each header of the head's branch has many others beside it.
        for mark in 2..=30 {
            tree.take(&line(&first(), mark, 200), None)
                .expect("they are right");
            assert!(tree.known.len() <= HEADERS_MAX, "{}", tree.known.len());
        }
        assert!(tree.leads_to_head(&headers[0]) && tree.leads_to_head(&first()));
        assert_eq!(tree.ancestors(&headers[299]).len(), 256);
        // One branch that is too long is refused, and another one still has a place.
        let long = line(&first(), 31, HEADERS_MAX);
        let error = tree.take(&long, None).expect_err("too long");
        assert_eq!(
            error.to_string(),
            "header 3796: got a branch of 4097 headers without more work, expected at most 4096 headers"
        );
        assert_eq!(tree.known.len(), HEADERS_MAX);
        let heavier = line(&headers[100], 32, 210);
        tree.take(&heavier, None).expect("they are right");
        tree.adopt(&heavier[209]).expect("it has more work");
        assert!(tree.known.len() < 600, "{}", tree.known.len());
    }

    #[test]
    fn headers_of_a_batch_follow_each_other() {
        let mut tree = tree(SealCheck::Off);
        let headers = line(&first(), 1, 3);
        let side = next(&first(), 2);
        let mut batch = headers.clone();
        batch.push(side.clone());
        let expected = BaseHeaderError::Branch {
            number: 1,
            got: first().hash(),
            expected: headers[2].hash(),
        };
        let error = tree.take(&batch, None).expect_err("two branches");
        assert_eq!(error.to_string(), expected.to_string());
        // The headers before it stay. It may come alone.
        assert_eq!(tree.known.len(), 4);
        tree.take(&[side], None).expect("it is right");
        assert_eq!(tree.known.len(), 5);
    }

    #[test]
    fn ancestors_are_those_of_the_branch() {
        let mut tree = tree(SealCheck::Off);
        let headers = line(&first(), 1, 5);
        let side = line(&headers[1], 2, 2);
        tree.take(&headers, None).expect("they are right");
        tree.take(&side, None).expect("they are right");
        let hash = |header: &Header| (header.number, header.hash());
        let expected = [&first(), &headers[0], &headers[1], &side[0]].map(hash);
        assert_eq!(tree.ancestors(&side[1]), expected.into());
        assert_eq!(tree.ancestors(&first()), BTreeMap::new());
    }

    #[test]
    fn the_first_header_has_a_cache_that_a_network_can_have() {
        let spec = ChainSpec::dev();
        let last = 2048 * spec.schedule.epoch(0).length() - 1;
        check_first_epoch(&spec, last).expect("it is as high as a network can be");
        let error = check_first_epoch(&spec, last + 1)
            .expect_err("too high")
            .to_string();
        assert!(
            error.contains("got epoch 2048, expected at most 2047")
                && error.contains("--verify-base.checkpoint"),
            "{error}"
        );
        check_first_epoch(&spec, u64::MAX).expect_err("too high");
    }

    #[test]
    fn the_branch_ends_at_the_root() {
        let mut tree = tree(SealCheck::Off);
        assert_eq!(tree.branch(), None);
        let headers = line(&first(), 1, 3);
        tree.take(&headers, None).expect("they are right");
        tree.adopt(&headers[2]).expect("it has more work");
        let hashes = tree.branch().expect("a head").hashes;
        assert_eq!(hashes, [headers[1].hash(), headers[0].hash(), first().hash()]);
    }

    #[test]
    fn another_branch_needs_as_much_work() {
        let mut tree = tree(SealCheck::Off);
        let (long, short) = (line(&first(), 1, 5), line(&first(), 2, 6));
        tree.take(&long, None).expect("they are right");
        tree.take(&short, None).expect("they are right");
        tree.adopt(&long[4]).expect("it has more work");
        let error = tree.adopt(&short[3]).expect_err("less work").to_string();
        assert_eq!(
            error,
            "head 4: got 2048 work since block 0, expected at least 2560"
        );
        assert_eq!(tree.head().hash(), long[4].hash());
        tree.adopt(&short[5]).expect("more work");
    }

    #[test]
    fn wrong_headers_are_refused() {
        let right = next(&first(), 1);
        let other_parent = Header {
            parent_hash: B256::repeat_byte(9),
            ..right.clone()
        };
        assert!(matches!(refusal(&[other_parent]), BaseHeaderError::Branch { got, .. } if got[0] == 9));
        let wrong = |change: fn(&mut Header)| {
            let mut header = right.clone();
            change(&mut header);
            refusal(&[header]).to_string()
        };
        let error = wrong(|header| header.number = 7);
        assert!(
            error.contains("header 7") && error.contains("expected 1"),
            "{error}"
        );
        let error = wrong(|header| header.difficulty = U256::from(1));
        assert!(
            error.contains("difficulty") && error.contains("expected 512"),
            "{error}"
        );
        let error = wrong(|header| header.timestamp = 3000);
        assert!(error.contains("3000"), "{error}");
        let error = wrong(|header| header.gas_used = u64::MAX);
        assert!(error.contains("gas"), "{error}");
        // The second one does not follow.
        let error = refusal(&[right.clone(), next(&next(&right, 3), 3)]);
        assert!(
            matches!(error, BaseHeaderError::Branch { number: 3, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_header_without_a_seal_is_refused() {
        let caches = LightCaches::with_sizes(64 << 10, 1 << 20);
        let mut tree = tree(SealCheck::Ethash(caches));
        let error = tree.take(&line(&first(), 1, 1), None).expect_err("no seal");
        assert!(
            matches!(error, BaseHeaderError::Seal { number: 1, .. }),
            "{error}"
        );
        assert_eq!(tree.head().number, 0);
    }
}
