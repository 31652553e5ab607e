//! The service between a base-chain node (VNODE) and the servers of application chains (SCS), both
//! sides of it: gRPC, message by message as docs/scs-wire.md has it.
//!
//! | question | module |
//! |---|---|
//! | which fields do the messages have? | [`proto`] |
//! | what do the fields of a pushed message mean? | [`message`] |
//! | how do calls and streams travel? | `wire` |
//! | what does a VNODE answer, and whom does it push what? | [`vnode`] |
//! | how does a VNODE prove what it tells? | `witness` |
//! | how does an SCS stay connected? | [`client`] |
//!
//! The messages are written by hand, so that no `protoc` is needed. Knows neither chains nor
//! contracts: a VNODE reads both through [`vnode::ScsHost`].

pub mod client;
pub mod message;
pub mod proto;
pub mod vnode;
mod wire;
mod witness;

pub use message::{AddressForm, MessageKind, ScsId, ScsMessage, ScsMessageError, WireAddress};
pub use witness::WitnessWish;
