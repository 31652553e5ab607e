//! The parts of a command line that `vnode`, `scs` and `miner` share: help that fits a screen,
//! warnings of options without effect, and exit codes.
//!
//! Knows no option of any program.

mod exit;
mod help;

pub use exit::ExitReason;
pub use help::{
    NeededOption, is_short_help, missing_need, no_effect, with_headings, with_short_help, without_effect,
};
