//! Remembers which kernel was chosen for which adapter, in a file, so that a start need not measure again.
//!
//! An entry holds for one adapter with one driver and one number of pages, and for the kernels of this build.
//! The file is a convenience: what cannot be read is measured anew, what cannot be written is not remembered.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::gpu::adapter::AdapterInfo;
use crate::gpu::kernel_form::{ChosenKernel, KernelForm};
use crate::gpu::shaders::search_fingerprint;

/// The file's name.
const FILE_NAME: &str = "gpu-kernels.json";
/// The folder of this program in the user's cache.
const CACHE_FOLDER: &str = "vnode";
/// The form of the file.
const VERSION: u64 = 1;
/// A longer file is not ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Largest workgroup in a good entry.
const WORKGROUP_MAX: u64 = 1024;
/// Longest batch in a good entry, in microseconds.
const BATCH_US_MAX: u64 = 10_000_000;

/// Where chosen kernels are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuningCache {
    path: PathBuf,
}

/// Adapters of one process write one after another.
static WRITING: Mutex<()> = Mutex::new(());

impl TuningCache {
    /// In a file of this folder, which need not exist.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE_NAME),
        }
    }

    /// In the user's cache; `None` where the environment does not tell where that is.
    pub fn in_user_cache() -> Option<Self> {
        let folder = user_cache(&|name| std::env::var_os(name).map(PathBuf::from))?;
        Some(Self::in_folder(&folder.join(CACHE_FOLDER)))
    }

    /// The kernel remembered for `adapter` and so many pages of the dataset.
    pub(crate) fn recall(&self, adapter: &AdapterInfo, pages: u32) -> Option<ChosenKernel> {
        let adapters = match self.read() {
            Ok(adapters) => adapters,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), "kernels are measured anew: {error}");
                return None;
            }
        };
        let entry = adapters.get(&key(adapter, pages))?;
        if entry["kernels"] != search_fingerprint() {
            return None;
        }
        let chosen = parse(entry).filter(|chosen| chosen.form.runs_on(adapter));
        if chosen.is_none() {
            tracing::warn!(path = %self.path.display(), "kernels are measured anew: no kernel is {entry}");
        }
        chosen
    }

    /// Remembers `chosen`. Entries of other builds' kernels are forgotten.
    pub(crate) fn remember(&self, adapter: &AdapterInfo, pages: u32, chosen: &ChosenKernel) {
        let _writing = WRITING.lock();
        let kernels = search_fingerprint();
        // What could not be read was said when it was looked for.
        let mut adapters = self.read().unwrap_or_default();
        adapters.retain(|_, entry| entry["kernels"] == kernels);
        let entry = json!({
            "kernels": kernels,
            "form": chosen.form.name(),
            "workgroup_size": chosen.workgroup_size,
            "batch_us": chosen.target_batch.map(|batch| (batch.as_micros() as u64).clamp(1, BATCH_US_MAX)),
        });
        adapters.insert(key(adapter, pages), entry);
        let file = json!({"version": VERSION, "adapters": adapters});
        if let Err(error) = self.write(&format!("{file:#}\n")) {
            tracing::warn!(path = %self.path.display(), "the kernel is not remembered: {error}");
        }
    }

    fn read(&self) -> io::Result<Map<String, Value>> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut text = String::new();
        File::open(&self.path)?
            .take(FILE_BYTES_MAX)
            .read_to_string(&mut text)?;
        let mut file: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if file["version"] != VERSION {
            return Err(bad(format!("version {}, expected {VERSION}", file["version"])));
        }
        match file["adapters"].take() {
            Value::Object(adapters) => Ok(adapters),
            other => Err(bad(format!("adapters are {other}, expected an object"))),
        }
    }

    /// Writes the file whole or not at all.
    fn write(&self, text: &str) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = folder.join(format!("{FILE_NAME}.{}-{number}", std::process::id()));
        let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

/// What an entry is found by.
fn key(adapter: &AdapterInfo, pages: u32) -> String {
    let AdapterInfo {
        name,
        backend,
        driver,
        ..
    } = adapter;
    format!("{name}, {backend}, {driver}, {pages} pages")
}

fn parse(entry: &Value) -> Option<ChosenKernel> {
    let form = KernelForm::from_name(entry["form"].as_str()?)?;
    let workgroup_size = entry["workgroup_size"]
        .as_u64()
        .filter(|size| (8..=WORKGROUP_MAX).contains(size) && size.is_multiple_of(8))?;
    let target_batch = match &entry["batch_us"] {
        Value::Null => None,
        us => Some(us.as_u64().filter(|us| (1..=BATCH_US_MAX).contains(us))?),
    };
    Some(ChosenKernel {
        form,
        workgroup_size: workgroup_size as u32,
        target_batch: target_batch.map(Duration::from_micros),
        hashrate: None,
    })
}

/// The user's cache folder, from the variables that the system's conventions name.
fn user_cache(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    if cfg!(target_os = "macos") {
        return absolute("HOME").map(|home| home.join("Library/Caches"));
    }
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(driver: &str) -> AdapterInfo {
        AdapterInfo {
            index: 0,
            name: "Card \"X\"".into(),
            backend: "Vulkan".into(),
            driver: driver.into(),
            software: false,
            max_binding: 1 << 30,
            max_buffer: 1 << 30,
            subgroup_size: 32,
            pci_bus: None,
        }
    }

    fn chosen(form: KernelForm, batch_ms: Option<u64>) -> ChosenKernel {
        ChosenKernel {
            form,
            workgroup_size: 128,
            target_batch: batch_ms.map(Duration::from_millis),
            hashrate: None,
        }
    }

    #[test]
    fn each_adapter_driver_and_page_count_has_its_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = TuningCache::in_folder(&folder.path().join("made on the way"));
        assert_eq!(memory.recall(&adapter("1"), 4), None);
        memory.remember(&adapter("1"), 4, &chosen(KernelForm::Shuffle, Some(25)));
        memory.remember(&adapter("2"), 4, &chosen(KernelForm::Lane, None));
        assert_eq!(
            memory.recall(&adapter("1"), 4),
            Some(chosen(KernelForm::Shuffle, Some(25)))
        );
        assert_eq!(
            memory.recall(&adapter("2"), 4),
            Some(chosen(KernelForm::Lane, None))
        );
        assert_eq!(memory.recall(&adapter("1"), 5), None);
        let without_subgroups = AdapterInfo {
            subgroup_size: 0,
            ..adapter("1")
        };
        assert_eq!(memory.recall(&without_subgroups, 4), None);
        let files = fs::read_dir(memory.path.parent().expect("a folder")).expect("readable");
        assert_eq!(files.count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn the_shortest_batches_are_remembered_too() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = TuningCache::in_folder(folder.path());
        // A quarter of a millisecond, and what is no whole number of microseconds.
        for (batch, recalled) in [(250_000, 250_000), (1, 1000), (20_000_000_000, 10_000_000_000)] {
            let [chosen, expected] = [batch, recalled].map(|nanos| ChosenKernel {
                target_batch: Some(Duration::from_nanos(nanos)),
                ..chosen(KernelForm::Lane, None)
            });
            memory.remember(&adapter("1"), 4, &chosen);
            assert_eq!(memory.recall(&adapter("1"), 4), Some(expected), "{batch} ns");
        }
    }

    #[test]
    fn a_bad_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = TuningCache::in_folder(folder.path());
        let entry = |entry: &str| {
            let kernels = search_fingerprint();
            let entry = entry.replace("KERNELS", &format!("\"kernels\":\"{kernels}\""));
            let key = json!(key(&adapter("1"), 4));
            format!("{{\"version\":1,\"adapters\":{{{key}:{entry}}}}}")
        };
        let good = entry("{KERNELS,\"form\":\"group\",\"workgroup_size\":32,\"batch_us\":null}");
        fs::write(&memory.path, good).expect("written");
        assert!(memory.recall(&adapter("1"), 4).is_some());
        for bad in [
            String::new(),
            "\u{0}\u{1}".into(),
            "{\"version\":2,\"adapters\":{}}".into(),
            "{\"version\":1,\"adapters\":[]}".into(),
            entry("{KERNELS,\"form\":\"warp\",\"workgroup_size\":32,\"batch_us\":null}"),
            entry("{KERNELS,\"form\":\"lane\",\"workgroup_size\":0,\"batch_us\":null}"),
            entry("{KERNELS,\"form\":\"lane\",\"workgroup_size\":36,\"batch_us\":null}"),
            entry("{KERNELS,\"form\":\"lane\",\"workgroup_size\":32,\"batch_us\":0}"),
            entry("{\"kernels\":\"0\",\"form\":\"lane\",\"workgroup_size\":32,\"batch_us\":null}"),
            entry("7"),
        ] {
            fs::write(&memory.path, &bad).expect("written");
            assert_eq!(memory.recall(&adapter("1"), 4), None, "{bad}");
            memory.remember(&adapter("1"), 4, &chosen(KernelForm::Lane, Some(50)));
            assert!(memory.recall(&adapter("1"), 4).is_some(), "after {bad}");
        }
        fs::write(&memory.path, [0xff, 0xfe]).expect("written");
        assert_eq!(memory.recall(&adapter("1"), 4), None, "no text at all");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let memory = TuningCache::in_folder(&file.join("below a file"));
        memory.remember(&adapter("1"), 1, &chosen(KernelForm::Lane, None));
        assert_eq!(memory.recall(&adapter("1"), 1), None);
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn the_cache_folder_follows_the_conventions() {
        let of = |cache: Option<&str>, home: Option<&str>| {
            let (cache, home) = (cache.map(PathBuf::from), home.map(PathBuf::from));
            user_cache(&|name| match name {
                "XDG_CACHE_HOME" => cache.clone(),
                "HOME" => home.clone(),
                _ => None,
            })
        };
        assert_eq!(of(Some("/c"), Some("/h")), Some("/c".into()));
        assert_eq!(of(Some("relative"), Some("/h")), Some("/h/.cache".into()));
        assert_eq!(of(None, Some("/h")), Some("/h/.cache".into()));
        assert_eq!(of(None, None), None);
    }
}
