//! Exit codes, on which scripts and watchdogs rely. They stand in README.md too.

use std::process::ExitCode;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or stopped by a signal.
    Done,
    /// Options that cannot be used, or something of the system that is missing.
    Usage,
    /// No device to search with.
    NoDevice,
    /// No endpoint could be reached within `--max-wait`.
    NoConnection,
    /// There was work, and no device did any of it for `--stall-timeout`.
    Stalled,
    /// `verify`: the solution is not valid.
    Invalid,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Usage => 1,
            Exit::NoDevice => 2,
            Exit::NoConnection => 3,
            Exit::Stalled => 4,
            Exit::Invalid => 5,
        })
    }
}
