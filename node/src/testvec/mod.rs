//! Runs public test vectors: reads JSON requests, calls production code, writes JSON answers.
//!
//! The module knows the field names of the vectors and which library call answers which kind of
//! request; it computes nothing itself. Format: docs/testvec.md.

mod block;
mod error;
mod fields;
mod forks;
mod simple;
mod state;

pub use block::{BlockOutcome, run_blocks};
pub use error::TestVectorError;
pub use forks::spec_of_fork;
pub use state::{StateOutcome, run_state};

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use crate::options::TestVectorKind;

/// Longest request, in bytes.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Answers the requests in `input`, one JSON value a line, until its end.
///
/// # Errors
/// Only if reading or writing fails, or a line is too long. A bad request has an error as its
/// answer.
pub fn serve(kind: TestVectorKind, mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let service = TestVectorService::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = std::io::Read::take(&mut input, LINE_BYTES_MAX as u64 + 1);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(std::io::Error::other(format!(
                "request: got more than {LINE_BYTES_MAX} bytes, expected at most that many"
            )));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = serde_json::from_slice(&line)
            .map_err(TestVectorError::from)
            .and_then(|request| service.answer(kind, &request))
            .unwrap_or_else(|error| json!({ "error": error.to_string() }));
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

/// Answers test vectors. It keeps the light caches, which take long to compute.
#[derive(Debug, Default)]
pub struct TestVectorService {
    caches: ethash::LightCaches,
}

impl TestVectorService {
    /// Answers one request.
    ///
    /// # Errors
    /// [`TestVectorError`] of the production code, or for a bad request.
    pub fn answer(&self, kind: TestVectorKind, request: &Value) -> Result<Value, TestVectorError> {
        match kind {
            TestVectorKind::Rlp => simple::rlp(request),
            TestVectorKind::Trie => simple::trie(request),
            TestVectorKind::Ethash => simple::ethash(&self.caches, request),
            TestVectorKind::Difficulty => simple::difficulty(request),
            TestVectorKind::Keystore => simple::keystore(request),
            TestVectorKind::Tx => simple::tx(request),
            TestVectorKind::State => state::answer(request),
            TestVectorKind::Block => block::answer(&self.caches, request),
        }
    }
}
