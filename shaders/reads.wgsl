// Reads random rows and computes next to nothing: what the memory gives at best, by
// which the search and the generation of a dataset are judged.
//
// Reads do not depend on each other. LANES invocations share a row: as many as it has
// parts, so that they read a line together, four rows at a time; or one, which reads a
// whole row at a time.
//
// Entry point: random_reads. Bindings:
//   group 0, binding 0: uniform reads, 16 bytes
//   group 0, binding 2: storage sum, 16 bytes, read and write
//   group 1: storage pages of the table (rendered)
// Must precede it: the rendered constants and pages (LANES, READS,
// READS_AT_ONCE, table_reads).
// Rust twin: `gpu::ceiling::twin`; `reads` is `gpu::layout::Reads`.

struct Reads {
    /// The number of the dispatch's first reader.
    first_reader: u32,
    /// Other numbers give other rows.
    seed: u32,
    /// What no sum is. The sums are compared with it, so that no compiler leaves the
    /// reads out; nothing is written unless a test asks for a known sum.
    never: vec2<u32>,
}

@group(0) @binding(0) var<uniform> reads: Reads;
@group(0) @binding(2) var<storage, read_write> sum: vec4<u32>;

/// Rows in the table. A constant, so that the modulus becomes a multiplication.
override TABLE_ROWS: u32;
override WORKGROUP_SIZE: u32 = 64u;

/// The row of read number `n`: the number with its bits well mixed.
fn row_of(n: u32) -> u32 {
    var x = n ^ reads.seed;
    x = (x ^ (x >> 16u)) * 0x7feb352du;
    x = (x ^ (x >> 15u)) * 0x846ca68bu;
    return (x ^ (x >> 16u)) % TABLE_ROWS;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn random_reads(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let place = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    let lane = place % LANES;
    let first = (reads.first_reader + place / LANES) * READS;
    var all_of_it = vec4(0u);
    for (var turn = 0u; turn < READS; turn += READS_AT_ONCE) {
        all_of_it ^= table_reads(first + turn, lane);
    }
    let folded = all_of_it.xy ^ all_of_it.zw;
    if folded.x == reads.never.x && folded.y == reads.never.y {
        sum = all_of_it;
    }
}
