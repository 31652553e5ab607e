//! All end-to-end tests are one program, so that tests that wait do it side by side.
//!
//! Tests start in the order of their names. `application_chains` is the first module because its
//! tests take longest.

mod application_chains;
#[cfg(target_os = "linux")]
mod balancer;
mod fuzz;
#[cfg(target_os = "linux")]
mod guides;
mod microchain;
#[cfg(unix)]
mod miner;
mod peers;
#[cfg(unix)]
mod pools;
mod public_suites;
mod testvec;
#[cfg(unix)]
mod vnode;
