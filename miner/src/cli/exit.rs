//! Exit codes, on which scripts and watchdogs rely. docs/miner.md lists them too.

use std::process::ExitCode;

/// The reasons why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The work is done, or a signal has stopped the program.
    Done,
    /// The options cannot be used, or the operating system refuses something.
    Usage,
    /// There is no such device, or `bench` could measure none.
    NoDevice,
    /// No endpoint could be reached within `--max-wait`.
    NoConnection,
    /// There was work, but no device computed a hash for `--stall-timeout`.
    Stalled,
    /// A device worked in vain, and `--fruitless-exit` was given.
    Fruitless,
    /// `verify`: the solution is not valid.
    Invalid,
}

impl ExitReason {
    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Usage => 1,
            Self::NoDevice => 2,
            Self::NoConnection => 3,
            Self::Stalled => 4,
            Self::Invalid => 5,
            Self::Fruitless => 6,
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(exit: ExitReason) -> Self {
        Self::from(exit.code())
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// The text for standard output.
    pub(crate) text: String,
    pub(crate) exit: ExitReason,
}
