//! Ids of filters and subscriptions.

use alloy_primitives::U256;

use crate::decode::FromParam;
use crate::error::{RpcResult, failure};
use crate::types::{ParamError, Quantity};
use crate::wire_type::WireType;

/// A random id. Nobody can guess it, so no client can use the filter of another.
pub(crate) fn random_id() -> RpcResult<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failure)?;
    Ok(u128::from_be_bytes(bytes))
}

/// The id that a client names. `None` is a QUANTITY that is too large for an id, so that no filter
/// and no subscription has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedId(pub(crate) Option<u128>);

impl FromParam for NamedId {
    const TYPE: WireType = <Quantity as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        match Quantity::<U256>::from_json(json) {
            Ok(Quantity(id)) => Ok(Self(u128::try_from(id).ok())),
            Err(ParamError::TooLarge { .. }) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_have_any_length() {
        let check = |digits: String, expected| {
            assert_eq!(
                NamedId::from_json(&format!("\"0x{digits}\"")),
                expected,
                "{digits}"
            );
        };
        check("0".to_owned(), Ok(NamedId(Some(0))));
        check("1f".to_owned(), Ok(NamedId(Some(31))));
        check("f".repeat(32), Ok(NamedId(Some(u128::MAX))));
        for len in [33, 40, 64, 65, 66, 1000] {
            check("f".repeat(len), Ok(NamedId(None)));
            check(format!("{}g", "f".repeat(len)), Err(ParamError::Digit('g')));
            check("0".repeat(len), Err(ParamError::LeadingZero));
        }
        check(String::new(), Err(ParamError::NoDigits));
    }
}
