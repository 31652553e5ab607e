//! Positional parameters: a JSON array becomes a tuple of decoded values.
//!
//! Parameters are read after the method was found, so that an unknown method and a bad parameter
//! are different errors. An absent trailing parameter reads as null. How a single value is read is
//! in [`crate::decode`].

use std::fmt;

use daemon::ClientId;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::{FromParam, json_type};
use crate::error::{RpcError, RpcResult};
use crate::modules::NameStyle;
use crate::types::ParamError;
use crate::wire_type::WireType;

/// Most parameters of a method.
const PARAMS_MAX: usize = 10;

/// The parameters of one call as JSON text, the style of the name it was called by, and who calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params<'a> {
    json: Option<&'a [u8]>,
    name_style: NameStyle,
    client: Option<ClientId>,
}

impl<'a> Params<'a> {
    /// Takes the JSON text of the request's `params`, or `None` if they are absent.
    pub const fn new(json: Option<&'a [u8]>, name_style: NameStyle) -> Self {
        Self {
            json,
            name_style,
            client: None,
        }
    }

    /// The same call, from `client`.
    pub(crate) const fn of_client(self, client: ClientId) -> Self {
        Self {
            client: Some(client),
            ..self
        }
    }

    /// The client that calls. A call that came over no connection is one of the local socket.
    pub(crate) fn client(&self) -> ClientId {
        self.client.unwrap_or(ClientId::Local(u64::MAX))
    }

    /// The JSON text.
    pub(crate) const fn json(&self) -> Option<&'a [u8]> {
        self.json
    }

    /// The style of the name that the method was called by.
    pub const fn name_style(&self) -> NameStyle {
        self.name_style
    }

    /// Reads the parameters as the tuple `T`, which is `()` for a method without parameters.
    ///
    /// # Errors
    /// −32602 for the first parameter that is missing or cannot be read, and for too many
    /// parameters.
    pub fn parse<T: FromParams>(self) -> RpcResult<T> {
        T::from_values(&self.values(T::COUNT)?)
    }

    /// The parameters, of which there are at most `max`.
    fn values(self, max: usize) -> RpcResult<ParamValues<'a>> {
        let values = match self.json {
            None => ParamValues::default(),
            Some(json) => ParamValues::read(json)?,
        };
        if values.count > max {
            return Err(RpcError::invalid_params(format!(
                "too many arguments, want at most {max}"
            )));
        }
        Ok(values)
    }
}

/// The elements of the parameter array, as JSON text.
#[derive(Default)]
pub struct ParamValues<'a> {
    slots: [Option<&'a RawValue>; PARAMS_MAX],
    count: usize,
}

impl<'a> ParamValues<'a> {
    fn read(json: &'a [u8]) -> RpcResult<Self> {
        match json.first() {
            Some(b'[') => {}
            Some(b'n') => return Ok(Self::default()),
            _ => {
                let got = std::str::from_utf8(json).map_or("invalid text", json_type);
                return Err(RpcError::invalid_params(format!(
                    "params: got {got}, expected an array"
                )));
            }
        }
        serde_json::from_slice(json).map_err(|error| RpcError::invalid_params(format!("params: {error}")))
    }

    fn get<T: FromParam>(&self, index: usize) -> RpcResult<T> {
        match self.slots[index].map(RawValue::get) {
            None | Some("null") => T::absent().ok_or_else(|| missing(index)),
            Some(json) => T::from_json(json).map_err(|reason| wrong(index, &reason)),
        }
    }
}

fn missing(index: usize) -> RpcError {
    RpcError::invalid_params(format!("missing value for required argument {index}"))
}

fn wrong(index: usize, reason: &ParamError) -> RpcError {
    RpcError::invalid_argument(index, reason)
}

impl<'de> Deserialize<'de> for ParamValues<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValuesVisitor;
        impl<'de> Visitor<'de> for ValuesVisitor {
            type Value = ParamValues<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut values = ParamValues::default();
                while values.count < PARAMS_MAX {
                    let Some(value) = array.next_element::<&RawValue>()? else {
                        return Ok(values);
                    };
                    values.slots[values.count] = Some(value);
                    values.count += 1;
                }
                while array.next_element::<IgnoredAny>()?.is_some() {
                    values.count += 1;
                }
                Ok(values)
            }
        }
        deserializer.deserialize_seq(ValuesVisitor)
    }
}

/// The facts about a parameter in its Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamType {
    /// The type on the wire.
    pub(crate) wire_type: WireType,
    /// Whether the parameter may be absent.
    pub(crate) is_optional: bool,
}

impl ParamType {
    /// The facts about the type `T`.
    pub fn of<T: FromParam>() -> Self {
        Self {
            wire_type: T::TYPE,
            is_optional: T::absent().is_some(),
        }
    }
}

/// A tuple of parameters.
pub trait FromParams: Sized {
    /// The most parameters that a caller can send.
    const COUNT: usize;

    /// The type of each parameter, in order.
    fn types() -> Vec<ParamType>;

    /// Reads each parameter in its position.
    ///
    /// # Errors
    /// −32602 for the first parameter that is missing or cannot be read.
    fn from_values(values: &ParamValues<'_>) -> RpcResult<Self>;
}

impl FromParams for () {
    const COUNT: usize = 0;

    fn types() -> Vec<ParamType> {
        Vec::new()
    }

    fn from_values(_: &ParamValues<'_>) -> RpcResult<Self> {
        Ok(())
    }
}

macro_rules! tuple_params {
    ($count:literal: $($name:ident $index:literal),+) => {
        impl<$($name: FromParam),+> FromParams for ($($name,)+) {
            const COUNT: usize = $count;

            fn types() -> Vec<ParamType> {
                vec![$(ParamType::of::<$name>()),+]
            }

            fn from_values(values: &ParamValues<'_>) -> RpcResult<Self> {
                Ok(($(values.get::<$name>($index)?,)+))
            }
        }
    };
}

tuple_params!(1: A 0);
tuple_params!(2: A 0, B 1);
tuple_params!(3: A 0, B 1, C 2);
tuple_params!(4: A 0, B 1, C 2, D 3);
tuple_params!(5: A 0, B 1, C 2, D 3, E 4);
tuple_params!(6: A 0, B 1, C 2, D 3, E 4, F 5);
tuple_params!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_params!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple_params!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple_params!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};

    use super::*;
    use crate::decode::ParamFields;
    use crate::types::{BlockRef, Count, Data, Integer, Quantity};

    #[track_caller]
    fn check<T: FromParams + fmt::Debug + PartialEq>(json: &str, expected: Result<T, &str>) {
        let json = (!json.is_empty()).then_some(json.as_bytes());
        match (Params::new(json, NameStyle::Native).parse::<T>(), expected) {
            (Ok(value), expected) => assert_eq!(Ok(value), expected),
            (Err(error), Ok(value)) => panic!("got {error}, expected {value:?}"),
            (Err(error), Err(message)) => assert_eq!((error.code(), error.message()), (-32602, message)),
        }
    }

    #[test]
    fn no_parameters() {
        check("", Ok(()));
        check("null", Ok(()));
        check("[]", Ok(()));
        check::<()>("[1]", Err("too many arguments, want at most 0"));
        check::<()>("{}", Err("params: got an object, expected an array"));
        check::<()>("\"x\"", Err("params: got a string, expected an array"));
        check::<()>("7", Err("params: got a number, expected an array"));
    }

    #[test]
    fn trailing_parameters() {
        let address = "0x00000000000000000000000000000000000000ff";
        let low = Address::with_last_byte(0xff);
        check(&format!("[\"{address}\"]"), Ok((low, BlockRef::Latest)));
        check(&format!("[\"{address}\", null]"), Ok((low, BlockRef::Latest)));
        check(
            &format!("[\"{address}\",\"0x2\"]"),
            Ok((low, BlockRef::Number(2))),
        );
        check::<(Address, BlockRef)>("[]", Err("missing value for required argument 0"));
        check::<(BlockRef, bool)>("[\"latest\"]", Err("missing value for required argument 1"));
        check::<(BlockRef, bool)>("[null,null]", Err("missing value for required argument 1"));
        check::<(bool,)>("[true,true]", Err("too many arguments, want at most 1"));
        check::<(bool,)>(
            "[1,2,3,4,5,6,7,8,9,10,11,12]",
            Err("too many arguments, want at most 1"),
        );
        check(&format!("[\"{address}\"]"), Ok((low, None::<bool>)));
    }

    #[test]
    fn reasons() {
        check::<(Address,)>(
            "[\"0x01\"]",
            Err("invalid argument 0: got 1 byte, expected 20 bytes"),
        );
        check::<(Address,)>(
            "[5]",
            Err("invalid argument 0: got a number, expected a hex string"),
        );
        check::<(bool, Data)>(
            "[true,\"0x123\"]",
            Err("invalid argument 1: odd number of hex digits"),
        );
        check::<(bool,)>(
            "[\"true\"]",
            Err("invalid argument 0: got a string, expected a Boolean"),
        );
        check::<(Integer,)>(
            "[1.5]",
            Err("invalid argument 0: expected a whole number of at most 64 bits"),
        );
        check::<(Quantity<U256>,)>("[\"0x00\"]", Err("invalid argument 0: leading zero digits"));
        check::<(String,)>(
            r#"["\ud800"]"#,
            Err("invalid argument 0: string holds an invalid escape"),
        );
        check(r#"["\u0030x1"]"#, Ok((Quantity(1_u64),)));
    }

    #[test]
    fn counts() {
        for (json, count) in [("[0]", 0), ("[300]", 300), ("[\"0x12c\"]", 300)] {
            check(json, Ok((Count(count),)));
        }
        check::<(Count,)>(
            "[-1]",
            Err("invalid argument 0: expected a whole number of at most 64 bits"),
        );
        check::<(Count,)>("[\"300\"]", Err("invalid argument 0: missing 0x prefix"));
        check::<(Count,)>(
            "[true]",
            Err("invalid argument 0: got a Boolean, expected a number"),
        );
    }

    #[test]
    fn arrays() {
        check(r#"[["0x1","0x2"]]"#, Ok((vec![Quantity(1_u64), Quantity(2)],)));
        check(r#"[[null,"0x2"]]"#, Ok((vec![None, Some(Quantity(2_u64))],)));
        check::<(Vec<Quantity>,)>(
            r#"[["0x1",null]]"#,
            Err("invalid argument 0: element 1: got null, expected a value"),
        );
        check::<(Vec<Quantity>,)>(
            r#"["0x1"]"#,
            Err("invalid argument 0: got a string, expected an array"),
        );
    }

    #[derive(Debug, PartialEq)]
    struct Transfer {
        to: Address,
        value: Option<Quantity<U256>>,
    }

    impl FromParam for Transfer {
        const TYPE: WireType = WireType::Named("Transfer");

        fn from_json(json: &str) -> Result<Self, ParamError> {
            let fields = ParamFields::read(json)?;
            Ok(Self {
                to: fields.get("to")?,
                value: fields.get("value")?,
            })
        }
    }

    #[test]
    fn objects() {
        let to = Address::ZERO;
        let text = format!(r#"[{{ "to":"{to}", "value" : "0x1", "more":[{{}}] }}]"#);
        check(
            &text,
            Ok((Transfer {
                to,
                value: Some(Quantity(U256::from(1))),
            },)),
        );
        check(
            &format!(r#"[{{"to":"{to}","value":null}}]"#),
            Ok((Transfer { to, value: None },)),
        );
        check::<(Transfer,)>("[{}]", Err("invalid argument 0: missing field to"));
        check::<(Transfer,)>(
            r#"[{"to":"0x12"}]"#,
            Err("invalid argument 0: field to: got 1 byte, expected 20 bytes"),
        );
        check::<(Transfer,)>(
            r#"[{"a":1,"\u0061":2}]"#,
            Err("invalid argument 0: field a given twice"),
        );
        let (long, cut) = ("f".repeat(1000), "f".repeat(64));
        check::<(Transfer,)>(
            &format!(r#"[{{"{long}":1,"{long}":2}}]"#),
            Err(&format!("invalid argument 0: field {cut}… given twice")),
        );
        check::<(Transfer,)>(
            "[[]]",
            Err("invalid argument 0: got an array, expected an object"),
        );
        let wide: Vec<String> = (0..100).map(|index| format!("\"f{index}\":0")).collect();
        check::<(Transfer,)>(
            &format!("[{{{}}}]", wide.join(",")),
            Err("invalid argument 0: got 100 members, expected at most 64"),
        );
    }
}
