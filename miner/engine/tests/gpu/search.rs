//! Tests the search: every form of the kernel finds what the CPU finds, and batches follow each
//! other.

use std::sync::Arc;
use std::time::Duration;

use engine::gpu::{GpuError, GpuOptions, GpuSearcher, GpuWork, KernelForm, list_adapters};
use ethash::{B256, Epoch, LightCache};

use crate::{
    adapter, check_solutions, continue_always, cpu_hits, easy_work, paged, searcher, small_cache, vectors,
};

/// Searches the published range of nonces in the test dataset.
fn check_published_search(options: &GpuOptions) {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let mut searcher = searcher(adapter, &cache, options.clone());
    check_solutions(
        &mut searcher,
        &vectors()["test_dag"]["cases"][0]["search"][0],
        &cache,
    );
}

#[test]
fn the_published_solutions_are_found_in_one_page() {
    check_published_search(&GpuOptions::default());
}

#[test]
fn the_published_solutions_are_found_in_two_and_eight_pages() {
    check_published_search(&paged(128));
    check_published_search(&paged(32));
}

#[test]
fn the_published_solutions_are_found_with_runtime_checks() {
    check_published_search(&GpuOptions {
        runtime_checks: true,
        ..paged(64)
    });
}

#[test]
fn every_form_finds_the_solutions_of_the_cpu() {
    let Some(index) = adapter() else { return };
    let info = &list_adapters()[index];
    let cache = small_cache(0, 256);
    let work = easy_work(1, 7, 77);
    let expected = cpu_hits(&cache, &work, 4096);
    for kernel in KernelForm::ALL {
        if !kernel.runs_on(info) {
            let options = GpuOptions {
                kernel,
                ..GpuOptions::default()
            };
            let refused = GpuSearcher::new(index, options).err();
            assert!(
                matches!(refused, Some(GpuError::AdapterTooSmall { .. })),
                "{kernel}: {refused:?}"
            );
            eprintln!("skipped: {kernel} on {}: {refused:?}", info.name);
            continue;
        }
        // A software adapter needs half a minute to compile some kernels with eight pages.
        let layouts = match kernel {
            KernelForm::Lane | KernelForm::Shuffle2 => &[(256, 64), (32, 64), (256, 128), (64, 32)][..],
            _ => &[(256, 64), (128, 128), (64, 32)],
        };
        for &(page_items, workgroup_size) in layouts {
            let options = GpuOptions {
                kernel,
                workgroup_size,
                timeout: Duration::from_secs(300),
                ..paged(page_items)
            };
            let found = searcher(index, &cache, options).search(work, 4096).unwrap();
            assert_eq!(
                found, expected,
                "{kernel}, pages of {page_items}, {workgroup_size}"
            );
        }
    }
}

#[test]
fn large_pages_need_no_power_of_two() {
    let Some(index) = adapter() else { return };
    let cache = small_cache(0, 149);
    let options = GpuOptions {
        large_pages: true,
        max_page_rows: Some(5),
        ..paged(60)
    };
    let mut searcher = searcher(index, &cache, options);
    assert_eq!(searcher.dataset_pages(), 3);
    let expected: Vec<_> = (0..149).map(|item| cache.dataset_item(item)).collect();
    assert_eq!(searcher.read_items(0, 149).unwrap(), expected);
    let work = easy_work(1, 3, 11);
    let expected = cpu_hits(&cache, &work, 500);
    for form in [KernelForm::Lane, KernelForm::Shuffle2, KernelForm::Group] {
        if form.runs_on(searcher.adapter()) {
            searcher.set_kernel(form, 64).unwrap();
            assert_eq!(searcher.search(work, 500).unwrap(), expected, "{form}");
        }
    }
}

#[test]
fn the_kernel_can_be_changed_without_another_dataset() {
    let Some(index) = adapter() else { return };
    let cache = small_cache(0, 149);
    let mut searcher = searcher(index, &cache, paged(64));
    let work = easy_work(1, 3, u64::from(u32::MAX) - 200);
    let expected = cpu_hits(&cache, &work, 999);
    for kernel in KernelForm::ALL {
        if !kernel.runs_on(searcher.adapter()) {
            continue;
        }
        searcher.set_kernel(kernel, 64).unwrap();
        assert_eq!(searcher.search(work, 999).unwrap(), expected, "{kernel}");
    }
    let too_large = searcher.set_kernel(KernelForm::Lane, 1 << 20);
    assert!(
        matches!(
            too_large,
            Err(GpuError::AdapterTooSmall {
                needed: 1_048_576,
                ..
            })
        ),
        "{too_large:?}"
    );
    for got in [0, 12] {
        let refused = GpuError::WorkgroupSize { got, multiple_of: 8 };
        assert_eq!(searcher.set_kernel(KernelForm::Lane, got), Err(refused));
    }
    assert_eq!(
        searcher.search(work, 999).unwrap(),
        expected,
        "the old kernel is kept"
    );
}

#[test]
fn a_workgroup_size_that_is_not_a_multiple_of_eight_is_refused() {
    let Some(index) = adapter() else { return };
    for form in [KernelForm::Lane, KernelForm::Group] {
        for got in [0, 4, 12, 63] {
            let options = GpuOptions {
                kernel: form,
                workgroup_size: got,
                ..GpuOptions::default()
            };
            let refused = GpuError::WorkgroupSize { got, multiple_of: 8 };
            assert_eq!(GpuSearcher::new(index, options).err(), Some(refused));
        }
    }
}

#[test]
fn only_the_nonces_of_the_work_are_hashed() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let mut searcher = searcher(adapter, &cache, GpuOptions::default());
    for nonces in [1, 63, 5000] {
        let work = GpuWork {
            nonces,
            ..easy_work(1, 5, u64::MAX - 30)
        };
        searcher.set_work(work);
        let (mut hashed, mut found) = (0, 0);
        while hashed < nonces {
            let report = searcher.next_batch().unwrap();
            assert_eq!(report.first_nonce, work.start_nonce.wrapping_add(hashed));
            hashed += u64::from(report.count);
            found += report.found as usize;
        }
        assert_eq!(hashed, nonces);
        assert_eq!(found, cpu_hits(&cache, &work, nonces).len());
        assert_eq!(searcher.next_batch(), Err(GpuError::NoWork));
    }
}

#[test]
fn nonces_carry_into_the_high_word_and_wrap_around() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let mut searcher = searcher(adapter, &cache, GpuOptions::default());
    for start in [0xffff_fe00, 0x0123_4567_ffff_ff03, u64::MAX - 300] {
        let work = easy_work(1, 3, start);
        let hits = searcher.search(work, 1024).unwrap();
        assert_eq!(hits, cpu_hits(&cache, &work, 1024), "from {start:#x}");
        assert!(hits.iter().any(|hit| (hit.pow_nonce >> 32) != (start >> 32)));
    }
}

#[test]
fn batches_follow_without_gaps_and_keep_their_work() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let options = GpuOptions {
        in_flight: 3,
        ..GpuOptions::default()
    };
    let mut searcher = searcher(adapter, &cache, options);
    assert_eq!(searcher.next_batch(), Err(GpuError::NoWork));
    let (old, new) = (easy_work(1, 9, 0xffff_f000), easy_work(2, 8, 50));
    searcher.set_work(old);
    let mut next_nonce = old.start_nonce;
    for _ in 0..5 {
        let report = searcher.next_batch().unwrap();
        assert_eq!((report.work, report.first_nonce), (old, next_nonce));
        let work = GpuWork {
            start_nonce: next_nonce,
            ..old
        };
        let expected = cpu_hits(&cache, &work, report.count.into());
        assert_eq!(report.found as usize, expected.len());
        assert!(report.hits.iter().all(|hit| expected.contains(hit)));
        assert_eq!(report.hits.len(), expected.len().min(16));
        next_nonce += u64::from(report.count);
    }
    searcher.set_work(new);
    let mut reports = Vec::new();
    for _ in 0..5 {
        reports.push(searcher.next_batch().unwrap());
    }
    // Batches in flight are still reported with their old work. The first new batch begins at its
    // start nonce.
    let ids: Vec<u64> = reports.iter().map(|report| report.work.id).collect();
    assert_eq!(ids, [1, 1, 1, 2, 2]);
    assert_eq!(reports[3].first_nonce, 50);
    let expected = cpu_hits(&cache, &new, reports[3].count.into());
    assert_eq!(reports[3].found as usize, expected.len());
    searcher.stop().unwrap();
    assert_eq!(searcher.next_batch(), Err(GpuError::NoWork));
    assert!(searcher.last_hashrate().is_some());
}

#[test]
fn hits_without_a_free_slot_are_counted() {
    let Some(adapter) = adapter() else { return };
    let cache = small_cache(0, 256);
    let options = GpuOptions {
        result_slots: 3,
        ..GpuOptions::default()
    };
    let mut searcher = searcher(adapter, &cache, options);
    let work = GpuWork {
        boundary: B256::repeat_byte(0xff),
        ..easy_work(1, 0, 0)
    };
    searcher.set_work(work);
    let report = searcher.next_batch().unwrap();
    assert_eq!(report.found, report.count);
    assert_eq!(report.hits.len(), 3);
    for hit in report.hits {
        assert_eq!(
            hit.mix_hash,
            cache.hash(&work.header_hash, hit.pow_nonce).mix_hash
        );
    }
    assert_eq!(searcher.search(work, 20).unwrap(), cpu_hits(&cache, &work, 20));
}

#[test]
#[ignore = "generates 1 to 4 GiB, which takes minutes on a software adapter"]
fn the_published_solutions_of_real_epochs_are_found() {
    let Some(adapter) = adapter() else { return };
    let vectors = vectors();
    for form in KernelForm::ALL {
        if !form.runs_on(&list_adapters()[adapter]) {
            continue;
        }
        let mut searcher = GpuSearcher::new(
            adapter,
            GpuOptions {
                kernel: form,
                ..GpuOptions::default()
            },
        )
        .unwrap();
        for epoch in [0, 129, 385] {
            let cache = Arc::new(LightCache::build(Epoch::ethash(epoch)).unwrap());
            match searcher.set_epoch(&cache, &mut continue_always) {
                Ok(()) => {}
                Err(error @ (GpuError::AdapterTooSmall { .. } | GpuError::AllocationRefused { .. })) => {
                    eprintln!("skipped from epoch {epoch} on: {error}");
                    break;
                }
                Err(error) => panic!("epoch {epoch}: {error}"),
            }
            for search in vectors["search"].as_array().unwrap() {
                if search["epoch"] == epoch {
                    check_solutions(&mut searcher, search, &cache);
                }
            }
        }
    }
}
