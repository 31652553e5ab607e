//! The objects of the wire (interface section 2): what a block, a transaction, a receipt and a
//! log look like as JSON.
//!
//! They borrow from the chain's types and are written straight from them, in the interface's
//! order of fields. Where a value comes from is decided by the methods.

mod block;
mod log;
mod receipt;
mod trace;
mod transaction;

pub use block::{BlockFacts, BlockObject, HeaderObject};
pub use log::LogObject;
pub use receipt::ReceiptObject;
pub use trace::TraceObject;
pub(crate) use trace::TransactionTrace;
pub(crate) use transaction::shown_hash;
pub use transaction::{TransactionObject, TransactionPlace};
