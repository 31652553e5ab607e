//! The full dataset: generated in memory by several threads, kept on disk for the next start.
//!
//! The file is what other clients of this family write: `full-R23-<first 16 hex digits of the seed hash>`,
//! eight bytes of magic, then the items. It appears under its name only when it is whole. Reading maps it
//! into memory, so that all processes that find it share one copy; whoever truncates a mapped file ends the
//! process that maps it, on every system, so the folder should be the miner's own. A disk that cannot be read is
//! noticed when the file is mapped, where the system reads it in then: Linux from 5.14 on. Who has generated a dataset
//! goes on with its own copy, whose items lie on cache lines as those behind a file's magic do not.
//!
//! When a dataset is wanted is decided by the module `keeper`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ethash::{B256, FullDataset, ITEM_BYTES, ITEM_WORDS, LightCache};
use memmap2::{Mmap, MmapMut};
use parking_lot::Mutex;

use super::error::DatasetError;
use super::file::{fetch, forget, is_at, no_lock};
use super::file_format::{MAGIC, file_name};
use super::free_memory::{FreeMemory, MemoryShortage};
use crate::threads::run_parallel;

/// Items generated between two looks at progress and cancellation: some ten milliseconds.
const ITEMS_PER_CHUNK: usize = 1024;
/// Items of a file that are recomputed before it is believed.
const ITEMS_CHECKED: u32 = 256;
/// Bytes written between two looks at cancellation.
const BYTES_PER_WRITE: usize = 16 << 20;

/// The full dataset of an epoch.
#[derive(Debug)]
pub struct Dataset {
    memory: DatasetStorage,
}

#[derive(Debug)]
enum DatasetStorage {
    Own(MmapMut),
    /// Magic first, then the items.
    Mapped(Mmap),
}

impl Dataset {
    /// Generates the dataset of `cache` in memory with `threads` threads, at least one.
    ///
    /// `progress` is told how many items of how many are done, by one thread at a time; a break from it
    /// cancels.
    ///
    /// # Errors
    /// [`DatasetError::OutOfMemory`] and [`DatasetError::Cancelled`].
    pub fn generate(
        cache: &LightCache,
        threads: usize,
        progress: &mut (dyn FnMut(u32, u32) -> ControlFlow<()> + Send),
    ) -> Result<Self, DatasetError> {
        let bytes = cache.dataset_bytes();
        let out_of_memory = |source| DatasetError::OutOfMemory { bytes, source };
        // Promised memory that is not there would end this process or another one.
        if let Some(MemoryShortage { needed, available }) = FreeMemory::default().lack(bytes) {
            return Err(DatasetError::NoRoom {
                bytes,
                needed,
                available,
            });
        }
        let length = usize::try_from(bytes).map_err(|_| out_of_memory(io::ErrorKind::OutOfMemory.into()))?;
        let mut memory = MmapMut::map_anon(length).map_err(out_of_memory)?;
        ethash::advise_huge_pages(&mut memory[..]);
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut memory[..]);

        let chunks = words.chunks_mut(ITEMS_PER_CHUNK * ITEM_WORDS).enumerate();
        let total = cache.dataset_items();
        let desk = Mutex::new((chunks, 0_u32, progress, false));
        let work = || {
            let mut finished = 0;
            loop {
                let (index, chunk) = {
                    let (chunks, done, progress, cancelled) = &mut *desk.lock();
                    *done += finished;
                    *cancelled = *cancelled || progress(*done, total).is_break();
                    if *cancelled {
                        return;
                    }
                    match chunks.next() {
                        Some(next) => next,
                        None => return,
                    }
                };
                cache.fill_items((index * ITEMS_PER_CHUNK) as u32, chunk);
                finished = (chunk.len() / ITEM_WORDS) as u32;
            }
        };
        run_parallel("dataset", threads, |_| work());
        let (_, done, ..) = desk.into_inner();
        if done < total {
            return Err(DatasetError::Cancelled);
        }
        Ok(Self {
            memory: DatasetStorage::Own(memory),
        })
    }

    /// Maps the file of `cache`'s dataset in `folder`, after a check of its length, its magic and some of its
    /// items.
    ///
    /// # Errors
    /// An error for which [`DatasetError::is_absent`] holds when there is no file; others say what is wrong.
    pub fn open(folder: &Path, cache: &LightCache) -> Result<Self, DatasetError> {
        let path = folder.join(file_name(&cache.seed_hash()));
        let file = File::open(&path).map_err(DatasetError::io("open", &path))?;
        let got = file.metadata().map_err(DatasetError::io("examine", &path))?.len();
        let expected = MAGIC.len() as u64 + cache.dataset_bytes();
        if got != expected {
            return Err(DatasetError::WrongSize { path, got, expected });
        }
        // SAFETY: the map is only read. The folder is the miner's own, and files in it are replaced by
        // renaming, which leaves a mapped file as it is.
        let map = unsafe { Mmap::map(&file) }.map_err(DatasetError::io("map", &path))?;
        fetch(&map).map_err(DatasetError::io("read", &path))?;
        let magic: [u8; 8] = core::array::from_fn(|i| map[i]);
        if magic != MAGIC {
            return Err(DatasetError::WrongMagic { path, got: magic });
        }
        let dataset = Self {
            memory: DatasetStorage::Mapped(map),
        };
        dataset
            .check_samples(cache)
            .map_err(|(item, got, expected)| DatasetError::WrongItem {
                path,
                item,
                got,
                expected,
            })?;
        Ok(dataset)
    }

    /// Compares the first, the last and evenly spread items with the light cache. The error is the item's
    /// index, its first wrong word and the right one.
    fn check_samples(&self, cache: &LightCache) -> Result<(), (u32, u32, u32)> {
        let items = cache.dataset_items();
        let samples = ITEMS_CHECKED.min(items);
        for sample in 0..samples {
            // With one sample only, it is the first item.
            let steps = u64::from(samples - 1).max(1);
            let item = (u64::from(sample) * u64::from(items - 1) / steps) as u32;
            let got = &self.words()[item as usize * ITEM_WORDS..][..ITEM_WORDS];
            let wrong = cache
                .dataset_item(item)
                .into_iter()
                .zip(got)
                .find(|(expected, got)| expected != *got);
            if let Some((expected, got)) = wrong {
                return Err((item, *got, expected));
            }
        }
        Ok(())
    }

    /// Writes the file of this dataset into `folder`, which is made if it is missing, and gives its path.
    ///
    /// # Errors
    /// When the disk is full or refuses, another process writes the same file, or `cancelled` says so. Nothing
    /// unfinished is left under the file's name.
    pub fn save(
        &self,
        folder: &Path,
        seed_hash: &B256,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<PathBuf, DatasetError> {
        let path = folder.join(file_name(seed_hash));
        let unfinished = folder.join(format!("{}.unfinished", file_name(seed_hash)));
        fs::create_dir_all(folder).map_err(DatasetError::io("make folder", folder))?;
        // Truncated only under the lock: another process may be writing it.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&unfinished);
        let file = file.map_err(DatasetError::io("make", &unfinished))?;
        // Between the opening and the lock, who had it may have finished it: then it goes by its name now, and
        // others may have mapped it.
        file.try_lock().map_err(|error| no_lock(error, &unfinished))?;
        if !is_at(&file, &unfinished) {
            return Err(DatasetError::Busy { path: unfinished });
        }
        let written = self
            .write_to(&file, &unfinished, cancelled)
            .and_then(|()| fs::rename(&unfinished, &path).map_err(DatasetError::io("rename to", &path)));
        if let Err(error) = written {
            // It would be overwritten next time, but a full disk has better uses for the room.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        forget(&file);
        Ok(path)
    }

    fn write_to(
        &self,
        mut file: &File,
        path: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), DatasetError> {
        file.set_len(0).map_err(DatasetError::io("empty", path))?;
        file.write_all(&MAGIC).map_err(DatasetError::io("write", path))?;
        for bytes in bytemuck::cast_slice::<u32, u8>(self.words()).chunks(BYTES_PER_WRITE) {
            if cancelled() {
                return Err(DatasetError::Cancelled);
            }
            file.write_all(bytes).map_err(DatasetError::io("write", path))?;
        }
        file.sync_all().map_err(DatasetError::io("write", path))
    }

    /// The dataset, to be hashed from.
    pub fn view(&self) -> FullDataset<'_> {
        FullDataset::new(self.words()).expect("a light cache stands for one item or more, and all are here")
    }

    /// The items one after another, 32 words each.
    pub fn words(&self) -> &[u32] {
        match &self.memory {
            DatasetStorage::Own(map) => bytemuck::cast_slice(&map[..]),
            // Maps begin on a page, so what follows eight bytes of magic is aligned for words.
            DatasetStorage::Mapped(map) => bytemuck::cast_slice(&map[MAGIC.len()..]),
        }
    }

    /// Bytes of all items.
    pub fn bytes(&self) -> u64 {
        self.view().items() as u64 * ITEM_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use super::*;

    const GO_ON: fn(u32, u32) -> ControlFlow<()> = |_, _| ControlFlow::Continue(());

    fn small() -> LightCache {
        LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset")
    }

    /// A folder with the file of the small dataset in it.
    fn saved() -> (tempfile::TempDir, PathBuf, LightCache) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = small();
        let dataset = Dataset::generate(&cache, 2, &mut GO_ON.clone()).expect("32 KiB");
        let path = dataset
            .save(folder.path(), &cache.seed_hash(), &|| false)
            .expect("written");
        (folder, path, cache)
    }

    fn overwrite(path: &Path, offset: u64, change: impl Fn(u8) -> u8) {
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .expect("the file");
        let mut byte = [0];
        file.seek(SeekFrom::Start(offset)).expect("within the file");
        file.read_exact(&mut byte).expect("a byte");
        file.seek(SeekFrom::Start(offset)).expect("within the file");
        file.write_all(&[change(byte[0])]).expect("written");
    }

    #[test]
    fn every_number_of_threads_generates_the_same() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 128 * 5003).expect("a prime number of items");
        let mut expected = vec![0; 5003 * ITEM_WORDS];
        cache.fill_items(0, &mut expected);
        for threads in [0, 1, 2, 5] {
            let mut last = 0;
            let mut progress = |done, total| {
                assert!(done >= last && total == 5003);
                last = done;
                ControlFlow::Continue(())
            };
            let dataset = Dataset::generate(&cache, threads, &mut progress).expect("640 KB");
            assert_eq!(last, 5003);
            assert!(dataset.words() == expected, "{threads} threads");
        }
        let mut breaks = |done, _| {
            if done > 2000 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        assert!(matches!(
            Dataset::generate(&cache, 2, &mut breaks),
            Err(DatasetError::Cancelled)
        ));
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let (folder, path, cache) = saved();
        assert_eq!(path, folder.path().join("full-R23-0000000000000000"));
        let names: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
        assert_eq!(names.len(), 1, "nothing unfinished is left");
        let mut start = [0; 8];
        File::open(&path)
            .and_then(|mut file| file.read_exact(&mut start))
            .expect("eight bytes");
        assert_eq!(start, [0xfe, 0xca, 0xdd, 0xba, 0xad, 0xde, 0xe1, 0xfe]);
        let dataset = Dataset::open(folder.path(), &cache).expect("what was just written");
        assert_eq!(dataset.bytes(), 32_768);
        let header_hash = B256::repeat_byte(7);
        assert_eq!(dataset.view().hash(&header_hash, 5), cache.hash(&header_hash, 5));
    }

    #[test]
    fn the_name_carries_the_seed() {
        assert_eq!(file_name(&ethash::seed_hash(1)), "full-R23-290decd9548b62a8");
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let (folder, path, cache) = saved();
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(32_775))
            .expect("shortened");
        let error = Dataset::open(folder.path(), &cache).expect_err("a byte is missing");
        assert!(
            matches!(
                error,
                DatasetError::WrongSize {
                    got: 32_775,
                    expected: 32_776,
                    ..
                }
            ),
            "{error}"
        );
        assert!(!error.is_absent());
    }

    #[test]
    fn a_wrong_magic_is_refused() {
        let (folder, path, cache) = saved();
        overwrite(&path, 0, |_| 0);
        let error = Dataset::open(folder.path(), &cache).expect_err("the magic is wrong");
        assert!(
            matches!(
                error,
                DatasetError::WrongMagic {
                    got: [0, 0xca, ..],
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_flipped_bit_is_refused() {
        let (folder, path, cache) = saved();
        for item in [0, 100, 255] {
            let place = 8 + item * 128 + 77;
            overwrite(&path, place, |byte| byte ^ 0x10);
            let error = Dataset::open(folder.path(), &cache).expect_err("a bit is wrong");
            assert!(
                matches!(error, DatasetError::WrongItem { item: found, .. } if u64::from(found) == item),
                "{error}"
            );
            overwrite(&path, place, |byte| byte ^ 0x10);
        }
        Dataset::open(folder.path(), &cache).expect("all bits are back");
    }

    #[test]
    fn a_file_of_another_epoch_is_absent() {
        let (folder, ..) = saved();
        let other =
            LightCache::with_sizes(ethash::seed_hash(1), 1024, 32_768).expect("sizes of the test dataset");
        assert!(Dataset::open(folder.path(), &other).is_err_and(|error| error.is_absent()));
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let (folder, path, cache) = saved();
        let dataset = Dataset::open(folder.path(), &cache).expect("what was just written");
        let seed = ethash::seed_hash(3);
        let error = dataset
            .save(&path, &seed, &|| false)
            .expect_err("a file is no folder");
        assert!(matches!(error, DatasetError::Io { .. }), "{error}");
        let error = dataset
            .save(folder.path(), &seed, &|| true)
            .expect_err("cancelled");
        assert!(matches!(error, DatasetError::Cancelled), "{error}");
        let lock =
            File::create(folder.path().join(format!("{}.unfinished", file_name(&seed)))).expect("a file");
        lock.lock().expect("a lock");
        let error = dataset.save(folder.path(), &seed, &|| false).expect_err("locked");
        assert!(matches!(error, DatasetError::Busy { .. }), "{error}");
        assert!(!folder.path().join(file_name(&seed)).exists());
    }
}
