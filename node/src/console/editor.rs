//! The prompt of the console: line editing, history, completion of method names.

use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

/// Text of the prompt.
const PROMPT: &str = "> ";
/// Most lines in the history.
const HISTORY_LEN_MAX: usize = 1000;
/// Commands of the console itself.
pub(super) const COMMANDS: [&str; 3] = ["help", "exit", "quit"];

/// The prompt with its history.
pub(super) struct Prompt {
    editor: Editor<MethodCompleter, DefaultHistory>,
    /// File of the history, if it is kept.
    history: Option<PathBuf>,
}

impl Prompt {
    /// Creates a prompt that completes `names`. Its history is loaded from and saved to `history`.
    pub(super) fn new(names: Vec<String>, history: Option<PathBuf>) -> rustyline::Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_LEN_MAX)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(MethodCompleter {
            names,
            hinter: HistoryHinter::new(),
        }));
        if let Some(history) = &history {
            // The file does not exist the first time.
            let _ = editor.load_history(history);
        }
        Ok(Self { editor, history })
    }

    /// Reads the next line.
    pub(super) fn read(&mut self) -> rustyline::Result<String> {
        let line = self.editor.readline(PROMPT)?;
        if belongs_in_history(&line) {
            self.editor.add_history_entry(&line)?;
            if let Some(history) = &self.history {
                // The console goes on if the history cannot be saved.
                let _ = self.editor.append_history(history);
            }
        }
        Ok(line)
    }

    /// A printer that another thread uses to print above the prompt; `None` if the terminal cannot
    /// do that.
    pub(super) fn printer(&mut self) -> Option<impl rustyline::ExternalPrinter + Send + use<>> {
        self.editor.create_external_printer().ok()
    }
}

/// Whether a line goes into the history. Calls of `personal` do not, because they contain
/// passwords.
fn belongs_in_history(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("personal")
}

/// Path of the history file in the data directory; `None` if that directory does not exist.
pub(super) fn history_file(directory: &Path) -> Option<PathBuf> {
    directory.is_dir().then(|| directory.join("console_history"))
}

/// Completes the names of the methods and of the console's own commands.
struct MethodCompleter {
    names: Vec<String>,
    hinter: HistoryHinter,
}

/// The names that begin with `typed`. They have a dot after the module, or an underscore if `typed`
/// has one.
fn candidates(names: &[String], typed: &str) -> Vec<String> {
    let spelled = |name: &String| match typed.contains('_') {
        true => name.clone(),
        false => name.replacen('_', ".", 1),
    };
    let commands = COMMANDS.iter().map(|command| (*command).to_owned());
    let mut all: Vec<_> = names.iter().map(spelled).chain(commands).collect();
    all.retain(|name| name.starts_with(typed));
    all.sort_unstable();
    all.dedup();
    all
}

impl Completer for MethodCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before.len() - before.trim_start().len();
        let typed = &before[start..];
        // After the name of a method come parameters, which are not completed; after `help` comes a
        // name.
        let (start, typed) = match typed.split_once(' ') {
            Some(("help", rest)) => (at - rest.len(), rest),
            Some(_) => return Ok((at, Vec::new())),
            None => (start, typed),
        };
        Ok((start, candidates(&self.names, typed)))
    }
}

impl Hinter for MethodCompleter {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<String> {
        self.hinter.hint(line, at, context)
    }
}

impl Highlighter for MethodCompleter {}
impl Validator for MethodCompleter {}
impl Helper for MethodCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_with_dot_or_underscore() {
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
    fn passwords_do_not_go_into_the_history() {
        for line in [
            "personal.unlockAccount 0x1 secret",
            " personal_newAccount secret",
            "",
            "  ",
        ] {
            assert!(!belongs_in_history(line), "{line}");
        }
        assert!(belongs_in_history("mc.blockNumber"));
    }
}
