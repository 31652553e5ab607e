//! Reads and writes the inputs and outputs of `t8n` and `b11r`: a file each, or members of one
//! object on standard input, output or error.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::error::{TestVectorError, ToolError};

/// The inputs. Standard input is read once.
#[derive(Debug, Default)]
pub(super) struct ToolInputs {
    stdin: Option<Value>,
}

impl ToolInputs {
    /// The JSON at `place`. On standard input it is the first of `members` that is there.
    pub(super) fn read(&mut self, place: &str, members: &[&str]) -> Result<Value, ToolError> {
        if place != "stdin" {
            let text = std::fs::read(place).map_err(|error| ToolError::File {
                place: place.to_owned(),
                error,
            })?;
            return parse(place, &text);
        }
        if self.stdin.is_none() {
            let mut text = Vec::new();
            std::io::stdin().lock().read_to_end(&mut text)?;
            self.stdin = Some(parse(place, &text)?);
        }
        let all = self.stdin.as_ref().unwrap_or(&Value::Null);
        let found = members.iter().map(|member| &all[*member]);
        Ok(found
            .into_iter()
            .find(|value| !value.is_null())
            .cloned()
            .unwrap_or_default())
    }
}

fn parse(place: &str, text: &[u8]) -> Result<Value, ToolError> {
    serde_json::from_slice(text).map_err(|error| json_error(place, error.into()))
}

/// An input that does not have the expected form.
pub(super) fn json_error(place: &str, error: TestVectorError) -> ToolError {
    ToolError::Json {
        place: place.to_owned(),
        error,
    }
}

/// The outputs, which are written together at the end.
#[derive(Debug)]
pub(super) struct Outputs {
    basedir: PathBuf,
    stdout: Map<String, Value>,
    stderr: Map<String, Value>,
}

impl Outputs {
    /// The outputs with files in `basedir`, which is made if need be.
    pub(super) fn new(basedir: Option<&Path>) -> Result<Self, ToolError> {
        let basedir = basedir.unwrap_or_else(|| Path::new(""));
        if !basedir.as_os_str().is_empty() {
            std::fs::create_dir_all(basedir).map_err(|error| file_error(basedir, error))?;
        }
        Ok(Self {
            basedir: basedir.to_owned(),
            stdout: Map::new(),
            stderr: Map::new(),
        })
    }

    /// The path of a file with this name.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.basedir.join(name)
    }

    /// Writes a value to `place`; nowhere if that is empty.
    pub(super) fn put(&mut self, place: &str, member: &str, value: Value) -> Result<(), ToolError> {
        match place {
            "" => {}
            "stdout" => drop(self.stdout.insert(member.to_owned(), value)),
            "stderr" => drop(self.stderr.insert(member.to_owned(), value)),
            name => {
                let path = self.path(name);
                std::fs::write(&path, format!("{value:#}")).map_err(|error| file_error(&path, error))?;
            }
        }
        Ok(())
    }

    /// Writes what belongs to standard output and error.
    pub(super) fn finish(self) {
        if !self.stdout.is_empty() {
            println!("{:#}", Value::Object(self.stdout));
        }
        if !self.stderr.is_empty() {
            eprintln!("{:#}", Value::Object(self.stderr));
        }
    }
}

pub(super) fn file_error(path: &Path, error: std::io::Error) -> ToolError {
    ToolError::File {
        place: path.display().to_string(),
        error,
    }
}
