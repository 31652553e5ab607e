//! The parameters and the result of a method, read off the types of its function.

use crate::params::ParamType;
use crate::wire_type::WireType;

/// The parameters and the result of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSignature {
    /// The parameters in their order.
    pub params: Vec<MethodParam>,
    pub result: WireType,
}

/// A parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodParam {
    /// The parameter's name. Callers do not send it: parameters have positions.
    pub name: &'static str,
    /// Whether a value must be given.
    pub is_required: bool,
    /// The parameter's type.
    pub wire_type: WireType,
}

impl MethodSignature {
    /// Joins the names and the types of the parameters.
    ///
    /// An optional parameter before a required one is required too, because it has a position:
    /// a caller cannot leave it out.
    pub(super) fn new(names: &[&'static str], types: &[ParamType], result: WireType) -> Self {
        let last_required = types.iter().rposition(|param| !param.is_optional);
        let params = names.iter().zip(types).enumerate();
        let params = params.map(|(index, (name, param))| MethodParam {
            name,
            is_required: last_required.is_some_and(|last| index <= last),
            wire_type: param.wire_type,
        });
        Self {
            params: params.collect(),
            result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::FromParams;
    use crate::types::BlockRef;

    #[track_caller]
    fn check<P: FromParams, const N: usize>(names: [&'static str; N], expected: &[(&str, bool, &str)]) {
        let signature = MethodSignature::new(&names, &P::types(), WireType::Null);
        let params = signature.params.iter();
        let got: Vec<_> = params
            .map(|param| (param.name, param.is_required, param.wire_type.to_string()))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, is_required, wire_type)| (*name, *is_required, (*wire_type).to_owned()))
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn parameters_before_a_required_one_are_required() {
        check::<(), 0>([], &[]);
        check::<(bool, BlockRef), 2>(
            ["full", "block"],
            &[("full", true, "Boolean"), ("block", false, "BLOCKREF")],
        );
        check::<(BlockRef, bool, Option<bool>), 3>(
            ["block", "full", "more"],
            &[
                ("block", true, "BLOCKREF"),
                ("full", true, "Boolean"),
                ("more", false, "Boolean"),
            ],
        );
    }
}
