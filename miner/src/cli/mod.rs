//! The commands of the program `miner`: they turn options into calls of the library, and its
//! results into text and exit codes.

mod bench;
mod devices;
mod help;
mod mine;
mod options;
mod package;
mod rig_options;
mod verify;

use command_line::ExitReason;

pub(crate) use bench::run as bench;
pub(crate) use devices::list as devices;
pub(crate) use help::read;
pub(crate) use mine::{getwork, stratum};
pub(crate) use options::MinerCommand;
pub(crate) use package::{completions, manual};
pub(crate) use verify::run as verify;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// The text for standard output.
    pub(crate) text: String,
    pub(crate) exit: ExitReason,
}
