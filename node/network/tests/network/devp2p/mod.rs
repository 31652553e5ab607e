//! The wire protocol against the npm package `@ethereumjs/devp2p`, which was written by others:
//! `RLPx` in both directions with every version, and discovery.

mod discovery;
mod rlpx;
