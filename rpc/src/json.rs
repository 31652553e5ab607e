//! Results of methods as JSON text.

use std::io;

use serde::Serialize;

use crate::error::{RpcError, RpcResult, failure};

/// A result, already written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Vec<u8>);

impl Json {
    /// Writes `value`.
    ///
    /// # Errors
    /// −32603 if `value` cannot be JSON, such as a map whose keys are no strings.
    pub fn write<T: Serialize + ?Sized>(value: &T) -> RpcResult<Self> {
        serde_json::to_vec(value)
            .map(Self)
            .map_err(|error| unwritable(&error))
    }

    /// Writes `value`, which may be long, and stops where it gets longer than `len_max` bytes.
    ///
    /// # Errors
    /// −32000 for that, and as [`Json::write`].
    pub(crate) fn write_within<T: Serialize + ?Sized>(value: &T, len_max: usize) -> RpcResult<Self> {
        let mut out = Bounded {
            text: Vec::new(),
            len_max,
        };
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => Ok(Self(out.text)),
            Err(error) if error.is_io() => Err(RpcError::too_long("", len_max)),
            Err(error) => Err(unwritable(&error)),
        }
    }

    /// Takes text that the caller has written and vouches for: it is sent as it stands.
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

/// Text that takes in no more than `len_max` bytes.
struct Bounded {
    text: Vec<u8>,
    len_max: usize,
}

impl io::Write for Bounded {
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

/// An array of JSON values, written one by one.
#[derive(Debug)]
pub(crate) struct JsonArray(Vec<u8>);

impl JsonArray {
    pub(crate) fn new() -> Self {
        Self(vec![b'['])
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, value: &impl serde::Serialize) -> RpcResult<()> {
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
