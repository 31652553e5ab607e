//! Blocks made here: [`build`] builds them without a seal, [`work`] hands them out as work and
//! takes solutions, `reports` adds up the hashrates that miners report.

pub mod build;
mod reports;
pub mod work;
