//! Graphics cards on the PCI bus that no driver shows to programs, so that nobody searches in vain
//! for the reason why they do not mine. Linux only.

use std::path::Path;

use super::adapter::AdapterInfo;

/// The folder in which Linux shows its devices.
const SYSFS: &str = "/sys";

/// A card that no driver shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableCard {
    /// The address on the PCI bus.
    pub pci_bus: String,
    /// The maker, or its number.
    pub maker: String,
}

/// The cards of this machine that are not among `adapters`.
pub fn unusable_cards(adapters: &[AdapterInfo]) -> Vec<UnusableCard> {
    cards_in(Path::new(SYSFS), adapters)
}

fn cards_in(sysfs: &Path, adapters: &[AdapterInfo]) -> Vec<UnusableCard> {
    let Ok(devices) = std::fs::read_dir(sysfs.join("bus/pci/devices")) else {
        return Vec::new();
    };
    let mut cards: Vec<_> = devices
        .filter_map(|device| {
            let device = device.ok()?;
            let text = |name: &str| std::fs::read_to_string(device.path().join(name)).ok();
            let pci_bus = device.file_name().to_str()?.to_ascii_lowercase();
            let is_listed = adapters
                .iter()
                .any(|adapter| adapter.pci_bus.as_deref() == Some(&*pci_bus));
            // Class 3 of PCI: devices that draw.
            if is_listed || !text("class")?.starts_with("0x03") {
                return None;
            }
            let maker = match text("vendor")?.trim() {
                "0x10de" => "NVIDIA",
                "0x1002" => "AMD",
                "0x8086" => "Intel",
                other => {
                    return Some(UnusableCard {
                        pci_bus,
                        maker: format!("maker {other}"),
                    });
                }
            };
            Some(UnusableCard {
                pci_bus,
                maker: maker.into(),
            })
        })
        .collect();
    cards.sort_by(|a, b| a.pci_bus.cmp(&b.pci_bus));
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cards_that_draw_are_named() {
        let sysfs = tempfile::tempdir().expect("a folder");
        for (bus, class, vendor) in [
            ("0000:02:00.0", "0x030200\n", "0x10de\n"),
            ("0000:01:00.0", "0x030000\n", "0x1a03\n"),
            ("0000:00:1f.0", "0x060100\n", "0x8086\n"),
        ] {
            let folder = sysfs.path().join("bus/pci/devices").join(bus);
            std::fs::create_dir_all(&folder).expect("a new folder");
            std::fs::write(folder.join("class"), class).expect("a new file");
            std::fs::write(folder.join("vendor"), vendor).expect("a new file");
        }
        let cards: Vec<_> = cards_in(sysfs.path(), &[])
            .into_iter()
            .map(|card| (card.pci_bus, card.maker))
            .collect();
        let card = |bus: &str, maker: &str| (bus.to_owned(), maker.to_owned());
        assert_eq!(
            cards,
            [
                card("0000:01:00.0", "maker 0x1a03"),
                card("0000:02:00.0", "NVIDIA")
            ]
        );
        assert_eq!(cards_in(&sysfs.path().join("nowhere"), &[]), []);
    }
}
