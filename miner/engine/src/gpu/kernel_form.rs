//! The forms of the search kernel and of the generation kernel, and the result of a choice among
//! search kernels.

use core::fmt;
use std::time::Duration;

use super::adapter::AdapterInfo;

/// The way in which the work of a hash is divided among invocations.
///
/// Which form is the fastest depends on the card, so the choice at start-up measures those that run
/// on it. Measured and given up: eight hashes at a time, pages in an array of bindings, and Keccak
/// in 64-bit integers (`bench/notes.md`, "Kernel variants, counted").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// One invocation for each hash. Runs on every adapter. The fastest form where an exchange
    /// costs more than the reads that it saves, as on software adapters.
    #[default]
    Lane,
    /// Eight invocations for each hash. They read a dataset item together and exchange values
    /// within their subgroup. Each group of eight mixes two hashes at a time, so an invocation
    /// needs about 48 registers instead of 64. For cards that give it no more than 64; on an H100
    /// this form is 2 to 7 % slower than [`KernelForm::Shuffle`].
    Shuffle2,
    /// Like [`KernelForm::Shuffle2`], but each group mixes four hashes at a time, so there are more
    /// reads in flight. The fastest form on an H100.
    Shuffle,
    /// Like [`KernelForm::Shuffle`], but values are exchanged through the memory of the workgroup.
    /// Runs on every adapter. For those without subgroups of eight invocations.
    Group,
}

impl KernelForm {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Lane, Self::Shuffle2, Self::Shuffle, Self::Group];
    /// Invocations that share a hash, in all forms except [`KernelForm::Lane`].
    pub(crate) const LANES_PER_HASH: u32 = 8;

    /// The name of the form in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Shuffle2 => "shuffle2",
            Self::Shuffle => "shuffle",
            Self::Group => "group",
        }
    }

    /// Returns the form with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether invocations exchange values within their subgroup.
    pub(crate) const fn has_shuffles(self) -> bool {
        matches!(self, Self::Shuffle2 | Self::Shuffle)
    }

    /// The property of `adapter` that is too small for this form: its name, its value, and the
    /// lowest value that would do. `None` if the form runs on it.
    pub(crate) const fn missing_on(self, adapter: &AdapterInfo) -> Option<(&'static str, u32, u32)> {
        missing_subgroup(self.has_shuffles(), adapter, Self::LANES_PER_HASH)
    }

    /// Whether the form runs on `adapter`.
    pub const fn runs_on(self, adapter: &AdapterInfo) -> bool {
        self.missing_on(adapter).is_none()
    }
}

impl fmt::Display for KernelForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The size of the subgroups of `adapter` with its name and `lanes`, if a kernel with shuffles
/// needs larger ones.
const fn missing_subgroup(
    has_shuffles: bool,
    adapter: &AdapterInfo,
    lanes: u32,
) -> Option<(&'static str, u32, u32)> {
    if has_shuffles && adapter.subgroup_size < lanes {
        return Some(("subgroup_min_size", adapter.subgroup_size, lanes));
    }
    None
}

/// The way in which the generation of a dataset reads the light cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationForm {
    /// Each invocation reads whole rows for its own node. Runs on every adapter.
    Lane,
    /// Four invocations read each row together, and exchange values within their subgroup.
    Shuffle,
    /// Like [`GenerationForm::Lane`], but all invocations read the same slice of the light cache at
    /// about the same time.
    Sliced {
        /// Number of slices, at least 2.
        slices: u32,
    },
}

impl GenerationForm {
    /// Invocations that share a row in [`GenerationForm::Shuffle`].
    const LANES_PER_ROW: u32 = 4;

    /// Returns the form that reads the light cache in this many slices. One slice is all of it.
    pub const fn in_slices(slices: u32) -> Self {
        match slices {
            0 | 1 => Self::Lane,
            slices => Self::Sliced { slices },
        }
    }

    /// Returns the form that is the fastest one on `adapter`, by what is known.
    pub const fn usual_on(adapter: &AdapterInfo) -> Self {
        if adapter.software || !Self::Shuffle.runs_on(adapter) {
            Self::Lane
        } else {
            Self::Shuffle
        }
    }

    /// Whether the form runs on `adapter`.
    pub const fn runs_on(self, adapter: &AdapterInfo) -> bool {
        self.missing_on(adapter).is_none()
    }

    /// The property of `adapter` that is too small for this form, like [`KernelForm`]'s.
    pub(crate) const fn missing_on(self, adapter: &AdapterInfo) -> Option<(&'static str, u32, u32)> {
        missing_subgroup(matches!(self, Self::Shuffle), adapter, Self::LANES_PER_ROW)
    }
}

/// `lane`, `shuffle`, or the number of slices as in `4-slices`.
impl fmt::Display for GenerationForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane => f.write_str("lane"),
            Self::Shuffle => f.write_str("shuffle"),
            Self::Sliced { slices } => write!(f, "{slices}-slices"),
        }
    }
}

/// A kernel, and the settings to run it with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenKernel {
    /// The form.
    pub kernel: KernelForm,
    /// Invocations in a workgroup.
    pub workgroup_size: u32,
    /// The time for which the batches in flight keep the device busy. `None` if this was not
    /// measured.
    pub target_batch: Option<Duration>,
    /// Hashes per second at the time of the choice. `None` if the choice was read from a file.
    pub hashrate: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_a_name_of_its_own() {
        for form in KernelForm::ALL {
            assert_eq!(KernelForm::from_name(&form.to_string()), Some(form));
        }
        for bad in ["", "+", "lane+", "warp", "shuffle8", "Lane"] {
            assert_eq!(KernelForm::from_name(bad), None, "{bad:?}");
        }
    }
}
