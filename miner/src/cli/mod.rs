//! The commands of the binary: options in, text and exit codes out. What they mean is the library's
//! business.

mod bench;
mod devices;
pub(crate) mod exit;
mod mine;
mod options;
mod verify;

pub(crate) use bench::run as bench;
pub(crate) use devices::list as devices;
pub(crate) use mine::{getwork, stratum};
pub(crate) use options::{Command, Options};
pub(crate) use verify::run as verify;
