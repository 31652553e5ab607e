//! The version that the node reports to clients, miners and users.

/// Name, version, platform and toolchain, separated by slashes.
pub fn client_version() -> String {
    version_of("vnode")
}

/// The same for the program `name`.
pub(crate) fn version_of(name: &str) -> String {
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{name}/v{}/{platform}/rust{}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_RUST_VERSION")
    )
}
