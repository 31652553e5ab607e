//! The files that describe methods: examples and OpenRPC documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rpc::{Limits, Method, Rpc, openrpc};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Reads a JSON file of this package.
pub(crate) fn read(name: &str) -> Value {
    let text = std::fs::read_to_string(file(name)).expect("the file is there");
    serde_json::from_str(&text).expect("JSON")
}

/// Writes a JSON file of this package.
pub(crate) fn write(name: &str, value: &Value) {
    let text = serde_json::to_string_pretty(value).expect("JSON") + "\n";
    // An unchanged file keeps its time: it is compiled in, and would be compiled again.
    if std::fs::read_to_string(file(name)).is_ok_and(|old| old == text) {
        return;
    }
    std::fs::write(file(name), text).expect("the file can be written");
}

/// Whether the files are to be written anew.
pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE_EXAMPLES").is_some()
}

/// The description of these rows and of those that every server has.
pub(crate) fn document<C>(own: &[Method<C>]) -> Value {
    let rpc = Rpc::new(Arc::new(()), Vec::new(), Limits::default()).expect("valid rows");
    let mut all: Vec<_> = own.iter().map(Method::info).collect();
    all.extend(rpc.methods().iter().map(Method::info));
    all.sort_by_key(|method| method.name());
    openrpc::document(all)
}
