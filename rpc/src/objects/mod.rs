//! Blocks, transactions, receipts, logs and traces as JSON objects.
//!
//! The objects borrow from the types of the package `chain` and are written without a copy, with
//! their fields in the order of the interface. Source: docs/interface.md, 2.

mod access_list;
mod block;
mod log;
mod parity;
mod receipt;
mod trace;
mod transaction;
mod work;

pub(crate) use access_list::{ListedAccount, ShownAccessList};
pub(crate) use block::{BlockFacts, BlockObject, HeaderObject};
pub(crate) use log::LogObject;
pub(crate) use parity::{ParityTraceObject, ReplayObject, TracePlace};
pub(crate) use receipt::ReceiptObject;
pub(crate) use trace::TraceObject;
pub(crate) use trace::{BlockTraces, write_block_traces, write_trace};
pub(crate) use transaction::TransactionObject;
pub use transaction::TransactionPlace;
pub(crate) use transaction::shown_hash;
pub(crate) use work::{WorkValue, work_values};
pub use work::{header_notice, work_notice};
