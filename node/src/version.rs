//! The version that the node reports to clients, miners and users.

/// Name, version, platform and toolchain, separated by slashes.
pub fn client_version() -> String {
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "vnode/v{}/{platform}/rust{}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_RUST_VERSION")
    )
}
