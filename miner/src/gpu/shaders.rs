//! Puts the kernels together: protocol constants from Rust, the files of `shaders/`, and page reads
//! written for the number of pages.
//!
//! Knows text only. Tunables and sizes of an epoch are pipeline constants, so a module depends on nothing
//! but its page count; see [`super::pages`] for who counts.

use std::fmt::Write;

use ethash::{ACCESSES, DATASET_PARENTS, FNV_PRIME, ITEM_BYTES, ROW_BYTES};

use super::kernel_form::KernelForm;

const KECCAK: &str = include_str!("../../../shaders/keccak.wgsl");
const FNV: &str = include_str!("../../../shaders/fnv.wgsl");
const DATASET: &str = include_str!("../../../shaders/dataset.wgsl");
const SEARCH: &str = include_str!("../../../shaders/search.wgsl");
const SEARCH_LANE: &str = include_str!("../../../shaders/search_lane.wgsl");
const SEARCH_EIGHT: &str = include_str!("../../../shaders/search_eight.wgsl");
const SWEEP_FOUR: &str = include_str!("../../../shaders/sweep_four.wgsl");
const SWEEP_EIGHT: &str = include_str!("../../../shaders/sweep_eight.wgsl");
const EXCHANGE_SUBGROUP: &str = include_str!("../../../shaders/exchange_subgroup.wgsl");
const EXCHANGE_WORKGROUP: &str = include_str!("../../../shaders/exchange_workgroup.wgsl");
const READS: &str = include_str!("../../../shaders/reads.wgsl");

/// Entry point of [`dataset_module`].
pub(crate) const GENERATE: &str = "generate_dataset";
/// Entry point of [`reads_module`].
pub(crate) const RANDOM_READS: &str = "random_reads";
/// Rows that an invocation, or a group of them together, reads in [`reads_module`]. A multiple of four.
pub(crate) const READS_EACH: u32 = 64;

/// Rounds of Keccak-f[1600].
const ROUNDS: usize = 24;

/// The constants of step iota, as the uniform buffer that keccak.wgsl reads: low word, high word, and
/// two unused words each.
pub(crate) const ROUND_CONSTANTS: [[u32; 4]; ROUNDS] = round_constants();

/// From the definition: bit 2^j - 1 of round i is the output 7i + j of a linear feedback register.
const fn round_constants() -> [[u32; 4]; ROUNDS] {
    let mut table = [[0; 4]; ROUNDS];
    let mut register = 1u8;
    let mut round = 0;
    while round < ROUNDS {
        let mut lane = 0u64;
        let mut j = 0;
        while j < 7 {
            if register & 1 == 1 {
                lane ^= 1 << ((1 << j) - 1);
            }
            register = (register << 1) ^ ((register >> 7) * 0x71);
            j += 1;
        }
        table[round] = [lane as u32, (lane >> 32) as u32, 0, 0];
        round += 1;
    }
    table
}

/// Entry point of [`search_module`].
pub(crate) fn search_entry(form: KernelForm) -> &'static str {
    match form {
        KernelForm::Lane => "search_lane",
        KernelForm::Shuffle | KernelForm::Shuffle8 => "search_shuffle",
        KernelForm::Group => "search_group",
    }
}

/// The module that generates dataset pages from a light cache of `cache_pages` pages.
pub(crate) fn dataset_module(cache_pages: u32) -> String {
    let row = RowReader {
        name: "cache_row",
        result: "Words16",
        parts: (ROW_BYTES / PART_BYTES) as u32,
    };
    let pages = pages("cache", cache_pages, row.parts) + &row.wgsl("cache", cache_pages);
    [&constants(), KECCAK, FNV, &pages, DATASET].join("\n")
}

/// The module that searches nonces over a dataset of `dataset_pages` pages.
pub(crate) fn search_module(form: KernelForm, dataset_pages: u32) -> String {
    let parts = (ITEM_BYTES / PART_BYTES) as u32;
    let mut pages = pages("dataset", dataset_pages, parts);
    let kernel = match form {
        KernelForm::Lane => {
            pages += &line_struct(parts);
            pages += &RowReader {
                name: "dataset_line",
                result: "Line",
                parts,
            }
            .wgsl("dataset", dataset_pages);
            vec![SEARCH_LANE]
        }
        KernelForm::Shuffle => vec![SEARCH_EIGHT, SWEEP_FOUR, EXCHANGE_SUBGROUP],
        KernelForm::Shuffle8 => vec![SEARCH_EIGHT, SWEEP_EIGHT, EXCHANGE_SUBGROUP],
        KernelForm::Group => vec![SEARCH_EIGHT, SWEEP_FOUR, EXCHANGE_WORKGROUP],
    };
    if form != KernelForm::Lane {
        pages += &part_reader("dataset", dataset_pages);
    }
    [&constants(), KECCAK, FNV, &pages, SEARCH, &kernel.join("\n")].join("\n")
}

/// The module that reads random rows of `row_bytes` from a table of `table_pages` pages: an invocation a
/// row, or where `together` is set as many as the row has parts.
pub(crate) fn reads_module(row_bytes: u64, table_pages: u32, together: bool) -> String {
    let parts = (row_bytes / PART_BYTES as u64) as u32;
    let lanes = if together { parts } else { 1 };
    let head = "fn table_share(row: u32, lane: u32) -> vec4<u32> {";
    let place = if together {
        "let at = table_place(row) + lane;"
    } else {
        "let at = table_place(row);"
    };
    let share = function(head, place, "table", table_pages, "vec4<u32>", |page| {
        let read = |part: u32| format!("table_{page}[at + {part}u]");
        let read_here = if together { 1 } else { parts };
        (0..read_here).map(read).collect::<Vec<_>>().join(" ^ ")
    });
    // An invocation that reads a whole row has as many reads under way as one of several with four rows.
    let at_once = if together { 4 } else { 1 };
    let several: Vec<_> = (0..at_once)
        .map(|read| format!("table_share(row_of(n + {read}u), lane)"))
        .collect();
    let several = format!(
        "fn table_reads(n: u32, lane: u32) -> vec4<u32> {{\n    return {};\n}}\n",
        several.join(" ^ ")
    );
    let constants = format!(
        "const LANES: u32 = {lanes}u;\nconst READS: u32 = {READS_EACH}u;\nconst READS_AT_ONCE: u32 = {at_once}u;\n"
    );
    [
        &constants,
        &pages("table", table_pages, parts),
        &share,
        &several,
        READS,
    ]
    .join("\n")
}

/// Differs between versions of the search kernels.
pub(crate) fn search_fingerprint() -> String {
    let text = [
        &constants(),
        KECCAK,
        FNV,
        SEARCH,
        SEARCH_LANE,
        SEARCH_EIGHT,
        SWEEP_FOUR,
        SWEEP_EIGHT,
        EXCHANGE_SUBGROUP,
        EXCHANGE_WORKGROUP,
    ]
    .concat();
    let hash = ethash::keccak256(text.as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a `vec4<u32>`, in which pages are counted.
pub(crate) const PART_BYTES: usize = 16;

/// The protocol constants as WGSL, from the values that Rust uses.
fn constants() -> String {
    format!(
        "const ROUNDS: u32 = {ROUNDS}u;\nconst FNV_PRIME: u32 = {FNV_PRIME}u;\n\
         const DATASET_PARENTS: u32 = {DATASET_PARENTS}u;\nconst ACCESSES: u32 = {ACCESSES}u;\n"
    )
}

/// Declares the pages `{array}_0`, `{array}_1`, … and how a row's number gives its page and place.
///
/// A page holds a power of two of rows, so both are a shift and a mask. Row numbers fit 32 bits at every
/// epoch; byte offsets into the whole do not, and never occur.
fn pages(array: &str, count: u32, parts: u32) -> String {
    let upper = array.to_uppercase();
    let mut text = format!("override {upper}_PAGE_SHIFT: u32;\n");
    for page in 0..count {
        let _ = writeln!(
            text,
            "@group(1) @binding({page}) var<storage, read> {array}_{page}: array<vec4<u32>>;"
        );
    }
    let place = if count == 1 {
        "row"
    } else {
        &format!("(row & ((1u << {upper}_PAGE_SHIFT) - 1u))")
    };
    let _ = writeln!(
        text,
        "fn {array}_place(row: u32) -> u32 {{\n    return {place} * {parts}u;\n}}"
    );
    text
}

/// A function that reads a whole row with one choice of the page.
struct RowReader {
    name: &'static str,
    result: &'static str,
    parts: u32,
}

impl RowReader {
    fn wgsl(&self, array: &str, count: u32) -> String {
        let read = |page: u32| {
            let parts = (0..self.parts).map(|part| format!("{array}_{page}[at + {part}u]"));
            format!("{}({})", self.result, parts.collect::<Vec<_>>().join(", "))
        };
        let head = format!("fn {}(row: u32) -> {} {{", self.name, self.result);
        function(
            &head,
            &format!("let at = {array}_place(row);"),
            array,
            count,
            self.result,
            read,
        )
    }
}

/// A function that reads one part of a row.
fn part_reader(array: &str, count: u32) -> String {
    let head = format!("fn {array}_part(row: u32, part: u32) -> vec4<u32> {{");
    let place = format!("let at = {array}_place(row) + part;");
    function(&head, &place, array, count, "vec4<u32>", |page| {
        format!("{array}_{page}[at]")
    })
}

/// A function whose body chooses the page of `row` and reads from it.
fn function(
    head: &str,
    place: &str,
    array: &str,
    count: u32,
    result: &str,
    read: impl Fn(u32) -> String,
) -> String {
    if count == 1 {
        return format!("{head}\n    {place}\n    return {};\n}}\n", read(0));
    }
    let shift = format!("{}_PAGE_SHIFT", array.to_uppercase());
    let mut text = format!("{head}\n    {place}\n    var found: {result};\n    switch row >> {shift} {{\n");
    for page in 1..count {
        let _ = writeln!(text, "        case {page}u: {{ found = {}; }}", read(page));
    }
    let _ = writeln!(
        text,
        "        default: {{ found = {}; }}\n    }}\n    return found;\n}}",
        read(0)
    );
    text
}

/// The parts of a whole item.
fn line_struct(parts: u32) -> String {
    let fields: String = (0..parts)
        .map(|part| format!("    p{part}: vec4<u32>,\n"))
        .collect();
    format!("struct Line {{\n{fields}}}\n")
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
            check(&dataset_module(pages), GENERATE, Capabilities::empty());
            for form in KernelForm::ALL {
                let needed = match form {
                    KernelForm::Shuffle | KernelForm::Shuffle8 => Capabilities::SUBGROUP,
                    KernelForm::Lane | KernelForm::Group => Capabilities::empty(),
                };
                check(&search_module(form, pages), search_entry(form), needed);
            }
            for (row_bytes, together) in [(64, false), (64, true), (128, false), (128, true)] {
                let reads = reads_module(row_bytes, pages, together);
                check(&reads, RANDOM_READS, Capabilities::empty());
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
}
