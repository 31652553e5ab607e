//! The names of Era1 files: `NETWORK-NNNNN-RRRRRRRR.era1`.

use std::path::{Path, PathBuf};

use primitives::B256;

use super::{Era1Error, FILE_BLOCKS_MAX};

/// The end of the name of every Era1 file.
const EXTENSION: &str = "era1";

/// The name of an Era1 file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Era1Name {
    /// The network.
    pub network: String,
    /// The number of the file: that of its first block, divided by 8,192.
    pub number: u64,
    /// The first four bytes of the accumulator, in hex.
    pub root: String,
}

impl Era1Name {
    /// The name of the file that begins with block `first` and has this accumulator.
    pub fn new(network: &str, first: u64, accumulator: &B256) -> Self {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_' || one == '.';
        Self {
            network: network
                .chars()
                .map(|one| if is_plain(one) { one } else { '_' })
                .collect(),
            number: first / FILE_BLOCKS_MAX,
            root: primitives::hex::encode(&accumulator[..4]),
        }
    }

    /// The parts of the name of the file at `path`; `None` if it has another form.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".era1")?;
        let (rest, root) = name.rsplit_once('-')?;
        let (network, number) = rest.rsplit_once('-')?;
        let is_root = root.len() == 8 && root.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_root && is_number).then_some(())?;
        Some(Self {
            network: network.to_owned(),
            number: number.parse().ok()?,
            root: root.to_ascii_lowercase(),
        })
    }

    /// Checks that a file with this name may begin with block `first` and have this accumulator.
    pub(super) fn check(&self, first: u64, accumulator: &B256) -> Result<(), Era1Error> {
        let expected = Self::new(&self.network, first, accumulator);
        if (self.number, &self.root) == (expected.number, &expected.root) {
            return Ok(());
        }
        Err(Era1Error::Name {
            got: self.to_string(),
            expected: expected.to_string(),
        })
    }
}

impl std::fmt::Display for Era1Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            network,
            number,
            root,
        } = self;
        write!(f, "{network}-{number:05}-{root}.{EXTENSION}")
    }
}

/// The Era1 files in `folder`, in the order of their numbers. Those with names of another form come
/// last.
///
/// # Errors
/// The error of the system if the folder cannot be read.
pub fn era1_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) && path.is_file() {
            let number = Era1Name::of(&path).map_or(u64::MAX, |name| name.number);
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = Era1Name::new("my-net", 5 * FILE_BLOCKS_MAX + 7, &B256::repeat_byte(0xab));
        assert_eq!(name.to_string(), "my-net-00005-abababab.era1");
        assert_eq!(
            Era1Name::of(Path::new("x/my-net-00005-abababab.era1")),
            Some(name)
        );
        for other in [
            "my-net-00005-abababab.era",
            "00005-abababab.era1",
            "n-5-abababab.era1",
            "n-00005-ababab.era1",
            "blocks.era1",
        ] {
            assert_eq!(Era1Name::of(Path::new(other)), None, "{other}");
        }
        assert_eq!(Era1Name::new("a/b", 0, &B256::ZERO).network, "a_b");
    }
}
