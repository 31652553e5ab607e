//! The forms of the search kernel, and the result of a choice among them.

use std::time::Duration;

use super::adapter::AdapterInfo;

/// How the work of a hash is divided among invocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// One invocation for each hash. Runs on every adapter.
    #[default]
    Lane,
    /// Eight invocations for each hash. They read a dataset item together and exchange values
    /// within their subgroup. Each group of eight mixes four hashes at a time.
    Shuffle,
    /// Like [`KernelForm::Shuffle`], but each group mixes eight hashes at a time. There are more
    /// reads in flight, and more registers are used.
    Shuffle8,
    /// Like [`KernelForm::Shuffle`], but values are exchanged through the memory of the workgroup.
    /// Runs on every adapter.
    Group,
}

impl KernelForm {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Lane, Self::Shuffle, Self::Shuffle8, Self::Group];
    /// Invocations that share a hash, in all forms except [`KernelForm::Lane`].
    pub(crate) const LANES_PER_HASH: u32 = 8;

    /// The name of the form in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Shuffle => "shuffle",
            Self::Shuffle8 => "shuffle8",
            Self::Group => "group",
        }
    }

    /// Returns the form with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether the form runs on `adapter`.
    pub const fn runs_on(self, adapter: &AdapterInfo) -> bool {
        let with_subgroups = matches!(self, Self::Shuffle | Self::Shuffle8);
        !with_subgroups || adapter.subgroup_size >= Self::LANES_PER_HASH
    }
}

/// A kernel, and the settings to run it with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenKernel {
    /// The form of the kernel.
    pub form: KernelForm,
    /// Invocations in a workgroup.
    pub workgroup_size: u32,
    /// How long the batches in flight keep the device busy. `None` if this was not measured.
    pub target_batch: Option<Duration>,
    /// Hashes per second at the time of the choice. `None` if the choice was read from a file.
    pub hashrate: Option<f64>,
}
