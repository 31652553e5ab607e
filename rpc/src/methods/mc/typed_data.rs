//! Signatures of typed data (EIP-712).
//!
//! What is hashed, and how, is the work of `alloy-dyn-abi`.

use alloy_dyn_abi::TypedData;
use primitives::{Address, B256};

use super::accounts::account_error;
use crate::decode::{FromParam, string};
use crate::error::RpcResult;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Data, ParamError};
use crate::wire_type::WireType;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("mc_signTypedData", ["address", "typedData"], sign).summary(
            "Signs typed data (EIP-712) for an unlocked account. Returns r, s and V, which is 27 or 28.",
        ),
        Method::blocking("mc_signTypedData_v4", ["address", "typedData"], sign).summary(
            "Signs typed data (EIP-712) for an unlocked account. Returns r, s and V, which is 27 or 28.",
        ),
    ]
}

/// The digest of typed data, which are an object, or the text of such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypedDataDigest(B256);

impl FromParam for TypedDataDigest {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("TypedData"), WireType::Named("String")]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let rule = |reason: &dyn std::fmt::Display| ParamError::Rule(reason.to_string());
        let text = match json.starts_with('"') {
            true => string(json, "typed data")?,
            false => json.into(),
        };
        let data: TypedData = serde_json::from_str(&text).map_err(|error| rule(&error))?;
        if !data.resolver.contains_type_name(&data.primary_type) {
            return Err(ParamError::Rule(format!(
                "primaryType: got {:?}, expected one of the types",
                data.primary_type
            )));
        }
        let digest = data.eip712_signing_hash().map_err(|error| rule(&error))?;
        Ok(Self(digest))
    }
}

/// `mc_signTypedData` and `mc_signTypedData_v4`.
fn sign(
    node: &Node,
    (address, TypedDataDigest(digest)): (Address, TypedDataDigest),
) -> RpcResult<Data<[u8; 65]>> {
    let signature = node
        .accounts
        .with_key(&address, |key| Data(key.sign(&digest).to_rsv()));
    signature.map_err(account_error)
}

#[cfg(test)]
mod tests {
    use primitives::hex;
    use proptest::prelude::*;

    use super::*;

    /// The example of EIP-712.
    const MAIL: &str = r#"{
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"}, {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"}, {"name": "verifyingContract", "type": "address"}
            ],
            "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
            "Mail": [
                {"name": "from", "type": "Person"}, {"name": "to", "type": "Person"},
                {"name": "contents", "type": "string"}
            ]
        },
        "primaryType": "Mail",
        "domain": {
            "name": "Ether Mail", "version": "1", "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"
        },
        "message": {
            "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
            "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
            "contents": "Hello, Bob!"
        }
    }"#;
    const MAIL_DIGEST: &str = "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2";

    #[test]
    fn the_example_of_the_standard() {
        let expected = Ok(TypedDataDigest(B256::from_slice(
            &hex::decode(MAIL_DIGEST).expect("hex"),
        )));
        assert_eq!(TypedDataDigest::from_json(MAIL), expected);
        let text = serde_json::to_string(MAIL).expect("JSON");
        assert_eq!(TypedDataDigest::from_json(&text), expected, "as text");
    }

    #[test]
    fn refused_data() {
        let changed = |from: &str, to: &str| {
            let json = MAIL.replacen(from, to, 1);
            assert_ne!(json, MAIL, "{from}");
            TypedDataDigest::from_json(&json).expect_err(to).to_string()
        };
        let got = changed(r#""primaryType": "Mail""#, r#""primaryType": "Letter""#);
        assert_eq!(got, r#"primaryType: got "Letter", expected one of the types"#);
        changed(r#""type": "Person""#, r#""type": "Human""#);
        changed("0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826", "0xCD");
        changed(r#""contents": "Hello, Bob!""#, r#""contents": ["Hello"]"#);
        // A type that contains itself has no end.
        changed(
            r#"{"name": "name", "type": "string"}, {"name": "wallet""#,
            r#"{"name": "next", "type": "Person"}, {"name": "wallet""#,
        );
        for json in ["{}", "7", "[]", "\"\"", "\"{\"", "\"\\ud800\""] {
            assert!(TypedDataDigest::from_json(json).is_err(), "{json}");
        }
    }

    proptest! {
        /// Whatever is in place of a part of the data, it is read or refused.
        #[test]
        fn damaged_data_are_refused_or_read(start in 0_usize..1000, len in 0_usize..40, with in "[\\[\\]{}\":,a-z0-9 ]{0,8}") {
            let start = start.min(MAIL.len());
            let end = (start + len).min(MAIL.len());
            let json = format!("{}{with}{}", &MAIL[..start], &MAIL[end..]);
            if let Ok(raw) = serde_json::from_str::<&serde_json::value::RawValue>(&json) {
                let _ = TypedDataDigest::from_json(raw.get());
            }
        }
    }
}
