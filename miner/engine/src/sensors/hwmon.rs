//! Sensors that Linux shows in `hwmon`: a folder of small files per sensor chip
//! (<https://docs.kernel.org/hwmon/sysfs-interface.html>). Other systems do not have these folders.

use std::fs;
use std::path::{Path, PathBuf};

use super::reading::SensorReading;

/// Names of the chips that measure a processor.
const PROCESSORS: [&str; 5] = ["coretemp", "k10temp", "zenpower", "cpu_thermal", "macsmc_hwmon"];
/// The highest value of a fan control (`pwm1`).
const FAN_MAX: f64 = 255.0;

/// The sensors of the card at the PCI address `bus`.
pub(super) fn card(sysfs: &Path, bus: &str) -> SensorReading {
    let Some(device) = pci_device(sysfs, bus) else {
        return SensorReading::default();
    };
    let chips = folders(&device.join("hwmon"));
    let reading = chips.first().map(|chip| read_chip(chip)).unwrap_or_default();
    SensorReading {
        core_busy_percent: number(&device.join("gpu_busy_percent")),
        memory_busy_percent: number(&device.join("mem_busy_percent")),
        ..reading
    }
}

/// The memory in bytes of the card at the PCI address `bus`, if its driver shows it. AMD's does.
pub(super) fn memory_bytes(sysfs: &Path, bus: &str) -> Option<u64> {
    let file = pci_device(sysfs, bus)?.join("mem_info_vram_total");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The folder of the PCI device at the address `bus`.
fn pci_device(sysfs: &Path, bus: &str) -> Option<PathBuf> {
    // The address comes from a driver. It becomes part of a path, so it must be nothing but an
    // address.
    let is_address = bus
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
        && !bus.contains("..");
    is_address.then(|| sysfs.join("bus/pci/devices").join(bus))
}

/// The temperature of the processor: that of its hottest chip.
pub(super) fn processor(sysfs: &Path) -> SensorReading {
    let chips = folders(&sysfs.join("class/hwmon"));
    let processor_chips = chips.iter().filter(|chip| {
        let name = fs::read_to_string(chip.join("name")).unwrap_or_default();
        PROCESSORS.contains(&name.trim())
    });
    let temperatures = processor_chips.filter_map(|chip| read_chip(chip).temperature_c);
    SensorReading {
        temperature_c: temperatures.max_by(f64::total_cmp),
        ..SensorReading::default()
    }
}

/// Reads the files of a chip. They contain thousandths of a degree, millionths of a watt, and
/// hertz.
fn read_chip(chip: &Path) -> SensorReading {
    SensorReading {
        temperature_c: number(&chip.join("temp1_input")).map(|value| value / 1e3),
        power_w: number(&chip.join("power1_average"))
            .or_else(|| number(&chip.join("power1_input")))
            .map(|value| value / 1e6),
        fan_percent: number(&chip.join("pwm1")).map(|value| value / FAN_MAX * 100.0),
        core_mhz: number(&chip.join("freq1_input")).map(|value| value / 1e6),
        memory_mhz: number(&chip.join("freq2_input")).map(|value| value / 1e6),
        ..SensorReading::default()
    }
}

/// The number in a file; `None` if there is none.
fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The entries of `folder`, sorted by name.
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
                ("freq1_input", "1800000000\n"),
                ("freq2_input", "875000000\n"),
            ],
        );
        let device = sysfs.path().join("bus/pci/devices/0000:03:00.0");
        chip(
            &device,
            &[("gpu_busy_percent", "98\n"), ("mem_busy_percent", "71\n")],
        );
        let reading = card(sysfs.path(), "0000:03:00.0");
        assert_eq!(
            (reading.temperature_c, reading.power_w, reading.fan_percent),
            (Some(61.0), Some(130.5), Some(20.0))
        );
        assert_eq!(
            (reading.core_mhz, reading.memory_mhz),
            (Some(1800.0), Some(875.0))
        );
        assert_eq!(
            (reading.core_busy_percent, reading.memory_busy_percent),
            (Some(98.0), Some(71.0))
        );
        assert_eq!(card(sysfs.path(), "0000:04:00.0"), SensorReading::default());
        assert_eq!(card(sysfs.path(), "../../x"), SensorReading::default());
        fs::write(device.join("mem_info_vram_total"), "8573157376\n").expect("a file");
        assert_eq!(memory_bytes(sysfs.path(), "0000:03:00.0"), Some(8_573_157_376));
        assert_eq!(memory_bytes(sysfs.path(), "0000:04:00.0"), None);

        let class = sysfs.path().join("class/hwmon");
        assert_eq!(processor(sysfs.path()), SensorReading::default());
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
