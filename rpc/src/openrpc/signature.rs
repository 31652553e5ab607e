//! A method's parameters and result in one line.
//!
//! `address: DATA20, at?: BLOCKREF -> QUANTITY|null`: parameters in their order, a question mark
//! after the name of an optional one, types by name. `T[]` is an array of T, `T{}` an object
//! whose members are all T, `|` stands between alternatives.

/// What a method takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The parameters in their order.
    pub params: Vec<Param<'a>>,
    /// The result's type.
    pub result: &'a str,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it must be given.
    pub is_required: bool,
    /// Its type.
    pub kind: &'a str,
}

impl<'a> Signature<'a> {
    /// Reads the notation; `None` where the text is none.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (params, result) = text.split_once("->")?;
        let params = params.split(',').map(str::trim).filter(|param| !param.is_empty());
        Some(Self {
            params: params.map(Param::parse).collect::<Option<_>>()?,
            result: result.trim(),
        })
    }
}

impl<'a> Param<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (name, kind) = text.split_once(':')?;
        let name = name.trim();
        Some(Self {
            name: name.trim_end_matches('?'),
            is_required: !name.ends_with('?'),
            kind: kind.trim(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let address = Param {
            name: "address",
            is_required: true,
            kind: "DATA20",
        };
        let at = Param {
            name: "at",
            is_required: false,
            kind: "BLOCKREF",
        };
        let check = |text, params: &[Param<'_>], result| {
            let want = Signature {
                params: params.to_vec(),
                result,
            };
            assert_eq!(Signature::parse(text), Some(want), "{text}");
        };
        check("-> Boolean", &[], "Boolean");
        check("address: DATA20 -> QUANTITY|null", &[address], "QUANTITY|null");
        check("address: DATA20, at?: BLOCKREF -> DATA", &[address, at], "DATA");
        assert_eq!(Signature::parse(""), None);
        assert_eq!(Signature::parse("address -> DATA"), None);
    }
}
