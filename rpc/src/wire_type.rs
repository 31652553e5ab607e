//! The types of parameters and results on the wire, by their names in `docs/interface.md, 2.1` and
//! in `openrpc/types.rs`.
//!
//! Each Rust type that a method returns says here, through [`Described`], which type it has on the
//! wire. For parameters, [`crate::decode::FromParam`] says it. The schema behind each name is in
//! [`crate::openrpc`].

use std::fmt;

/// A type of the wire, such as `QUANTITY` or `Block|null`.
///
/// The text of a type, by [`fmt::Display`], is the notation of the schemas: `T[]` is an array of T,
/// `T{}` an object whose members all have the type T, and `|` stands between alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A type with a schema of its own: an encoding such as `DATA20`, or an object such as `Block`.
    Named(&'static str),
    /// `null`.
    Null,
    /// An array whose members all have one type.
    Array(&'static Self),
    /// One of several types.
    OneOf(&'static [Self]),
    /// An object whose members all have one type.
    Map(&'static Self),
}

impl WireType {
    /// Whether both types are the same. Unlike `==` this works in constants.
    pub(crate) const fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(one), Self::Named(two)) => is_same_text(one, two),
            (Self::Null, Self::Null) => true,
            (Self::Array(one), Self::Array(two)) | (Self::Map(one), Self::Map(two)) => one.is_same(two),
            (Self::OneOf(one), Self::OneOf(two)) => {
                let mut index = 0;
                while index < one.len() && index < two.len() && one[index].is_same(&two[index]) {
                    index += 1;
                }
                index == one.len() && index == two.len()
            }
            _ => false,
        }
    }
}

const fn is_same_text(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let mut index = 0;
    while index < one.len() && index < two.len() && one[index] == two[index] {
        index += 1;
    }
    index == one.len() && index == two.len()
}

impl fmt::Display for WireType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => formatter.write_str(name),
            Self::Null => formatter.write_str("null"),
            Self::Array(member) => write!(formatter, "{member}[]"),
            Self::Map(member) => write!(formatter, "{member}{{}}"),
            Self::OneOf(alternatives) => {
                for (index, alternative) in alternatives.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "|" };
                    write!(formatter, "{separator}{alternative}")?;
                }
                Ok(())
            }
        }
    }
}

/// A Rust type whose JSON text always has one type of the wire.
pub trait Described {
    /// The type on the wire.
    const TYPE: WireType;
}

impl<T: Described + ?Sized> Described for &T {
    const TYPE: WireType = T::TYPE;
}

impl Described for () {
    const TYPE: WireType = WireType::Null;
}

impl Described for bool {
    const TYPE: WireType = WireType::Named("Boolean");
}

impl Described for str {
    const TYPE: WireType = WireType::Named("String");
}

impl Described for String {
    const TYPE: WireType = <str as Described>::TYPE;
}

impl Described for fmt::Arguments<'_> {
    const TYPE: WireType = <str as Described>::TYPE;
}

impl<T: Described> Described for Option<T> {
    const TYPE: WireType = WireType::OneOf(&[T::TYPE, WireType::Null]);
}

impl<T: Described> Described for [T] {
    const TYPE: WireType = WireType::Array(&T::TYPE);
}

impl<T: Described> Described for Vec<T> {
    const TYPE: WireType = <[T] as Described>::TYPE;
}

impl<T: Described, const N: usize> Described for [T; N] {
    const TYPE: WireType = <[T] as Described>::TYPE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation() {
        let check = |wire_type: WireType, expected: &str| assert_eq!(wire_type.to_string(), expected);
        check(<()>::TYPE, "null");
        check(<Option<Vec<bool>>>::TYPE, "Boolean[]|null");
        check(<[String; 3]>::TYPE, "String[]");
        check(
            WireType::Map(&WireType::Map(&WireType::Named("String"))),
            "String{}{}",
        );
    }

    #[test]
    fn comparison() {
        let types = [
            WireType::Null,
            WireType::Named("A"),
            WireType::Named("AB"),
            WireType::Array(&WireType::Named("A")),
            WireType::Map(&WireType::Named("A")),
            WireType::OneOf(&[WireType::Named("A"), WireType::Null]),
            WireType::OneOf(&[WireType::Named("A")]),
        ];
        for one in &types {
            for two in &types {
                assert_eq!(one.is_same(two), one == two, "{one} {two}");
            }
        }
    }
}
