//! Blocks made here: [`build`] builds them without a seal, [`work`] hands them out as work and
//! takes solutions.

pub mod build;
pub mod work;
