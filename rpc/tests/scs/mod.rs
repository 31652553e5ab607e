//! The methods of an application-chain node over HTTP, each row of docs/interface.md, 4.10.

mod examples;
mod exchange;
mod harness;
mod rows;
mod wallets;
