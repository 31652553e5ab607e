//! Real miners and real nodes: work over getWork and Stratum, ends, statuses, crowds.

#![cfg(unix)]

mod commands;
mod crowd;
mod getwork;
mod outside;
mod stratum;
