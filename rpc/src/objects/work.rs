//! Work as it is pushed to miners: by the subscription `newWork`, and by notices over HTTP.

use ethash::WorkPackage;
use primitives::{B256, Header};
use serde::Serialize;
use serde_json::Value;

use super::BlockObject;
use crate::types::{Data, Quantity};

/// Header hash, seed hash, boundary, and the number of the block, as geth pushes work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkNotice(Data<B256>, Data<B256>, Data<B256>, Option<Quantity>);

impl From<&WorkPackage> for WorkNotice {
    fn from(work: &WorkPackage) -> Self {
        Self(
            Data(work.header_hash),
            Data(work.seed_hash),
            Data(work.boundary),
            work.number.map(Quantity),
        )
    }
}

/// The JSON of a notice of work: an array of header hash, seed hash, boundary and number.
pub fn work_notice(work: &WorkPackage) -> Value {
    serde_json::json!(WorkNotice::from(work))
}

/// The JSON of a notice of the header that is to be sealed, whose nonce and mix hash are zero.
pub fn header_notice(header: &Header) -> Value {
    serde_json::json!(BlockObject::new_head(header, header.hash()))
}
