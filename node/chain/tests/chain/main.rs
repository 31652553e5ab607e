//! The package from outside: real blocks, gas to the unit, forks, damage, crashes.
//!
//! One program, so that the dependencies are linked once. [`common`] makes blocks,
//! [`run`] runs single transactions; what each of the other modules checks stands at its head.

mod bulk;
mod calls;
mod common;
mod crash;
mod damage;
mod deep_reorg;
#[path = "../../../store/tests/store/disk.rs"]
mod disk;
mod disk_faults;
mod gas;
mod handle;
mod import;
mod journal;
mod logs;
mod money;
mod notices;
mod pool_model;
mod precompiles;
mod public;
mod random_forks;
mod refund;
mod roots;
mod run;
mod set_head;
mod trace;
mod vectors;
mod verify;
