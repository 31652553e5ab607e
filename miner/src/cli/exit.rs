//! Exit codes, on which scripts and watchdogs rely. They stand in README.md too.

use std::process::ExitCode;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or stopped by a signal.
    Done,
    /// Options that cannot be used, or something of the system that is missing.
    Usage,
    /// No device to search with, or none of which `bench` has a figure.
    NoDevice,
    /// No endpoint could be reached within `--max-wait`.
    NoConnection,
    /// There was work, and no device did any of it for `--stall-timeout`.
    Stalled,
    /// `verify`: the solution is not valid.
    Invalid,
}

impl Exit {
    /// Its number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Usage => 1,
            Self::NoDevice => 2,
            Self::NoConnection => 3,
            Self::Stalled => 4,
            Self::Invalid => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
