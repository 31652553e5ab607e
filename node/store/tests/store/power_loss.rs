//! Power failures: a disk that goes off and keeps only a part of its unsynced writes.

use crate::disk::{Disk, UnsyncedChange};

/// Bytes that a drive writes completely or not at all.
const SECTOR: usize = 512;

impl Disk {
    /// Turns the machine off at operation number `at`.
    pub(crate) fn off_at(&self, at: u64) {
        self.state().off_at = Some(at);
    }

    /// The bytes on the disk after a power failure: everything that was synced, and of the
    /// unsynced changes those sectors and lengths for which `survives` returns true.
    pub(crate) fn after_power_loss(&self, mut survives: impl FnMut() -> bool) -> Vec<u8> {
        let state = self.state();
        let mut bytes = state.safe.clone();
        for change in &state.unsynced {
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
        bytes
    }
}
