//! The parts of the program `miner`: it gets work from nodes and pools, lets an [`engine`] search,
//! and sends the solutions back.
//!
//! | subject | module |
//! |---|---|
//! | nodes and pools | [`client`] |
//! | the rig: an engine and a client | [`rig`], shown by [`display`], `monitor` and [`engine::dashboard`] |
//! | what rig systems read | [`api`] |
//! | measurements, checks of single hashes | [`mod@bench`], [`verify`] |

pub mod api;
pub mod bench;
pub mod client;
pub mod display;
mod monitor;
pub mod rig;
pub mod verify;
