//! The commands of the program `miner`: they turn options into calls of the library, and its
//! results into text and exit codes.

mod bench;
mod devices;
pub(crate) mod exit;
mod mine;
mod options;
mod package;
mod rig_options;
mod verify;

pub(crate) use bench::run as bench;
pub(crate) use devices::list as devices;
pub(crate) use exit::CommandOutput;
pub(crate) use mine::{getwork, stratum};
pub(crate) use options::{CliOptions, MinerCommand};
pub(crate) use package::{completions, manual};
pub(crate) use verify::run as verify;
