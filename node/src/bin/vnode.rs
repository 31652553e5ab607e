//! The base-chain node.
fn main() {}
