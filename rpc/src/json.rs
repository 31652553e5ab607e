//! Results of methods as JSON text.

use std::fmt;
use std::io;
use std::marker::PhantomData;

use serde::Serialize;

use crate::error::{RpcError, RpcResult, failure};
use crate::wire_type::{Described, WireType};

/// A result, already written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Vec<u8>);

impl Json {
    /// Writes `value`.
    ///
    /// # Errors
    /// −32603 if `value` cannot be JSON, such as a map whose keys are not strings.
    pub fn write<T: Serialize + ?Sized>(value: &T) -> RpcResult<Self> {
        serde_json::to_vec(value)
            .map(Self)
            .map_err(|error| unwritable(&error))
    }

    /// Writes `value`, which may be long. Stops as soon as the text is longer than `len_max` bytes.
    ///
    /// # Errors
    /// −32000 if the text is longer than `len_max` bytes, and as [`Json::write`].
    pub(crate) fn write_within<T: Serialize + ?Sized>(value: &T, len_max: usize) -> RpcResult<Self> {
        let mut out = BoundedWriter {
            text: Vec::new(),
            len_max,
        };
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => Ok(Self(out.text)),
            Err(error) if error.is_io() => Err(RpcError::too_long("", len_max)),
            Err(error) => Err(unwritable(&error)),
        }
    }

    /// Takes JSON text that the caller has written. It is sent unchanged and not checked.
    pub fn from_text(json: Vec<u8>) -> Self {
        Self(json)
    }

    /// The JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn unwritable(error: &serde_json::Error) -> RpcError {
    tracing::error!(%error, "a result cannot be written as JSON");
    RpcError::internal("the result cannot be written")
}

/// A writer that accepts at most `len_max` bytes.
struct BoundedWriter {
    text: Vec<u8>,
    len_max: usize,
}

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.len_max - self.text.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON text of the type on the wire that `T` has, for a method that writes its result itself.
///
/// A method does so when its result borrows from something that ends with the call, or when the
/// result must not become too long.
pub struct JsonOf<T: ?Sized> {
    json: Json,
    described: PhantomData<fn() -> Box<T>>,
}

impl<T: Described + ?Sized> JsonOf<T> {
    /// Writes `value`. It does not compile if `V` has another type on the wire than `T`.
    ///
    /// # Errors
    /// As [`Json::write`].
    pub fn write<V: Described + Serialize + ?Sized>(value: &V) -> RpcResult<Self> {
        const {
            assert!(
                T::TYPE.is_same(&V::TYPE),
                "the value has another type on the wire"
            )
        };
        Json::write(value).map(Self::trust)
    }

    /// Writes `value`, which may be long, up to `len_max` bytes. It does not compile if `V` has
    /// another type on the wire than `T`.
    ///
    /// # Errors
    /// −32000 if the text is longer than `len_max` bytes, and as [`Json::write`].
    pub(crate) fn write_within<V: Described + Serialize + ?Sized>(
        value: &V,
        len_max: usize,
    ) -> RpcResult<Self> {
        const {
            assert!(
                T::TYPE.is_same(&V::TYPE),
                "the value has another type on the wire"
            )
        };
        Json::write_within(value, len_max).map(Self::trust)
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

/// What a method can return: a value that is written as JSON, or the text itself as [`JsonOf`].
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

/// An array of JSON values that is written one value at a time.
#[derive(Debug)]
pub(crate) struct JsonArray(Vec<u8>);

impl JsonArray {
    pub(crate) fn new() -> Self {
        Self(vec![b'['])
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, value: &impl Serialize) -> RpcResult<()> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        serde_json::to_writer(&mut self.0, value).map_err(failure)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push(b']');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_json_are_errors() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(Json::write(&map).unwrap_err().code(), -32603);
        assert_eq!(Json::write_within(&map, 100).unwrap_err().code(), -32603);
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
        let error = Json::write_within(&Endless(&written), 100).unwrap_err();
        assert_eq!(error.message(), "the response is longer than 100 bytes");
        assert!(written.get() < 100, "{} elements", written.get());
        assert_eq!(Json::write_within("12345678", 10), Json::write("12345678"));
        assert!(Json::write_within("12345678", 9).is_err());
    }
}
