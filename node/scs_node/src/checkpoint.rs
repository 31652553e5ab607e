//! A block of the base chain that the operator believes.

use primitives::B256;

/// A block of the base chain that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseCheckpoint {
    /// The number.
    pub number: u64,
    /// The hash.
    pub hash: B256,
}

/// The checks by which headers are reached from the block that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderOrigin {
    /// The block; `None` for the first header that a VNODE showed.
    pub(crate) checkpoint: Option<BaseCheckpoint>,
    /// Whether seals are checked.
    pub(crate) seals: bool,
    /// The network id of the rules.
    pub(crate) network: u64,
}

/// The text is no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {0:?}, expected NUMBER=HASH of a block, as in 1000=0x…")]
pub struct BadCheckpoint(String);

impl std::str::FromStr for BaseCheckpoint {
    type Err = BadCheckpoint;

    fn from_str(text: &str) -> Result<Self, BadCheckpoint> {
        let parsed = text.split_once('=').and_then(|(number, hash)| {
            Some(Self {
                number: number.parse().ok()?,
                hash: hash.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| BadCheckpoint(text.to_owned()))
    }
}

impl std::fmt::Display for BaseCheckpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.number, self.hash)
    }
}
