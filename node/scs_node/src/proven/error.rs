//! The reasons why a VNODE is not believed.

use chain::genesis::GenesisError;
use chain::rules::seal::SealCheckError;
use chain::witness::WitnessError;
use primitives::{Address, B256, DecodeError};
use scs_service::client::{ScsClientError, UNKNOWN_CALL};

use super::headers::BaseHeaderError;
use crate::folders::FolderError;

/// The reason why a source does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseReadError {
    /// The VNODE does not answer.
    #[error(transparent)]
    Client(#[from] ScsClientError),
    /// The VNODE's answer is not proven.
    #[error("the VNODE is not believed: {0}")]
    Refused(Box<ProofRefusal>),
    /// The answer cannot be checked now, for a reason that is no lie.
    #[error("the base chain cannot be checked now: {0}")]
    Unchecked(Box<ProofRefusal>),
}

impl From<ProofRefusal> for BaseReadError {
    fn from(refusal: ProofRefusal) -> Self {
        if refusal.is_innocent() {
            Self::Unchecked(Box::new(refusal))
        } else {
            Self::Refused(Box::new(refusal))
        }
    }
}

impl From<BaseHeaderError> for BaseReadError {
    fn from(refusal: BaseHeaderError) -> Self {
        ProofRefusal::from(refusal).into()
    }
}

/// The reason why an answer of the VNODE is refused.
#[derive(Debug, thiserror::Error)]
pub enum ProofRefusal {
    /// A header is wrong.
    #[error(transparent)]
    Header(#[from] BaseHeaderError),
    /// The VNODE proves nothing.
    #[error(
        "the VNODE cannot prove what it tells, like published ones: use a VNODE of this project, or --verify-base off"
    )]
    NotOffered,
    /// The VNODE has shown a header whose state it does not prove.
    #[error("proof of the state after block {number}, {hash}: got none, expected one")]
    NoProof {
        /// The number of the block.
        number: u64,
        /// The hash of the block.
        hash: B256,
    },
    /// The proof is malformed.
    #[error("proof: {0}")]
    Form(#[from] DecodeError),
    /// The proof does not prove.
    #[error("proof of the state after block {number}: {error}")]
    Proof {
        /// The number of the block.
        number: u64,
        /// The fault.
        error: WitnessError,
    },
    /// The proof is about other accounts or slots.
    #[error("proof of {contract}: got one without {what}")]
    Incomplete {
        /// The contract.
        contract: Address,
        /// The value that is missing.
        what: String,
    },
    /// The code has another hash.
    #[error("code of {contract}: got the hash {got}, expected {expected}")]
    Code {
        /// The contract.
        contract: Address,
        /// The hash of the VNODE's code.
        got: B256,
        /// The proven hash.
        expected: B256,
    },
    /// The VNODE's newest block is below the checked head.
    #[error("head of the VNODE: got block {got}, expected block {expected}, which was shown before")]
    Behind {
        /// The number of the VNODE's head.
        got: u64,
        /// The number of the checked head.
        expected: u64,
    },
    /// The call reads too many contracts.
    #[error("proof of a call: got the code of {got} contracts, expected at most {most}")]
    Codes {
        /// The number of the contracts.
        got: usize,
        /// The most that are fetched.
        most: usize,
    },
    /// The first header cannot be kept in the data directory.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The check has ended by a panic.
    #[error("the check has ended by a panic")]
    Panic,
}

impl ProofRefusal {
    /// Whether the reason is this machine, or a VNODE that is late, and no lie.
    const fn is_innocent(&self) -> bool {
        match self {
            Self::Behind { .. } | Self::Folder(_) | Self::Panic => true,
            Self::Header(BaseHeaderError::Seal { error, .. }) => matches!(error, SealCheckError::Cache(_)),
            Self::Proof { error, .. } => {
                matches!(error, WitnessError::Call(_) | WitnessError::Ancestor { .. })
            }
            _ => false,
        }
    }
}

/// The reason why the base chain cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum BaseCheckError {
    /// The header in the data directory cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The chain on which calls run again cannot be made.
    #[error(transparent)]
    Replay(#[from] GenesisError),
}

/// The error of a call that only VNODEs of this project know.
pub(super) fn not_offered(error: ScsClientError) -> BaseReadError {
    match error {
        ScsClientError::Status(status) if status.code() == UNKNOWN_CALL => ProofRefusal::NotOffered.into(),
        other => other.into(),
    }
}
