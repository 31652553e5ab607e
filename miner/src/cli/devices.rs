//! `miner devices`: lists the devices of this machine, and says which ones are not used and why.

use engine::DeviceChoice;
use engine::gpu::{AdapterInfo, UnusableCard, list_adapters, unusable_cards};

/// The list of devices, one line each. `choice` is what `--device` says.
pub(crate) fn list(choice: &DeviceChoice) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let adapters = list_adapters();
    let unusable = unusable_cards(&adapters);
    lines(choice, threads, &adapters, &unusable).join("\n")
}

fn lines(
    choice: &DeviceChoice,
    threads: usize,
    adapters: &[AdapterInfo],
    unusable: &[UnusableCard],
) -> Vec<String> {
    let (cpu, used) = match choice.select(adapters) {
        Ok(selection) => (selection.cpu, selection.adapters),
        Err(error) => return vec![format!("--device {choice}: {error}")],
    };
    let note =
        |reason: Option<String>| reason.map_or_else(String::new, |reason| format!("; not used: {reason}"));
    let cpu_reason = (!cpu).then(|| "cards search".to_owned());
    let mut lines = vec![format!("cpu      {threads} threads{}", note(cpu_reason))];
    for adapter in adapters {
        let kind = if adapter.software { ", software" } else { "" };
        let bus = adapter
            .pci_bus
            .as_ref()
            .map_or_else(String::new, |bus| format!(", at {bus}"));
        let is_used = used.iter().any(|used| used.index == adapter.index);
        let AdapterInfo {
            index,
            name,
            backend,
            driver,
            ..
        } = adapter;
        lines.push(format!(
            "gpu:{index:<4} {name} ({backend}, {driver}{bus}{kind}){}",
            note((!is_used).then(|| reason_against(choice, adapter)))
        ));
    }
    for UnusableCard { pci_bus, maker } in unusable {
        let reason =
            "no driver for Vulkan shows it; install the driver of its maker and libvulkan1".to_owned();
        lines.push(format!("card     {maker}, at {pci_bus}{}", note(Some(reason))));
    }
    lines
}

/// The reason why `choice` leaves `adapter` aside.
fn reason_against(choice: &DeviceChoice, adapter: &AdapterInfo) -> String {
    match choice {
        DeviceChoice::Auto | DeviceChoice::All | DeviceChoice::Gpu if adapter.software => {
            format!(
                "it is a program that plays a card, and the processor is faster; --device gpu:{} uses it",
                adapter.index
            )
        }
        DeviceChoice::Auto | DeviceChoice::Gpu => {
            format!("--device {choice} takes the first card; --device all takes all of them")
        }
        _ => format!("--device {choice} does not name it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(index: usize, software: bool) -> AdapterInfo {
        AdapterInfo {
            index,
            name: format!("Card {index}"),
            backend: "Vulkan".into(),
            driver: "x 1".into(),
            software,
            max_binding: 1,
            max_buffer: 1,
            max_pages: 1,
            subgroup_size: 0,
            pci_bus: None,
        }
    }

    #[test]
    fn each_device_that_is_not_used_has_a_reason() {
        let check = |choice: &str, expected: &[Option<&str>]| {
            let adapters = [adapter(0, false), adapter(1, false), adapter(2, true)];
            let unusable = [UnusableCard {
                pci_bus: "0000:09:00.0".into(),
                maker: "AMD".into(),
            }];
            let lines = lines(&choice.parse().expect("a choice"), 2, &adapters, &unusable);
            assert_eq!(lines.len(), expected.len() + 1, "{lines:?}");
            for (line, expected) in lines.iter().zip(expected) {
                let reason = line.split_once("; not used: ").map(|(_, reason)| reason);
                let fits = match (reason, expected) {
                    (None, None) => true,
                    (Some(reason), Some(word)) => reason.contains(word),
                    _ => false,
                };
                assert!(fits, "{choice}: got {line}, expected {expected:?}");
            }
            assert!(
                lines
                    .last()
                    .is_some_and(|line| line.contains("AMD") && line.contains("Vulkan"))
            );
        };
        check(
            "auto",
            &[Some("cards"), None, Some("first card"), Some("a program")],
        );
        check("all", &[Some("cards"), None, None, Some("a program")]);
        check(
            "cpu",
            &[
                None,
                Some("does not name"),
                Some("does not name"),
                Some("does not name"),
            ],
        );
        check(
            "cpu,gpu:2",
            &[None, Some("does not name"), Some("does not name"), None],
        );
    }
}
