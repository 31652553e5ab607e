//! Stores in a file which kernel was chosen for which adapter, so that it need not be measured
//! again.
//!
//! An entry is valid for one adapter, one driver, one number of pages, and the kernels of this
//! build. If the file cannot be read, kernels are measured again. If it cannot be written, the
//! choice is not stored.

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

/// The name of the file.
const FILE_NAME: &str = "gpu-kernels.json";
/// The folder of this program in the cache folder of the user.
const CACHE_FOLDER: &str = "vnode";
/// The version of the file format.
const VERSION: u64 = 2;
/// Largest size of the file. Nothing beyond it is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Largest workgroup size in a valid entry.
const WORKGROUP_MAX: u64 = 1024;
/// Longest batch in a valid entry, in microseconds.
const BATCH_US_MAX: u64 = 10_000_000;

/// The file in which chosen kernels are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuningCache {
    path: PathBuf,
}

/// Lets the adapters of one process write one after another.
static WRITING: Mutex<()> = Mutex::new(());

impl TuningCache {
    /// Uses a file in `folder`. The folder need not exist.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE_NAME),
        }
    }

    /// Uses a file in the cache folder of the user. Returns `None` if the environment does not name
    /// that folder.
    pub(crate) fn in_user_cache() -> Option<Self> {
        let folder = user_cache(&|name| std::env::var_os(name).map(PathBuf::from))?;
        Some(Self::in_folder(&folder.join(CACHE_FOLDER)))
    }

    /// Returns the kernel that was stored for `adapter` and this number of dataset pages.
    pub(crate) fn load(&self, adapter: &AdapterInfo, pages: u32) -> Option<ChosenKernel> {
        let adapters = match self.read() {
            Ok(adapters) => adapters,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), "kernels are measured again: {error}");
                return None;
            }
        };
        let entry = adapters.get(&key(adapter, pages))?;
        if entry["kernels"] != search_fingerprint() {
            return None;
        }
        let chosen = parse(entry).filter(|chosen| chosen.kernel.runs_on(adapter));
        if chosen.is_none() {
            tracing::warn!(path = %self.path.display(), "kernels are measured again: invalid entry {entry}");
        }
        chosen
    }

    /// Stores `chosen`. Removes entries of other builds' kernels.
    pub(crate) fn store(&self, adapter: &AdapterInfo, pages: u32, chosen: &ChosenKernel) {
        let _writing = WRITING.lock();
        let kernels = search_fingerprint();
        // A file that cannot be read was reported when the kernel was looked up.
        let mut adapters = self.read().unwrap_or_default();
        adapters.retain(|_, entry| entry["kernels"] == kernels);
        let entry = json!({
            "kernels": kernels,
            "kernel": chosen.kernel.to_string(),
            "workgroup_size": chosen.workgroup_size,
            "batch_us": chosen.target_batch.map(|batch| (batch.as_micros() as u64).clamp(1, BATCH_US_MAX)),
        });
        adapters.insert(key(adapter, pages), entry);
        let file = json!({"version": VERSION, "adapters": adapters});
        if let Err(error) = self.write(&format!("{file:#}\n")) {
            tracing::warn!(path = %self.path.display(), "the chosen kernel is not stored: {error}");
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
            return Err(bad(format!(
                "version: got {}, expected {VERSION}",
                file["version"]
            )));
        }
        match file["adapters"].take() {
            Value::Object(adapters) => Ok(adapters),
            other => Err(bad(format!("adapters: got {other}, expected an object"))),
        }
    }

    /// Writes the file completely or not at all.
    fn write(&self, text: &str) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
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

/// Returns the key of an entry.
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
    let kernel = KernelForm::from_name(entry["kernel"].as_str()?)?;
    let workgroup_size = entry["workgroup_size"]
        .as_u64()
        .filter(|size| (8..=WORKGROUP_MAX).contains(size) && size.is_multiple_of(8))?;
    let target_batch = match &entry["batch_us"] {
        Value::Null => None,
        us => Some(us.as_u64().filter(|us| (1..=BATCH_US_MAX).contains(us))?),
    };
    Some(ChosenKernel {
        kernel,
        workgroup_size: workgroup_size as u32,
        target_batch: target_batch.map(Duration::from_micros),
        hashrate: None,
    })
}

/// Returns the cache folder of the user. The variables are those of the conventions of each system.
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
            max_pages: 31,
            subgroup_size: 32,
            pci_bus: None,
        }
    }

    fn chosen(form: KernelForm, batch_ms: Option<u64>) -> ChosenKernel {
        ChosenKernel {
            kernel: form,
            workgroup_size: 128,
            target_batch: batch_ms.map(Duration::from_millis),
            hashrate: None,
        }
    }

    #[test]
    fn each_adapter_driver_and_page_count_has_an_entry() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = TuningCache::in_folder(&folder.path().join("does not exist yet"));
        assert_eq!(cache.load(&adapter("1"), 4), None);
        cache.store(&adapter("1"), 4, &chosen(KernelForm::Shuffle, Some(25)));
        cache.store(&adapter("2"), 4, &chosen(KernelForm::Lane, None));
        assert_eq!(
            cache.load(&adapter("1"), 4),
            Some(chosen(KernelForm::Shuffle, Some(25)))
        );
        assert_eq!(cache.load(&adapter("2"), 4), Some(chosen(KernelForm::Lane, None)));
        assert_eq!(cache.load(&adapter("1"), 5), None);
        let without_subgroups = AdapterInfo {
            subgroup_size: 0,
            ..adapter("1")
        };
        assert_eq!(cache.load(&without_subgroups, 4), None);
        let files = fs::read_dir(cache.path.parent().expect("a folder")).expect("readable");
        assert_eq!(files.count(), 1, "no unfinished file is left");
    }

    #[test]
    fn the_shortest_batches_are_stored_too() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = TuningCache::in_folder(folder.path());
        // A quarter of a millisecond, a time below a microsecond, and a time above the limit.
        for (batch, recalled) in [(250_000, 250_000), (1, 1000), (20_000_000_000, 10_000_000_000)] {
            let [chosen, expected] = [batch, recalled].map(|nanos| ChosenKernel {
                target_batch: Some(Duration::from_nanos(nanos)),
                ..chosen(KernelForm::Lane, None)
            });
            cache.store(&adapter("1"), 4, &chosen);
            assert_eq!(cache.load(&adapter("1"), 4), Some(expected), "{batch} ns");
        }
    }

    #[test]
    fn a_bad_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = TuningCache::in_folder(folder.path());
        let entry = |entry: &str| {
            let kernels = search_fingerprint();
            let entry = entry.replace("KERNELS", &format!("\"kernels\":\"{kernels}\""));
            let key = json!(key(&adapter("1"), 4));
            format!("{{\"version\":2,\"adapters\":{{{key}:{entry}}}}}")
        };
        let good = entry("{KERNELS,\"kernel\":\"group\",\"workgroup_size\":32,\"batch_us\":null}");
        fs::write(&cache.path, good).expect("written");
        assert!(cache.load(&adapter("1"), 4).is_some());
        for bad in [
            String::new(),
            "\u{0}\u{1}".into(),
            "{\"version\":1,\"adapters\":{}}".into(),
            "{\"version\":2,\"adapters\":[]}".into(),
            entry("{KERNELS,\"kernel\":\"warp\",\"workgroup_size\":32,\"batch_us\":null}"),
            entry("{KERNELS,\"kernel\":\"lane\",\"workgroup_size\":0,\"batch_us\":null}"),
            entry("{KERNELS,\"kernel\":\"lane\",\"workgroup_size\":36,\"batch_us\":null}"),
            entry("{KERNELS,\"kernel\":\"lane\",\"workgroup_size\":32,\"batch_us\":0}"),
            entry("{\"kernels\":\"0\",\"kernel\":\"lane\",\"workgroup_size\":32,\"batch_us\":null}"),
            entry("7"),
        ] {
            fs::write(&cache.path, &bad).expect("written");
            assert_eq!(cache.load(&adapter("1"), 4), None, "{bad}");
            cache.store(&adapter("1"), 4, &chosen(KernelForm::Lane, Some(50)));
            assert!(cache.load(&adapter("1"), 4).is_some(), "after {bad}");
        }
        fs::write(&cache.path, [0xff, 0xfe]).expect("written");
        assert_eq!(cache.load(&adapter("1"), 4), None, "the file is not text");
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_not_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let cache = TuningCache::in_folder(&file.join("below a file"));
        cache.store(&adapter("1"), 1, &chosen(KernelForm::Lane, None));
        assert_eq!(cache.load(&adapter("1"), 1), None);
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
