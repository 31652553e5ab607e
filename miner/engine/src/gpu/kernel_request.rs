//! The argument of `--kernel`.

use std::str::FromStr;

use super::kernel_form::{GenerationForm, KernelForm};
use super::options::GpuOptions;

/// The most slices of the light cache.
const SLICES_MAX: u32 = 64;
/// The largest workgroup.
const WORKGROUP_MAX: u32 = 1024;

/// The argument of `--kernel`: `auto`, or a form such as `shuffle`.
///
/// After it come `+wide` and `+slicesN`, which change how the dataset is laid out and generated.
/// The size of a workgroup comes last, as in `shuffle+wide:128`.
///
/// Both stay for cards that were not measured: `+wide` saves comparisons where a binding may be
/// larger than the usual page, `+slicesN` saves memory reads where the second-level cache is much
/// smaller than the light cache. On an H100 slices are slower (bench/notes.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelRequest {
    /// The form. `None`: the fastest one, by measurement.
    pub form: Option<KernelForm>,
    /// Invocations in a workgroup. `None`: as usual.
    pub workgroup_size: Option<u32>,
    /// Whether tables have as few pages as possible.
    pub large_pages: bool,
    /// The form of the dataset generation. `None`: as is usual on the adapter.
    pub generation: Option<GenerationForm>,
}

/// A text is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelRequestError {
    /// The text does not have the form of a request.
    #[error("got {got}, expected auto or one of {}, with {KERNEL_PARTS}", form_names())]
    Unknown {
        /// The text.
        got: String,
    },
    /// The text names a part that earlier versions had.
    #[error("got {got}: {part} no longer exists, because it was faster nowhere; {instead}")]
    Removed {
        /// The text.
        got: String,
        /// The part.
        part: &'static str,
        /// The advice for the user.
        instead: &'static str,
    },
}

/// The parts that may follow a form.
const KERNEL_PARTS: &str = "+wide, +slicesN and :WORKGROUP as wanted, such as shuffle+wide:128";
/// Parts of a request that earlier versions had, and the advice for who still uses them.
const REMOVED: [(&str, &str); 5] = [
    ("shuffle8", "use shuffle"),
    ("group2", "use group"),
    ("group8", "use group"),
    ("array", "leave it out"),
    ("u64", "leave it out"),
];

fn form_names() -> String {
    let names: Vec<_> = KernelForm::ALL.iter().map(|form| form.name()).collect();
    names.join(", ")
}

impl FromStr for KernelRequest {
    type Err = KernelRequestError;

    fn from_str(text: &str) -> Result<Self, KernelRequestError> {
        parse(text).ok_or_else(|| {
            let got = text.to_owned();
            let parts = text.split(':').next().unwrap_or_default().split('+');
            let removed = |part| REMOVED.into_iter().find(|(name, _)| *name == part);
            match parts.into_iter().find_map(removed) {
                Some((part, instead)) => KernelRequestError::Removed { got, part, instead },
                None => KernelRequestError::Unknown { got },
            }
        })
    }
}

fn parse(text: &str) -> Option<KernelRequest> {
    let mut request = KernelRequest::default();
    let parts = match text.split_once(':') {
        None => text,
        Some((parts, size)) => {
            let size: u32 = size.parse().ok()?;
            let is_valid = (KernelForm::LANES_PER_HASH..=WORKGROUP_MAX).contains(&size)
                && size.is_multiple_of(KernelForm::LANES_PER_HASH);
            request.workgroup_size = Some(is_valid.then_some(size)?);
            parts
        }
    };
    let mut parts = parts.split('+');
    let form = parts.next()?;
    for part in parts {
        match part.strip_prefix("slices") {
            Some(slices) => {
                let slices: u32 = slices.parse().ok()?;
                let is_valid = (1..=SLICES_MAX).contains(&slices);
                request.generation = Some(is_valid.then(|| GenerationForm::in_slices(slices))?);
            }
            None if part == "wide" => request.large_pages = true,
            None => return None,
        }
    }
    match form {
        // A workgroup size is a part of what is measured.
        "auto" if request.workgroup_size.is_none() => {}
        "auto" => return None,
        name => request.form = Some(KernelForm::from_name(name)?),
    }
    Some(request)
}

impl KernelRequest {
    /// Returns `options` with what is asked for.
    pub fn apply(&self, options: GpuOptions) -> GpuOptions {
        GpuOptions {
            kernel: self.form.unwrap_or(options.kernel),
            workgroup_size: self.workgroup_size.unwrap_or(options.workgroup_size),
            large_pages: self.large_pages,
            generation: self.generation.or(options.generation),
            ..options
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_request_is_read() {
        assert_eq!("auto".parse(), Ok(KernelRequest::default()));
        let full = KernelRequest {
            form: Some(KernelForm::Shuffle2),
            workgroup_size: Some(128),
            large_pages: true,
            generation: Some(GenerationForm::Sliced { slices: 4 }),
        };
        assert_eq!("shuffle2+wide+slices4:128".parse(), Ok(full));
        let options = full.apply(GpuOptions::default());
        assert_eq!(
            (options.workgroup_size, options.generation),
            (128, full.generation)
        );
        assert!(options.large_pages && options.kernel == KernelForm::Shuffle2);
        let wide: KernelRequest = "auto+wide".parse().expect("valid");
        assert!(wide.large_pages && wide.form.is_none());
    }

    #[test]
    fn other_texts_are_refused_with_the_forms() {
        for bad in [
            "",
            "warp",
            "auto:64",
            "lane:0",
            "lane:12",
            "lane:2048",
            "lane:",
            "lane+",
            "wide",
            "wide+lane",
            "lane+slices0",
            "lane+slices65",
            "lane+slices",
        ] {
            let error = bad.parse::<KernelRequest>().expect_err(bad);
            assert!(error.to_string().contains("shuffle2"), "{error}");
        }
    }

    #[test]
    fn a_kernel_of_an_earlier_version_is_refused_with_an_advice() {
        for (text, part, advice) in [
            ("shuffle8", "shuffle8", "use shuffle"),
            ("group2+wide:128", "group2", "use group"),
            ("lane+array:64", "array", "leave it out"),
            ("shuffle+u64", "u64", "leave it out"),
        ] {
            let error = text.parse::<KernelRequest>().expect_err(text).to_string();
            assert!(error.contains(part) && error.ends_with(advice), "{error}");
        }
    }
}
