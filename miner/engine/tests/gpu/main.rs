//! Compares the kernels with the CPU and with the published vectors, on any adapter.
//!
//! A software adapter is enough, because the tested kernels are those that mine. If there is no
//! adapter, the tests are skipped with a message; if the environment variable `REQUIRE_GPU` is set,
//! they fail. A software adapter needs minutes and much memory for a whole dataset of a real epoch,
//! so that test runs only with `--ignored`.

mod search;

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::gpu::{
    GenerationForm, GenerationProgress, GpuError, GpuHit, GpuOptions, GpuSearcher, GpuWork, list_adapters,
};
use ethash::{B256, Epoch, ITEM_WORDS, LightCache, keccak256, seed_hash};
use serde_json::Value;

/// Returns the adapter to test: a hardware adapter if there is one.
fn adapter() -> Option<usize> {
    let adapters = list_adapters();
    let chosen = adapters
        .iter()
        .find(|adapter| !adapter.software)
        .or_else(|| adapters.first());
    if chosen.is_none() {
        assert!(
            std::env::var_os("REQUIRE_GPU").is_none(),
            "REQUIRE_GPU is set, but there is no adapter"
        );
        eprintln!("skipped: no Vulkan, Metal or DX12 adapter on this machine");
    }
    chosen.map(|adapter| adapter.index)
}

/// Whether the adapter has the generation that exchanges values within a subgroup.
fn has_shuffles(index: usize) -> bool {
    let found = list_adapters().into_iter().find(|adapter| adapter.index == index);
    found.is_some_and(|adapter| GenerationForm::Shuffle.runs_on(&adapter))
}

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/ethash.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn b256(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

/// Returns the cache of a small dataset of `items` items.
fn small_cache(seed_epoch: u32, items: u64) -> Arc<LightCache> {
    Arc::new(LightCache::with_sizes(seed_hash(seed_epoch), 1024, items * 128).unwrap())
}

const fn continue_always(_: GenerationProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn searcher(adapter: usize, cache: &Arc<LightCache>, options: GpuOptions) -> GpuSearcher {
    let mut searcher = GpuSearcher::new(adapter, options).unwrap();
    searcher.set_epoch(cache, &mut continue_always).unwrap();
    searcher
}

fn paged(items: u32) -> GpuOptions {
    GpuOptions {
        max_page_items: Some(items),
        ..GpuOptions::default()
    }
}

fn keccak_of(items: &[[u32; ITEM_WORDS]]) -> B256 {
    let bytes: Vec<u8> = items
        .iter()
        .flatten()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    B256::from(keccak256(&bytes))
}

/// Computes on the CPU the hits that the device must report. The device compares the top 64 bits.
fn cpu_hits(cache: &LightCache, work: &GpuWork, count: u64) -> Vec<GpuHit> {
    let top = |hash: &B256| u64::from_be_bytes(hash[..8].try_into().unwrap());
    (0..count)
        .map(|offset| work.start_nonce.wrapping_add(offset))
        .map(|pow_nonce| (pow_nonce, cache.hash(&work.header_hash, pow_nonce)))
        .filter(|(_, hash)| top(&hash.final_hash) <= top(&work.boundary))
        .map(|(pow_nonce, hash)| GpuHit {
            pow_nonce,
            mix_hash: hash.mix_hash,
        })
        .collect()
}

/// Returns work for which about one nonce in `2^bits` is a solution.
fn easy_work(id: u64, bits: u32, start_nonce: u64) -> GpuWork {
    let mut boundary = B256::ZERO;
    boundary.0[..8].copy_from_slice(&(u64::MAX >> bits).to_be_bytes());
    GpuWork {
        id,
        header_hash: B256::repeat_byte(0x5a),
        boundary,
        start_nonce,
        nonces: u64::MAX,
    }
}

#[test]
fn small_datasets_equal_the_published_ones() {
    let Some(adapter) = adapter() else { return };
    for case in vectors()["test_dag"]["cases"].as_array().unwrap() {
        let cache = small_cache(case["seed_epoch"].as_u64().unwrap() as u32, 256);
        let lane = GenerationForm::Lane;
        let mut settings = vec![
            (None, None, lane),
            (Some(64), Some(4), lane),
            (Some(32), None, lane),
            (None, None, GenerationForm::Sliced { slices: 2 }),
            (Some(64), Some(4), GenerationForm::Sliced { slices: 5 }),
            (Some(32), None, GenerationForm::Sliced { slices: 1000 }),
        ];
        if has_shuffles(adapter) {
            let shuffle = GenerationForm::Shuffle;
            settings.extend([(None, None, shuffle), (Some(64), Some(4), shuffle)]);
        }
        for (page_items, page_rows, generation) in settings {
            let options = GpuOptions {
                max_page_items: page_items,
                max_page_rows: page_rows,
                generation: Some(generation),
                ..GpuOptions::default()
            };
            let searcher = searcher(adapter, &cache, options);
            assert_eq!(searcher.dataset_pages(), 256 / page_items.unwrap_or(256));
            let items = searcher.read_items(0, 256).unwrap();
            assert_eq!(
                keccak_of(&items),
                b256(&case["dataset_keccak256"]),
                "pages of {page_items:?}, {generation}"
            );
            assert_eq!(searcher.read_items(30, 40).unwrap(), items[30..70]);
        }
    }
}

#[test]
fn parts_of_real_epochs_equal_the_published_ones() {
    let Some(adapter) = adapter() else { return };
    let vectors = vectors();
    let epochs = vectors["epochs"].as_array().unwrap();
    let lane = GenerationForm::Lane;
    let shuffle = GenerationForm::Shuffle;
    // Epoch 385 has the first dataset above 4 GiB, where byte offsets no longer fit in 32 bits.
    let settings = [
        (
            0,
            vec![
                (None, lane),
                (Some(1 << 16), lane),
                (None, GenerationForm::Sliced { slices: 4 }),
            ],
            vec![(None, shuffle), (Some(1 << 16), shuffle)],
        ),
        (
            385,
            vec![(None, lane), (None, GenerationForm::Sliced { slices: 2 })],
            vec![(None, shuffle)],
        ),
    ];
    for (index, mut settings, with_shuffles) in settings {
        if has_shuffles(adapter) {
            settings.extend(with_shuffles);
        }
        let expected = epochs.iter().find(|epoch| epoch["epoch"] == index).unwrap();
        let cache = LightCache::build(Epoch::ethash(index)).unwrap();
        let last_item = cache.dataset_item(cache.dataset_items() - 1);
        for (max_page_rows, generation) in settings {
            let options = GpuOptions {
                max_page_rows,
                max_page_items: Some(512),
                generation: Some(generation),
                ..GpuOptions::default()
            };
            let searcher = GpuSearcher::new(adapter, options).unwrap();
            let first = searcher.generate_items(&cache, 0, 1024).unwrap();
            assert_eq!(
                keccak_of(&first),
                b256(&expected["first_1024_items_keccak256"]),
                "epoch {index}, {generation}"
            );
            let last = searcher
                .generate_items(&cache, cache.dataset_items() - 1024, 1024)
                .unwrap();
            assert_eq!(
                keccak_of(&last),
                b256(&expected["last_1024_items_keccak256"]),
                "epoch {index}, {generation}"
            );
            assert_eq!(last[1023], last_item);
        }
    }
}

fn check_solutions(searcher: &mut GpuSearcher, search: &Value, cache: &LightCache) {
    let work = GpuWork {
        id: 1,
        header_hash: b256(&search["header_hash"]),
        boundary: b256(&search["boundary"]),
        start_nonce: number(&search["start"]),
        nonces: u64::MAX,
    };
    let hits = searcher.search(work, search["count"].as_u64().unwrap()).unwrap();
    let solutions: Vec<u64> = search["solutions"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    assert_eq!(
        hits.iter().map(|hit| hit.pow_nonce).collect::<Vec<_>>(),
        solutions
    );
    for hit in hits {
        assert_eq!(
            hit.mix_hash,
            cache.hash(&work.header_hash, hit.pow_nonce).mix_hash
        );
    }
}

#[test]
fn the_next_dataset_is_generated_between_batches() {
    let Some(adapter) = adapter() else { return };
    let (now, next, other) = (small_cache(0, 256), small_cache(1, 301), small_cache(2, 256));
    let mut searcher = searcher(adapter, &now, paged(64));
    let work = easy_work(1, 6, 0);
    searcher.set_work(work);
    assert_eq!(searcher.next_progress(), None);
    searcher.prepare_next(&next).unwrap();
    searcher.prepare_next(&next).unwrap();
    let mut batches = 0;
    while searcher.next_progress().unwrap().items_done < 301 {
        let report = searcher.next_batch().unwrap();
        assert_eq!(report.work, work, "the search continues");
        batches += 1;
        assert!(batches < 1000, "{:?}", searcher.next_progress());
    }
    assert!(
        batches > 1,
        "the dataset has several pages, and each takes at least one slice"
    );
    assert!(Arc::ptr_eq(searcher.cache().unwrap(), &now));
    // The dataset is complete, so set_epoch generates nothing.
    let mut calls = 0;
    searcher
        .set_epoch(&next, &mut |_| {
            calls += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((calls, searcher.next_progress()), (0, None));
    let expected: Vec<_> = (0..301).map(|item| next.dataset_item(item)).collect();
    assert_eq!(searcher.read_items(0, 301).unwrap(), expected);
    assert_eq!(searcher.search(work, 500).unwrap(), cpu_hits(&next, &work, 500));

    // The dataset is begun, and set_epoch completes it.
    searcher.set_work(work);
    searcher.prepare_next(&other).unwrap();
    searcher.next_batch().unwrap();
    searcher.set_epoch(&other, &mut continue_always).unwrap();
    assert_eq!(searcher.search(work, 500).unwrap(), cpu_hits(&other, &work, 500));

    // The dataset that was prepared is not the one that is needed.
    searcher.prepare_next(&now).unwrap();
    searcher.set_epoch(&next, &mut continue_always).unwrap();
    assert_eq!(searcher.read_items(300, 1).unwrap(), [next.dataset_item(300)]);
    assert_eq!(searcher.next_progress(), None);
}

#[test]
fn a_next_dataset_that_does_not_fit_does_not_disturb_the_search() {
    let Some(adapter) = adapter() else { return };
    let too_large = small_cache(1, 1_000_003);
    // With one item in each page, the dataset has more pages than any adapter can bind.
    let mut searcher = searcher(adapter, &small_cache(2, 8), paged(1));
    assert!(matches!(
        searcher.prepare_next(&too_large),
        Err(GpuError::AdapterTooSmall { .. })
    ));
    assert_eq!(searcher.next_progress(), None);
    assert_eq!(
        searcher.prepare_next(&too_large),
        Ok(()),
        "the dataset is not tried again"
    );
    searcher.set_work(easy_work(1, 6, 0));
    searcher.next_batch().unwrap();
}

#[test]
fn the_last_of_three_pages_may_be_short() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(1, 149);
    let mut searcher = searcher(adapter, &cache, paged(64));
    assert_eq!(searcher.dataset_pages(), 3);
    let expected: Vec<_> = (0..149).map(|item| cache.dataset_item(item)).collect();
    assert_eq!(searcher.read_items(0, 149).unwrap(), expected);
    let work = easy_work(1, 4, 7);
    assert_eq!(
        searcher.search(work, 1000).unwrap(),
        cpu_hits(&cache, &work, 1000)
    );
    let outside = GpuError::OutOfRange {
        first: 148,
        count: 2,
        items: 149,
    };
    assert_eq!(searcher.read_items(148, 2), Err(outside));
}

#[test]
fn a_cancelled_generation_leaves_no_dataset() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let mut searcher = searcher(adapter, &cache, paged(64));
    let cancelled = searcher.set_epoch(&cache, &mut |progress| match progress.items_done {
        0..128 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert_eq!(
        cancelled,
        Err(GpuError::Cancelled {
            done: 128,
            total: 256
        })
    );
    assert_eq!(searcher.read_items(0, 1), Err(GpuError::NoDataset));
    searcher.set_work(easy_work(1, 4, 0));
    assert_eq!(searcher.next_batch(), Err(GpuError::NoDataset));
    searcher.set_epoch(&cache, &mut continue_always).unwrap();
    assert_eq!(searcher.read_items(255, 1).unwrap(), [cache.dataset_item(255)]);
}

#[test]
fn a_lost_device_is_reported_and_can_be_opened_again() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let mut searcher = searcher(adapter, &cache, GpuOptions::default());
    searcher.set_work(easy_work(1, 8, 0));
    searcher.next_batch().unwrap();
    searcher.destroy_device();
    let lost = (0..5)
        .find_map(|_| searcher.next_batch().err())
        .expect("a destroyed device fails");
    assert!(matches!(lost, GpuError::DeviceLost { .. }), "{lost:?}");
    assert!(lost.needs_rebuild());
    assert!(matches!(searcher.next_batch(), Err(GpuError::DeviceLost { .. })));
    assert!(matches!(
        searcher.set_epoch(&cache, &mut continue_always),
        Err(GpuError::DeviceLost { .. })
    ));
    let mut searcher = GpuSearcher::find(searcher.adapter(), GpuOptions::default()).unwrap();
    searcher.set_epoch(&cache, &mut continue_always).unwrap();
    check_solutions(
        &mut searcher,
        &vectors()["test_dag"]["cases"][0]["search"][0],
        &cache,
    );
}

#[test]
fn too_many_pages_for_the_adapter_are_refused_before_any_allocation() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 1_000_003);
    let mut searcher = GpuSearcher::new(adapter, paged(1)).unwrap();
    let refused = searcher.set_epoch(&cache, &mut continue_always);
    assert!(
        matches!(refused, Err(GpuError::AdapterTooSmall { got, needed: 1_000_004, .. }) if got < 1_000_004),
        "{refused:?}"
    );
    assert_eq!(searcher.dataset_pages(), 0);
}

/// The environment variable that is set in the process that has little memory.
#[cfg(target_os = "linux")]
const LITTLE_MEMORY: &str = "GPU_TEST_LITTLE_MEMORY";

/// Runs itself again in a process with 2 GiB of address space, which requests a dataset of 3 GiB.
#[cfg(target_os = "linux")]
#[test]
fn a_refused_allocation_is_an_error() {
    let Some(index) = adapter() else { return };
    if !list_adapters()[index].software {
        eprintln!("skipped: a limit on this process does not limit the memory of a graphics card");
        return;
    }
    if std::env::var_os(LITTLE_MEMORY).is_some() {
        return check_refused_allocation(index);
    }
    let name = "a_refused_allocation_is_an_error";
    let inner = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 2097152 && exec \"$0\" --exact \"$1\""])
        .args([std::env::current_exe().unwrap().as_os_str(), name.as_ref()])
        .env(LITTLE_MEMORY, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && output.contains("1 passed"), "{inner:?}");
}

#[cfg(target_os = "linux")]
fn check_refused_allocation(adapter: usize) {
    let large = small_cache(0, 25_165_813);
    let mut searcher = GpuSearcher::new(adapter, GpuOptions::default()).unwrap();
    let refused = searcher.set_epoch(&large, &mut continue_always);
    assert!(
        matches!(
            refused,
            Err(GpuError::AllocationRefused {
                bytes: 134_217_728,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(searcher.dataset_pages(), 0);
    let small = small_cache(0, 256);
    searcher.set_epoch(&small, &mut continue_always).unwrap();
    check_solutions(
        &mut searcher,
        &vectors()["test_dag"]["cases"][0]["search"][0],
        &small,
    );
}
