//! The package from outside: real blocks, gas to the unit, forks, damage, crashes.
//!
//! One program, so that the dependencies are linked once. [`common`] makes blocks; what
//! each of the other modules checks stands at its head.

mod bulk;
mod common;
mod crash;
mod damage;
mod gas;
mod handle;
mod import;
mod money;
mod random_forks;
mod roots;
mod vectors;
mod verify;
