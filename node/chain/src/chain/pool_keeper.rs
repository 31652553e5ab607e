//! Looks after the pool while the chain runs: brings back what the journal has at the start,
//! lets queues go whose lifetime is over, writes the journal anew now and then.
//!
//! Knows when; how is for [`crate::pool`] to know.

use std::convert::Infallible;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use primitives::{B256, Transaction, TxRules};

use crate::chain::SubmitError;
use crate::pool::TxPool;
use crate::pool::journal::JournalReader;

/// How often it is looked for queues whose lifetime is over, and at the journal.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// The journal is written anew at most this often.
const REJOURNAL_MIN: Duration = Duration::from_secs(1);
/// How many transactions of the journal are in memory at once.
const PORTION: usize = 1024;

/// Brings back what the journal has, by the same way as everything new, on all processors.
/// What cannot be read or is not wanted any more is counted in the log, and no reason not to
/// start.
pub(crate) fn restore(
    pool: &TxPool,
    rules: TxRules,
    take: impl Fn(Transaction) -> Result<B256, SubmitError> + Sync,
) {
    let Some((journal, _)) = pool.journal() else {
        return;
    };
    let path = journal.path().display().to_string();
    match JournalReader::open(journal.path(), rules) {
        Ok(None) => {}
        Ok(Some(mut reader)) => {
            let (taken, refused) = read(&mut reader, &take);
            let (unreadable, lost_bytes) = (reader.unreadable(), reader.lost_bytes());
            if unreadable > 0 || lost_bytes > 0 {
                tracing::warn!(%path, unreadable, lost_bytes, "the journal of local transactions is damaged");
            }
            tracing::info!(%path, taken, refused, "local transactions brought back");
        }
        Err(error) => {
            tracing::warn!(%path, %error, "the journal of local transactions cannot be read");
        }
    }
    rotate(pool);
}

/// How many were taken, and how many not.
fn read(
    reader: &mut JournalReader,
    take: &(impl Fn(Transaction) -> Result<B256, SubmitError> + Sync),
) -> (usize, usize) {
    let (taken, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let take_all = |transactions: Vec<Transaction>| {
        for transaction in transactions {
            let hash = transaction.hash();
            match take(transaction) {
                Ok(_) => taken.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    tracing::debug!(%hash, %error, "a transaction of the journal is not taken");
                    refused.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    loop {
        let mut portion: Vec<_> = reader.take(PORTION).collect();
        if portion.is_empty() {
            return (taken.into_inner(), refused.into_inner());
        }
        let share = portion.len().div_ceil(threads);
        std::thread::scope(|scope| {
            while portion.len() > share {
                let others = portion.split_off(portion.len() - share);
                scope.spawn(|| take_all(others));
            }
            take_all(portion);
        });
    }
}

fn rotate(pool: &TxPool) {
    if let Err(error) = pool.rotate_journal() {
        let path = pool
            .journal()
            .map(|(journal, _)| journal.path().display().to_string());
        tracing::warn!(path, %error, "the journal of local transactions cannot be written");
    }
}

/// Goes on until the other end of `stop` is dropped.
pub(crate) fn keep(pool: &TxPool, stop: &Receiver<Infallible>) {
    let mut rotated = Instant::now();
    let due = |rotated: Instant| {
        let (_, every) = pool.journal()?;
        Some(every.max(REJOURNAL_MIN).saturating_sub(rotated.elapsed()))
    };
    loop {
        let pause = due(rotated).unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL);
        if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let gone = pool.expire(Instant::now());
        if gone > 0 {
            tracing::debug!(gone, "queued transactions waited too long");
        }
        let grown = pool
            .journal()
            .is_some_and(|(journal, _)| journal.wants_rotation());
        if grown || due(rotated).is_some_and(|left| left.is_zero()) {
            rotate(pool);
            rotated = Instant::now();
        }
    }
}
