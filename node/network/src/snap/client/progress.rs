//! The progress of a download as bytes, for one row of the store.

use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{B256, DecodeError};

use super::load::{AccountPart, LargeStorage, Load, StorageChunk};
use super::sink::SnapFigures;
use super::{SnapPhase, SnapProgressError};
use crate::messages::codec::raw_list;
use crate::raw_rlp::RawRlp;

/// The form of the bytes.
const VERSION: u64 = 1;

fn encode_range(next: &B256, last: &B256) -> Vec<u8> {
    encode_fields_to_vec(&[next, last])
}

pub(super) fn encode(phase: SnapPhase, load: &Load, figures: &SnapFigures) -> Vec<u8> {
    let parts: Vec<_> = load
        .parts
        .iter()
        .map(|part| encode_range(&part.next, &part.last))
        .collect();
    let large: Vec<_> = load
        .large
        .iter()
        .map(|(account, large)| {
            let chunks: Vec<_> = large
                .chunks
                .iter()
                .map(|chunk| encode_range(&chunk.next, &chunk.last))
                .collect();
            encode_fields_to_vec(&[account, &RawRlp(&raw_list(&chunks))])
        })
        .collect();
    let SnapFigures {
        accounts,
        slots,
        codes,
        bytes,
        healed,
        slot_bytes,
        code_bytes,
        healed_bytes,
    } = figures;
    encode_fields_to_vec(&[
        &VERSION,
        &phase.code(),
        &RawRlp(&raw_list(&parts)),
        &RawRlp(&raw_list(&large)),
        &RawRlp(&encode_fields_to_vec(&[
            accounts,
            slots,
            codes,
            bytes,
            healed,
            slot_bytes,
            code_bytes,
            healed_bytes,
        ])),
    ])
}

pub(super) fn decode(bytes: &[u8]) -> Result<(SnapPhase, Load, SnapFigures), SnapProgressError> {
    let mut fields = RlpReader::open(bytes, "progress")?;
    let version = fields.u64("version")?;
    if version != VERSION {
        return Err(SnapProgressError::Version { got: version });
    }
    let code = fields.u64("phase")?;
    let phase = SnapPhase::from_code(code).ok_or(SnapProgressError::SnapPhase { got: code })?;
    let mut load = Load::default();
    let mut parts = fields.list("parts")?;
    while !parts.is_empty() {
        let (next, last) = read_range(&mut parts)?;
        load.parts.push(AccountPart::new(next, last));
    }
    let mut large = fields.list("storages")?;
    while !large.is_empty() {
        let mut entry = large.list("storage")?;
        let account = entry.fixed("account")?;
        let mut chunks = Vec::new();
        let mut ranges = entry.list("chunks")?;
        while !ranges.is_empty() {
            let (next, last) = read_range(&mut ranges)?;
            chunks.push(StorageChunk {
                next,
                last,
                is_asked: false,
            });
        }
        load.large.insert(account, LargeStorage { root: None, chunks });
    }
    let mut stored = fields.list("figures")?;
    let mut figures = SnapFigures {
        accounts: stored.u64("accounts")?,
        slots: stored.u64("slots")?,
        codes: stored.u64("codes")?,
        bytes: stored.u64("bytes")?,
        healed: stored.u64("healed")?,
        ..SnapFigures::default()
    };
    // A download that an earlier version began counts no parts.
    if !stored.is_empty() {
        figures.slot_bytes = stored.u64("bytes of slots")?;
        figures.code_bytes = stored.u64("bytes of codes")?;
        figures.healed_bytes = stored.u64("bytes of healed nodes")?;
    }
    Ok((phase, load, figures))
}

fn read_range(reader: &mut RlpReader<'_>) -> Result<(B256, B256), DecodeError> {
    let mut range = reader.list("range")?;
    Ok((range.fixed("next")?, range.fixed("last")?))
}
