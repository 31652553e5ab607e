//! The methods over HTTP, on a real chain in memory.

mod admin;
mod blocks;
mod calls;
mod controls;
mod debug;
mod events;
mod examples;
#[path = "../shared/facts.rs"]
mod facts;
mod filters;
mod full_disk;
mod harness;
mod interface;
mod logs;
mod miner;
mod mining;
mod name_style;
mod personal;
mod prepare;
mod ranges;
mod sending;
mod shapes;
mod state;
mod subscriptions;
mod transactions;
mod txpool;
mod vnode;
