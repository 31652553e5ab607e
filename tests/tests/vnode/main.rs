//! Tests of whole nodes from outside, with one module for each subject.

#![cfg(unix)]

mod admin;
mod clients;
mod console;
mod crowding;
mod dashboard;
mod dashboard_page;
mod debug;
mod developer;
mod durability;
mod export_tables;
mod false_shares;
mod faults;
mod filter_flood;
mod guarded;
mod hostile;
mod hostile_pool;
mod logs;
mod metrics;
mod networks;
mod offline;
mod old_blocks;
mod options;
mod scs_service;
mod spans;
mod start;
mod stop;
mod transactions;
mod transport;
mod txpool;
mod websocket;
mod work;
