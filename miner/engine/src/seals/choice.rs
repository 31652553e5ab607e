//! The choice of the device that checks seals in bulk.

use std::fmt;
use std::str::FromStr;

/// The device that checks the seals of headers that come in bulk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealDevice {
    /// The first hardware graphics card, once many headers have come; otherwise the processor.
    Auto,
    /// The processor.
    #[default]
    Cpu,
    /// The adapter with this number, a software adapter, too. `miner devices` lists the numbers.
    Gpu(usize),
}

/// A text is no device for seals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid device for seals: got {got:?}, expected auto, cpu or one card such as gpu:0")]
pub struct SealDeviceParseError {
    /// The text.
    pub got: String,
}

impl FromStr for SealDevice {
    type Err = SealDeviceParseError;

    fn from_str(text: &str) -> Result<Self, SealDeviceParseError> {
        let number = |text: &str| text.strip_prefix("gpu:")?.parse().ok();
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            text => number(text)
                .map(Self::Gpu)
                .ok_or_else(|| SealDeviceParseError { got: text.to_owned() }),
        }
    }
}

impl fmt::Display for SealDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(number) => write!(f, "gpu:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_parsed_and_displayed() {
        for text in ["auto", "cpu", "gpu:0", "gpu:12"] {
            assert_eq!(
                text.parse::<SealDevice>().map(|device| device.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "gpu", "gpu:", "gpu:0,1", "gpu:-1", "all", "cpu,gpu:0"] {
            let error = text.parse::<SealDevice>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
