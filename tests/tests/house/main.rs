//! Keeps the house in order: what the documents and the structure promise is compared with the
//! files of the repository themselves.
//!
//! Nothing is run here and no process is started. Each rule is a function that collects every
//! place that breaks it, so that a failing test lists all of them at once.

mod citations;
mod knowledge;
mod layers;
mod names;
mod sources;
mod text;
