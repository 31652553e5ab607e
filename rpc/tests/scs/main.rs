//! The methods of an application-chain node over HTTP, each row of docs/interface.md, 4.10.

#[path = "../shared/described.rs"]
mod described;
mod examples;
mod exchange;
mod harness;
#[path = "../shared/http_client.rs"]
mod http_client;
#[path = "../shared/reference.rs"]
mod reference;
mod rows;
#[path = "../shared/schema.rs"]
mod schema;
#[path = "../shared/small_stack.rs"]
mod small_stack;
