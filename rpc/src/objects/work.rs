//! Work as miners get it: as an answer, by the subscription `newWork`, and by notices over HTTP.

use ethash::WorkPackage;
use primitives::{B256, Header};
use serde::Serialize;
use serde_json::Value;

use super::BlockObject;
use crate::modules::NameStyle;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A value of the array that describes work.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum WorkValue {
    Hash(Data<B256>),
    Number(Quantity),
}

/// The description is that of `mc_getWork`, which has no number.
impl Described for WorkValue {
    const TYPE: WireType = <Data<B256> as Described>::TYPE;
}

/// Work as an array: header hash, seed hash and boundary. Under the Ethereum name, and where work
/// is pushed, the number of the block follows, as with geth.
pub(crate) fn work_values(work: &WorkPackage, name_style: NameStyle) -> Vec<WorkValue> {
    let hashes = [work.header_hash, work.seed_hash, work.boundary].map(|hash| WorkValue::Hash(Data(hash)));
    let number = work.number.filter(|_| name_style == NameStyle::Ethereum);
    let number = number.map(|number| WorkValue::Number(Quantity(number)));
    hashes.into_iter().chain(number).collect()
}

/// The JSON of a notice of work: an array of header hash, seed hash, boundary and number.
pub fn work_notice(work: &WorkPackage) -> Value {
    serde_json::json!(work_values(work, NameStyle::Ethereum))
}

/// The JSON of a notice of the header that is to be sealed, whose nonce and mix hash are zero.
pub fn header_notice(header: &Header) -> Value {
    serde_json::json!(BlockObject::new_head(header, header.hash()))
}
