//! Facts, schemas and clients for the tests of several topics.

pub(crate) mod described;
pub(crate) mod facts;
pub(crate) mod http_client;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod small_stack;
