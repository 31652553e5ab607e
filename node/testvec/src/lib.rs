//! Runs public test vectors: reads JSON requests, calls production code, writes JSON answers.
//!
//! The package knows the field names of the vectors and which library call answers which kind of
//! request; it computes nothing itself. Format: docs/testvec.md.

mod block;
mod builder;
mod error;
mod fields;
mod forks;
mod options;
mod places;
mod simple;
mod state;
mod statetest;
mod steps;
mod transactions;
mod transition;

pub use block::{BlockOutcome, run_blocks};
pub use error::{TestVectorError, ToolError};
pub use forks::spec_of_fork;
pub use options::{BuilderOptions, StepLineOptions, TestvecCommand, TestvecOptions, TransitionOptions};
pub use state::{StateOutcome, run_state};

use std::io::{BufRead, Write};

use serde_json::{Value, json};

/// Longest request, in bytes.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Runs the command.
///
/// # Errors
/// [`ToolError`], which has the exit code of geth's `evm`.
pub fn run(options: &TestvecOptions) -> Result<(), ToolError> {
    match &options.command {
        TestvecCommand::Statetest { file, trace } => {
            let lines = (options.steps.json || *trace).then_some(options.steps);
            statetest::run(file.as_deref(), lines)
        }
        TestvecCommand::T8n(transition) => transition::run(transition),
        TestvecCommand::B11r(builder) => builder::run(builder),
        kind => Ok(serve(kind, std::io::stdin().lock(), std::io::stdout().lock())?),
    }
}

/// Answers the requests in `input`, one JSON value a line, until its end.
///
/// # Errors
/// Only if reading or writing fails, or a line is too long. A bad request has an error as its
/// answer.
pub fn serve(kind: &TestvecCommand, mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
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
    pub fn answer(&self, kind: &TestvecCommand, request: &Value) -> Result<Value, TestVectorError> {
        match kind {
            TestvecCommand::Rlp => simple::rlp(request),
            TestvecCommand::Trie => simple::trie(request),
            TestvecCommand::Ethash => simple::ethash(&self.caches, request),
            TestvecCommand::Difficulty => simple::difficulty(request),
            TestvecCommand::Keystore => simple::keystore(request),
            TestvecCommand::Tx => simple::tx(request),
            TestvecCommand::State => state::answer(request),
            TestvecCommand::Block => block::answer(&self.caches, request),
            TestvecCommand::Statetest { .. } | TestvecCommand::T8n(_) | TestvecCommand::B11r(_) => {
                Err(TestVectorError::value("a command", "a subject of requests"))
            }
        }
    }
}
