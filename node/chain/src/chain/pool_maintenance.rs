//! Maintenance of the pool while the chain runs: restoring the journal at the start, dropping
//! queued transactions whose lifetime is over, and rewriting the journal from time to time.
//!
//! This module knows when to do it. The work itself is in [`crate::pool`].

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use primitives::{Address, B256, Transaction, TxRules};

use crate::chain::SubmitError;
use crate::parallel::for_each_in_order;
use crate::pool::TxPool;
use crate::pool::journal::TxJournalReader;

/// The time between two looks at queues and journal.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time between two rewritings of the journal.
const REJOURNAL_MIN: Duration = Duration::from_secs(1);

/// The results for the transactions of a journal.
#[derive(Debug, Default)]
struct SubmitCounts {
    accepted: usize,
    refused: usize,
    /// The state of the sender could not be read, or is not here yet.
    unjudged: usize,
}

/// Submits the transactions of the journal to the pool again. `sender_of` finds the sender of a
/// transaction, and `admit` takes the transaction into the pool.
///
/// The pool's rules hold for these transactions as for all others. So an account that is not local
/// any more gets them back as a remote one, or not at all. A damaged journal, or refused
/// transactions, do not keep the node from starting: they are counted in the log. A journal that
/// was not read as a whole is kept under another name, because payments may be in it.
pub(super) fn restore_journal(
    pool: &TxPool,
    rules: TxRules,
    sender_of: impl Fn(&Transaction) -> Result<Address, SubmitError> + Sync,
    admit: impl FnMut(Transaction, Address) -> Result<B256, SubmitError>,
) {
    let Some((journal, _)) = pool.journal() else {
        return;
    };
    let path = journal.path().display().to_string();
    let is_whole = match TxJournalReader::open(journal.path(), rules) {
        Ok(None) => true,
        Ok(Some(mut reader)) => {
            let counts = submit_all(&mut reader, sender_of, admit);
            let SubmitCounts {
                accepted,
                refused,
                unjudged,
            } = counts;
            let (unreadable, lost_bytes) = (reader.unreadable(), reader.lost_bytes());
            if unreadable > 0 || lost_bytes > 0 {
                tracing::warn!(%path, unreadable, lost_bytes, "the journal of local transactions is damaged");
            }
            if unjudged > 0 {
                tracing::warn!(%path, unjudged, "the state of senders in the journal cannot be read");
            }
            tracing::info!(%path, accepted, refused, "transactions of the journal restored");
            unreadable == 0 && lost_bytes == 0 && unjudged == 0
        }
        Err(error) => {
            tracing::warn!(%path, %error, "the journal of local transactions cannot be read");
            false
        }
    };
    if !is_whole {
        journal.mark_unread();
    }
    rotate_journal(pool);
}

/// Submits every transaction of the journal. The senders are found on all processors. The
/// transactions are admitted in their order in the journal: in another order, more of them could be
/// queued for a time than an account may queue.
fn submit_all(
    reader: &mut TxJournalReader,
    sender_of: impl Fn(&Transaction) -> Result<Address, SubmitError> + Sync,
    mut admit: impl FnMut(Transaction, Address) -> Result<B256, SubmitError>,
) -> SubmitCounts {
    let with_sender = |transaction: Transaction| (sender_of(&transaction), transaction);
    let mut counts = SubmitCounts::default();
    let Ok(()) = for_each_in_order(reader, with_sender, |(sender, transaction)| {
        let hash = transaction.hash();
        match sender.and_then(|sender| admit(transaction, sender)) {
            Ok(_) => counts.accepted += 1,
            Err(error) => {
                tracing::debug!(%hash, %error, "a transaction of the journal is refused");
                match error {
                    SubmitError::Store(_) | SubmitError::NotKept(_) => counts.unjudged += 1,
                    _ => counts.refused += 1,
                }
            }
        }
        Ok::<_, Infallible>(())
    });
    counts
}

fn rotate_journal(pool: &TxPool) {
    if let Err(error) = pool.rotate_journal() {
        let path = pool
            .journal()
            .map(|(journal, _)| journal.path().display().to_string());
        tracing::warn!(path, %error, "the journal of local transactions cannot be written");
    }
}

/// Maintains the pool until the other end of `stop` is dropped.
pub(super) fn maintain(pool: &TxPool, stop: &Receiver<Infallible>) {
    let mut rotated_at = Instant::now();
    let until_rotation = |rotated_at: Instant| {
        let (_, rejournal) = pool.journal()?;
        Some(rejournal.max(REJOURNAL_MIN).saturating_sub(rotated_at.elapsed()))
    };
    loop {
        let pause = until_rotation(rotated_at)
            .unwrap_or(LOOK_INTERVAL)
            .min(LOOK_INTERVAL);
        if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let expired = pool.expire(Instant::now());
        if expired > 0 {
            tracing::debug!(
                expired,
                "queued transactions dropped at the end of their lifetime"
            );
        }
        let wants_rotation = pool
            .journal()
            .is_some_and(|(journal, _)| journal.wants_rotation());
        if wants_rotation || until_rotation(rotated_at).is_some_and(|left| left.is_zero()) {
            rotate_journal(pool);
            rotated_at = Instant::now();
        }
    }
}
