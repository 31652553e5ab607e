//! The comparisons themselves, and proof that each of them finds a rule that differs.

mod coverage;
mod independent;
mod named;
mod specification;
mod written;
