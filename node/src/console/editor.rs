//! The prompt: editing, history, completion of the methods' names.

use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

/// What the prompt shows.
const PROMPT: &str = "> ";
/// Most lines of the history.
const HISTORY_LEN_MAX: usize = 1000;
/// Commands of the console itself.
pub(super) const COMMANDS: [&str; 3] = ["help", "exit", "quit"];

/// The prompt with its history, which is kept in a file where there is a place for one.
pub(super) struct Prompt {
    editor: Editor<Names, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// A prompt that completes `names`; its history is read from and kept in `history`.
    pub(super) fn new(names: Vec<String>, history: Option<PathBuf>) -> rustyline::Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_LEN_MAX)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Names {
            names,
            hinter: HistoryHinter::new(),
        }));
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        Ok(Self { editor, history })
    }

    /// The next line.
    pub(super) fn read(&mut self) -> rustyline::Result<String> {
        let line = self.editor.readline(PROMPT)?;
        if is_remembered(&line) {
            self.editor.add_history_entry(&line)?;
            if let Some(history) = &self.history {
                // A history that cannot be kept is no reason to end.
                let _ = self.editor.append_history(history);
            }
        }
        Ok(line)
    }

    /// Something that prints above the prompt from another thread, where the terminal can.
    pub(super) fn printer(&mut self) -> Option<impl rustyline::ExternalPrinter + Send + use<>> {
        self.editor.create_external_printer().ok()
    }
}

/// Whether a line goes into the history: those of `personal` have passwords.
fn is_remembered(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("personal")
}

/// Where the history is kept: in the data directory, where there is one.
pub(super) fn history_file(directory: &Path) -> Option<PathBuf> {
    directory.is_dir().then(|| directory.join("console_history"))
}

/// The names to complete, as the node has them.
struct Names {
    names: Vec<String>,
    hinter: HistoryHinter,
}

/// The names that begin with `typed`: with a dot, unless the underscore was typed already.
fn candidates(names: &[String], typed: &str) -> Vec<String> {
    let written = |name: &String| match typed.contains('_') {
        true => name.clone(),
        false => name.replacen('_', ".", 1),
    };
    let commands = COMMANDS.iter().map(|command| (*command).to_owned());
    let mut all: Vec<_> = names.iter().map(written).chain(commands).collect();
    all.retain(|name| name.starts_with(typed));
    all.sort_unstable();
    all.dedup();
    all
}

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before.len() - before.trim_start().len();
        let typed = &before[start..];
        // After the name come parameters, or the name that help is asked for.
        let (start, typed) = match typed.split_once(' ') {
            Some(("help", rest)) => (at - rest.len(), rest),
            Some(_) => return Ok((at, Vec::new())),
            None => (start, typed),
        };
        Ok((start, candidates(&self.names, typed)))
    }
}

impl Hinter for Names {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<String> {
        self.hinter.hint(line, at, context)
    }
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_complete_in_both_forms() {
        let names = ["mc_getBalance", "mc_getBlockByHash", "net_version"].map(str::to_owned);
        let check =
            |typed: &str, expected: &[&str]| assert_eq!(candidates(&names, typed), expected, "{typed}");
        check("mc.getB", &["mc.getBalance", "mc.getBlockByHash"]);
        check("mc_getBa", &["mc_getBalance"]);
        check("n", &["net.version"]);
        check("e", &["exit"]);
        check("x", &[]);
        assert_eq!(candidates(&names, "").len(), 6);
    }

    #[test]
    fn passwords_are_not_remembered() {
        for line in [
            "personal.unlockAccount 0x1 secret",
            " personal_newAccount secret",
            "",
            "  ",
        ] {
            assert!(!is_remembered(line), "{line}");
        }
        assert!(is_remembered("mc.blockNumber"));
    }
}
