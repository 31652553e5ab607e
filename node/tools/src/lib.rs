//! The programs beside `vnode`: `scs`, and `vnode-tools`, which runs those commands of `vnode` that
//! need more than a node has.
//!
//! | subject | module |
//! |---|---|
//! | the server of application chains | [`scs_program`] |
//! | `vnode scs-demo` | [`scs_demo`] |
//! | `vnode export --format parquet` | [`export_tables`] |
//! | `vnode completions`, `vnode manual` | [`package`] |

pub mod export_tables;
pub mod package;
pub mod scs_demo;
pub mod scs_program;
