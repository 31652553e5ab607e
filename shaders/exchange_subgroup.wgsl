// Exchanges values between the invocations of a subgroup, from register to register.
//
// All invocations of a subgroup run in step, so no barrier is necessary.
//
// Entry point: none. Bindings: none.
// Needs the feature SUBGROUP, a subgroup size that is a multiple of eight, and a workgroup
// size that is a multiple of the subgroup size.
// Must precede this file: nothing.
// Rust twin: none.

/// Does nothing. `value_of` reads the register of the other invocation directly.
fn publish(value: vec4<u32>, invocation: u32, parity: u32) {}

/// Returns the argument `value` of invocation `source` of the subgroup.
fn value_of(value: vec4<u32>, source: u32, parity: u32) -> vec4<u32> {
    return subgroupShuffle(value, source);
}
