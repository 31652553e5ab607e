//! The banner of a starting node: version, network, accounts, endpoints, miner.
//!
//! The banner goes to standard output, where scripts and users expect it. The log goes to standard
//! error.

use std::fmt::Write;
use std::path::Path;

use chain::{ChainSpec, View};
use primitives::ShaAmount;

/// The content of the banner.
pub(crate) struct Banner<'a> {
    pub(crate) version: &'a str,
    pub(crate) spec: &'a ChainSpec,
    pub(crate) directory: &'a Path,
    pub(crate) view: &'a View,
    /// The chain is that of the development network, whose accounts and keys are public.
    pub(crate) dev: bool,
    pub(crate) beneficiary: Option<primitives::Address>,
    pub(crate) endpoints: &'a [String],
    pub(crate) enode: &'a str,
    pub(crate) mining: &'a [String],
}

impl Banner<'_> {
    /// The text of the banner. It ends with a line break.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Self {
            version,
            spec,
            directory,
            view,
            dev,
            beneficiary,
            endpoints,
            enode,
            mining,
        } = self;
        writeln!(out, "{version}")?;
        writeln!(
            out,
            "network    {} (network id {}, chain id {})",
            spec.name, spec.network_id, spec.chain_id
        )?;
        writeln!(out, "data       {}", directory.display())?;
        writeln!(
            out,
            "head       block {} {}",
            view.head_number(),
            view.head_hash()
        )?;
        if *dev {
            dev_accounts(spec, out)?;
        }
        match beneficiary {
            Some(address) => writeln!(out, "moacbase   {address}")?,
            None => writeln!(out, "moacbase   none (--moacbase ADDRESS)")?,
        }
        for endpoint in *endpoints {
            writeln!(out, "endpoint   {endpoint}")?;
        }
        if endpoints.is_empty() {
            writeln!(out, "endpoint   none (--rpc serves HTTP)")?;
        }
        writeln!(out, "enode      {enode}")?;
        for line in *mining {
            writeln!(out, "mining     {line}")?;
        }
        Ok(())
    }
}

fn dev_accounts(spec: &ChainSpec, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "accounts   funded in block 0 of this network; their keys are public"
    )?;
    for (index, (address, key)) in chain::spec::DEV_ACCOUNTS.iter().enumerate() {
        let account = spec.genesis.alloc.get(address);
        let balance = account.map_or_else(Default::default, |account| account.balance);
        writeln!(out, "  ({index}) {address} {} key 0x{key}", ShaAmount(balance))?;
    }
    Ok(())
}
