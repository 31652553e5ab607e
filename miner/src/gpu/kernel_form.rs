//! The forms and variants of the search kernel, the forms of the generation kernel, and the result
//! of a choice among search kernels.

use core::fmt;
use std::time::Duration;

use super::adapter::AdapterInfo;

/// How the work of a hash is divided among invocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// One invocation for each hash. Runs on every adapter.
    #[default]
    Lane,
    /// Eight invocations for each hash. They read a dataset item together and exchange values
    /// within their subgroup. Each group of eight mixes two hashes at a time.
    Shuffle2,
    /// Like [`KernelForm::Shuffle2`], but each group mixes four hashes at a time. There are more
    /// reads in flight, and more registers are used.
    Shuffle,
    /// Like [`KernelForm::Shuffle2`], but each group mixes eight hashes at a time.
    Shuffle8,
    /// Like [`KernelForm::Shuffle2`], but values are exchanged through the memory of the workgroup.
    /// Runs on every adapter.
    Group2,
    /// Like [`KernelForm::Group2`], but each group mixes four hashes at a time.
    Group,
    /// Like [`KernelForm::Group2`], but each group mixes eight hashes at a time.
    Group8,
}

impl KernelForm {
    /// All forms.
    pub const ALL: [Self; 7] = [
        Self::Lane,
        Self::Shuffle2,
        Self::Shuffle,
        Self::Shuffle8,
        Self::Group2,
        Self::Group,
        Self::Group8,
    ];
    /// Invocations that share a hash, in all forms except [`KernelForm::Lane`].
    pub(crate) const LANES_PER_HASH: u32 = 8;

    /// The name of the form in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Shuffle2 => "shuffle2",
            Self::Shuffle => "shuffle",
            Self::Shuffle8 => "shuffle8",
            Self::Group2 => "group2",
            Self::Group => "group",
            Self::Group8 => "group8",
        }
    }

    /// Returns the form with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether invocations exchange values within their subgroup.
    pub const fn has_shuffles(self) -> bool {
        matches!(self, Self::Shuffle2 | Self::Shuffle | Self::Shuffle8)
    }

    /// Whether the form runs on `adapter`.
    pub const fn runs_on(self, adapter: &AdapterInfo) -> bool {
        !self.has_shuffles() || adapter.subgroup_size >= Self::LANES_PER_HASH
    }
}

/// How the generation of a dataset reads the light cache.
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

    /// The property of `adapter` that is too small for this form, like [`KernelVariant`]'s.
    pub(crate) const fn missing_on(self, adapter: &AdapterInfo) -> Option<(&'static str, u32, u32)> {
        let needed = Self::LANES_PER_ROW;
        if matches!(self, Self::Shuffle) && adapter.subgroup_size < needed {
            return Some(("subgroup_min_size", adapter.subgroup_size, needed));
        }
        None
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

/// How a kernel finds the buffer of a row, if a table has several pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageChoice {
    /// By a `switch` over the number of the page. Runs on every adapter.
    #[default]
    Switch,
    /// By an index into an array of bindings.
    Array,
}

/// What a kernel computes Keccak with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeccakLane {
    /// Pairs of 32-bit integers. Runs on every adapter.
    #[default]
    Pair,
    /// 64-bit integers.
    Word,
}

/// A kernel: its form, and how it finds pages and computes Keccak.
///
/// As a text it is the name of the form, followed by `+array` and `+u64` if they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelVariant {
    /// The form.
    pub form: KernelForm,
    /// How pages are found.
    pub pages: PageChoice,
    /// What Keccak is computed with.
    pub keccak: KeccakLane,
}

impl From<KernelForm> for KernelVariant {
    fn from(form: KernelForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }
}

impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form.name())?;
        if self.pages == PageChoice::Array {
            f.write_str("+array")?;
        }
        if self.keccak == KeccakLane::Word {
            f.write_str("+u64")?;
        }
        Ok(())
    }
}

impl KernelVariant {
    /// All variants, in the order of forms. Variants of a form follow each other.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for form in KernelForm::ALL {
            for pages in [PageChoice::Switch, PageChoice::Array] {
                for keccak in [KeccakLane::Pair, KeccakLane::Word] {
                    all.push(Self { form, pages, keccak });
                }
            }
        }
        all
    }

    /// Returns the variant with this text.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.split('+');
        let mut variant = Self::from(KernelForm::from_name(parts.next()?)?);
        for part in parts {
            match part {
                "array" if variant.pages == PageChoice::Switch => variant.pages = PageChoice::Array,
                "u64" if variant.keccak == KeccakLane::Pair => variant.keccak = KeccakLane::Word,
                _ => return None,
            }
        }
        Some(variant)
    }

    /// The property of `adapter` that is too small for this variant: its name, its value, and the
    /// lowest value that would do. `None` if the variant runs on it.
    pub(crate) const fn missing_on(self, adapter: &AdapterInfo) -> Option<(&'static str, u32, u32)> {
        if !self.form.runs_on(adapter) {
            let needed = KernelForm::LANES_PER_HASH;
            return Some(("subgroup_min_size", adapter.subgroup_size, needed));
        }
        if matches!(self.pages, PageChoice::Array) && adapter.page_array_max == 0 {
            return Some(("max_binding_array_elements_per_shader_stage", 0, 1));
        }
        if matches!(self.keccak, KeccakLane::Word) && !adapter.has_int64 {
            return Some(("shader_int64", 0, 1));
        }
        None
    }

    /// Whether the variant runs on `adapter`.
    pub const fn runs_on(self, adapter: &AdapterInfo) -> bool {
        self.missing_on(adapter).is_none()
    }
}

/// A kernel, and the settings to run it with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenKernel {
    /// The kernel.
    pub kernel: KernelVariant,
    /// Invocations in a workgroup.
    pub workgroup_size: u32,
    /// How long the batches in flight keep the device busy. `None` if this was not measured.
    pub target_batch: Option<Duration>,
    /// Hashes per second at the time of the choice. `None` if the choice was read from a file.
    pub hashrate: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_name_of_its_own() {
        let all = KernelVariant::all();
        assert_eq!(all.len(), 28);
        for variant in &all {
            assert_eq!(KernelVariant::from_name(&variant.to_string()), Some(*variant));
        }
        for bad in [
            "",
            "+",
            "lane+",
            "warp",
            "lane+array+array",
            "lane+u64+u64",
            "u64",
            "lane+wide",
            "Lane",
        ] {
            assert_eq!(KernelVariant::from_name(bad), None, "{bad:?}");
        }
    }
}
