//! The `chain3` module (interface 4.3): the client's version, Keccak-256.

use alloy_primitives::{B256, keccak256};

use crate::error::RpcResult;
use crate::facts::NodeFacts;
use crate::table::{Method, reply};
use crate::types::Data;

/// The rows of this module.
pub fn methods<C: NodeFacts>() -> Vec<Method<C>> {
    vec![
        Method::inline("chain3_clientVersion", |node: &C, params| {
            reply(params.parse().map(|()| node.client_version()))
        })
        .says("-> String", "Name, version, platform and toolchain of this node."),
        Method::sized("chain3_sha3", |_, params| reply(params.parse().and_then(sha3)))
            .says("data: DATA -> DATA32", "Keccak-256 of the data."),
    ]
}

/// `chain3_sha3`: Keccak-256 of the data, which is not the standardized SHA3-256.
fn sha3((bytes,): (Data,)) -> RpcResult<Data<B256>> {
    Ok(Data(keccak256(bytes.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keccak_of_text() {
        let hash = sha3((Data(b"hello world".to_vec()),)).unwrap();
        let expected = "\"0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad\"";
        assert_eq!(serde_json::to_string(&hash).unwrap(), expected);
    }
}
