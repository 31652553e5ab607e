//! Tests of the package through its public interface: blocks, exact gas, forks, damage, crashes.
//!
//! All modules are one program, so that the dependencies are linked once. [`common`] makes blocks,
//! [`run`] runs single transactions, and [`scenes`] has what several modules share. The first lines
//! of each other module say what it tests.

use features as _;

mod calls;
mod classic_judges;
mod common;
mod crash;
mod damage;
mod deep_reorg;
#[path = "../../../store/tests/store/disk.rs"]
mod disk;
mod disk_faults;
mod era1;
mod fetched_state;
mod fork_limits;
mod gas;
mod handle;
mod headers;
mod import;
mod import_runs;
mod journal;
mod logs;
mod money;
mod notices;
mod old_blocks;
mod pool_model;
mod precompiles;
mod public;
mod public_node;
mod random_forks;
mod recent_states;
mod recent_tries;
mod refund;
mod roots;
mod run;
mod run_memory;
mod scenes;
mod set_head;
mod stream_import;
mod system_call;
mod trace;
mod typed;
mod vectors;
mod verify;
