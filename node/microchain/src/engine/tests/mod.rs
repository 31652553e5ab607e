//! Engines on a bus, with a chain base in memory and a clock of their own.

mod base_chain;
mod blocks;
mod dapp_bases;
mod faults;
mod flood;
mod flushes;
mod invariants;
mod lists;
mod money;
mod reorganizations;
mod snapshots;
mod theft;
mod wallets;
mod world;
