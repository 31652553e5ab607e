//! Tests of seals on any adapter, with small datasets.

use ethash::{Seal, seed_hash, verify_seals, verify_seals_on};

use super::*;
use crate::gpu::fixture::first_adapter;

/// Blocks that are left of an epoch, so that every dataset is worth it.
const LEFT: u64 = 30_000;

fn small_cache(dataset_bytes: u64) -> Arc<LightCache> {
    Arc::new(LightCache::with_sizes(seed_hash(0), 1024, dataset_bytes).expect("the test sizes"))
}

/// A card on the first adapter. `None` if there is no adapter.
fn card(options: GpuOptions, idle_max: Duration) -> Option<SealCard> {
    let adapter = first_adapter()?;
    Some(SealCard::with_idle(
        SealDevice::Gpu(adapter.index),
        options,
        idle_max,
    ))
}

fn right_seals(cache: &LightCache, count: u64) -> Vec<Seal> {
    let header_hash = B256::repeat_byte(0x33);
    (0..count)
        .map(|pow_nonce| Seal {
            header_hash,
            pow_nonce,
            mix_hash: cache.hash(&header_hash, pow_nonce).mix_hash,
            boundary: B256::repeat_byte(0xff),
        })
        .collect()
}

/// Asks until `holds` is true of what the card says. Panics after a minute.
fn ask_until(
    card: &SealCard,
    cache: &Arc<LightCache>,
    seals: &[Seal],
    holds: impl Fn(Option<Vec<Result<(), ethash::SealError>>>) -> bool,
) {
    let start = Instant::now();
    while !holds(verify_seals_on(card, cache, LEFT, seals)) {
        assert!(start.elapsed() < Duration::from_secs(60), "{card:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A small epoch with right seals, once the card has its dataset.
fn loaded(card: &SealCard) -> (Arc<LightCache>, Vec<Seal>) {
    let cache = small_cache(256 * 128);
    let seals = right_seals(&cache, 64);
    ask_until(card, &cache, &seals, |results| results.is_some());
    (cache, seals)
}

#[test]
fn a_card_gives_the_results_of_the_processor() {
    // Several pages, of which the last one is short.
    let options = GpuOptions {
        max_page_items: Some(100),
        ..GpuOptions::default()
    };
    let Some(card) = card(options, IDLE_MAX) else {
        return;
    };
    let cache = small_cache(256 * 128);
    let mut seals = right_seals(&cache, 100);
    seals[0].mix_hash.0[0] ^= 1;
    seals[41].pow_nonce ^= 1 << 40;
    seals[42].header_hash.0[31] ^= 1;
    seals[43].boundary = B256::ZERO;
    seals[99].mix_hash = B256::ZERO;
    let expected = verify_seals(&cache, &seals);
    let refused = expected.iter().filter(|result| result.is_err()).count();
    assert_eq!(refused, 5);
    assert_eq!(
        verify_seals_on(&card, &cache, LEFT, &seals),
        None,
        "no dataset yet"
    );
    ask_until(&card, &cache, &seals, |results| results.is_some());
    // Parts of every size, and another epoch.
    for count in [100, 33, 8] {
        let results = verify_seals_on(&card, &cache, LEFT, &seals[..count]);
        assert_eq!(results.as_deref(), Some(&expected[..count]));
    }
    assert_eq!(verify_seals_on(&card, &cache, LEFT, &seals[..7]), None, "too few");
    let other = small_cache(301 * 128);
    let seals = right_seals(&other, 64);
    ask_until(&card, &other, &seals, |results| results == Some(vec![Ok(()); 64]));
    let counts = card.counts();
    assert_eq!(counts.failures, 0);
    assert!(counts.by_card >= 100 + 100 + 33 + 8 + 64 - 6, "{counts:?}");
}

#[test]
fn faulty_memory_is_found_and_refuses_no_right_seal() {
    let Some(card) = card(GpuOptions::default(), IDLE_MAX) else {
        return;
    };
    let (cache, seals) = loaded(&card);
    if let CardState::Open(searcher) = &*card.shared.card.lock() {
        (0..256).for_each(|item| searcher.flip_bit(item, 5, 7));
    }
    assert_eq!(verify_seals_on(&card, &cache, LEFT, &seals), None);
    assert_eq!(card.counts().failures, 1);
    // The card is not asked again, for no epoch.
    let before = card.counts();
    assert_eq!(
        verify_seals_on(&card, &small_cache(512 * 128), LEFT, &seals),
        None
    );
    assert_eq!(card.counts(), before);
}

#[test]
fn a_lost_card_is_given_up() {
    let Some(card) = card(GpuOptions::default(), IDLE_MAX) else {
        return;
    };
    let (cache, seals) = loaded(&card);
    if let CardState::Open(searcher) = &*card.shared.card.lock() {
        searcher.destroy_device();
    }
    ask_until(&card, &cache, &seals, |results| results.is_none());
    assert_eq!(card.counts().failures, 1);
}

#[test]
fn a_card_with_too_little_memory_is_given_up() {
    // With one item in each page, the dataset has more pages than any adapter can bind.
    let options = GpuOptions {
        max_page_items: Some(1),
        ..GpuOptions::default()
    };
    let Some(card) = card(options, IDLE_MAX) else {
        return;
    };
    let cache = small_cache(1_000_003 * 128);
    let seals = right_seals(&small_cache(256 * 128), 8);
    ask_until(&card, &cache, &seals, |results| {
        assert_eq!(results, None);
        card.counts().failures == 1
    });
    assert_eq!(card.counts().by_card, 0);
}

#[test]
fn an_idle_card_gives_its_memory_back_and_is_opened_again() {
    let Some(card) = card(GpuOptions::default(), Duration::from_millis(1)) else {
        return;
    };
    for _ in 0..2 {
        loaded(&card);
        let start = Instant::now();
        while matches!(*card.shared.card.lock(), CardState::Open(_)) {
            assert!(start.elapsed() < Duration::from_secs(60), "{card:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(card.counts().failures, 0);
}

#[test]
fn the_end_of_a_program_ends_a_dataset_under_way() {
    let Some(card) = card(GpuOptions::default(), IDLE_MAX) else {
        return;
    };
    // A software adapter needs minutes for it.
    let cache = small_cache((1 << 28) - 128);
    let seals = right_seals(&small_cache(256 * 128), 8);
    assert_eq!(verify_seals_on(&card, &cache, LEFT, &seals), None);
    card.close();
    assert_eq!(verify_seals_on(&card, &cache, LEFT, &seals), None);
    assert!(card.loader.lock().is_none());
    assert_eq!(card.counts().failures, 0);
}

#[test]
fn a_card_that_is_not_there_is_refused_and_the_processor_needs_none() {
    let found = list_adapters().len();
    let wanted = found + 3;
    let refused = SealCard::new(SealDevice::Gpu(wanted), GpuOptions::default());
    assert_eq!(refused.err(), Some(GpuError::NoAdapter { wanted, found }));
    let processor = SealCard::new(SealDevice::Cpu, GpuOptions::default());
    assert!(processor.is_ok_and(|card| card.is_none()));
}
