//! Blocks made here: [`build`] drafts them, [`desk`] hands out their work and takes solutions.

pub mod build;
pub mod desk;
