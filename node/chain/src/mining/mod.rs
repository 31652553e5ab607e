//! Blocks made here: [`build`] builds them without a seal, [`work`] hands them out as work and
//! takes solutions, [`pause`] has the reasons for which there is no work, `reports` adds up the
//! hashrates that miners report.

pub mod build;
pub mod pause;
mod reports;
pub mod work;
