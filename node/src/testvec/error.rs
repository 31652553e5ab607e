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
