//! Reads the work that a node gives.

use ethash::{B256, Schedule, WorkPackage};
use serde_json::Value;

use crate::client::error::ClientError;

/// Reads the result of getWork: header hash, seed hash, boundary and, from some nodes, the block
/// number.
///
/// # Errors
/// [`ClientError::Answer`] with the first value that is wrong.
pub(super) fn read_work(work: &Value, schedule: Schedule) -> Result<WorkPackage, ClientError> {
    let hash = |index: usize, what: &'static str| {
        let value = &work[index];
        let text = value.as_str().filter(|text| text.len() == 66);
        let hash = text.and_then(|text| text.parse::<B256>().ok());
        hash.ok_or_else(|| ClientError::answer(what, value, "0x and 64 hexadecimal digits"))
    };
    if !work.is_array() {
        return Err(ClientError::answer(
            "work",
            work,
            "a list of three or four values",
        ));
    }
    let seed_hash = hash(1, "seed hash")?;
    let epoch = schedule
        .find_epoch(&seed_hash)
        .ok_or_else(|| ClientError::answer("seed hash", &seed_hash, "the seed hash of an epoch"))?;
    let boundary = hash(2, "boundary")?;
    if boundary.is_zero() {
        return Err(ClientError::answer("boundary", &boundary, "a value above zero"));
    }
    let number = work[3].as_str().and_then(|text| text.strip_prefix("0x"));
    let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    Ok(WorkPackage {
        header_hash: hash(0, "header hash")?,
        seed_hash,
        boundary,
        // A number that contradicts the seed hash is dropped: it would make the miner prepare the
        // wrong cache.
        number: number.filter(|number| schedule.epoch(*number) == epoch),
        epoch,
    })
}

#[cfg(test)]
mod tests {
    use ethash::Epoch;
    use serde_json::json;

    use super::*;

    #[test]
    fn work_has_three_parts_or_four() {
        let [header, boundary] = [1, 2].map(|byte| B256::repeat_byte(byte).to_string());
        let seed = Epoch::ethash(2).seed_hash().to_string();
        let read = |work: Value| read_work(&work, Schedule::Ethash);
        let three = read(json!([header, seed, boundary])).expect("three parts");
        assert_eq!((three.epoch, three.number), (Epoch::ethash(2), None));
        let four = read(json!([header, seed, boundary, "0xea61"])).expect("four parts");
        assert_eq!(four.number, Some(60_001));
        let contradiction = read(json!([header, seed, boundary, "0x1"])).expect("four parts");
        assert_eq!(contradiction.number, None);
        for bad in [
            json!(null),
            json!([]),
            json!([header, seed]),
            json!([header, header, boundary]),
            json!([header, seed, "0x12"]),
            json!([header, seed, 5]),
            json!([header, seed, B256::ZERO.to_string()]),
            json!({"0": header}),
        ] {
            assert!(
                matches!(read(bad.clone()), Err(ClientError::Answer { .. })),
                "{bad}"
            );
        }
    }
}
