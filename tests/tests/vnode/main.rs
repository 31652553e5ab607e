//! Whole nodes, judged from outside: one module per promise.

#![cfg(unix)]

mod admin;
mod clients;
mod console;
mod debug;
mod durability;
mod faults;
mod hostile;
mod logs;
mod offline;
mod options;
mod start;
mod stop;
mod transactions;
mod transport;
mod txpool;
mod websocket;
mod work;
