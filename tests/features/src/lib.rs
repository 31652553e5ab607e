//! Gives tests the allocator of the programs. Its manifest turns on features, see there.
//!
//! Tests that allocate much name this crate. Their programs have no server, whose package `rpc`
//! brings the same allocator.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
