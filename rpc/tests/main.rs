//! The tests of this package that need a server or a chain, in one program.

mod mc;
mod scs;
mod server;
mod shared;
