//! Compares this package with every value of `tests/vectors/ethash.json`.
//!
//! One test goes through all epochs of the file on two threads, so that each light cache is built
//! only once. The digest of a whole real dataset is not checked here, because that needs the full
//! dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ethash::{
    B256, Epoch, FullDataset, LIGHT_IN_FLIGHT, LightCache, PowHash, SealError, U256, keccak256, verify_seal,
};
use serde_json::Value;

static VECTORS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../tests/vectors/ethash.json")).expect("the vector file is JSON")
});

fn list(value: &'static Value) -> &'static [Value] {
    value.as_array().expect("a list")
}

fn text(value: &'static Value) -> &'static str {
    value.as_str().expect("a string")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn epoch_number(value: &Value) -> u32 {
    u32::try_from(number(value)).expect("an epoch")
}

fn hash(value: &'static Value) -> B256 {
    text(value).parse().expect("32 bytes as hex")
}

fn nonce(value: &'static Value) -> u64 {
    u64::from_str_radix(text(value), 16).expect("8 bytes as hex")
}

fn item_bytes(cache: &LightCache, index: u32) -> Vec<u8> {
    cache
        .dataset_item(index)
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

fn items_bytes(cache: &LightCache, first: u32, count: usize) -> Vec<u8> {
    let mut words = vec![0; count * ethash::ITEM_WORDS];
    cache.fill_items(first, &mut words);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn constants() {
    let constants = &VECTORS["constants"];
    for (name, value) in [
        ("epoch_length", ethash::EPOCH_LENGTH_ETHASH),
        ("word_bytes", ethash::WORD_BYTES as u64),
        ("mix_bytes", ethash::ITEM_BYTES as u64),
        ("hash_bytes", ethash::ROW_BYTES as u64),
        ("cache_bytes_init", ethash::CACHE_BYTES_INIT),
        ("cache_bytes_growth", ethash::CACHE_BYTES_GROWTH),
        ("dataset_bytes_init", ethash::DATASET_BYTES_INIT),
        ("dataset_bytes_growth", ethash::DATASET_BYTES_GROWTH),
        ("cache_rounds", u64::from(ethash::CACHE_ROUNDS)),
        ("dataset_parents_per_64_bytes", u64::from(ethash::DATASET_PARENTS)),
        ("accesses", u64::from(ethash::ACCESSES)),
    ] {
        assert_eq!(number(&constants[name]), value, "{name}");
    }
    assert_eq!(
        text(&constants["fnv_prime"]),
        format!("{:08x}", ethash::FNV_PRIME)
    );
}

#[test]
fn sizes() {
    let sizes = list(&VECTORS["sizes_epoch_cache_dataset"]);
    assert!(sizes.len() > 20);
    for row in sizes {
        let epoch = epoch_number(&row[0]);
        assert_eq!(
            ethash::cache_bytes(epoch),
            Ok(number(&row[1])),
            "cache of epoch {epoch}"
        );
        assert_eq!(
            ethash::dataset_bytes(epoch),
            Ok(number(&row[2])),
            "dataset of epoch {epoch}"
        );
    }
    for (name, bytes) in [
        ("over_128MiB", 128 << 20),
        ("over_2GiB_minus_4", (2 << 30) - 4),
        ("over_4GiB_minus_1", (4 << 30) - 1),
        ("over_8GiB", 8 << 30),
        ("over_16GiB", 16_u64 << 30),
    ] {
        let first = (0..=ethash::MAX_EPOCH)
            .find(|&epoch| ethash::dataset_bytes(epoch).is_ok_and(|size| size > bytes));
        assert_eq!(
            first,
            Some(epoch_number(&VECTORS["first_epoch_of_size"][name])),
            "{name}"
        );
    }
}

#[test]
fn seeds() {
    let seeds = VECTORS["seeds"].as_object().expect("an object");
    assert!(seeds.len() > 5);
    for (steps, seed) in seeds {
        let steps = steps.parse().expect("a number of steps");
        assert_eq!(ethash::seed_hash(steps), hash(seed), "{steps} steps");
        assert_eq!(ethash::find_seed_steps(&hash(seed)), Some(steps));
    }
}

/// The entries of the file for one epoch.
#[derive(Default)]
struct EpochVectors {
    facts: Option<&'static Value>,
    hashes: Vec<&'static Value>,
    searches: Vec<&'static Value>,
}

#[test]
fn every_epoch() {
    let mut epochs: BTreeMap<u32, EpochVectors> = BTreeMap::new();
    for facts in list(&VECTORS["epochs"]) {
        epochs.entry(epoch_number(&facts["epoch"])).or_default().facts = Some(facts);
    }
    for case in list(&VECTORS["hashes"]) {
        epochs
            .entry(epoch_number(&case["epoch"]))
            .or_default()
            .hashes
            .push(case);
    }
    for case in list(&VECTORS["search"]) {
        epochs
            .entry(epoch_number(&case["epoch"]))
            .or_default()
            .searches
            .push(case);
    }
    assert!(epochs.len() >= 27, "the file has at least 27 epochs");
    assert!(
        epochs.keys().any(|&epoch| epoch >= 385),
        "at least one dataset is larger than 4 GiB"
    );

    // The largest caches take longest to build, so they come first. Four are built at once.
    let work: Vec<_> = epochs.into_iter().rev().collect();
    let work: Vec<_> = work.chunks(4).collect();
    let next = AtomicUsize::new(0);
    let checked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(group) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let epochs: Vec<_> = group.iter().map(|(index, _)| Epoch::ethash(*index)).collect();
                    let caches = LightCache::build_many(&epochs).expect("epochs within range");
                    for ((index, vectors), cache) in group.iter().zip(caches) {
                        checked.fetch_add(check_epoch(*index, vectors, &cache), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let cases =
        list(&VECTORS["epochs"]).len() + list(&VECTORS["hashes"]).len() + list(&VECTORS["search"]).len();
    assert_eq!(checked.into_inner(), cases);
}

/// Checks all entries of one epoch and returns how many there are.
fn check_epoch(index: u32, vectors: &EpochVectors, cache: &LightCache) -> usize {
    let epoch = Epoch::ethash(index);
    if index < 2 {
        let alone = LightCache::build(epoch).expect("an epoch within range");
        assert!(alone.as_words() == cache.as_words(), "epoch {index} alone");
    }
    if let Some(facts) = vectors.facts {
        check_facts(cache, epoch, facts);
    }
    for case in &vectors.hashes {
        check_hash(cache, epoch, case);
    }
    for case in &vectors.searches {
        check_search(cache, case);
    }
    usize::from(vectors.facts.is_some()) + vectors.hashes.len() + vectors.searches.len()
}

fn check_facts(cache: &LightCache, epoch: Epoch, facts: &'static Value) {
    let index = epoch.index;
    assert_eq!(epoch.seed_hash(), hash(&facts["seed"]), "seed of epoch {index}");
    assert_eq!(cache.seed_hash(), hash(&facts["seed"]));
    assert_eq!(ethash::cache_bytes(index), Ok(number(&facts["cache_bytes"])));
    assert_eq!(cache.as_bytes().len() as u64, number(&facts["cache_bytes"]));
    assert_eq!(cache.dataset_bytes(), number(&facts["dataset_bytes"]));
    assert_eq!(u64::from(cache.dataset_items()), number(&facts["items"]));
    assert_eq!(
        B256::from(keccak256(cache.as_bytes())),
        hash(&facts["cache_keccak256"]),
        "cache of epoch {index}"
    );
    let (first_row, last_row) = (
        &cache.as_bytes()[..64],
        &cache.as_bytes()[cache.as_bytes().len() - 64..],
    );
    assert!(
        hex::encode(first_row).starts_with(text(&facts["cache_row0"])),
        "first row of epoch {index}"
    );
    assert!(
        hex::encode(last_row).starts_with(text(&facts["cache_last"])),
        "last row of epoch {index}"
    );
    for (item, digest) in facts["item_keccak256"].as_object().expect("items") {
        let bytes = item_bytes(cache, item.parse().expect("an index"));
        assert_eq!(
            B256::from(keccak256(&bytes)),
            hash(digest),
            "item {item} of epoch {index}"
        );
    }
    for (item, bytes) in facts["items_hex"].as_object().into_iter().flatten() {
        assert_eq!(
            hex::encode(item_bytes(cache, item.parse().expect("an index"))),
            text(bytes)
        );
    }
    let last_1024 = cache.dataset_items() - 1024;
    for (name, first) in [
        ("first_1024_items_keccak256", 0),
        ("last_1024_items_keccak256", last_1024),
    ] {
        if facts[name].is_string() {
            assert_eq!(
                B256::from(keccak256(&items_bytes(cache, first, 1024))),
                hash(&facts[name]),
                "{name} of {index}"
            );
        }
    }
}

fn check_hash(cache: &LightCache, epoch: Epoch, case: &'static Value) {
    let block = number(&case["block"]);
    assert_eq!(ethash::Schedule::Ethash.epoch(block), epoch, "block {block}");
    let (header_hash, nonce) = (hash(&case["header_hash"]), nonce(&case["nonce"]));
    let expected = PowHash {
        mix_hash: hash(&case["mix_hash"]),
        final_hash: hash(&case["final_hash"]),
    };
    assert_eq!(cache.hash(&header_hash, nonce), expected, "block {block}");
    if let Some(difficulty) = case["difficulty"].as_u64() {
        let boundary = ethash::boundary(&U256::from(difficulty));
        assert_eq!(
            verify_seal(cache, &header_hash, nonce, &expected.mix_hash, &boundary),
            Ok(()),
            "block {block}"
        );
    }
}

fn check_search(cache: &LightCache, case: &'static Value) {
    let (header_hash, boundary) = (hash(&case["header_hash"]), hash(&case["boundary"]));
    let (start, count) = (nonce(&case["start"]), number(&case["count"]));
    let expected: BTreeSet<u64> = list(&case["solutions"]).iter().map(nonce).collect();
    let mut found = BTreeSet::new();
    let mut best: Option<(u64, PowHash)> = None;
    for offset in (0..count).step_by(LIGHT_IN_FLIGHT) {
        let nonces: [u64; LIGHT_IN_FLIGHT] = std::array::from_fn(|i| start.wrapping_add(offset + i as u64));
        let hashes = cache.hash_many(&header_hash, nonces);
        for (nonce, hash) in nonces.into_iter().zip(hashes).take((count - offset) as usize) {
            if ethash::meets_boundary(&hash.final_hash, &boundary) {
                found.insert(nonce);
            }
            if best.is_none_or(|(_, best)| hash.final_hash < best.final_hash) {
                best = Some((nonce, hash));
            }
        }
    }
    assert_eq!(found, expected, "search from {start:#x}");
    if case["best_nonce"].is_string() {
        let expected = PowHash {
            mix_hash: hash(&case["best_mix"]),
            final_hash: hash(&case["best_final"]),
        };
        assert_eq!(
            best,
            Some((nonce(&case["best_nonce"]), expected)),
            "best from {start:#x}"
        );
    }
}

#[test]
fn small_datasets() {
    let cases = list(&VECTORS["test_dag"]["cases"]);
    assert_eq!(cases.len(), 2);
    for case in cases {
        let seed = ethash::seed_hash(epoch_number(&case["seed_epoch"]));
        let cache =
            LightCache::with_sizes(seed, number(&case["cache_bytes"]), number(&case["dataset_bytes"]))
                .expect("sizes of the test dataset");
        assert_eq!(
            B256::from(keccak256(cache.as_bytes())),
            hash(&case["cache_keccak256"])
        );
        assert_eq!(hex::encode(&cache.as_bytes()[..64]), text(&case["cache_row0"]));
        assert_eq!(hex::encode(item_bytes(&cache, 0)), text(&case["item0"]));

        let mut dataset = vec![0_u32; 256 * ethash::ITEM_WORDS];
        cache.fill_items(0, &mut dataset);
        let bytes: Vec<u8> = dataset.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(B256::from(keccak256(&bytes)), hash(&case["dataset_keccak256"]));
        assert_eq!(
            format!("{:#x}", ethash::sum_u64(&dataset)),
            text(&case["sum_u64_le"])
        );
        assert_eq!(
            format!("{:#x}", dataset.iter().fold(0, |xor, word| xor ^ word)),
            text(&case["xor_u32_le"])
        );

        let full = FullDataset::new(&dataset).expect("256 items");
        for known in list(&case["hashes"]) {
            let (header_hash, nonce) = (hash(&known["header_hash"]), nonce(&known["nonce"]));
            let expected = PowHash {
                mix_hash: hash(&known["mix"]),
                final_hash: hash(&known["final"]),
            };
            assert_eq!(
                cache.hash(&header_hash, nonce),
                expected,
                "light, nonce {nonce:#x}"
            );
            assert_eq!(full.hash(&header_hash, nonce), expected, "full, nonce {nonce:#x}");
        }
        for search in list(&case["search"]) {
            let (header_hash, boundary) = (hash(&search["header_hash"]), hash(&search["boundary"]));
            let start = nonce(&search["start"]);
            let found: Vec<u64> = (start..start + number(&search["count"]))
                .filter(|&nonce| {
                    ethash::meets_boundary(&full.hash(&header_hash, nonce).final_hash, &boundary)
                })
                .collect();
            assert_eq!(
                found,
                list(&search["solutions"]).iter().map(nonce).collect::<Vec<_>>()
            );
            assert!(!found.is_empty());
        }
    }
}

#[test]
fn one_hash_step_by_step() {
    let trace = &VECTORS["trace"];
    let (header_hash, pow_nonce) = (hash(&trace["header_hash"]), nonce(&trace["nonce"]));
    let seed = ethash::seed512(&header_hash, pow_nonce);
    let seed_bytes: Vec<u8> = seed.iter().flat_map(|lane| lane.to_le_bytes()).collect();
    assert_eq!(hex::encode(seed_bytes), text(&trace["seed512"]));

    let cache =
        LightCache::build(Epoch::ethash(epoch_number(&trace["epoch"]))).expect("an epoch within range");
    let mut indices = Vec::new();
    let lookup = |index| {
        indices.push(index);
        cache.dataset_item(index)
    };
    let expected = PowHash {
        mix_hash: hash(&trace["cmix"]),
        final_hash: hash(&trace["final"]),
    };
    assert_eq!(
        ethash::hashimoto(cache.dataset_items(), lookup, &header_hash, pow_nonce),
        Some(expected)
    );
    assert_eq!(indices.len(), ethash::ACCESSES as usize);
    for known in list(&trace["accesses"]) {
        let access = number(&known["access"]) as usize;
        assert_eq!(
            u64::from(indices[access]),
            number(&known["index"]),
            "access {access}"
        );
    }
}

#[test]
fn boundary_rules() {
    let cache = LightCache::build(Epoch::ethash(0)).expect("epoch 0");
    for rule in list(&VECTORS["boundary_rules"]) {
        assert_eq!(number(&rule["epoch"]), 0);
        let (header_hash, nonce) = (hash(&rule["header_hash"]), nonce(&rule["nonce"]));
        let mix = cache.hash(&header_hash, nonce).mix_hash;
        for accepted in list(&rule["accept"]) {
            assert_eq!(
                verify_seal(&cache, &header_hash, nonce, &mix, &hash(accepted)),
                Ok(())
            );
        }
        for refused in list(&rule["reject"]) {
            let result = verify_seal(&cache, &header_hash, nonce, &mix, &hash(refused));
            assert!(
                matches!(result, Err(SealError::AboveBoundary { .. })),
                "{refused}: {result:?}"
            );
        }
    }
}
