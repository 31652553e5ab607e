//! Results of methods as JSON text.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::budget::{result_error, result_writer};
use crate::error::{RpcError, RpcResult};
use crate::text::{Text, TextWriter};
use crate::wire_type::{Described, WireType};

/// A result, already written as JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Json(Text);

impl Json {
    /// Writes `value`. During a call it stops as soon as the text is longer than the response may
    /// be, or too little memory is left for it.
    ///
    /// # Errors
    /// −32000 if the text does not fit, −32603 if `value` cannot be JSON, such as a map whose keys
    /// are not strings.
    pub fn write<T: Serialize + ?Sized>(value: &T) -> RpcResult<Self> {
        Self::write_by(&mut |writer| serde_json::to_writer(writer, value))
    }

    fn write_by(write: WriteJson<'_>) -> RpcResult<Self> {
        let mut writer = result_writer();
        let written = write(&mut writer);
        check_written(&writer, written)?;
        Ok(Self(writer.finish()))
    }

    /// Takes JSON text that the caller has written. It is sent unchanged and not checked.
    pub(crate) fn from_text(json: impl Into<Text>) -> Self {
        Self(json.into())
    }

    /// Takes JSON text that many answers share.
    pub(crate) fn shared(json: &Bytes) -> Self {
        Self(Text::shared(json))
    }

    /// The JSON text.
    pub(crate) const fn text(&self) -> &Text {
        &self.0
    }

    /// The JSON text, with its memory.
    pub(crate) fn into_text(self) -> Text {
        self.0
    }
}

/// Writes a value of some type.
type WriteJson<'a> = &'a mut dyn FnMut(&mut TextWriter) -> serde_json::Result<()>;

/// Writes `value` as a part of the result of a call.
fn write_to<T: Serialize + ?Sized>(writer: &mut TextWriter, value: &T) -> RpcResult<()> {
    let written = serde_json::to_writer(&mut *writer, value);
    check_written(writer, written)
}

/// The error of the call whose result was `written`.
fn check_written(writer: &TextWriter, written: serde_json::Result<()>) -> RpcResult<()> {
    written.map_err(|error| match writer.error() {
        Some(error) => result_error(error),
        None => {
            tracing::error!(%error, "a result cannot be written as JSON");
            RpcError::internal("the result cannot be written")
        }
    })
}

/// An object whose members have no fixed names.
#[derive(Debug)]
pub(crate) struct JsonMembers<V>(Vec<(String, V)>);

impl<V> FromIterator<(String, V)> for JsonMembers<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl<V: Serialize> Serialize for JsonMembers<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// JSON text of the type on the wire that `T` has, for a method that writes its result itself.
///
/// A method does so when its result borrows from something that ends with the call, or when the
/// result must not become too long.
pub(crate) struct JsonOf<T: ?Sized> {
    json: Json,
    described: PhantomData<fn() -> Box<T>>,
}

impl<T: Described + ?Sized> JsonOf<T> {
    /// Writes `value`. It does not compile if `V` has another type on the wire than `T`.
    ///
    /// # Errors
    /// As [`Json::write`].
    pub(crate) fn write<V: Described + Serialize + ?Sized>(value: &V) -> RpcResult<Self> {
        const {
            assert!(
                T::TYPE.is_same(&V::TYPE),
                "the value has another type on the wire"
            )
        };
        Json::write(value).map(Self::trust)
    }

    /// Takes JSON text that the caller knows to be a `T`. This is not checked.
    pub(crate) fn trust(json: Json) -> Self {
        Self {
            json,
            described: PhantomData,
        }
    }
}

impl<T: ?Sized> fmt::Debug for JsonOf<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json.fmt(formatter)
    }
}

/// A result that a method can return: a value that is written as JSON, or the text itself as
/// [`JsonOf`].
pub trait MethodResult {
    /// The type of the result on the wire.
    const TYPE: WireType;

    /// The result as JSON text.
    ///
    /// # Errors
    /// As [`Json::write`].
    fn into_json(self) -> RpcResult<Json>;
}

impl<T: Described + Serialize> MethodResult for T {
    const TYPE: WireType = <T as Described>::TYPE;

    fn into_json(self) -> RpcResult<Json> {
        Json::write(&self)
    }
}

impl<T: Described + ?Sized> MethodResult for JsonOf<T> {
    const TYPE: WireType = T::TYPE;

    fn into_json(self) -> RpcResult<Json> {
        Ok(self.json)
    }
}

/// A result that its method writes part by part, because a value of it would nest too deeply.
#[derive(Debug)]
pub(crate) struct JsonParts(TextWriter);

impl JsonParts {
    pub(crate) fn new() -> Self {
        Self(result_writer())
    }

    /// Appends a part of the text.
    ///
    /// # Errors
    /// −32000 if it does not fit.
    pub(crate) fn text(&mut self, json: impl AsRef<[u8]>) -> RpcResult<()> {
        self.0.push(json.as_ref()).map_err(result_error)
    }

    /// Appends a value.
    ///
    /// # Errors
    /// As [`Json::write`].
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> RpcResult<()> {
        write_to(&mut self.0, value)
    }

    /// The whole text.
    pub(crate) fn finish(self) -> Json {
        Json(self.0.finish())
    }
}

/// An array of JSON values that is written one value at a time.
#[derive(Debug)]
pub(crate) struct JsonArray {
    writer: TextWriter,
    is_empty: bool,
}

impl JsonArray {
    pub(crate) fn new() -> Self {
        Self {
            writer: result_writer(),
            is_empty: true,
        }
    }

    /// Bytes written so far.
    pub(crate) const fn len(&self) -> usize {
        self.writer.len()
    }

    pub(crate) fn push(&mut self, value: &impl Serialize) -> RpcResult<()> {
        let separator = if self.is_empty { b"[" } else { b"," };
        self.is_empty = false;
        self.writer.push(separator).map_err(result_error)?;
        write_to(&mut self.writer, value)
    }

    /// The text of the array.
    pub(crate) fn finish(mut self) -> RpcResult<Text> {
        let end = if self.is_empty { b"[]".as_slice() } else { b"]" };
        self.writer.push(end).map_err(result_error)?;
        Ok(self.writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daemon::ClientId;

    use super::*;
    use crate::budget::MessageBudget;
    use crate::limits::Limits;
    use crate::traffic::TrafficMemory;

    /// A budget for results of `len_max` bytes, with `room` bytes of memory.
    fn budget(len_max: usize, room: usize) -> Arc<MessageBudget> {
        let limits = Limits {
            response_len_max: len_max,
            ..Limits::default()
        };
        let memory = TrafficMemory::new(room, 100).client(ClientId::Local(0));
        MessageBudget::new(&limits, memory)
    }

    #[test]
    fn values_that_are_no_json_are_errors() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(Json::write(&map).unwrap_err().code(), -32603);
    }

    #[test]
    fn long_values_are_written_up_to_a_bound() {
        struct Endless<'a>(&'a std::cell::Cell<usize>);

        impl Serialize for Endless<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(std::iter::from_fn(|| {
                    self.0.set(self.0.get() + 1);
                    (self.0.get() < 1_000_000).then_some(7)
                }))
            }
        }

        let written = std::cell::Cell::new(0);
        let error = budget(100, 1 << 20).run(|| Json::write(&Endless(&written)).unwrap_err());
        assert_eq!(error.message(), "the response is longer than 100 bytes");
        assert!(written.get() < 100, "{} elements", written.get());
        let error = budget(1 << 30, 10_000).run(|| Json::write(&Endless(&written)).unwrap_err());
        assert_eq!(error, RpcError::no_memory());
        assert!(written.get() < 10_000, "{} elements", written.get());
        let fits = budget(10, 0).run(|| Json::write("12345678"));
        assert_eq!(fits, Json::write("12345678"));
        assert!(budget(9, 0).run(|| Json::write("12345678")).is_err());
    }

    #[test]
    fn arrays_grow_up_to_a_bound() {
        let array = |count| {
            let mut array = JsonArray::new();
            for value in 0..count {
                array.push(&value)?;
            }
            array.finish().map(|text| text.to_vec())
        };
        assert_eq!(array(0).expect("text"), b"[]");
        assert_eq!(array(3).expect("text"), b"[0,1,2]");
        let error = budget(1 << 30, 10_000).run(|| array(100_000).unwrap_err());
        assert_eq!(error, RpcError::no_memory());
        assert!(budget(6, 0).run(|| array(3)).is_err() && budget(7, 0).run(|| array(3)).is_ok());
    }
}
