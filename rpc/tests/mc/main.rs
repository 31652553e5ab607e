//! The methods over HTTP, on a real chain in memory.

mod admin;
mod blocks;
mod calls;
mod controls;
mod debug;
mod dialect;
mod examples;
mod harness;
mod interface;
mod logs;
mod miner;
mod mining;
mod personal;
mod prepare;
mod sending;
mod shapes;
mod state;
mod transactions;
mod txpool;
mod vnode;
