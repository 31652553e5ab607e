//! The WGSL text of the kernels: constants rendered from Rust, files of `shaders/`, and functions
//! that read rows from pages.
//!
//! Knows text only. Tunable values and the sizes of an epoch are pipeline constants, so a module
//! depends only on its form and on its number of pages, which comes from
//! [`page_layout`](super::page_layout).

use std::fmt::Write;

use ethash::{ACCESSES, DATASET_PARENTS, FNV_PRIME, ITEM_BYTES, KECCAK_ROUND_CONSTANTS, ROW_BYTES};

use super::kernel_form::{GenerationForm, KernelForm};

const KECCAK: &str = include_str!("../../../../shaders/keccak.wgsl");
const FNV: &str = include_str!("../../../../shaders/fnv.wgsl");
const DATASET: &str = include_str!("../../../../shaders/dataset.wgsl");
const GENERATE_WHOLE: &str = include_str!("../../../../shaders/generate_whole.wgsl");
const GENERATE_SHUFFLE: &str = include_str!("../../../../shaders/generate_shuffle.wgsl");
const GENERATE_SLICED: &str = include_str!("../../../../shaders/generate_sliced.wgsl");
const SEARCH: &str = include_str!("../../../../shaders/search.wgsl");
const SEARCH_LANE: &str = include_str!("../../../../shaders/search_lane.wgsl");
const MIX_LANE: &str = include_str!("../../../../shaders/mix_lane.wgsl");
const MIX_SEEDS: &str = include_str!("../../../../shaders/mix_seeds.wgsl");
const SEARCH_COOPERATIVE: &str = include_str!("../../../../shaders/search_cooperative.wgsl");
const MIX_TWO: &str = include_str!("../../../../shaders/mix_two.wgsl");
const MIX_FOUR: &str = include_str!("../../../../shaders/mix_four.wgsl");
const SEARCH_SHUFFLE: &str = include_str!("../../../../shaders/search_shuffle.wgsl");
const SEARCH_GROUP: &str = include_str!("../../../../shaders/search_group.wgsl");
const EXCHANGE_FOUR: &str = include_str!("../../../../shaders/exchange_four.wgsl");
const EXCHANGE_SUBGROUP: &str = include_str!("../../../../shaders/exchange_subgroup.wgsl");
const EXCHANGE_WORKGROUP: &str = include_str!("../../../../shaders/exchange_workgroup.wgsl");
const COPY: &str = include_str!("../../../../shaders/copy.wgsl");
const RANDOM_READS: &str = include_str!("../../../../shaders/random_reads.wgsl");

/// Entry point of [`copy_module`].
pub(crate) const COPY_ENTRY: &str = "copy_page";
/// Entry point of [`mix_seeds_module`].
pub(crate) const MIX_SEEDS_ENTRY: &str = "mix_seeds";
/// Entry point of [`random_reads_module`].
pub(crate) const RANDOM_READS_ENTRY: &str = "random_reads";
/// Number of rows that one reader of [`random_reads_module`] reads. A reader is one invocation, or
/// several that share rows. A multiple of four.
pub(crate) const READS_PER_READER: u32 = 64;
/// Bytes of a part of a row. A part is a `vec4<u32>`, the element type of pages.
pub(crate) const PART_BYTES: usize = 16;

/// Rounds of Keccak-f[1600].
const ROUNDS: usize = KECCAK_ROUND_CONSTANTS.len();

/// The round constants as keccak.wgsl reads them from a uniform buffer: low word, high word, and
/// two unused words for each round.
pub(crate) const ROUND_CONSTANTS: [[u32; 4]; ROUNDS] = round_constants();

const fn round_constants() -> [[u32; 4]; ROUNDS] {
    let mut words = [[0; 4]; ROUNDS];
    let mut round = 0;
    while round < ROUNDS {
        let lane = KECCAK_ROUND_CONSTANTS[round];
        words[round] = [lane as u32, (lane >> 32) as u32, 0, 0];
        round += 1;
    }
    words
}

/// Returns the entry point of [`search_module`].
pub(crate) const fn search_entry(form: KernelForm) -> &'static str {
    match form {
        KernelForm::Lane => "search_lane",
        KernelForm::Shuffle2 | KernelForm::Shuffle => "search_shuffle",
        KernelForm::Group => "search_group",
    }
}

/// Returns the entry point of [`dataset_module`].
pub(crate) const fn dataset_entry(form: GenerationForm) -> &'static str {
    match form {
        GenerationForm::Lane => "generate_dataset",
        GenerationForm::Shuffle => "generate_shuffle",
        GenerationForm::Sliced { .. } => "generate_sliced",
    }
}

/// Returns the module that generates dataset pages from a light cache of `cache_pages` pages.
pub(crate) fn dataset_module(cache_pages: u32, form: GenerationForm) -> String {
    let cache = PagedTable::new("cache", cache_pages, ROW_BYTES);
    let mut pages = cache.declarations() + &cache.row_function("cache_row", "Words16");
    let order = match form {
        GenerationForm::Lane => GENERATE_WHOLE.to_owned(),
        GenerationForm::Shuffle => {
            pages += &cache.part_function("cache_part");
            [EXCHANGE_SUBGROUP, EXCHANGE_FOUR, GENERATE_SHUFFLE].join("\n")
        }
        GenerationForm::Sliced { .. } => GENERATE_SLICED.to_owned(),
    };
    [&constants(), KECCAK, FNV, &pages, DATASET, &order].join("\n")
}

/// Returns the module that searches nonces in a dataset of `dataset_pages` pages.
pub(crate) fn search_module(form: KernelForm, dataset_pages: u32) -> String {
    let dataset = PagedTable::new("dataset", dataset_pages, ITEM_BYTES);
    let read_function = match form {
        KernelForm::Lane => dataset.item_function(),
        _ => dataset.part_function("dataset_part"),
    };
    let cooperative = |exchange, mix, entry| vec![exchange, EXCHANGE_FOUR, SEARCH_COOPERATIVE, mix, entry];
    let files = match form {
        KernelForm::Lane => vec![MIX_LANE, SEARCH_LANE],
        KernelForm::Shuffle2 => cooperative(EXCHANGE_SUBGROUP, MIX_TWO, SEARCH_SHUFFLE),
        KernelForm::Shuffle => cooperative(EXCHANGE_SUBGROUP, MIX_FOUR, SEARCH_SHUFFLE),
        KernelForm::Group => cooperative(EXCHANGE_WORKGROUP, MIX_FOUR, SEARCH_GROUP),
    };
    let pages = dataset.declarations() + &read_function;
    [&constants(), KECCAK, FNV, &pages, SEARCH, &files.join("\n")].join("\n")
}

/// Returns the module that computes the mix hashes of seeds. The dataset has `dataset_pages` pages.
pub(crate) fn mix_seeds_module(dataset_pages: u32) -> String {
    let dataset = PagedTable::new("dataset", dataset_pages, ITEM_BYTES);
    let pages = dataset.declarations() + &dataset.item_function();
    [&constants(), KECCAK, FNV, &pages, MIX_LANE, MIX_SEEDS].join("\n")
}

/// Returns the module that reads random rows of `row_bytes` bytes from a table of `table_pages`
/// pages.
///
/// If `together` is set, as many invocations share a row as it has parts. Otherwise each invocation
/// reads whole rows.
pub(crate) fn random_reads_module(row_bytes: u64, table_pages: u32, together: bool) -> String {
    let table = PagedTable::new("table", table_pages, row_bytes as usize);
    let (lanes, parts_per_lane) = if together {
        (table.parts, 1)
    } else {
        (1, table.parts)
    };
    let head = "fn table_share(row: u32, lane: u32) -> vec4<u32> {";
    let start = if together {
        "let start = table_start(row) + lane;"
    } else {
        "let start = table_start(row);"
    };
    let share = table.read_function(head, start, "vec4<u32>", |page| {
        let read = |part: u32| format!("{page}[start + {part}u]");
        (0..parts_per_lane).map(read).collect::<Vec<_>>().join(" ^ ")
    });
    // So each invocation has several reads in flight: the parts of one row, or one part of four
    // rows.
    let at_once = if together { 4 } else { 1 };
    let several: Vec<_> = (0..at_once)
        .map(|read| format!("table_share(row_of(n + {read}u), lane)"))
        .collect();
    let several = format!(
        "fn table_reads(n: u32, lane: u32) -> vec4<u32> {{\n    return {};\n}}\n",
        several.join(" ^ ")
    );
    let constants = format!(
        "const LANES: u32 = {lanes}u;\nconst READS: u32 = {READS_PER_READER}u;\nconst READS_AT_ONCE: u32 = {at_once}u;\n"
    );
    [&constants, &table.declarations(), &share, &several, RANDOM_READS].join("\n")
}

/// Returns the module that copies a page.
pub(crate) fn copy_module() -> String {
    let table = PagedTable::new("table", 1, ITEM_BYTES);
    [&table.declarations(), COPY].join("\n")
}

/// Returns a text that differs between versions of the search kernels.
pub fn search_fingerprint() -> String {
    let text = [
        &constants(),
        KECCAK,
        FNV,
        SEARCH,
        MIX_LANE,
        SEARCH_LANE,
        SEARCH_COOPERATIVE,
        MIX_TWO,
        MIX_FOUR,
        EXCHANGE_FOUR,
        EXCHANGE_SUBGROUP,
        EXCHANGE_WORKGROUP,
        SEARCH_SHUFFLE,
        SEARCH_GROUP,
    ]
    .concat();
    let hash = ethash::keccak256(text.as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the protocol constants as WGSL. Their values are those that Rust uses.
fn constants() -> String {
    format!(
        "const ROUNDS: u32 = {ROUNDS}u;\nconst FNV_PRIME: u32 = {FNV_PRIME}u;\n\
         const DATASET_PARENTS: u32 = {DATASET_PARENTS}u;\nconst ACCESSES: u32 = {ACCESSES}u;\n"
    )
}

/// A table of rows that is spread over several buffers, as WGSL sees it.
///
/// Its pages are the variables `{name}_0`, `{name}_1`, and so on. All pages but the last have the
/// same number of rows, which is a constant. So the quotient is the page of a row and the remainder
/// its place, and compilers turn both into shifts or multiplications. Row numbers fit in 32 bits at
/// every epoch. Byte offsets into the whole table do not, and the kernels never compute them.
struct PagedTable {
    name: &'static str,
    pages: u32,
    /// Parts of a row.
    parts: u32,
}

impl PagedTable {
    const fn new(name: &'static str, pages: u32, row_bytes: usize) -> Self {
        Self {
            name,
            pages,
            parts: (row_bytes / PART_BYTES) as u32,
        }
    }

    /// The pipeline constant with the number of rows in a page.
    fn page_rows(&self) -> String {
        format!("{}_PAGE_ROWS", self.name.to_uppercase())
    }

    /// Declares the pages, and the function `{name}_start`, which returns the index of a row's
    /// first part within its page.
    fn declarations(&self) -> String {
        let (name, rows) = (self.name, self.page_rows());
        let mut text = format!("override {rows}: u32;\n");
        for page in 0..self.pages {
            let _ = writeln!(
                text,
                "@group(1) @binding({page}) var<storage, read> {name}_{page}: array<vec4<u32>>;"
            );
        }
        let row_in_page = if self.pages == 1 {
            "row"
        } else {
            &format!("(row % {rows})")
        };
        let _ = writeln!(
            text,
            "fn {name}_start(row: u32) -> u32 {{\n    return {row_in_page} * {}u;\n}}",
            self.parts
        );
        text
    }

    /// Declares a function that reads a whole row as the structure `result`. It chooses the page
    /// once.
    fn row_function(&self, function: &str, result: &str) -> String {
        let name = self.name;
        let head = format!("fn {function}(row: u32) -> {result} {{");
        let start = format!("let start = {name}_start(row);");
        self.read_function(&head, &start, result, |page| {
            let parts = (0..self.parts).map(|part| format!("{page}[start + {part}u]"));
            format!("{result}({})", parts.collect::<Vec<_>>().join(", "))
        })
    }

    /// Declares the structure of a whole item, and the function `dataset_item` that reads one.
    fn item_function(&self) -> String {
        let fields: String = (0..self.parts)
            .map(|part| format!("    p{part}: vec4<u32>,\n"))
            .collect();
        format!("struct Item {{\n{fields}}}\n") + &self.row_function("dataset_item", "Item")
    }

    /// Declares a function that reads one part of a row.
    fn part_function(&self, function: &str) -> String {
        let name = self.name;
        let head = format!("fn {function}(row: u32, part: u32) -> vec4<u32> {{");
        let start = format!("let start = {name}_start(row) + part;");
        self.read_function(&head, &start, "vec4<u32>", |page| format!("{page}[start]"))
    }

    /// Declares a function that chooses the page of `row` and reads from it.
    ///
    /// `head` is the first line of the function, `start` the statement that follows, and `read`
    /// gives the expression that reads from a page.
    fn read_function(&self, head: &str, start: &str, result: &str, read: impl Fn(&str) -> String) -> String {
        let (name, rows) = (self.name, self.page_rows());
        if self.pages == 1 {
            let value = read(&format!("{name}_0"));
            return format!("{head}\n    {start}\n    return {value};\n}}\n");
        }
        let mut text = format!("{head}\n    {start}\n    var value: {result};\n    switch row / {rows} {{\n");
        for page in 1..self.pages {
            let value = read(&format!("{name}_{page}"));
            let _ = writeln!(text, "        case {page}u: {{ value = {value}; }}");
        }
        let value = read(&format!("{name}_0"));
        let _ = writeln!(
            text,
            "        default: {{ value = {value}; }}\n    }}\n    return value;\n}}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    use super::*;

    fn check(source: &str, entry: &str, capabilities: Capabilities) {
        let module = naga::front::wgsl::parse_str(source)
            .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
        let info = Validator::new(ValidationFlags::all(), capabilities)
            .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
            .subgroup_operations(naga::valid::SubgroupOperationSet::all())
            .validate(&module)
            .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
        assert_eq!(module.entry_points.len(), 1);
        assert_eq!(module.entry_points[0].name, entry);
        assert!(info.get_entry_point(0).sampling_set.is_empty());
    }

    #[test]
    fn every_module_is_valid_for_any_page_count() {
        for pages in [1, 3, 16] {
            check(&copy_module(), COPY_ENTRY, Capabilities::empty());
            check(&mix_seeds_module(pages), MIX_SEEDS_ENTRY, Capabilities::empty());
            for form in [
                GenerationForm::Lane,
                GenerationForm::Shuffle,
                GenerationForm::Sliced { slices: 4 },
            ] {
                let module = dataset_module(pages, form);
                let mut needed = Capabilities::empty();
                needed.set(Capabilities::SUBGROUP, form == GenerationForm::Shuffle);
                check(&module, dataset_entry(form), needed);
            }
            for form in KernelForm::ALL {
                let mut needed = Capabilities::empty();
                needed.set(Capabilities::SUBGROUP, form.has_shuffles());
                check(&search_module(form, pages), search_entry(form), needed);
            }
            for (row_bytes, together) in [(64, false), (64, true), (128, false), (128, true)] {
                let reads = random_reads_module(row_bytes, pages, together);
                check(&reads, RANDOM_READS_ENTRY, Capabilities::empty());
            }
        }
    }

    #[test]
    fn every_page_is_declared_and_read() {
        let source = search_module(KernelForm::Lane, 16);
        for page in 0..16 {
            assert_eq!(
                source.matches(&format!("dataset_{page}:")).count(),
                1,
                "page {page}"
            );
            assert_eq!(
                source.matches(&format!("dataset_{page}[")).count(),
                8,
                "page {page}"
            );
        }
    }

    #[test]
    fn round_constants_are_those_of_the_standard() {
        let lane =
            |round: usize| u64::from(ROUND_CONSTANTS[round][1]) << 32 | u64::from(ROUND_CONSTANTS[round][0]);
        assert_eq!(lane(0), 0x0000_0000_0000_0001);
        assert_eq!(lane(1), 0x0000_0000_0000_8082);
        assert_eq!(lane(2), 0x8000_0000_0000_808a);
        assert_eq!(lane(23), 0x8000_0000_8000_8008);
    }

    /// The head of a shader names its Rust twins, as `ethash::name` or as `name` with the path of a
    /// file.
    #[test]
    fn every_rust_twin_that_a_shader_names_exists() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a readable file");
        let mut ethash = String::new();
        let mut folders = vec![root.join("miner/ethash/src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a source folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    ethash += &read(&path);
                }
            }
        }
        for entry in std::fs::read_dir(root.join("shaders")).expect("the shaders") {
            let path = entry.expect("an entry").path();
            let text = read(&path);
            let head: Vec<_> = text.lines().map_while(|line| line.strip_prefix("//")).collect();
            let head = head.concat();
            assert!(head.contains("Must precede this file:"), "{path:?}");
            let (_, twins) = head.split_once("Rust twin:").expect("a twin");
            let files: String = twins
                .split_whitespace()
                .map(|word| word.trim_end_matches(['.', ',']))
                .filter(|word| word.ends_with(".rs"))
                .map(|file| read(&root.join(file)))
                .collect();
            for name in twins.split('`').skip(1).step_by(2) {
                let sources = if name.starts_with("ethash::") {
                    &ethash
                } else {
                    &files
                };
                let last = name.rsplit("::").next().expect("a name");
                let is_defined = ["fn", "struct", "as"]
                    .iter()
                    .any(|keyword| sources.contains(&format!("{keyword} {last}")));
                assert!(is_defined, "{path:?} names {name}");
            }
        }
    }
}
