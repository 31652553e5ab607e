//! Headers first: taking headers whose bodies come later, and following the best header chain.
//!
//! A header is checked like that of a block: its parent is known, it follows the rules, and its
//! seal is right. Then it is stored as a bare header with its total difficulty. The chain with the
//! most total difficulty is the best header chain, whether its bodies are here or not. At equal
//! total difficulty the head stays the best header, then the header that was seen first.
//!
//! | what | function |
//! |---|---|
//! | headers are checked on all processors | [`Importer::check_headers`] |
//! | headers are stored | [`Importer::import_headers`] |
//! | the head has moved | `head_moved` |
//! | a block has turned out invalid | `discard` |

use primitives::{B256, Header};
use store::{BareHeader, BlockReads, HeaderReads, StoreError, TableId, Tables};

use super::block::CurrentHead;
use super::fork_tree::ForkTree;
use super::limits::HEADERS_PER_COMMIT;
use super::{BlockId, ImportError, Importer};
use crate::rules::check_clock;

/// Headers that build on each other and on a known one, with right seals.
///
/// Made by [`Importer::check_headers`].
#[derive(Clone, Debug)]
pub struct CheckedHeaders(Vec<(B256, Header)>);

/// The result of an import of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedHeaders {
    /// The number of new ones.
    pub added: usize,
    /// The best header afterwards.
    pub best: BlockId,
}

impl Importer {
    /// Checks headers, each the parent of the next one: rules first, then the seals on all
    /// processors. Headers that are known are not checked again.
    ///
    /// Any number of threads may do this at the same time. `source` is a snapshot of the store.
    /// `latest` is the latest allowed timestamp, in unix seconds; with `None` any is allowed.
    ///
    /// # Errors
    /// [`ImportError`] if the first header's parent is not known, or with the number and the hash
    /// of the first bad header.
    pub fn check_headers(
        &self,
        source: &impl HeaderReads,
        headers: Vec<Header>,
        latest: Option<u64>,
    ) -> Result<CheckedHeaders, ImportError> {
        let Some(first) = headers.first() else {
            return Ok(CheckedHeaders(Vec::new()));
        };
        let unknown = || ImportError::UnknownParent(first.parent_hash);
        self.refuse_known_invalid(&first.parent_hash)?;
        let mut parent = source
            .known_header(&first.parent_hash)?
            .ok_or_else(unknown)?
            .header;
        let (mut checked, mut unsealed) = (Vec::with_capacity(headers.len()), Vec::new());
        let mut parent_hash = first.parent_hash;
        for header in headers {
            let hash = header.hash();
            let id = BlockId {
                number: header.number,
                hash,
            };
            let rules = || {
                self.refuse_known_invalid(&hash)?;
                if header.parent_hash != parent_hash {
                    return Err(ImportError::ParentHash {
                        got: header.parent_hash,
                        expected: parent_hash,
                    });
                }
                self.check_header_rules(&header, &parent, latest)
            };
            rules().map_err(|error| error.of_header(&id))?;
            if source.known_header(&hash)?.is_none() {
                unsealed.push(checked.len());
            }
            parent = header.clone();
            parent_hash = hash;
            checked.push((hash, header));
        }
        let headers: Vec<_> = unsealed.iter().map(|index| &checked[*index].1).collect();
        self.seals.check_seals(&self.spec, &headers, |at, result| {
            let (hash, header) = &checked[unsealed[at]];
            let id = BlockId {
                number: header.number,
                hash: *hash,
            };
            result.map_err(|error| ImportError::from(error).of_header(&id))
        })?;
        Ok(CheckedHeaders(checked))
    }

    /// Checks the header of one new block, the cheapest first: rules, seal, clock. `hash` is the
    /// block's. A header that is known is not checked again.
    ///
    /// The clock comes last, so that [`HeaderError::Future`](crate::rules::HeaderError::Future)
    /// says that everything else is right.
    ///
    /// # Errors
    /// [`ImportError`] if the parent is not known, or the header is refused.
    pub fn check_new_header(
        &self,
        source: &impl HeaderReads,
        hash: &B256,
        header: &Header,
        latest: u64,
    ) -> Result<(), ImportError> {
        self.refuse_known_invalid(hash)?;
        self.refuse_known_invalid(&header.parent_hash)?;
        let parent = source.known_header(&header.parent_hash)?;
        let parent = parent
            .ok_or(ImportError::UnknownParent(header.parent_hash))?
            .header;
        self.check_header_rules(header, &parent, None)?;
        if source.known_header(hash)?.is_none() {
            self.seals.prepare_ahead(&self.spec, header.number);
            self.seals.check_seal(&self.spec, header)?;
        }
        check_clock(header, latest)?;
        Ok(())
    }

    /// Stores checked headers without bodies, and chooses the best header. Those that are known, as
    /// blocks or as headers, stay as they are.
    ///
    /// # Errors
    /// [`ImportError`] if the parent is not known any more, if the branch leaves the canonical
    /// chain too far below the head, if there are too many headers without bodies, or if the store
    /// fails. The headers before may be stored; the next snapshot shows it.
    pub fn import_headers(&self, headers: &CheckedHeaders) -> Result<ImportedHeaders, ImportError> {
        self.finish_open_reorganization()?;
        let mut added = 0;
        for part in headers.0.chunks(HEADERS_PER_COMMIT) {
            let batch = self.store.batch()?;
            let new = batch.write(|tables| self.write_headers(tables, part))?;
            let last = part.last().map_or(B256::ZERO, |(hash, _)| *hash);
            if new > 0 {
                self.commit(batch, |view| Ok(view.known_header(&last)?.is_some()))?;
            } else {
                batch.abort()?;
            }
            added += new;
        }
        let best = best_header_id(&*self.store.snapshot()?)?;
        Ok(ImportedHeaders { added, best })
    }

    /// Writes headers without bodies. Returns how many are new.
    fn write_headers(
        &self,
        tables: &mut Tables<'_>,
        headers: &[(B256, Header)],
    ) -> Result<usize, ImportError> {
        let Some((_, first)) = headers.first() else {
            return Ok(0);
        };
        let unknown = || ImportError::UnknownParent(first.parent_hash);
        let parent = tables.known_header(&first.parent_hash)?.ok_or_else(unknown)?;
        let (mut new, mut tip, mut total_difficulty) = (0, None, parent.total_difficulty);
        for (hash, header) in headers {
            self.refuse_known_invalid(hash)?;
            total_difficulty = total_difficulty.saturating_add(header.difficulty);
            if tables.known_header(hash)?.is_none() {
                let bare = BareHeader {
                    header: header.clone(),
                    total_difficulty,
                };
                tables.put_bare_header(hash, &bare)?;
                new += 1;
                tip = Some(BlockId {
                    number: header.number,
                    hash: *hash,
                });
            }
        }
        let Some(tip) = tip else { return Ok(0) };
        let best = best_header_id(tables)?;
        let best_difficulty = tables.known_header(&best.hash)?;
        if best_difficulty.is_none_or(|best| total_difficulty > best.total_difficulty) {
            self.check_header_depth(tables, &tip)?;
            if self.mess_allows(tables, &tip, total_difficulty)? {
                set_best_header(tables, tip)?;
            }
        }
        if tables.rows(TableId::HashToBareHeader)? > self.limits.bare_headers_max as u64 {
            self.trim_bare_headers(tables, &tip)?;
        }
        Ok(new)
    }

    /// Refuses a branch of headers that leaves the canonical chain too far below the head.
    fn check_header_depth(&self, tables: &Tables<'_>, tip: &BlockId) -> Result<(), ImportError> {
        let Some(max) = self.limits.reorg_depth_max else {
            return Ok(());
        };
        let head = CurrentHead::read(tables)?.record.header.number;
        let got = head.saturating_sub(self.branch_start(tables, tip, head)?);
        if got > max {
            return Err(ImportError::ReorgDepth { got, max });
        }
        Ok(())
    }

    /// The number of the last block that the chain of `tip` and the canonical chain share. If that
    /// is further below the head than a reorganization may go, a number that is too low, too.
    ///
    /// The block at which the best header chain leaves the canonical one is known. So of a long
    /// chain that comes in parts, each part is walked once.
    pub(super) fn branch_start(
        &self,
        source: &impl HeaderReads,
        tip: &BlockId,
        head: u64,
    ) -> Result<u64, ImportError> {
        let lowest = head.saturating_sub(self.limits.reorg_depth_max.unwrap_or(head));
        let beside = source.best_hashes_beside_chain(0, 1)?;
        let mut at = *tip;
        loop {
            if source.canonical_hash(at.number)? == Some(at.hash) {
                return Ok(at.number);
            }
            if let Some((first, _)) = beside.first()
                && source.best_hash_beside_chain(at.number)? == Some(at.hash)
            {
                return Ok(first.saturating_sub(1));
            }
            if at.number <= lowest {
                // The branch leaves the chain here or further below.
                return Ok(at.number.saturating_sub(1));
            }
            let header = source.known_header(&at.hash)?;
            let header = header.ok_or(ImportError::UnknownParent(at.hash))?.header;
            at = BlockId {
                number: header.number.saturating_sub(1),
                hash: header.parent_hash,
            };
        }
    }

    /// Removes bare headers, so that an eighth of what is allowed is free. Branches with the least
    /// work since they left the canonical chain go first. So whoever wants to push a branch out
    /// must work more than was worked on it. The best header chain and the branch of `newest` stay.
    fn trim_bare_headers(&self, tables: &mut Tables<'_>, newest: &BlockId) -> Result<(), ImportError> {
        let max = self.limits.bare_headers_max;
        let mut tree = ForkTree::read(tables)?;
        let mut keep = tree.path(&newest.hash);
        keep.extend(tree.path(&best_header_id(tables)?.hash));
        let work = tree.own_work(tables)?;
        let excess = tree.count(false).saturating_sub(max - max / 8) as u64;
        let weight = |hash: &B256, _: &_| work[hash];
        let weakest = tree.weakest(false, excess, &keep, weight, |_| true, |_| 1);
        tree.remove(tables, &weakest)?;
        let got = tree.count(false);
        if got > max {
            return Err(ImportError::TooManyHeaders { got, max });
        }
        tracing::warn!(
            removed = weakest.len(),
            got,
            max,
            "headers without bodies were removed"
        );
        Ok(())
    }

    /// Removes the block `hash` and everything that builds on it: side blocks and bare headers.
    /// Chooses the best header again if it is among them. Returns the removed hashes, lowest first.
    pub(super) fn discard(&self, tables: &mut Tables<'_>, hash: &B256) -> Result<Vec<B256>, StoreError> {
        let mut tree = ForkTree::read(tables)?;
        let removed = tree.subtree(hash);
        let best = tables.best_header()?;
        tree.remove(tables, &removed)?;
        if best.is_some_and(|(_, best)| removed.contains(&best)) {
            self.choose_best_header(tables, &tree)?;
        }
        Ok(removed)
    }

    /// Chooses the best header among the head and the heaviest branch of `tree`.
    fn choose_best_header(&self, tables: &mut Tables<'_>, tree: &ForkTree) -> Result<(), StoreError> {
        tables.delete_best_header()?;
        let head = CurrentHead::read(tables)?;
        if let Some((hash, node)) = tree.heaviest()
            && node.total_difficulty > head.record.total_difficulty
        {
            let number = node.number;
            let best = BlockId { number, hash };
            match self.mess_allows(tables, &best, node.total_difficulty) {
                Ok(true) => set_best_header(tables, best)?,
                Ok(false) => {}
                // A branch without a start is no better chain.
                Err(error) => return error.into_store_error().map_or(Ok(()), Err),
            }
        }
        Ok(())
    }

    /// Removes a header without body and everything that builds on it, for example because nobody
    /// has its body. Chooses the best header again. Does nothing if the header has a body.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails.
    pub fn forget_headers(&self, hash: &B256) -> Result<(), ImportError> {
        if self.store.snapshot()?.bare_header(hash)?.is_none() {
            return Ok(());
        }
        let batch = self.store.batch()?;
        batch.write(|tables| self.discard(tables, hash))?;
        self.commit(batch, |view| Ok(view.bare_header(hash)?.is_none()))?;
        Ok(())
    }
}

/// The best header; the head if no other header is better.
pub(crate) fn best_header_id(source: &impl HeaderReads) -> Result<BlockId, StoreError> {
    let missing = || StoreError::corrupt(TableId::Meta, store::meta_key::HEAD, "no head block");
    let (number, hash) = match source.best_header()? {
        Some(best) => best,
        None => source.head()?.ok_or_else(missing)?,
    };
    Ok(BlockId { number, hash })
}

/// Makes the rows of the best header chain fit to the head, which has moved.
pub(super) fn best_header_follows(tables: &mut Tables<'_>) -> Result<(), StoreError> {
    let Some((number, hash)) = tables.best_header()? else {
        return Ok(());
    };
    let head = CurrentHead::read(tables)?;
    let best = tables.known_header(&hash)?;
    let is_better = best.is_some_and(|best| best.total_difficulty > head.record.total_difficulty);
    if !is_better || tables.canonical_hash(number)? == Some(hash) {
        return tables.delete_best_header();
    }
    let Some((mut lowest, mut hash)) = tables.best_hashes_beside_chain(0, 1)?.first().copied() else {
        return set_best_header(tables, BlockId { number, hash });
    };
    while tables.canonical_hash(lowest)? == Some(hash) {
        tables.delete_best_hash(lowest)?;
        lowest += 1;
        let Some(next) = tables.best_hash_beside_chain(lowest)? else {
            return Ok(());
        };
        hash = next;
    }
    join_best_chain(tables, lowest, hash)
}

/// Writes the rows of the best header chain from block `number`, which has a row, down to the
/// canonical chain.
fn join_best_chain(tables: &mut Tables<'_>, mut number: u64, mut hash: B256) -> Result<(), StoreError> {
    loop {
        let missing = || StoreError::corrupt(TableId::HashToBareHeader, hash.as_slice(), "no such row");
        let parent = tables
            .known_header(&hash)?
            .ok_or_else(missing)?
            .header
            .parent_hash;
        let Some(below) = number.checked_sub(1) else {
            return Ok(());
        };
        let row = tables.best_hash_beside_chain(below)?;
        if tables.canonical_hash(below)? == Some(parent) {
            // Rows of a best header chain that has left the canonical chain further below.
            let mut stale = below;
            while tables.best_hash_beside_chain(stale)?.is_some() {
                tables.delete_best_hash(stale)?;
                stale = stale.saturating_sub(1);
            }
            return Ok(());
        }
        if row == Some(parent) {
            return Ok(());
        }
        tables.put_best_hash(below, &parent)?;
        (number, hash) = (below, parent);
    }
}

/// Makes `best`, which is not canonical, the best header.
fn set_best_header(tables: &mut Tables<'_>, best: BlockId) -> Result<(), StoreError> {
    for (above, _) in tables.best_hashes_beside_chain(best.number.saturating_add(1), usize::MAX)? {
        tables.delete_best_hash(above)?;
    }
    tables.put_best_hash(best.number, &best.hash)?;
    tables.put_best_header(best.number, &best.hash)?;
    join_best_chain(tables, best.number, best.hash)
}
