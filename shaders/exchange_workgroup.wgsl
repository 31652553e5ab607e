// Exchanges values between invocations through the memory of the workgroup, for adapters
// without subgroups.
//
// Entry point: none. Bindings: none. Needs 32 bytes of workgroup memory for each invocation.
// Must precede this file: WORKGROUP_SIZE.
// Rust twin: none.

/// Two arrays, so that one barrier for each `publish` is enough. An array is written again
/// only after the barrier of the `publish` to the other array. No invocation passes that
/// barrier before it has read its values from the first array.
var<workgroup> even_values: array<vec4<u32>, WORKGROUP_SIZE>;
var<workgroup> odd_values: array<vec4<u32>, WORKGROUP_SIZE>;

/// Writes `value` to the array of this parity, and waits until every invocation has done so.
fn publish(value: vec4<u32>, invocation: u32, parity: u32) {
    if parity == 0u {
        even_values[invocation] = value;
    } else {
        odd_values[invocation] = value;
    }
    workgroupBarrier();
}

/// Returns the value that invocation `source` of the workgroup published last with this
/// parity.
fn value_of(value: vec4<u32>, source: u32, parity: u32) -> vec4<u32> {
    if parity == 0u {
        return even_values[source];
    }
    return odd_values[source];
}
