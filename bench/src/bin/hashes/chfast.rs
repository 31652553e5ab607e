//! The peer: the library chfast/ethash 1.1, loaded as a shared object.
//!
//! Its C interface has light caches and hashes from them. Dataset items and the full dataset are
//! only in its C++ interface, whose functions are found by their mangled names. Its dataset is
//! filled with ours, because generating it would take minutes. Sizes of the library are compared
//! with ours before they are used.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ethash::{B256, ITEM_BYTES, ITEM_WORDS, LightCache, PowHash};

/// A failure of the library, or a difference between its results and ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChfastError {
    /// The path cannot be given to the loader.
    #[error("{}: {reason}", path.display())]
    Path {
        path: PathBuf,
        reason: std::ffi::NulError,
    },
    /// The loader refuses the file.
    #[error("cannot load {}: {reason}", path.display())]
    NotLoaded { path: PathBuf, reason: String },
    /// The library does not have a function.
    #[error("chfast has no {name:?}: {reason}")]
    NoSymbol { name: &'static CStr, reason: String },
    /// The library makes no light cache.
    #[error("chfast has no light cache of epoch {0}")]
    NoCache(u32),
    /// The library makes no full dataset.
    #[error("chfast has no memory for the full dataset")]
    NoMemory,
    /// The full dataset is to be used before it exists.
    #[error("the dataset of chfast was not filled")]
    NotFilled,
    /// The sizes of the light cache and the dataset differ.
    #[error("rows and items of chfast: got {got:?}, expected {expected:?}")]
    WrongSizes {
        got: (c_int, c_int),
        expected: (c_int, c_int),
    },
    /// The size of the full dataset differs.
    #[error("dataset of chfast: got {got} bytes, expected {expected}")]
    WrongLength { got: usize, expected: usize },
    /// A dataset item differs.
    #[error("chfast: item {0} differs from ours")]
    WrongItem(u32),
    /// A hash differs.
    #[error("hash of chfast: got {got:?}, expected {expected:?}")]
    WrongHash {
        got: Box<PowHash>,
        expected: Box<PowHash>,
    },
}

/// Number of hashes in one call of the library's search.
const HASHES_PER_CALL: usize = 512;

/// `ethash_epoch_context`, with the field that `ethash_epoch_context_full` adds.
#[repr(C)]
struct Context {
    epoch: c_int,
    rows: c_int,
    light_cache: *const c_void,
    items: c_int,
    /// Only in a full context.
    dataset: *mut u32,
}

/// `ethash_result`.
#[repr(C)]
struct RawHash {
    final_hash: [u8; 32],
    mix_hash: [u8; 32],
}

/// `ethash::search_result`.
#[repr(C)]
struct SearchResult {
    found: bool,
    nonce: u64,
    hash: RawHash,
}

/// `ethash_hash1024`, with the alignment of the library.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawItem([u32; ITEM_WORDS]);

type Create = unsafe extern "C" fn(c_int) -> *mut Context;
type Destroy = unsafe extern "C" fn(*mut Context);
type Hash = unsafe extern "C" fn(*const Context, *const [u8; 32], u64) -> RawHash;
type Search =
    unsafe extern "C" fn(*const Context, *const [u8; 32], *const [u8; 32], u64, usize) -> SearchResult;
type Item = unsafe extern "C" fn(*const Context, u32) -> RawItem;

/// The library with the contexts of one epoch.
pub(crate) struct Chfast {
    create: Create,
    create_full: Create,
    destroy: Destroy,
    destroy_full: Destroy,
    hash: Hash,
    hash_full: Hash,
    search: Search,
    item: Item,
    light: *mut Context,
    full: Option<*mut Context>,
}

// SAFETY: threads only read the shared contexts. Hashing with a full dataset would write a missing
// item, but none is missing, because `fill` has copied all items.
unsafe impl Sync for Chfast {}

impl Chfast {
    /// Loads the library and lets it build the light cache of `epoch`.
    pub(crate) fn load(path: &Path, epoch: u32) -> Result<Self, ChfastError> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|reason| ChfastError::Path {
            path: path.to_owned(),
            reason,
        })?;
        // SAFETY: loading runs the initialisers of the library, which the user has chosen.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(ChfastError::NotLoaded {
                path: path.to_owned(),
                reason: reason(),
            });
        }
        // SAFETY: each symbol is cast to the type that version 1.1 declares for it.
        let library = unsafe {
            let create: Create = std::mem::transmute(symbol(library, c"ethash_create_epoch_context")?);
            Self {
                create,
                create_full: std::mem::transmute::<*mut c_void, Create>(symbol(
                    library,
                    c"ethash_create_epoch_context_full",
                )?),
                destroy: std::mem::transmute::<*mut c_void, Destroy>(symbol(
                    library,
                    c"ethash_destroy_epoch_context",
                )?),
                destroy_full: std::mem::transmute::<*mut c_void, Destroy>(symbol(
                    library,
                    c"ethash_destroy_epoch_context_full",
                )?),
                hash: std::mem::transmute::<*mut c_void, Hash>(symbol(library, c"ethash_hash")?),
                hash_full: std::mem::transmute::<*mut c_void, Hash>(symbol(
                    library,
                    c"_ZN6ethash4hashERK25ethash_epoch_context_fullRK14ethash_hash256m",
                )?),
                search: std::mem::transmute::<*mut c_void, Search>(symbol(
                    library,
                    c"_ZN6ethash6searchERK25ethash_epoch_context_fullRK14ethash_hash256S5_mm",
                )?),
                item: std::mem::transmute::<*mut c_void, Item>(symbol(
                    library,
                    c"_ZN6ethash27calculate_dataset_item_1024ERK20ethash_epoch_contextj",
                )?),
                light: create(epoch as c_int),
                full: None,
            }
        };
        if library.light.is_null() {
            return Err(ChfastError::NoCache(epoch));
        }
        Ok(library)
    }

    /// Compares sizes, an item and a hash with ours, so that nothing is measured against a library
    /// with other results.
    pub(crate) fn must_agree(&self, cache: &LightCache) -> Result<(), ChfastError> {
        // SAFETY: `load` has created the context.
        let (rows, items) = unsafe { ((*self.light).rows, (*self.light).items) };
        let expected = (cache.rows() as c_int, cache.dataset_items() as c_int);
        if (rows, items) != expected {
            let got = (rows, items);
            return Err(ChfastError::WrongSizes { got, expected });
        }
        let index = cache.dataset_items() / 3;
        if self.item(index).0 != cache.dataset_item(index) {
            return Err(ChfastError::WrongItem(index));
        }
        let header = B256::repeat_byte(9);
        let (got, expected) = (self.hash_light(&header, 5), cache.hash(&header, 5));
        if got != expected {
            return Err(ChfastError::WrongHash {
                got: got.into(),
                expected: expected.into(),
            });
        }
        Ok(())
    }

    /// Measures how long the library takes to build a light cache.
    pub(crate) fn build_time(&self, epoch: u32) -> Result<Duration, ChfastError> {
        let start = Instant::now();
        // SAFETY: the function has no preconditions; the context is destroyed below.
        let context = unsafe { (self.create)(epoch as c_int) };
        let time = start.elapsed();
        if context.is_null() {
            return Err(ChfastError::NoCache(epoch));
        }
        // SAFETY: the context was created above and is not used any more.
        unsafe { (self.destroy)(context) };
        Ok(time)
    }

    /// Computes a dataset item.
    pub(crate) fn item(&self, index: u32) -> RawItem {
        // SAFETY: `load` has created the context.
        unsafe { (self.item)(self.light, index) }
    }

    /// Hashes a nonce with the light cache.
    pub(crate) fn hash_light(&self, header_hash: &B256, nonce: u64) -> PowHash {
        // SAFETY: `load` has created the context.
        unsafe { (self.hash)(self.light, &raw const header_hash.0, nonce) }.into()
    }

    /// Creates a full context and copies our dataset into it.
    pub(crate) fn fill(&mut self, epoch: u32, words: &[u32]) -> Result<(), ChfastError> {
        // SAFETY: the fields belong to a context that the library has just created. `dataset` comes
        // after the others, as a field of a derived class, and has room for `items` items.
        unsafe {
            let context = (self.create_full)(epoch as c_int);
            if context.is_null() {
                return Err(ChfastError::NoMemory);
            }
            self.full = Some(context);
            let bytes = (*context).items as usize * ITEM_BYTES;
            if (*context).epoch != epoch as c_int || bytes != size_of_val(words) {
                return Err(ChfastError::WrongLength {
                    got: bytes,
                    expected: size_of_val(words),
                });
            }
            (*context)
                .dataset
                .copy_from_nonoverlapping(words.as_ptr(), words.len());
        }
        Ok(())
    }

    /// Hashes a nonce with the full dataset.
    pub(crate) fn hash_full(&self, header_hash: &B256, nonce: u64) -> Result<PowHash, ChfastError> {
        let context = self.full.ok_or(ChfastError::NotFilled)?;
        // SAFETY: `fill` has created the context.
        Ok(unsafe { (self.hash_full)(context, &raw const header_hash.0, nonce) }.into())
    }

    /// Runs the library's own search until `end`. Returns the number of hashes; 0 without a
    /// dataset. The first nonce is `first`.
    pub(crate) fn search(&self, first: u64, end: Instant) -> u64 {
        let Some(context) = self.full else { return 0 };
        let (header, boundary) = ([7; 32], [0; 32]);
        let (mut nonce, mut hashes) = (first, 0);
        while Instant::now() < end {
            // SAFETY: `fill` has created the context. No final hash is zero, so all nonces are
            // tried.
            let result = unsafe {
                (self.search)(
                    context,
                    &raw const header,
                    &raw const boundary,
                    nonce,
                    HASHES_PER_CALL,
                )
            };
            std::hint::black_box((result.found, result.nonce, result.hash.final_hash));
            nonce += HASHES_PER_CALL as u64;
            hashes += HASHES_PER_CALL as u64;
        }
        hashes
    }
}

impl Drop for Chfast {
    fn drop(&mut self) {
        // SAFETY: the library has created both contexts, and they are not used any more.
        unsafe {
            (self.destroy)(self.light);
            if let Some(full) = self.full {
                (self.destroy_full)(full);
            }
        }
    }
}

impl From<RawHash> for PowHash {
    fn from(hash: RawHash) -> Self {
        Self {
            mix_hash: B256::from(hash.mix_hash),
            final_hash: B256::from(hash.final_hash),
        }
    }
}

/// The address of a symbol.
fn symbol(library: *mut c_void, name: &'static CStr) -> Result<*mut c_void, ChfastError> {
    // SAFETY: the library is open, and the name ends with a zero byte.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return Err(ChfastError::NoSymbol {
            name,
            reason: reason(),
        });
    }
    Ok(address)
}

/// The reason for the last failure of the loader.
fn reason() -> String {
    // SAFETY: the result is null, or a text that is valid until the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "no reason given".into();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
