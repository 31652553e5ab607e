//! The forms of the search kernel, and a choice among them.

use std::time::Duration;

use super::adapter::AdapterInfo;

/// How a hash is spread over invocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// A hash per invocation. Runs everywhere.
    #[default]
    Lane,
    /// Eight invocations per hash, which read a dataset item together and exchange values within their
    /// subgroup. A group of eight has four hashes under way.
    Shuffle,
    /// The same with eight hashes under way: more reads at once, for more registers.
    Shuffle8,
    /// As [`KernelForm::Shuffle`] with the exchange through the memory of the workgroup. Runs everywhere.
    Group,
}

impl KernelForm {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Lane, Self::Shuffle, Self::Shuffle8, Self::Group];
    /// Invocations that share a hash in all forms but [`KernelForm::Lane`].
    pub(crate) const LANES_PER_HASH: u32 = 8;

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Shuffle => "shuffle",
            Self::Shuffle8 => "shuffle8",
            Self::Group => "group",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether it runs on `adapter`.
    pub fn runs_on(self, adapter: &AdapterInfo) -> bool {
        let with_subgroups = matches!(self, Self::Shuffle | Self::Shuffle8);
        !with_subgroups || adapter.subgroup_size >= Self::LANES_PER_HASH
    }
}

/// A kernel and how to drive it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenKernel {
    /// The kernel's form.
    pub form: KernelForm,
    /// Invocations in a workgroup.
    pub workgroup_size: u32,
    /// For how long batches occupy the device; `None` where that was not measured.
    pub target_batch: Option<Duration>,
    /// Hashes per second when it was chosen; `None` where it was remembered.
    pub hashrate: Option<f64>,
}
