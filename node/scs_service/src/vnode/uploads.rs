//! Blocks of MicroChains that SCSs have left for each other (docs/scs-wire.md, 9).
//!
//! The blocks are kept in memory, for a while, within a number and a number of bytes. If there is
//! no room for a new one, the address that holds the most bytes loses its oldest one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use daemon::ClientAddress;
use parking_lot::Mutex;

use super::limits::ServiceLimits;
use crate::message::ScsMessageError;

/// Most bytes of a part of a key.
const KEY_LEN_MAX: usize = 128;
/// Bytes of an uploaded block beside its content.
const ENTRY_LEN: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    line: BlockLine,
    /// The hash. Empty for the last block of its line.
    hash: Bytes,
}

/// The blocks of the same uploader, chain and number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BlockLine {
    sender: Bytes,
    chain: Bytes,
    number: u64,
}

impl BlockKey {
    /// A key in memory of its own.
    ///
    /// # Errors
    /// [`ScsMessageError::Length`] if a part is too long.
    pub(super) fn new(
        sender: &[u8],
        chain: &[u8],
        number: u64,
        hash: &[u8],
    ) -> Result<Self, ScsMessageError> {
        let part = |field, bytes: &[u8]| match bytes.len() {
            ..=KEY_LEN_MAX => Ok(Bytes::copy_from_slice(bytes)),
            got => Err(ScsMessageError::Length {
                field,
                got,
                expected: "at most 128",
            }),
        };
        Ok(Self {
            line: BlockLine {
                sender: part("sender", sender)?,
                chain: part("subchainid", chain)?,
                number,
            },
            hash: part("blockhash", hash)?,
        })
    }
}

#[derive(Debug)]
struct Upload {
    data: Bytes,
    /// The number of times that it was uploaded, and not downloaded since.
    count: u32,
    owner: ClientAddress,
    at: Instant,
    number: u64,
}

/// A block is too long to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blockdata: got {got} bytes, expected at most {max}")]
pub(super) struct LongUpload {
    got: usize,
    max: usize,
}

/// The uploaded blocks.
#[derive(Debug)]
pub(super) struct Uploads {
    count_max: usize,
    bytes_max: usize,
    age_max: Duration,
    state: Mutex<UploadState>,
}

#[derive(Debug, Default)]
struct UploadState {
    blocks: HashMap<BlockKey, Upload>,
    /// The hash that was uploaded last.
    last: HashMap<BlockLine, Bytes>,
    bytes: usize,
    next_number: u64,
}

impl Uploads {
    pub(super) fn new(limits: &ServiceLimits) -> Self {
        Self {
            count_max: limits.uploads_max,
            bytes_max: limits.upload_bytes_max,
            age_max: limits.upload_age_max,
            state: Mutex::default(),
        }
    }

    /// Keeps a block.
    ///
    /// # Errors
    /// [`LongUpload`] if the block is longer than all blocks together may be.
    pub(super) fn put(
        &self,
        key: BlockKey,
        data: &Bytes,
        owner: ClientAddress,
        now: Instant,
    ) -> Result<(), LongUpload> {
        let len = ENTRY_LEN + data.len();
        if len > self.bytes_max || self.count_max == 0 {
            return Err(LongUpload {
                got: data.len(),
                max: self.bytes_max.saturating_sub(ENTRY_LEN),
            });
        }
        let state = &mut *self.state.lock();
        state.expire(self.age_max, now);
        if let Some(known) = state.blocks.get_mut(&key) {
            known.count = known.count.saturating_add(1);
            known.at = now;
            state.last.insert(key.line.clone(), key.hash.clone());
            return Ok(());
        }
        while state.blocks.len() >= self.count_max || state.bytes + len > self.bytes_max {
            let Some(victim) = state.victim() else { break };
            state.remove(&victim);
        }
        state.last.insert(key.line.clone(), key.hash.clone());
        let number = state.next_number;
        state.next_number += 1;
        state.bytes += len;
        let upload = Upload {
            data: Bytes::copy_from_slice(data),
            count: 1,
            owner,
            at: now,
            number,
        };
        state.blocks.insert(key, upload);
        Ok(())
    }

    /// Hands a block out. It goes when it was handed out as often as it was uploaded.
    ///
    /// # Errors
    /// If `make_room` fails for its length. Then it was not handed out.
    pub(super) fn take<E>(
        &self,
        mut key: BlockKey,
        now: Instant,
        make_room: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Option<Bytes>, E> {
        let state = &mut *self.state.lock();
        state.expire(self.age_max, now);
        if key.hash.is_empty() {
            let Some(last) = state.last.get(&key.line) else {
                return Ok(None);
            };
            key.hash = last.clone();
        }
        let Some(upload) = state.blocks.get_mut(&key) else {
            return Ok(None);
        };
        make_room(upload.data.len())?;
        upload.count -= 1;
        let (data, is_over) = (upload.data.clone(), upload.count == 0);
        if is_over {
            state.remove(&key);
        }
        Ok(Some(data))
    }
}

impl UploadState {
    fn expire(&mut self, age_max: Duration, now: Instant) {
        let is_old = |upload: &Upload| now.saturating_duration_since(upload.at) > age_max;
        let old: Vec<_> = self
            .blocks
            .iter()
            .filter(|(_, upload)| is_old(upload))
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.remove(&key);
        }
    }

    /// The oldest block of the address that holds the most bytes.
    fn victim(&self) -> Option<BlockKey> {
        let mut held: HashMap<ClientAddress, usize> = HashMap::new();
        for upload in self.blocks.values() {
            *held.entry(upload.owner).or_default() += ENTRY_LEN + upload.data.len();
        }
        let (owner, _) = held.into_iter().max_by_key(|(owner, bytes)| (*bytes, *owner))?;
        let own = self.blocks.iter().filter(|(_, upload)| upload.owner == owner);
        own.min_by_key(|(_, upload)| upload.number)
            .map(|(key, _)| key.clone())
    }

    fn remove(&mut self, key: &BlockKey) {
        if let Some(upload) = self.blocks.remove(key) {
            self.bytes -= ENTRY_LEN + upload.data.len();
        }
        if self.last.get(&key.line) == Some(&key.hash) {
            self.last.remove(&key.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn key(number: u64, hash: &str) -> BlockKey {
        BlockKey::new(b"sender", b"chain", number, hash.as_bytes()).expect("a key")
    }

    fn owner(last: u8) -> ClientAddress {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn data(len: usize) -> Bytes {
        Bytes::from(vec![7; len])
    }

    fn take(uploads: &Uploads, key: BlockKey, now: Instant) -> Option<Bytes> {
        uploads.take(key, now, |_| Ok::<_, ()>(())).expect("room")
    }

    fn uploads(count_max: usize, bytes_max: usize) -> Uploads {
        Uploads::new(&ServiceLimits {
            uploads_max: count_max,
            upload_bytes_max: bytes_max,
            ..ServiceLimits::default()
        })
    }

    #[test]
    fn a_block_is_handed_out_as_often_as_it_was_uploaded() {
        let (uploads, now) = (uploads(10, 1 << 20), Instant::now());
        uploads.put(key(1, "a"), &data(3), owner(1), now).expect("kept");
        uploads.put(key(1, "a"), &data(3), owner(1), now).expect("kept");
        uploads.put(key(1, "b"), &data(4), owner(1), now).expect("kept");
        let taken = |hash: &str| take(&uploads, key(1, hash), now).map(|data| data.len());
        assert_eq!(taken(""), Some(4), "the last one");
        assert_eq!(taken(""), None, "its hash is gone with it");
        assert_eq!(taken("a"), Some(3));
        assert_eq!(taken("a"), Some(3));
        assert_eq!(taken("a"), None);
        assert_eq!(take(&uploads, key(2, "a"), now), None);
        assert_eq!(uploads.state.lock().bytes, 0);
    }

    #[test]
    fn old_blocks_go() {
        let (uploads, now) = (uploads(10, 1 << 20), Instant::now());
        uploads.put(key(1, "a"), &data(3), owner(1), now).expect("kept");
        let later = now + uploads.age_max + Duration::from_secs(1);
        assert_eq!(take(&uploads, key(1, "a"), later), None);
        assert!(uploads.state.lock().last.is_empty());
    }

    #[test]
    fn the_address_with_the_most_makes_room() {
        let (uploads, now) = (uploads(100, 10_000), Instant::now());
        uploads
            .put(key(0, "x"), &data(1000), owner(2), now)
            .expect("kept");
        for number in 1..40 {
            uploads
                .put(key(number, "a"), &data(1000), owner(1), now)
                .expect("kept");
            assert!(uploads.state.lock().bytes <= 10_000);
        }
        assert_eq!(take(&uploads, key(1, "a"), now), None);
        assert!(take(&uploads, key(39, "a"), now).is_some());
        assert!(
            take(&uploads, key(0, "x"), now).is_some(),
            "it is of another address"
        );
        assert!(uploads.put(key(0, "x"), &data(10_000), owner(2), now).is_err());
        let few = self::uploads(2, 10_000);
        for number in 0..5 {
            few.put(key(number, "a"), &data(1), owner(1), now).expect("kept");
        }
        assert_eq!(few.state.lock().blocks.len(), 2);
        assert_eq!(few.state.lock().last.len(), 2);
    }
}
