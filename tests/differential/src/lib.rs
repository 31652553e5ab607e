//! Compares the executor of the node with others, by random programs with seeds.
//!
//! | question | module |
//! |---|---|
//! | which forks are compared? | [`rules`] |
//! | what is in the case of a seed? | [`generate`], of [`program`]s in a [`case`] |
//! | what does this node make of it? | [`ours`] |
//! | what does the executor make of it that tests can install? | [`client`] |
//! | do both agree? | [`compare`] |
//! | what is the smallest case that shows a difference? | [`shrink`] |
//! | do both accept the same headers and uncles? | [`headers`] |
//! | do the single steps agree with a program such as geth's `evm`? | [`evm`] |
//! | does that program make the same block? | [`transition`] |
//! | which forms have its inputs and lines? | [`evm_form`] |
//! | does a node that is named by its URL agree? | [`named_node`] |
//!
//! A new fork is one row in [`rules`]. How to run it: CONTRIBUTING.md.

pub mod campaign;
pub mod case;
pub mod client;
pub mod compare;
pub mod error;
pub mod evm;
pub mod evm_form;
pub mod generate;
pub mod headers;
pub mod named_node;
pub mod opcodes;
pub mod ours;
pub mod program;
pub mod random;
pub mod rules;
pub mod shrink;
pub mod transition;
