//! The methods over HTTP, on a real chain in memory.

mod admin;
mod attacks;
mod blocks;
mod calls;
mod controls;
mod debug;
#[path = "../shared/described.rs"]
mod described;
mod developer;
mod events;
mod examples;
#[path = "../shared/facts.rs"]
mod facts;
mod filters;
mod full_disk;
mod geth;
mod harness;
#[path = "../shared/http_client.rs"]
mod http_client;
mod interface;
mod logs;
mod miner;
mod mining;
mod name_style;
mod personal;
mod prepare;
mod ranges;
#[path = "../shared/reference.rs"]
mod reference;
mod replays;
#[path = "../shared/schema.rs"]
mod schema;
mod sending;
mod shapes;
#[path = "../shared/small_stack.rs"]
mod small_stack;
mod state;
mod subscriptions;
mod tracers;
mod transactions;
mod txpool;
mod typed;
mod vnode;
mod wallets;
