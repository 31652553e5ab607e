//! Linux's `hwmon`: a folder of small files for each chip with sensors. Elsewhere the folders are
//! absent.

use std::fs;
use std::path::{Path, PathBuf};

use super::Reading;

/// Chips that measure a processor.
const PROCESSORS: [&str; 5] = ["coretemp", "k10temp", "zenpower", "cpu_thermal", "macsmc_hwmon"];
/// The highest value of a fan's control.
const FAN_MAX: f64 = 255.0;

/// The sensors of the card at `bus`.
pub(super) fn card(sysfs: &Path, bus: &str) -> Reading {
    // An address comes from a driver; nothing but an address may become a path.
    if !bus
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
        || bus.contains("..")
    {
        return Reading::default();
    }
    let device = sysfs.join("bus/pci/devices").join(bus).join("hwmon");
    folders(&device)
        .first()
        .map(|chip| read_chip(chip))
        .unwrap_or_default()
}

/// The processor's temperature: that of its hottest chip.
pub(super) fn processor(sysfs: &Path) -> Reading {
    let chips = folders(&sysfs.join("class/hwmon"));
    let own = chips.iter().filter(|chip| {
        let name = fs::read_to_string(chip.join("name")).unwrap_or_default();
        PROCESSORS.contains(&name.trim())
    });
    let temperatures = own.filter_map(|chip| read_chip(chip).temperature_c);
    Reading {
        temperature_c: temperatures.max_by(f64::total_cmp),
        ..Reading::default()
    }
}

/// Temperatures are in thousandths of a degree, power in millionths of a watt.
fn read_chip(chip: &Path) -> Reading {
    Reading {
        temperature_c: number(&chip.join("temp1_input")).map(|value| value / 1e3),
        power_w: number(&chip.join("power1_average"))
            .or_else(|| number(&chip.join("power1_input")))
            .map(|value| value / 1e6),
        fan_percent: number(&chip.join("pwm1")).map(|value| value / FAN_MAX * 100.0),
    }
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What lies in `folder`, in the order of its names.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).expect("a folder");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file");
        }
    }

    #[test]
    fn chips_are_read_and_absent_values_stay_absent() {
        let sysfs = tempfile::tempdir().expect("a temporary folder");
        let pci = sysfs.path().join("bus/pci/devices/0000:03:00.0/hwmon/hwmon4");
        chip(
            &pci,
            &[
                ("name", "amdgpu\n"),
                ("temp1_input", "61000\n"),
                ("power1_average", "130500000\n"),
                ("pwm1", "51\n"),
            ],
        );
        let reading = card(sysfs.path(), "0000:03:00.0");
        assert_eq!(
            (reading.temperature_c, reading.power_w, reading.fan_percent),
            (Some(61.0), Some(130.5), Some(20.0))
        );
        assert_eq!(card(sysfs.path(), "0000:04:00.0"), Reading::default());
        assert_eq!(card(sysfs.path(), "../../x"), Reading::default());

        let class = sysfs.path().join("class/hwmon");
        assert_eq!(processor(sysfs.path()), Reading::default());
        chip(
            &class.join("hwmon0"),
            &[("name", "nvme\n"), ("temp1_input", "90000\n")],
        );
        chip(
            &class.join("hwmon1"),
            &[("name", "coretemp\n"), ("temp1_input", "55000\n")],
        );
        chip(
            &class.join("hwmon2"),
            &[("name", "coretemp\n"), ("temp1_input", "57500\n")],
        );
        chip(
            &class.join("hwmon3"),
            &[("name", "k10temp\n"), ("temp1_input", "what\n")],
        );
        assert_eq!(processor(sysfs.path()).temperature_c, Some(57.5));
    }
}
