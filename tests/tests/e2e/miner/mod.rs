//! Tests with real miners and real nodes: work over getWork and Stratum, exit codes, status, many
//! workers.

mod commands;
mod crowd;
mod dashboard;
mod getwork;
mod outside;
mod rig_systems;
mod stratum;
