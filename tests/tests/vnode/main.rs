//! Whole nodes, judged from outside: one module per promise.

#![cfg(unix)]

mod clients;
mod durability;
mod faults;
mod logs;
mod offline;
mod options;
mod start;
mod stop;
mod transactions;
mod transport;
mod txpool;
mod work;
