//! The name and the first bytes of a dataset file.

use ethash::B256;

/// The first eight bytes of a dataset file: 0xfee1deadbaddcafe, little-endian.
pub(super) const MAGIC: [u8; 8] = 0xfee1_dead_badd_cafe_u64.to_le_bytes();
/// The revision of Ethash in the name of the file.
const REVISION: u32 = 23;

/// Returns the name of the dataset file of `seed_hash`.
pub fn file_name(seed_hash: &B256) -> String {
    let digits: String = seed_hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("full-R{REVISION}-{digits}")
}
