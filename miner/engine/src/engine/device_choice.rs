//! Selects the devices that search: matches the choice of the user with the adapters of this
//! machine.
//!
//! Knows names and properties of adapters. Opens none.

use core::fmt;
use std::str::FromStr;

use crate::error::MinerError;
use crate::gpu::{AdapterInfo, list_adapters};

/// The devices that a user asks for: `auto`, `all`, `cpu`, `gpu`, or a list such as `gpu:1`,
/// `gpu:0,2` or `cpu,gpu:0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first hardware graphics adapter, or the CPU if there is none.
    #[default]
    Auto,
    /// The CPU only.
    Cpu,
    /// The first hardware graphics adapter, or the first software adapter if there is none.
    Gpu,
    /// All hardware graphics adapters, or the CPU if there is none.
    All,
    /// The adapters with these numbers, and the CPU if it is named. `miner devices` lists the
    /// numbers.
    List {
        /// Whether the CPU searches as well.
        cpu: bool,
        /// Numbers of adapters, in ascending order. There is at least one, because the CPU alone is
        /// [`DeviceChoice::Cpu`].
        adapters: Vec<usize>,
    },
}

/// A text is not a choice of devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid device: got {got:?}, expected auto, all, cpu, gpu or a list such as gpu:0 or gpu:0,2 or cpu,gpu:0"
)]
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
            "all" => return Ok(Self::All),
            _ => {}
        }
        let (mut cpu, mut adapters) = (false, Vec::new());
        for item in text.split(',') {
            let number = match item.strip_prefix("gpu:") {
                Some(number) => number,
                None if item == "cpu" => {
                    cpu = true;
                    continue;
                }
                // `gpu:0,2` is short for `gpu:0,gpu:2`.
                None if !adapters.is_empty() => item,
                None => return Err(error()),
            };
            adapters.push(number.parse::<usize>().map_err(|_| error())?);
        }
        adapters.sort_unstable();
        adapters.dedup();
        Ok(if adapters.is_empty() {
            Self::Cpu
        } else {
            Self::List { cpu, adapters }
        })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("gpu"),
            Self::All => f.write_str("all"),
            Self::List { cpu, adapters } => {
                let numbers: Vec<_> = adapters.iter().map(usize::to_string).collect();
                let cpu = if *cpu { "cpu," } else { "" };
                write!(f, "{cpu}gpu:{}", numbers.join(","))
            }
        }
    }
}

/// The selected devices, and the reason for the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSelection {
    /// The adapters to open.
    pub adapters: Vec<AdapterInfo>,
    /// Whether the CPU searches from the start on.
    pub cpu: bool,
    /// A sentence for the log.
    pub reason: String,
}

impl DeviceChoice {
    /// Selects among the adapters of this machine. The adapters are listed only if the choice needs
    /// them.
    pub fn select_here(&self) -> Result<DeviceSelection, MinerError> {
        self.select(&if *self == Self::Cpu {
            Vec::new()
        } else {
            list_adapters()
        })
    }

    /// Selects among `adapters`.
    ///
    /// # Errors
    /// If an adapter that was asked for does not exist.
    pub fn select(&self, adapters: &[AdapterInfo]) -> Result<DeviceSelection, MinerError> {
        let hardware = adapters.iter().find(|adapter| !adapter.software);
        let selection = |adapter: Option<&AdapterInfo>, reason: String| DeviceSelection {
            adapters: adapter.into_iter().cloned().collect(),
            cpu: adapter.is_none(),
            reason,
        };
        let on_the_cpu = |adapters: &[AdapterInfo]| match adapters.first() {
            Some(software) => selection(
                None,
                format!("the only graphics adapter is software ({})", software.name),
            ),
            None => selection(None, "there is no graphics adapter".into()),
        };
        match self {
            Self::Cpu => Ok(selection(None, "the CPU was asked for".into())),
            Self::Auto => Ok(match hardware {
                Some(adapter) => selection(Some(adapter), "it is the first hardware adapter".into()),
                None => on_the_cpu(adapters),
            }),
            Self::All if hardware.is_none() => Ok(on_the_cpu(adapters)),
            Self::All => Ok(DeviceSelection {
                adapters: adapters
                    .iter()
                    .filter(|adapter| !adapter.software)
                    .cloned()
                    .collect(),
                cpu: false,
                reason: "every hardware adapter was asked for".into(),
            }),
            Self::Gpu => match (hardware, adapters.first()) {
                (Some(adapter), _) => Ok(selection(
                    Some(adapter),
                    "a graphics adapter was asked for, and this is the first".into(),
                )),
                (None, Some(software)) => Ok(selection(
                    Some(software),
                    "a graphics adapter was asked for, and there are only software ones; the CPU is faster"
                        .into(),
                )),
                (None, None) => Err(MinerError::NoAdapter {
                    wanted: None,
                    found: 0,
                }),
            },
            Self::List {
                cpu,
                adapters: wanted,
            } => {
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
                Ok(DeviceSelection {
                    adapters,
                    cpu: *cpu,
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
            max_pages: 31,
            subgroup_size: 8,
            pci_bus: None,
        }
    }

    #[test]
    fn every_choice_is_parsed_and_displayed() {
        for text in ["auto", "all", "cpu", "gpu", "gpu:0", "gpu:0,2", "cpu,gpu:1"] {
            assert_eq!(
                text.parse::<DeviceChoice>().map(|choice| choice.to_string()),
                Ok(text.to_owned())
            );
        }
        let list = |cpu, adapters: &[usize]| DeviceChoice::List {
            cpu,
            adapters: adapters.to_vec(),
        };
        assert_eq!("gpu:2,0,2".parse(), Ok(list(false, &[0, 2])));
        assert_eq!("gpu:2,gpu:1,cpu".parse(), Ok(list(true, &[1, 2])));
        assert_eq!("cpu,cpu".parse(), Ok(DeviceChoice::Cpu));
        for text in [
            "", "GPU", "gpu:", "gpu:x", "gpu:-1", "gpu:1,", "cuda", "1", "cpu,1", "cpu,gpu", "all,cpu",
        ] {
            let error = text.parse::<DeviceChoice>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn the_automatic_choice_is_a_hardware_adapter_or_the_cpu() {
        let indices = |choice: DeviceChoice, adapters: &[AdapterInfo]| {
            choice
                .select(adapters)
                .map(|selection| selection.adapters.iter().map(|a| a.index).collect::<Vec<_>>())
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
        let list = |cpu, adapters: &[usize]| DeviceChoice::List {
            cpu,
            adapters: adapters.to_vec(),
        };
        assert_eq!(indices(list(false, &[0, 1]), &both), Ok(vec![0, 1]));
        assert!(
            list(true, &[0])
                .select(&both)
                .is_ok_and(|selection| selection.cpu)
        );
        assert_eq!(indices(DeviceChoice::All, &both), Ok(vec![1]));
        assert!(
            DeviceChoice::All
                .select(&both)
                .is_ok_and(|selection| !selection.cpu)
        );
        assert!(
            DeviceChoice::All
                .select(&both[..1])
                .is_ok_and(|selection| selection.cpu && selection.adapters.is_empty())
        );
        let missing = MinerError::NoAdapter {
            wanted: Some(7),
            found: 2,
        };
        assert_eq!(indices(list(false, &[7]), &both), Err(missing));
        let reason = DeviceChoice::Auto
            .select(&[soft])
            .map(|selection| selection.reason);
        assert!(reason.is_ok_and(|reason| reason.contains("software (adapter 0)")));
    }
}
