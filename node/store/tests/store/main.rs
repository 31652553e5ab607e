//! Tests of the store on a disk that fills up, breaks, loses power or flips bytes.

use features as _;

mod disk;
mod faults;
mod lost_syncs;
mod power_loss;
mod power_losses;
mod scenario;
