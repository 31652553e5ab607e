//! Tests dataset files between processes: a file is complete or absent, it is checked, and every
//! process has a copy of its own.
//!
//! The other process runs the same test program. Environment variables tell it what to do.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::dataset::{Dataset, DatasetError, file_name};
use ethash::{B256, LightCache, seed_hash};

const ROLE: &str = "DATASET_TEST_ROLE";
const FOLDER: &str = "DATASET_TEST_FOLDER";
/// The longest wait for the other process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a cache whose dataset takes a moment to write. It has about 8 MiB.
fn cache() -> LightCache {
    LightCache::with_sizes(seed_hash(2), 1024, 128 * 65_537).expect("small sizes")
}

fn generate(cache: &LightCache) -> Dataset {
    Dataset::generate(cache, 2, &mut |_, _| ControlFlow::Continue(())).expect("8 MiB")
}

fn save(dataset: &Dataset, folder: &Path, cache: &LightCache) -> Result<PathBuf, DatasetError> {
    dataset.save(folder, &cache.seed_hash(), &|| false)
}

/// Another process. It is killed when this value is dropped.
struct Other(Child);

impl Other {
    fn start(role: &str, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--ignored", "--exact", "the_other_process", "--nocapture"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.expect("this program once more"))
    }

    /// Reads the output up to the first line that contains `word`, and returns the text after it.
    fn text_after(&mut self, word: &str) -> String {
        let out = self.0.stdout.take().expect("a pipe");
        for line in BufReader::new(out).lines() {
            let line = line.expect("text");
            if let Some((_, text)) = line.split_once(word) {
                return text.trim().to_owned();
            }
        }
        panic!("the other process ended without {word:?}");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "run by the other tests, with an environment that says what to do"]
fn the_other_process() {
    let role = std::env::var(ROLE).expect("started by a test");
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("started by a test"));
    let cache = cache();
    match role.as_str() {
        "read" => {
            let dataset = Dataset::open(&folder, &cache, &|| false).expect("a good file");
            let sum = dataset
                .words()
                .iter()
                .fold(0_u32, |sum, word| sum.wrapping_add(*word));
            println!("sum {sum}");
            std::io::stdout().flush().expect("a pipe");
            // Keeps the dataset until the test ends this process.
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "write" => {
            let dataset = generate(&cache);
            let start = Instant::now();
            while start.elapsed() < PATIENCE {
                match save(&dataset, &folder, &cache) {
                    Ok(_) | Err(DatasetError::Busy { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        other => panic!("unknown role {other}"),
    }
}

#[test]
fn another_process_reads_the_same_dataset() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = cache();
    let generated = generate(&cache);
    save(&generated, folder.path(), &cache).expect("written");
    let dataset = Dataset::open(folder.path(), &cache, &|| false).expect("a good file");
    assert!(dataset.words() == generated.words());
    let sum = dataset
        .words()
        .iter()
        .fold(0_u32, |sum, word| sum.wrapping_add(*word));
    let mut other = Other::start("read", folder.path());
    assert_eq!(other.text_after("sum "), sum.to_string());
    // While both have it, the file can be replaced, and no process keeps it open or mapped.
    save(&generated, folder.path(), &cache).expect("written again");
    #[cfg(target_os = "linux")]
    {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the system's files");
        assert!(!maps.contains("full-R23-"), "{maps}");
    }
    let header_hash = B256::repeat_byte(3);
    assert_eq!(dataset.view().hash(&header_hash, 8), cache.hash(&header_hash, 8));
}

#[test]
fn readers_see_only_complete_files_while_others_write() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = cache();
    let _writers = [
        Other::start("write", folder.path()),
        Other::start("write", folder.path()),
    ];
    let (start, mut good) = (Instant::now(), 0);
    // In this time the writers replace the file many times.
    while good < 100 {
        assert!(start.elapsed() < PATIENCE, "only {good} files");
        match Dataset::open(folder.path(), &cache, &|| false) {
            Ok(_) => good += 1,
            Err(error) => {
                assert!(error.is_absent() && good == 0, "after {good} good files: {error}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn a_killed_writer_does_not_block_the_next_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = cache();
    let unfinished = folder
        .path()
        .join(format!("{}.unfinished", file_name(&cache.seed_hash())));
    let start = Instant::now();
    let writer = Other::start("write", folder.path());
    while !unfinished.exists() {
        assert!(start.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(writer);
    if let Err(error) = Dataset::open(folder.path(), &cache, &|| false) {
        assert!(error.is_absent(), "{error}");
    }
    save(&generate(&cache), folder.path(), &cache).expect("the lock ended with the process");
    Dataset::open(folder.path(), &cache, &|| false).expect("a good file");
    assert!(!unfinished.exists());
}
