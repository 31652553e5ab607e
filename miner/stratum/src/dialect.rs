//! The variants of Stratum.

use core::fmt;

/// A variant of Stratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// eth-proxy: `eth_submitLogin`, `eth_getWork`, `eth_submitWork`. The pool sends new jobs as
    /// answers without a request.
    EthProxy,
    /// EthereumStratum/1.0.0.
    EthereumStratum1,
    /// EthereumStratum/2.0.0.
    EthereumStratum2,
}

impl Dialect {
    /// All dialects, in the order in which a miner tries them when it does not know the dialect of
    /// a pool: first those whose answer to the first request is clearest.
    pub const ALL: [Self; 3] = [Self::EthereumStratum2, Self::EthereumStratum1, Self::EthProxy];

    /// The name of the dialect. For EthereumStratum, this is the name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EthProxy => "eth-proxy",
            Self::EthereumStratum1 => "EthereumStratum/1.0.0",
            Self::EthereumStratum2 => "EthereumStratum/2.0.0",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
