//! Power failures: a disk that goes off and keeps only a part of its unsynced writes. Failed syncs:
//! what they should have written is lost, although reads still show it.

use crate::disk::{Disk, FILES, UnsyncedChange};

/// Bytes that the drive writes completely or not at all. Real drives have larger sectors, which
/// tear less.
const SECTOR: usize = 16;

impl Disk {
    /// Turns the machine off at operation number `at`.
    pub(crate) fn off_at(&self, at: u64) {
        self.state().off_at = Some(at);
    }

    /// Lets operation number `at` fail if it is a sync. Some of what it should have written never
    /// reaches the disk unless it is written again, although reads still show it and later syncs
    /// succeed. Systems do this after a failed `fsync`.
    pub(crate) fn lose_sync(&self, at: u64) {
        self.state().lost_sync_at = Some(at);
    }

    /// The bytes on the disk after a power failure: everything that was synced, and of the
    /// unsynced changes those sectors and lengths for which `survives` returns true.
    pub(crate) fn after_power_loss(&self, mut survives: impl FnMut() -> bool) -> [Vec<u8>; FILES] {
        let state = self.state();
        state.files.each_ref().map(|file| {
            let mut bytes = file.safe.clone();
            for change in &file.unsynced {
                keep_sectors(&mut bytes, change, &mut survives);
            }
            bytes
        })
    }
}

/// Makes those sectors and lengths of a change survive for which `survives` returns true.
fn keep_sectors(bytes: &mut Vec<u8>, change: &UnsyncedChange, survives: &mut impl FnMut() -> bool) {
    match change {
        UnsyncedChange::Length(len) => {
            if survives() {
                bytes.resize(*len, 0);
            }
        }
        UnsyncedChange::Data(offset, data) => {
            let mut at = *offset;
            while at < offset + data.len() {
                let end = ((at / SECTOR + 1) * SECTOR).min(offset + data.len());
                if survives() && end <= bytes.len() {
                    bytes[at..end].copy_from_slice(&data[at - offset..end - offset]);
                }
                at = end;
            }
        }
    }
}
