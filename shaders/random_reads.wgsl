// Reads random rows and computes almost nothing else. This measures what the memory can
// deliver at best. The speed of the search and of the dataset generation is compared with
// this figure.
//
// The reads do not depend on each other. LANES invocations share a row. Either LANES is the
// number of parts in a row: then the invocations read each row together, four rows at a
// time. Or LANES is 1: then each invocation reads whole rows, one at a time.
//
// Entry point: random_params. Bindings:
//   group 0, binding 0: uniform params, 16 bytes
//   group 0, binding 2: storage sum, 16 bytes, read and write
//   group 1: storage pages of the table (rendered)
// Must precede this file: the rendered constants (LANES, READS, READS_AT_ONCE) and the
// rendered pages (table_reads).
// Rust twin: `expected_sum` in miner/engine/src/gpu/ceiling.rs. The parameters are `ReadParams` in
// miner/engine/src/gpu/params.rs.

struct ReadParams {
    /// The number of the first reader in this dispatch.
    first_reader: u32,
    /// Each seed gives other rows.
    seed: u32,
    /// A sum that does not occur. Every sum is compared with it, so that no compiler removes
    /// the params. Nothing is written, except in tests, which pass a known sum.
    never: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: ReadParams;
@group(0) @binding(2) var<storage, read_write> sum: vec4<u32>;

/// Rows in the table. As this is a constant, the compiler turns the modulo operation into a
/// multiplication.
override TABLE_ROWS: u32;
override WORKGROUP_SIZE: u32 = 64u;

/// Returns the row of read number `n`, by mixing the bits of the number.
fn row_of(n: u32) -> u32 {
    var x = n ^ params.seed;
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
    let invocation = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    let lane = invocation % LANES;
    let first = (params.first_reader + invocation / LANES) * READS;
    var own_sum = vec4(0u);
    for (var read = 0u; read < READS; read += READS_AT_ONCE) {
        own_sum ^= table_reads(first + read, lane);
    }
    let folded = own_sum.xy ^ own_sum.zw;
    if folded.x == params.never.x && folded.y == params.never.y {
        sum = own_sum;
    }
}
