//! Writes the steps of a transaction as lines of JSON (EIP-3155), with the members of geth's
//! `evm`.

use std::io::Write;

use chain::trace::{StepSink, StreamEnd, StreamOptions, StreamedStep};
use primitives::hex;

use crate::options::StepLineOptions;

/// Takes steps and writes lines. After an error of `out` nothing more is written; the caller asks
/// for the error at the end.
#[derive(Debug)]
pub(super) struct StepLines<W> {
    out: W,
    error: Option<std::io::Error>,
}

/// The parts of steps that the options ask for.
pub(super) const fn parts(options: StepLineOptions) -> StreamOptions {
    StreamOptions {
        stack: !options.nostack,
        memory: !options.nomemory,
        return_data: !options.noreturndata,
    }
}

impl<W: Write> StepLines<W> {
    pub(super) const fn new(out: W) -> Self {
        Self { out, error: None }
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> std::io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, line: &str) {
        if self.error.is_none() {
            self.error = self.out.write_all(line.as_bytes()).err();
        }
    }
}

/// A text as a value of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<W: Write> StepSink for StepLines<W> {
    fn step(&mut self, step: StreamedStep) {
        let mut line = format!(
            "{{\"pc\":{},\"op\":{},\"gas\":\"{:#x}\",\"gasCost\":\"{:#x}\"",
            step.pc, step.opcode, step.gas, step.gas_cost
        );
        let bytes = |name: &str, bytes: &[u8]| {
            if bytes.is_empty() {
                return String::new();
            }
            format!(",\"{name}\":\"{}\"", hex::encode_prefixed(bytes))
        };
        line += &bytes("memory", step.memory.as_deref().unwrap_or_default());
        line += &format!(",\"memSize\":{},\"stack\":", step.memory_size);
        match &step.stack {
            None => line += "null",
            Some(stack) => {
                let words: Vec<String> = stack.iter().map(|word| format!("\"{word:#x}\"")).collect();
                line += &format!("[{}]", words.join(","));
            }
        }
        line += &bytes(
            "returnData",
            step.return_data.as_deref().map_or(&[][..], |data| data),
        );
        let name = step
            .name()
            .map_or_else(|| format!("opcode {:#x} not defined", step.opcode), str::to_owned);
        line += &format!(
            ",\"depth\":{},\"refund\":{},\"opName\":{}",
            step.depth,
            step.refund.max(0),
            quoted(&name)
        );
        if let Some(error) = &step.error {
            line += &format!(",\"error\":{}", quoted(error));
        }
        line += "}\n";
        self.line(&line);
    }

    fn end(&mut self, end: StreamEnd) {
        let mut line = format!(
            "{{\"output\":\"{}\",\"gasUsed\":\"{:#x}\"",
            hex::encode(&end.output),
            end.gas_used
        );
        if let Some(error) = &end.error {
            line += &format!(",\"error\":{}", quoted(error.trim_start_matches("evm: ")));
        }
        line += "}\n";
        self.line(&line);
    }
}
