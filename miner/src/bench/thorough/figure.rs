//! The result of one measurement, as the fields of its record, or why there is none.

use engine::gpu::GpuError;
use serde_json::Value;

/// The fields of a record, with `value` and `unit`, or the reason why there are none.
pub(super) type FigureResult = Result<Value, FigureError>;

/// The reasons why a figure was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FigureError {
    /// The time is over, or the user has stopped the program. The figure is not recorded.
    #[error("stopped")]
    Stopped,
    /// The device has failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A result differs from the CPU's.
    #[error("wrong: {0}")]
    Wrong(String),
    /// No earlier figure says which kernel is the best.
    #[error("no kernel has a rate yet")]
    NothingToCompare,
    /// The figure cannot be taken on this machine.
    #[error("not here: {0}")]
    NotHere(String),
    /// Another failure.
    #[error("{0}")]
    Other(String),
}

impl FigureError {
    /// Any other failure.
    pub(super) fn other(error: impl std::fmt::Display) -> Self {
        Self::Other(error.to_string())
    }

    /// Whether the result would be the same if it was tried again.
    pub(super) const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NotHere(_) | Self::Gpu(GpuError::AdapterTooSmall { .. })
        )
    }

    /// Whether the device has computed a wrong result.
    pub(super) const fn is_wrong(&self) -> bool {
        match self {
            Self::Wrong(_) => true,
            Self::Gpu(error) => error.is_wrong_data(),
            _ => false,
        }
    }
}

/// Returns the fields of both objects. A field of `more` replaces one of `fields`.
pub(super) fn merged(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}
