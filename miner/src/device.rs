//! Which device searches: what the user asked for, against the adapters there are.
//!
//! Knows names and properties of adapters, opens none.

use core::fmt;
use std::str::FromStr;

use crate::engine::MinerError;
use crate::gpu::{AdapterInfo, list_adapters};

/// The device a user asks for: `auto`, `cpu`, `gpu`, `gpu:1` or `gpu:0,2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first hardware graphics adapter; the CPU where there is none.
    #[default]
    Auto,
    /// The CPU, whatever adapters there are.
    Cpu,
    /// The first hardware graphics adapter, or else the first software one.
    Gpu,
    /// The adapters with these numbers, as `miner devices` lists them.
    GpuAt(Vec<usize>),
}

/// Why a text names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no device {got:?}: expected auto, cpu, gpu or gpu:N with numbers as in gpu:0 or gpu:0,2")]
pub struct DeviceParseError {
    /// The text.
    pub got: String,
}

impl FromStr for DeviceChoice {
    type Err = DeviceParseError;

    fn from_str(text: &str) -> Result<Self, DeviceParseError> {
        let error = || DeviceParseError { got: text.to_owned() };
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "gpu" => return Ok(Self::Gpu),
            _ => {}
        }
        let numbers = text.strip_prefix("gpu:").ok_or_else(error)?;
        let mut adapters = numbers
            .split(',')
            .map(|number| number.parse().map_err(|_| error()))
            .collect::<Result<Vec<usize>, _>>()?;
        adapters.sort_unstable();
        adapters.dedup();
        Ok(Self::GpuAt(adapters))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("gpu"),
            Self::GpuAt(adapters) => {
                let numbers: Vec<_> = adapters.iter().map(usize::to_string).collect();
                write!(f, "gpu:{}", numbers.join(","))
            }
        }
    }
}

/// What will search, and the sentence that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The adapters to open. Empty: the CPU searches.
    pub(crate) adapters: Vec<AdapterInfo>,
    /// For the start-up log.
    pub(crate) reason: String,
}

impl DeviceChoice {
    /// Matches this choice with the adapters of this machine, which are looked for only where they matter.
    pub(crate) fn plan_here(&self) -> Result<Plan, MinerError> {
        self.plan(&if *self == Self::Cpu {
            Vec::new()
        } else {
            list_adapters()
        })
    }

    /// Matches this choice with the adapters there are.
    pub(crate) fn plan(&self, adapters: &[AdapterInfo]) -> Result<Plan, MinerError> {
        let hardware = adapters.iter().find(|adapter| !adapter.software);
        let plan = |adapter: Option<&AdapterInfo>, reason: String| Plan {
            adapters: adapter.into_iter().cloned().collect(),
            reason,
        };
        match self {
            Self::Cpu => Ok(plan(None, "the CPU was asked for".into())),
            Self::Auto => Ok(match (hardware, adapters.first()) {
                (Some(adapter), _) => plan(Some(adapter), "it is the first hardware adapter".into()),
                (None, Some(software)) => plan(
                    None,
                    format!("the only graphics adapter is software ({})", software.name),
                ),
                (None, None) => plan(None, "there is no graphics adapter".into()),
            }),
            Self::Gpu => match (hardware, adapters.first()) {
                (Some(adapter), _) => Ok(plan(
                    Some(adapter),
                    "a graphics adapter was asked for, and this is the first".into(),
                )),
                (None, Some(software)) => Ok(plan(
                    Some(software),
                    "a graphics adapter was asked for, and there are only software ones; the CPU is faster"
                        .into(),
                )),
                (None, None) => Err(MinerError::NoAdapter {
                    wanted: None,
                    found: 0,
                }),
            },
            Self::GpuAt(wanted) => {
                let found = adapters.len();
                let adapters = wanted
                    .iter()
                    .map(|&index| {
                        let adapter = adapters.iter().find(|adapter| adapter.index == index);
                        adapter.cloned().ok_or(MinerError::NoAdapter {
                            wanted: Some(index),
                            found,
                        })
                    })
                    .collect::<Result<_, _>>()?;
                Ok(Plan {
                    adapters,
                    reason: format!("{self} was asked for"),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(index: usize, software: bool) -> AdapterInfo {
        AdapterInfo {
            index,
            name: format!("adapter {index}"),
            backend: "Vulkan".into(),
            driver: "1".into(),
            software,
            max_binding: 1 << 27,
            max_buffer: 1 << 31,
            subgroup_size: 8,
        }
    }

    #[test]
    fn names_are_read_and_written() {
        for text in ["auto", "cpu", "gpu", "gpu:0", "gpu:0,2"] {
            assert_eq!(
                text.parse::<DeviceChoice>().map(|choice| choice.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!("gpu:2,0,2".parse(), Ok(DeviceChoice::GpuAt(vec![0, 2])));
        for text in ["", "GPU", "gpu:", "gpu:x", "gpu:-1", "gpu:1,", "cuda"] {
            let error = text.parse::<DeviceChoice>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn automatic_choice_takes_hardware_only() {
        let indices = |choice: DeviceChoice, adapters: &[AdapterInfo]| {
            choice
                .plan(adapters)
                .map(|plan| plan.adapters.iter().map(|a| a.index).collect::<Vec<_>>())
        };
        let (soft, hard) = (adapter(0, true), adapter(1, false));
        let both = [soft.clone(), hard];
        assert_eq!(indices(DeviceChoice::Auto, &both), Ok(vec![1]));
        assert_eq!(indices(DeviceChoice::Auto, &both[..1]), Ok(vec![]));
        assert_eq!(indices(DeviceChoice::Auto, &[]), Ok(vec![]));
        assert_eq!(indices(DeviceChoice::Gpu, &both), Ok(vec![1]));
        assert_eq!(indices(DeviceChoice::Gpu, &both[..1]), Ok(vec![0]));
        assert_eq!(
            indices(DeviceChoice::Gpu, &[]),
            Err(MinerError::NoAdapter {
                wanted: None,
                found: 0
            })
        );
        assert_eq!(indices(DeviceChoice::Cpu, &both), Ok(vec![]));
        assert_eq!(indices(DeviceChoice::GpuAt(vec![0, 1]), &both), Ok(vec![0, 1]));
        let missing = MinerError::NoAdapter {
            wanted: Some(7),
            found: 2,
        };
        assert_eq!(indices(DeviceChoice::GpuAt(vec![7]), &both), Err(missing));
        let reason = DeviceChoice::Auto.plan(&[soft]).map(|plan| plan.reason);
        assert!(reason.is_ok_and(|reason| reason.contains("software (adapter 0)")));
    }
}
