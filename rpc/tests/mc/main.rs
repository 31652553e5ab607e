//! The `mc` and `personal` methods over HTTP, on a real chain in memory.

mod blocks;
mod calls;
mod harness;
mod logs;
mod mining;
mod personal;
mod sending;
mod shapes;
mod state;
mod transactions;
