//! The full dataset of the CPU. Several threads generate it in memory, and a file keeps it for the
//! next start.
//!
//! Other clients of this family write the same file: its name is `full-R23-<first 16 hex digits of
//! the seed hash>`, and it has eight bytes of magic and then the items. The file gets this name
//! only when it is complete.
//!
//! A file is copied into memory of this process and not mapped. Another process may change or
//! shorten the file at any time: the words of a map would change while they are read, which is
//! undefined behaviour, and the system would end this process where the file has become shorter. A
//! lock would not help, because it binds only programs that ask for it. The copy is also searched
//! faster: in memory each item begins on a cache line and the pages are huge, but in the file the
//! magic shifts the items by eight bytes.
//!
//! The module `manager` decides when a dataset is generated.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ethash::{B256, FullDataset, ITEM_BYTES, ITEM_WORDS, LightCache};
use memmap2::MmapMut;
use parking_lot::Mutex;

use super::error::DatasetError;
use super::file::{forget, is_at, no_lock};
use super::file_format::{MAGIC, file_name};
use super::free_memory::{FreeMemory, MemoryShortage};
use crate::threads::run_parallel;

/// Items generated between two reports of progress. This takes some ten milliseconds.
const ITEMS_PER_CHUNK: usize = 1024;
/// Items of a file that are compared with the light cache before the file is used.
const ITEMS_CHECKED: u32 = 256;
/// Bytes read or written between two checks for cancellation.
const BYTES_AT_ONCE: usize = 16 << 20;

/// Gets the number of finished items and the number of all items. A break cancels the generation.
type OnProgress<'a> = dyn FnMut(u32, u32) -> ControlFlow<()> + Send + 'a;

/// The full dataset of an epoch, in memory that no other process can change.
#[derive(Debug)]
pub struct Dataset {
    /// The items one after another. The memory belongs to no file.
    memory: MmapMut,
}

/// The state that the threads of a generation share.
struct SharedGeneration<'a, 'b> {
    /// The parts of the dataset that no thread has taken, with their indices.
    chunks: std::iter::Enumerate<std::slice::ChunksMut<'a, u32>>,
    items_done: u32,
    items_total: u32,
    on_progress: &'a mut OnProgress<'b>,
    is_cancelled: bool,
}

impl<'a> SharedGeneration<'a, '_> {
    /// Records finished items and returns the next chunk. Returns `None` at the end or after a
    /// cancellation.
    fn next_chunk(&mut self, items_finished: u32) -> Option<(usize, &'a mut [u32])> {
        self.items_done += items_finished;
        self.is_cancelled =
            self.is_cancelled || (self.on_progress)(self.items_done, self.items_total).is_break();
        if self.is_cancelled {
            return None;
        }
        self.chunks.next()
    }
}

/// An item of a file differs from the light cache.
struct WrongFileItem {
    item: u32,
    /// The first wrong word.
    got: u32,
    expected: u32,
}

impl Dataset {
    /// Generates the dataset of `cache` in memory. At least one thread is used.
    ///
    /// `progress` gets the number of finished items and the number of all items. One thread at a
    /// time calls it. A break cancels the generation.
    ///
    /// # Errors
    /// [`DatasetError::OutOfMemory`], [`DatasetError::TooLittleMemory`] and
    /// [`DatasetError::Cancelled`].
    pub fn generate(
        cache: &LightCache,
        threads: usize,
        progress: &mut (dyn FnMut(u32, u32) -> ControlFlow<()> + Send),
    ) -> Result<Self, DatasetError> {
        let mut memory = allocate(cache.dataset_bytes())?;
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut memory[..]);

        let generation = Mutex::new(SharedGeneration {
            chunks: words.chunks_mut(ITEMS_PER_CHUNK * ITEM_WORDS).enumerate(),
            items_done: 0,
            items_total: cache.dataset_items(),
            on_progress: progress,
            is_cancelled: false,
        });
        run_parallel("dataset", threads, |_| {
            let mut items_finished = 0;
            loop {
                let next = generation.lock().next_chunk(items_finished);
                let Some((index, chunk)) = next else { return };
                cache.fill_items((index * ITEMS_PER_CHUNK) as u32, chunk);
                items_finished = (chunk.len() / ITEM_WORDS) as u32;
            }
        });
        let generation = generation.into_inner();
        if generation.items_done < generation.items_total {
            return Err(DatasetError::Cancelled);
        }
        Ok(Self { memory })
    }

    /// Reads the dataset file of `cache` in `folder` into memory. Its length, its magic and some of
    /// its items are checked.
    ///
    /// # Errors
    /// If there is no file, [`DatasetError::is_absent`] is true for the error. Other errors tell
    /// what is wrong with the file, or that there is too little memory, or that `cancelled` has
    /// returned true.
    pub fn open(
        folder: &Path,
        cache: &LightCache,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, DatasetError> {
        let path = folder.join(file_name(&cache.seed_hash()));
        let mut file = File::open(&path).map_err(DatasetError::io("open", &path))?;
        let got = file.metadata().map_err(DatasetError::io("examine", &path))?.len();
        let expected = MAGIC.len() as u64 + cache.dataset_bytes();
        if got != expected {
            return Err(DatasetError::WrongSize { path, got, expected });
        }
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)
            .map_err(DatasetError::io("read", &path))?;
        if magic != MAGIC {
            return Err(DatasetError::WrongMagic { path, got: magic });
        }
        let mut memory = allocate(cache.dataset_bytes())?;
        for bytes in memory.chunks_mut(BYTES_AT_ONCE) {
            if cancelled() {
                return Err(DatasetError::Cancelled);
            }
            file.read_exact(bytes).map_err(DatasetError::io("read", &path))?;
        }
        // The content is in this process now, so the system need not keep it, too.
        forget(&file);
        let dataset = Self { memory };
        if let Some(WrongFileItem { item, got, expected }) = dataset.find_wrong_item(cache) {
            return Err(DatasetError::WrongItem {
                path,
                item,
                got,
                expected,
            });
        }
        Ok(dataset)
    }

    /// Compares the first, the last and evenly spread items with the light cache, and returns the
    /// first wrong one.
    fn find_wrong_item(&self, cache: &LightCache) -> Option<WrongFileItem> {
        let items = cache.dataset_items();
        let samples = ITEMS_CHECKED.min(items);
        (0..samples).find_map(|sample| {
            // If there is only one sample, it is the first item.
            let steps = u64::from(samples - 1).max(1);
            let item = (u64::from(sample) * u64::from(items - 1) / steps) as u32;
            let words = &self.words()[item as usize * ITEM_WORDS..][..ITEM_WORDS];
            let expected = cache.dataset_item(item);
            let mut pairs = words.iter().copied().zip(expected);
            let (got, expected) = pairs.find(|(got, expected)| got != expected)?;
            Some(WrongFileItem { item, got, expected })
        })
    }

    /// Writes this dataset to a file in `folder`, and returns the path of the file. Creates the
    /// folder if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be written, when another process is writing it, or when `cancelled`
    /// returns true. No incomplete file is left under the name of the file.
    pub fn save(
        &self,
        folder: &Path,
        seed_hash: &B256,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<PathBuf, DatasetError> {
        let path = folder.join(file_name(seed_hash));
        let unfinished = folder.join(format!("{}.unfinished", file_name(seed_hash)));
        fs::create_dir_all(folder).map_err(DatasetError::io("create folder", folder))?;
        // The file is truncated only after it is locked, because another process may be writing it.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&unfinished);
        let file = file.map_err(DatasetError::io("create", &unfinished))?;
        file.try_lock().map_err(|error| no_lock(error, &unfinished))?;
        // Another process may have completed and renamed the file after it was opened here. Then
        // other processes may be reading it, and it must not be changed.
        if !is_at(&file, &unfinished) {
            return Err(DatasetError::Busy { path: unfinished });
        }
        let written = self
            .write_to(&file, &unfinished, cancelled)
            .and_then(|()| fs::rename(&unfinished, &path).map_err(DatasetError::io("rename to", &path)));
        if let Err(error) = written {
            // The next attempt would overwrite the file, but the disk may be full.
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
        for bytes in bytemuck::cast_slice::<u32, u8>(self.words()).chunks(BYTES_AT_ONCE) {
            if cancelled() {
                return Err(DatasetError::Cancelled);
            }
            file.write_all(bytes).map_err(DatasetError::io("write", path))?;
        }
        file.sync_all().map_err(DatasetError::io("write", path))
    }

    /// The dataset in the form that hashes are computed from.
    pub fn view(&self) -> FullDataset<'_> {
        FullDataset::new(self.words()).expect("every light cache has at least one item, and all are here")
    }

    /// The items one after another, 32 words each.
    pub fn words(&self) -> &[u32] {
        bytemuck::cast_slice(&self.memory[..])
    }

    /// The size of all items in bytes.
    pub fn bytes(&self) -> u64 {
        self.view().items() as u64 * ITEM_BYTES as u64
    }
}

/// Allocates memory for a dataset of `bytes`, in huge pages if the system has them.
fn allocate(bytes: u64) -> Result<MmapMut, DatasetError> {
    let out_of_memory = |source| DatasetError::OutOfMemory { bytes, source };
    // The system may grant memory that it does not have, and end a program later to provide it.
    if let Some(MemoryShortage { needed, available }) = FreeMemory::default().shortage(bytes) {
        return Err(DatasetError::TooLittleMemory {
            bytes,
            needed,
            available,
        });
    }
    let length = usize::try_from(bytes).map_err(|_| out_of_memory(io::ErrorKind::OutOfMemory.into()))?;
    let mut memory = MmapMut::map_anon(length).map_err(out_of_memory)?;
    ethash::advise_huge_pages(&mut memory[..]);
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use super::*;

    const CONTINUE: fn(u32, u32) -> ControlFlow<()> = |_, _| ControlFlow::Continue(());

    fn small_cache() -> LightCache {
        LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset")
    }

    /// Saves the small dataset. Returns its folder, the path of its file, and its light cache.
    fn saved_dataset() -> (tempfile::TempDir, PathBuf, LightCache) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = small_cache();
        let dataset = Dataset::generate(&cache, 2, &mut CONTINUE.clone()).expect("32 KiB");
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
    fn the_dataset_does_not_depend_on_the_number_of_threads() {
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
    fn a_saved_dataset_can_be_opened() {
        let (folder, path, cache) = saved_dataset();
        assert_eq!(path, folder.path().join("full-R23-0000000000000000"));
        let names: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
        assert_eq!(names.len(), 1, "no unfinished file is left");
        let mut start = [0; 8];
        File::open(&path)
            .and_then(|mut file| file.read_exact(&mut start))
            .expect("eight bytes");
        assert_eq!(start, [0xfe, 0xca, 0xdd, 0xba, 0xad, 0xde, 0xe1, 0xfe]);
        let dataset = Dataset::open(folder.path(), &cache, &|| false).expect("the dataset was just saved");
        assert_eq!(dataset.bytes(), 32_768);
        let header_hash = B256::repeat_byte(7);
        assert_eq!(dataset.view().hash(&header_hash, 5), cache.hash(&header_hash, 5));
    }

    #[test]
    fn a_dataset_does_not_change_with_its_file() {
        let (folder, path, cache) = saved_dataset();
        let dataset = Dataset::open(folder.path(), &cache, &|| false).expect("the dataset was just saved");
        let before = dataset.words().to_vec();
        for item in 0..256 {
            overwrite(&path, 8 + item * 128 + 77, |byte| byte ^ 0x10);
        }
        assert!(dataset.words() == before, "the file was changed");
        // The next read of a map would end the process.
        File::create(&path).expect("an empty file");
        assert!(dataset.words() == before, "the file was emptied");
        let header_hash = B256::repeat_byte(7);
        assert_eq!(dataset.view().hash(&header_hash, 5), cache.hash(&header_hash, 5));
    }

    #[test]
    fn reading_can_be_cancelled() {
        let (folder, _, cache) = saved_dataset();
        let error = Dataset::open(folder.path(), &cache, &|| true).expect_err("cancelled");
        assert!(matches!(error, DatasetError::Cancelled), "{error}");
    }

    #[test]
    fn the_file_name_contains_the_seed_hash() {
        assert_eq!(file_name(&ethash::seed_hash(1)), "full-R23-290decd9548b62a8");
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let (folder, path, cache) = saved_dataset();
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(32_775))
            .expect("shortened");
        let error = Dataset::open(folder.path(), &cache, &|| false).expect_err("a byte is missing");
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
        let (folder, path, cache) = saved_dataset();
        overwrite(&path, 0, |_| 0);
        let error = Dataset::open(folder.path(), &cache, &|| false).expect_err("the magic is wrong");
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
        let (folder, path, cache) = saved_dataset();
        for item in [0, 100, 255] {
            let offset = 8 + item * 128 + 77;
            overwrite(&path, offset, |byte| byte ^ 0x10);
            let error = Dataset::open(folder.path(), &cache, &|| false).expect_err("a bit is wrong");
            assert!(
                matches!(error, DatasetError::WrongItem { item: found, .. } if u64::from(found) == item),
                "{error}"
            );
            overwrite(&path, offset, |byte| byte ^ 0x10);
        }
        Dataset::open(folder.path(), &cache, &|| false).expect("the file is right again");
    }

    #[test]
    fn a_file_of_another_epoch_is_absent() {
        let (folder, ..) = saved_dataset();
        let other =
            LightCache::with_sizes(ethash::seed_hash(1), 1024, 32_768).expect("sizes of the test dataset");
        assert!(Dataset::open(folder.path(), &other, &|| false).is_err_and(|error| error.is_absent()));
    }

    #[test]
    fn a_failed_save_leaves_no_file() {
        let (folder, path, cache) = saved_dataset();
        let dataset = Dataset::open(folder.path(), &cache, &|| false).expect("the dataset was just saved");
        let seed = ethash::seed_hash(3);
        let error = dataset
            .save(&path, &seed, &|| false)
            .expect_err("a file is not a folder");
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
