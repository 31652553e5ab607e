//! The errors of test vectors.

use std::fmt::Display;

/// A test vector without a result.
#[derive(Debug, thiserror::Error)]
pub enum TestVectorError {
    /// A request is not JSON.
    #[error("the request is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A member is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A value is not what is expected.
    #[error("got {got}, expected {expected}")]
    Value {
        /// The value.
        got: String,
        /// The values that are allowed.
        expected: String,
    },
    /// A member has an error.
    #[error("{member}: {error}")]
    Member {
        /// The name of the member.
        member: String,
        /// Its error.
        error: Box<Self>,
    },
    /// A member of an object has an error.
    #[error("{object}.{error}")]
    Object {
        /// The name of the object.
        object: String,
        /// The error, which begins with the name of the member.
        error: Box<Self>,
    },
    /// The production code refuses the vector.
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
}

impl TestVectorError {
    /// A value that is not what is expected.
    pub(super) fn value(got: impl Display, expected: impl Into<String>) -> Self {
        Self::Value {
            got: got.to_string(),
            expected: expected.into(),
        }
    }

    /// The error in the member `name`.
    pub(super) fn in_member(self, name: impl Into<String>) -> Self {
        Self::Member {
            member: name.into(),
            error: Box::new(self),
        }
    }

    /// The error in a member of the object `name`.
    pub(super) fn in_object(self, name: impl Into<String>) -> Self {
        Self::Object {
            object: name.into(),
            error: Box::new(self),
        }
    }

    /// The error of the production code.
    pub(super) fn refused(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Refused(error.into())
    }
}

/// The end of a command that has the command line of geth's `evm`.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The rules are unknown, or the environment lacks something.
    #[error(transparent)]
    Configuration(TestVectorError),
    /// The executor failed.
    #[error(transparent)]
    Execution(TestVectorError),
    /// A text is not JSON, or does not have the expected form.
    #[error("{place}: {error}")]
    Json {
        /// The file, or stdin.
        place: String,
        /// The error.
        error: TestVectorError,
    },
    /// Bytes are not RLP.
    #[error("{place}: {error}")]
    Rlp {
        /// The file, or stdin.
        place: String,
        /// The error.
        error: TestVectorError,
    },
    /// A file cannot be read or written.
    #[error("{place}: {error}")]
    File {
        /// The file.
        place: String,
        /// The error.
        error: std::io::Error,
    },
    /// Standard input or output fails.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
}

impl ToolError {
    /// The exit code, which is geth's.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Execution(_) => 2,
            Self::Configuration(_) => 3,
            Self::Json { .. } => 10,
            Self::File { .. } => 11,
            Self::Rlp { .. } => 12,
            Self::Stream(_) => 1,
        }
    }
}
