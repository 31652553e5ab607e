// Dataset generation in which all invocations read the same slice of the light cache at about
// the same time. A slice may fit the second-level cache of a card when the light cache does not.
//
// Invocations draw tickets from a counter, and the tickets say which slice is read now. An
// invocation whose next parent is in another slice waits for its turn. Nobody waits for anybody
// else: every invocation draws tickets as long as it runs, and after TURNS_MAX turns it reads
// whatever it needs. So the result never depends on the order.
//
// Entry point: generate_sliced. Bindings: those of dataset.wgsl, and
//   group 0, binding 3: storage tickets, 4 bytes, read and write
// Must precede this file: dataset.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::dataset_item`.

@group(0) @binding(3) var<storage, read_write> tickets: atomic<u32>;

/// Number of slices.
override CACHE_SLICES: u32;
/// Rows in each slice but the last.
override SLICE_ROWS: u32;
/// Tickets until the next slice is read.
override TICKETS_PER_SLICE: u32;
/// Turns after which an invocation no longer waits.
override TURNS_MAX: u32;
/// An invocation draws a ticket in one of this many turns, and only looks in the others.
const TURNS_PER_TICKET: u32 = 32u;

/// Returns word `word` of the mix, 0 to 15. The word is selected and not indexed, because an
/// index that is not a constant would move the mix out of the registers.
fn any_mix_word(mix: ptr<function, Words16>, word: u32) -> u32 {
    let odd = (word & 4u) != 0u;
    let low = select((*mix).w0, (*mix).w1, odd);
    let high = select((*mix).w2, (*mix).w3, odd);
    let part = select(low, high, (word & 8u) != 0u);
    let half = select(part.xy, part.zw, (word & 2u) != 0u);
    return select(half.x, half.y, (word & 1u) != 0u);
}

/// Returns the number of the slice that is read in this turn.
fn slice_of_turn(turn: u32, local: u32) -> u32 {
    var ticket: u32;
    if (turn + local) % TURNS_PER_TICKET == 0u {
        ticket = atomicAdd(&tickets, 1u);
    } else {
        ticket = atomicLoad(&tickets);
    }
    return (ticket / TICKETS_PER_SLICE) % CACHE_SLICES;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn generate_sliced(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let offset = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if offset >= params.node_count {
        return;
    }
    let node = params.first_node + offset;
    var mix = first_mix(node);
    var parent = 0u;
    for (var turn = 0u; turn < TURNS_MAX && parent < DATASET_PARENTS; turn++) {
        let slice = slice_of_turn(turn, local);
        let row = parent_row(node ^ parent, any_mix_word(&mix, parent % 16u));
        if row / SLICE_ROWS == slice {
            absorb_row(&mix, row);
            parent++;
        }
    }
    for (; parent < DATASET_PARENTS; parent++) {
        absorb_row(&mix, parent_row(node ^ parent, any_mix_word(&mix, parent % 16u)));
    }
    finish_node(node, mix);
}
