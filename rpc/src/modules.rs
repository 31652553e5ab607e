//! The modules that methods belong to, and their names in Ethereum's API.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Every module that can be enabled. Some have no methods in a given node.
pub const MODULES: [&str; 12] = [
    "chain3", "mc", "net", "admin", "txpool", "personal", "vnode", "scs", "debug", "miner", "db", "shh",
];
/// The modules an HTTP listener has unless told otherwise.
pub const MODULES_DEFAULT: [&str; 3] = ["chain3", "mc", "net"];
/// The module that is always there.
pub(crate) const MODULE_RPC: &str = "rpc";
/// Module names of the compatible library, and ours.
pub(crate) const ALIASES: [(&str, &str); 2] = [("eth", "mc"), ("web3", "chain3")];

/// By which name a method was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// By its own name.
    #[default]
    Native,
    /// By its name in the compatible library: the caller expects that library's forms, where
    /// they differ.
    Ethereum,
}

/// The modules a listener exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules(BTreeSet<&'static str>);

/// A module name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown API module: got {got:?}, expected a list of: {}", MODULES.join(", "))]
pub struct UnknownModule {
    /// The name given.
    pub got: String,
}

impl Modules {
    /// Every module: what the local channel exposes.
    pub fn all() -> Self {
        Self(MODULES.into())
    }

    /// Whether `module` is exposed; `rpc` always is.
    pub fn contains(&self, module: &str) -> bool {
        module == MODULE_RPC || self.0.contains(module)
    }
}

/// `chain3`, `mc`, `net`.
impl Default for Modules {
    fn default() -> Self {
        Self(MODULES_DEFAULT.into())
    }
}

/// Reads a comma-separated list, as `--rpcapi` takes it; spaces around names do not matter.
impl FromStr for Modules {
    type Err = UnknownModule;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| {
            MODULES
                .into_iter()
                .find(|module| *module == name)
                .ok_or_else(|| UnknownModule { got: name.to_owned() })
        };
        names.map(known).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_lists() {
        assert_eq!("mc,net,chain3".parse(), Ok(Modules::default()));
        assert_eq!(" chain3 , mc,,net".parse(), Ok(Modules::default()));
        assert_eq!(MODULES.join(",").parse(), Ok(Modules::all()));
        assert_eq!(
            "mc,eth2".parse::<Modules>(),
            Err(UnknownModule { got: "eth2".into() })
        );
        let none: Modules = "".parse().unwrap();
        assert!(!none.contains("mc") && none.contains("rpc"));
    }
}
