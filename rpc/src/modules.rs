//! The modules that methods belong to, and their names in Ethereum's API.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Every module that can be enabled. Some have no methods in this node.
pub const MODULES: [&str; 18] = [
    "chain3", "mc", "net", "admin", "txpool", "personal", "vnode", "scs", "debug", "miner", "db", "shh",
    "trace", "ots", "erigon", "evm", "hardhat", "anvil",
];
/// The modules of an HTTP listener by default.
pub(crate) const MODULES_DEFAULT: [&str; 3] = ["chain3", "mc", "net"];
/// The module that is always enabled.
pub(crate) const MODULE_RPC: &str = "rpc";
/// The names of modules in Ethereum's API, and our names of the same modules.
pub(crate) const ALIASES: [(&str, &str); 2] = [("eth", "mc"), ("web3", "chain3")];

/// The style of the name that a method was called by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// The method's own name, such as `mc_call`.
    #[default]
    Native,
    /// The name in Ethereum's API, such as `eth_call`. The caller expects Ethereum's forms of
    /// hashes and objects where they differ.
    Ethereum,
}

/// The modules that a listener exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules(BTreeSet<&'static str>);

/// A name in a list of modules is not the name of a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown API module: got {got:?}, expected a list of: {}", MODULES.join(", "))]
pub struct UnknownModule {
    /// The name in the list.
    pub got: String,
}

impl Modules {
    /// Every module. The local socket exposes them all.
    pub fn all() -> Self {
        Self(MODULES.into())
    }

    /// The union of these modules and `other`.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Whether `module` is exposed. `rpc` always is.
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

/// Reads a comma-separated list, as in `--rpcapi`. Spaces around names are ignored. Ethereum's
/// names of modules stand for those of the same methods.
impl FromStr for Modules {
    type Err = UnknownModule;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| {
            let name = match name {
                "eth" => "mc",
                "web3" => "chain3",
                name => name,
            };
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
        assert_eq!("eth,net,web3".parse(), Ok(Modules::default()));
        assert_eq!(MODULES.join(",").parse(), Ok(Modules::all()));
        assert_eq!(
            "mc,eth2".parse::<Modules>(),
            Err(UnknownModule { got: "eth2".into() })
        );
        let none: Modules = "".parse().unwrap();
        assert!(!none.contains("mc") && none.contains("rpc"));
    }
}
