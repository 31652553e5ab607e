//! `miner devices`: lists the devices of this machine.

/// The list of devices, one line each.
pub(crate) fn list() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = vec![format!("cpu      {threads} threads")];
    for adapter in engine::gpu::list_adapters() {
        let kind = if adapter.software { ", software" } else { "" };
        let bus = adapter
            .pci_bus
            .map_or_else(String::new, |bus| format!(", at {bus}"));
        let engine::gpu::AdapterInfo {
            index,
            name,
            backend,
            driver,
            ..
        } = adapter;
        lines.push(format!("gpu:{index:<4} {name} ({backend}, {driver}{bus}{kind})"));
    }
    lines.join("\n")
}
