//! A file of settings: a JSON object. Its members are read one by one, and an error names line and
//! column.
//!
//! Knows no settings. The case of keys is ignored by those who read them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use primitives::Address;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Most characters of a value that an error shows.
const SHOWN_LEN_MAX: usize = 64;

/// An error in the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not valid JSON.
    #[error("{}: {position}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The place of the fault.
        position: FilePosition,
        /// The fault.
        reason: String,
    },
    /// A value is of the wrong kind.
    #[error("{}: {position}: {key}: got {got}, expected {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The place at which the value begins.
        position: FilePosition,
        /// The key as written, with an index if the value is in a list.
        key: String,
        /// The value as written, shortened if it is long.
        got: String,
        /// The value that was expected.
        expected: &'static str,
    },
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The byte in the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Reads the text of a file of settings: the one at `path`, or if there is none, the one named
/// `default` in the working directory. `None` if that one does not exist.
pub fn read_text(path: Option<&Path>, default: &str) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let path = match path {
        Some(path) => path.to_owned(),
        None if Path::new(default).exists() => PathBuf::from(default),
        None => return Ok(None),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

/// Calls `read` with the key, in lower case, and the value of each member. It returns whether it
/// knows the key. Returns the unknown keys as they are written, for [`warn_of_unknown_keys`].
pub fn read_members(
    path: &Path,
    text: &str,
    mut read: impl FnMut(&str, &ConfigEntry<'_>) -> Result<bool, ConfigError>,
) -> Result<Vec<String>, ConfigError> {
    let file = ConfigFile { path, text };
    let OrderedMembers(members) = serde_json::from_str(text).map_err(|error| file.json_error(&error))?;
    let (mut known, mut unknown): (Vec<String>, Vec<String>) = Default::default();
    for (key, value) in &members {
        let entry = ConfigEntry { file, key, value };
        let name = key.to_ascii_lowercase();
        if !read(&name, &entry)? {
            unknown.push(key.clone());
            continue;
        }
        if known.contains(&name) {
            return Err(entry.wrong("a key that is given once"));
        }
        known.push(name);
    }
    Ok(unknown)
}

/// Writes a warning for each key that nothing reads. The programs of others ignore such keys, so a
/// file that works there works here.
pub fn warn_of_unknown_keys(file: &str, keys: &[String]) {
    for key in keys {
        tracing::warn!(%key, file, "unknown key ignored");
    }
}

/// The text of the file and its path, for errors.
#[derive(Clone, Copy)]
struct ConfigFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl ConfigFile<'_> {
    /// Converts an error of the JSON parser.
    fn json_error(self, error: &serde_json::Error) -> ConfigError {
        let reason = error.to_string();
        // The position is a field of its own. For the beginning of a line the parser reports column
        // 0.
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        ConfigError::Json {
            path: self.path.to_owned(),
            position: FilePosition {
                line: error.line().max(1),
                column: error.column().max(1),
            },
            reason,
        }
    }

    /// The place of `value`, which must be a part of `self.text`.
    fn position(self, value: &RawValue) -> FilePosition {
        let offset = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line_begin = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        FilePosition {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: before.len() - line_begin + 1,
        }
    }
}

/// A member of the JSON object: a key and its value.
pub struct ConfigEntry<'a> {
    file: ConfigFile<'a>,
    key: &'a str,
    value: &'a RawValue,
}

impl ConfigEntry<'_> {
    /// The error for a value of the wrong kind.
    pub fn wrong(&self, expected: &'static str) -> ConfigError {
        let text = self.value.get();
        let got = match text.char_indices().nth(SHOWN_LEN_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        ConfigError::Value {
            path: self.file.path.to_owned(),
            position: self.file.position(self.value),
            key: self.key.to_owned(),
            got,
            expected,
        }
    }

    /// The value as written.
    pub fn text(&self) -> &str {
        self.value.get()
    }

    /// Reads the value as JSON.
    ///
    /// # Errors
    /// [`ConfigError`] with what was expected.
    pub fn read<T: DeserializeOwned>(&self, expected: &'static str) -> Result<T, ConfigError> {
        serde_json::from_str(self.value.get()).map_err(|_| self.wrong(expected))
    }

    /// Reads a text, and the text as a value.
    ///
    /// # Errors
    /// [`ConfigError`] with what was expected.
    pub fn parse<T: FromStr>(&self, expected: &'static str) -> Result<T, ConfigError> {
        let text: String = self.read(expected)?;
        text.parse().map_err(|_| self.wrong(expected))
    }

    /// Reads an address; the empty text is none.
    ///
    /// # Errors
    /// [`ConfigError`] with what was expected.
    pub fn address_or_none(&self) -> Result<Option<Address>, ConfigError> {
        match self.value.get() {
            "\"\"" => Ok(None),
            _ => self.parse("an address of 20 bytes, or \"\"").map(Some),
        }
    }

    /// Reads a list of addresses.
    ///
    /// # Errors
    /// [`ConfigError`] with what was expected.
    pub fn addresses(&self) -> Result<Vec<Address>, ConfigError> {
        let list: Vec<&RawValue> =
            serde_json::from_str(self.value.get()).map_err(|_| self.wrong("a list of addresses"))?;
        let one = |(index, value): (usize, &&RawValue)| {
            let key = format!("{}[{index}]", self.key);
            let member = ConfigEntry {
                file: self.file,
                key: &key,
                value,
            };
            member.parse("an address of 20 bytes")
        };
        list.iter().enumerate().map(one).collect()
    }
}

/// The members of a JSON object in their order. The values borrow from the text, so that the
/// position of each can be found.
struct OrderedMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for OrderedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = OrderedMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
