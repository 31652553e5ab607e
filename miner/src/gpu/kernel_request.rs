//! What a user asks for with `--kernel`.

use std::str::FromStr;

use super::kernel_form::{GenerationForm, KernelForm, KernelVariant};
use super::options::GpuOptions;

/// The most slices of the light cache.
const SLICES_MAX: u32 = 64;
/// The largest workgroup.
const WORKGROUP_MAX: u32 = 1024;

/// What a user asks for with `--kernel`: `auto`, or a form such as `shuffle8`.
///
/// After the form come `+array` and `+u64`. After the form or `auto` come `+wide` and `+slicesN`,
/// which change how the dataset is laid out and generated. The size of a workgroup comes last, as
/// in `shuffle8+u64:128`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelRequest {
    /// The kernel. `None`: the fastest one, by measurement.
    pub variant: Option<KernelVariant>,
    /// Invocations in a workgroup. `None`: as usual.
    pub workgroup_size: Option<u32>,
    /// Whether tables have as few pages as possible.
    pub large_pages: bool,
    /// How a dataset generation reads the light cache. `None`: as is usual on the adapter.
    pub generation: Option<GenerationForm>,
}

/// A text is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {got}, expected auto or one of {}, with {KERNEL_PARTS}", form_names())]
pub struct KernelRequestError {
    /// The text.
    pub got: String,
}

/// What may follow a form.
const KERNEL_PARTS: &str = "+array, +u64, +wide, +slicesN and :WORKGROUP as wanted, such as shuffle8+u64:128";

fn form_names() -> String {
    let names: Vec<_> = KernelForm::ALL.iter().map(|form| form.name()).collect();
    names.join(", ")
}

impl FromStr for KernelRequest {
    type Err = KernelRequestError;

    fn from_str(text: &str) -> Result<Self, KernelRequestError> {
        parse(text).ok_or_else(|| KernelRequestError { got: text.to_owned() })
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
    let mut variant = Vec::new();
    for part in parts.split('+') {
        match part.strip_prefix("slices") {
            Some(slices) => {
                let slices: u32 = slices.parse().ok()?;
                let is_valid = (1..=SLICES_MAX).contains(&slices);
                request.generation = Some(is_valid.then(|| GenerationForm::in_slices(slices))?);
            }
            None if part == "wide" => request.large_pages = true,
            None => variant.push(part),
        }
    }
    match variant.join("+").as_str() {
        // A workgroup size is a part of what is measured.
        "auto" if request.workgroup_size.is_none() => {}
        "auto" => return None,
        name => request.variant = Some(KernelVariant::from_name(name)?),
    }
    Some(request)
}

impl KernelRequest {
    /// Returns `options` with what is asked for.
    pub fn apply(&self, options: GpuOptions) -> GpuOptions {
        GpuOptions {
            kernel: self.variant.unwrap_or(options.kernel),
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
    use crate::gpu::{KeccakLane, PageChoice};

    #[test]
    fn every_part_of_a_request_is_read() {
        assert_eq!("auto".parse(), Ok(KernelRequest::default()));
        let full = KernelRequest {
            variant: Some(KernelVariant {
                form: KernelForm::Shuffle8,
                pages: PageChoice::Array,
                keccak: KeccakLane::Word,
            }),
            workgroup_size: Some(128),
            large_pages: true,
            generation: Some(GenerationForm::Sliced { slices: 4 }),
        };
        assert_eq!("shuffle8+array+u64+wide+slices4:128".parse(), Ok(full));
        let options = full.apply(GpuOptions::default());
        assert_eq!(
            (options.workgroup_size, options.generation),
            (128, full.generation)
        );
        assert!(options.large_pages && options.kernel.keccak == KeccakLane::Word);
        let wide: KernelRequest = "auto+wide".parse().expect("valid");
        assert!(wide.large_pages && wide.variant.is_none());
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
            "auto+array",
            "lane+slices0",
            "lane+slices65",
            "lane+slices",
        ] {
            let error = bad.parse::<KernelRequest>().expect_err(bad);
            assert!(error.to_string().contains("shuffle2"), "{error}");
        }
    }
}
