//! Whole nodes, judged from outside: one module per promise.

#![cfg(unix)]

mod clients;
mod console;
mod durability;
mod hostile;
mod offline;
mod options;
mod start;
mod stop;
mod transactions;
mod transport;
mod websocket;
mod work;
