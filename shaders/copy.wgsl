// Copies a page to another buffer. This measures what the memory can deliver in order, by a
// kernel: on some cards the copies of the driver are slower.
//
// Entry point: copy_page. Bindings:
//   group 0, binding 2: storage target, 16 bytes for each invocation, read and write
//   group 1, binding 0: storage table_0, the source, at least as long
// Must precede this file: the rendered page (table_0).
// Rust twin: none. The result is the source.

@group(0) @binding(2) var<storage, read_write> copy_target: array<vec4<u32>>;

override WORKGROUP_SIZE: u32 = 64u;

@compute @workgroup_size(WORKGROUP_SIZE)
fn copy_page(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if at < min(arrayLength(&copy_target), arrayLength(&table_0)) {
        copy_target[at] = table_0[at];
    }
}
