//! The `chain3` module (docs/interface.md, 4.3): the client's version, Keccak-256.

use alloy_primitives::{B256, keccak256};

use crate::error::RpcResult;
use crate::facts::NodeFacts;
use crate::json::JsonOf;
use crate::table::Method;
use crate::types::Data;

/// The rows of this module.
pub fn methods<C: NodeFacts + 'static>() -> Vec<Method<C>> {
    vec![
        Method::inline("chain3_clientVersion", [], client_version)
            .summary("Returns name, version, platform and toolchain of this node, separated by slashes."),
        Method::sized("chain3_sha3", ["data"], sha3).summary("Returns Keccak-256 of the data."),
    ]
}

/// `chain3_clientVersion`.
fn client_version<C: NodeFacts>(facts: &C) -> RpcResult<JsonOf<str>> {
    JsonOf::write(facts.client_version())
}

/// `chain3_sha3`: Keccak-256 of the data. It differs from the standardized SHA3-256.
fn sha3<C>(_: &C, (bytes,): (Data,)) -> RpcResult<Data<B256>> {
    Ok(Data(keccak256(bytes.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keccak_of_text() {
        let hash = sha3(&(), (Data(b"hello world".to_vec()),)).unwrap();
        let expected = "\"0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad\"";
        assert_eq!(serde_json::to_string(&hash).unwrap(), expected);
    }
}
