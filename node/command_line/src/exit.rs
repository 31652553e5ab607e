//! Exit codes of the programs, on which scripts and watchdogs rely. The same failure has the same
//! code in each of them. docs/options.md and docs/miner.md list them.

use std::process::ExitCode;

/// The reason why a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The work is done, or a signal has stopped the program.
    Done,
    /// Something failed; the message says at what.
    Failed,
    /// The command line or a file of options cannot be used.
    Usage,
    /// The node or the pool cannot be reached.
    NoConnection,
    /// There was work, but no device computed a hash for a long time.
    Stalled,
    /// The solution that was to be verified is not valid.
    Invalid,
    /// A device worked in vain, and the options say that this ends the program.
    Fruitless,
    /// There is no such device.
    NoDevice,
}

impl ExitReason {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoConnection => 3,
            Self::Stalled => 4,
            Self::Invalid => 5,
            Self::Fruitless => 6,
            Self::NoDevice => 7,
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(exit: ExitReason) -> Self {
        Self::from(exit.code())
    }
}
