//! Checks that the files of the repository agree with what the documents promise, and that they
//! follow the rules of form and structure.
//!
//! The package has tests only. They only read files, and ask `cargo` what it would build, so
//! `cargo test --release -p house` takes seconds. Each rule is a function that collects all places
//! that break it, so that a failing test lists all of them at once.
#![cfg(test)]

mod citations;
mod documents;
mod evidence;
mod features;
mod knowledge;
mod layers;
mod names;
mod queues;
mod sources;
mod text;
mod voice;
