//! The command line of the transaction pool.
//!
//! Knows the options and how they become the pool's settings. Each default is a constant of
//! `chain::pool`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chain::ChainSpec;
use chain::pool::{
    ACCOUNT_QUEUE_DEFAULT, ACCOUNT_SLOTS_DEFAULT, GLOBAL_QUEUE_DEFAULT, GLOBAL_SLOTS_DEFAULT, JOURNAL_NAME,
    LIFETIME_DEFAULT, LocalAccounts, PRICE_BUMP_PERCENT_DEFAULT, PRICE_FLOOR_MINING, PoolConfig,
    REJOURNAL_DEFAULT,
};
use clap::builder::{OsStringValueParser, RangedU64ValueParser, TypedValueParser};
use keystore::AccountManager;
use primitives::{Address, U256, parse_address};

/// Options of the transaction pool.
#[derive(Clone, Debug, clap::Args)]
pub struct TxPoolOptions {
    /// Accounts that are local besides the node's own, separated by commas. Transactions of local
    /// accounts have no price floor, are not evicted and do not expire
    #[arg(long = "txpool.locals", value_name = "ADDRESSES", value_delimiter = ',', value_parser = parse_address)]
    pub locals: Vec<Address>,
    /// Treat the node's own accounts like all others; only those of --txpool.locals are local
    #[arg(long = "txpool.nolocals")]
    pub nolocals: bool,
    /// File that keeps transactions of local accounts over a restart, relative to the data
    /// directory; empty for no file
    #[arg(long = "txpool.journal", value_name = "FILE", default_value = JOURNAL_NAME,
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub journal: PathBuf,
    /// Time between two rewrites of the journal, in seconds
    #[arg(long = "txpool.rejournal", value_name = "SECONDS", default_value_t = REJOURNAL_DEFAULT.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..))]
    pub rejournal: u64,
    /// Lowest gas price accepted from others, in sha [default: the network's; while mining, the
    /// default of --gasprice if that is higher]
    #[arg(long = "txpool.pricelimit", value_name = "SHA")]
    pub pricelimit: Option<U256>,
    /// Percent by which the price of a replacement must be higher
    #[arg(long = "txpool.pricebump", value_name = "PERCENT", default_value_t = PRICE_BUMP_PERCENT_DEFAULT,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub pricebump: u64,
    /// Pending transactions that every account may have, even if the pool is full
    #[arg(long = "txpool.accountslots", value_name = "N", default_value_t = ACCOUNT_SLOTS_DEFAULT,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub accountslots: usize,
    /// Pending transactions of all accounts; above this number the accounts with the most lose some
    #[arg(long = "txpool.globalslots", value_name = "N", default_value_t = GLOBAL_SLOTS_DEFAULT,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub globalslots: usize,
    /// Most queued transactions of one account
    #[arg(long = "txpool.accountqueue", value_name = "N", default_value_t = ACCOUNT_QUEUE_DEFAULT,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub accountqueue: usize,
    /// Most queued transactions of all accounts
    #[arg(long = "txpool.globalqueue", value_name = "N", default_value_t = GLOBAL_QUEUE_DEFAULT,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub globalqueue: usize,
    /// Time for which queued transactions of an account are kept if none of them becomes pending,
    /// in seconds
    #[arg(long = "txpool.lifetime", value_name = "SECONDS", default_value_t = LIFETIME_DEFAULT.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..))]
    pub lifetime: u64,
}

impl TxPoolOptions {
    /// The lowest gas price that a node of `spec` accepts from others. `gasprice` is the value of
    /// `--gasprice`, if given; it overrides all other prices.
    pub(crate) fn price_floor(&self, spec: &ChainSpec, mines: bool, gasprice: Option<U256>) -> U256 {
        let limit = self.pricelimit.unwrap_or(spec.gas_price_min);
        // On a network without a minimum price, mining does not raise the floor either.
        let floor = match mines && !spec.gas_price_min.is_zero() {
            true => limit.max(U256::from(PRICE_FLOOR_MINING)),
            false => limit,
        };
        gasprice.unwrap_or(floor)
    }

    /// The accounts that are local: those of `accounts`, locked or unlocked, and those that an
    /// option names. `None` if there can be none.
    fn local_accounts(&self, accounts: &AccountManager) -> Option<LocalAccounts> {
        let named: HashSet<Address> = self.locals.iter().copied().collect();
        let own = (!self.nolocals).then(|| accounts.clone());
        if own.is_none() && named.is_empty() {
            return None;
        }
        Some(LocalAccounts::new(move |address| {
            named.contains(address) || own.as_ref().is_some_and(|own| own.contains(address))
        }))
    }

    /// The pool's settings for a node of `spec` in `directory` with these accounts. `mines` and
    /// `gasprice` choose the price floor as in [`Self::price_floor`].
    pub(crate) fn config(
        &self,
        spec: &ChainSpec,
        directory: &Path,
        accounts: &AccountManager,
        mines: bool,
        gasprice: Option<U256>,
    ) -> PoolConfig {
        let journal = Some(&self.journal).filter(|path| !path.as_os_str().is_empty());
        PoolConfig {
            price_floor: self.price_floor(spec, mines, gasprice),
            price_bump_percent: self.pricebump,
            account_slots: self.accountslots,
            global_slots: self.globalslots,
            account_queue: self.accountqueue,
            global_queue: self.globalqueue,
            lifetime: Duration::from_secs(self.lifetime),
            locals: self.local_accounts(accounts),
            journal: journal.map(|path| directory.join(path)),
            rejournal: Duration::from_secs(self.rejournal),
            ..PoolConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct PoolOnly {
        #[command(flatten)]
        txpool: TxPoolOptions,
    }

    fn parse(arguments: &[&str]) -> Result<TxPoolOptions, clap::Error> {
        let parsed = PoolOnly::try_parse_from(std::iter::once(&"vnode").chain(arguments))?;
        Ok(parsed.txpool)
    }

    /// The settings for a node without accounts.
    fn config_of(
        options: &TxPoolOptions,
        spec: &ChainSpec,
        mines: bool,
        gasprice: Option<U256>,
    ) -> PoolConfig {
        options.config(spec, Path::new("/d"), &AccountManager::new(), mines, gasprice)
    }

    #[test]
    fn own_and_named_accounts_are_local() {
        let key = |byte| primitives::SecretKey::from_bytes(&[byte; 32]).unwrap();
        let accounts = AccountManager::new();
        let (own, named, stranger) = (key(1).address(), key(2).address(), key(3).address());
        let check = |arguments: &[&str], expected: Option<[bool; 3]>| {
            let locals = parse(arguments).unwrap().local_accounts(&accounts);
            let got = locals.map(|locals| [own, named, stranger].map(|address| locals.contains(&address)));
            assert_eq!(got, expected, "{arguments:?}");
        };
        check(&[], Some([false; 3]));
        // The accounts are asked each time, and a locked account is the node's own too.
        let options = parse(&[]).unwrap();
        let early = options.local_accounts(&accounts).unwrap();
        accounts.add_unlocked(key(1));
        accounts.lock(&own);
        assert!(early.contains(&own) && !early.contains(&named));
        let two = format!("--txpool.locals={named:#x},{}", Address::ZERO);
        check(&[], Some([true, false, false]));
        check(&[&two], Some([true, true, false]));
        check(&["--txpool.nolocals", &two], Some([false, true, false]));
        check(&["--txpool.nolocals"], None);
    }

    #[test]
    fn without_options_the_pool_has_its_defaults() {
        let config = config_of(&parse(&[]).unwrap(), &ChainSpec::main(), false, None);
        let expected = PoolConfig {
            locals: Some(LocalAccounts::new(|_| true)),
            journal: Some("/d/transactions.rlp".into()),
            ..PoolConfig::default()
        };
        assert_eq!(format!("{config:?}"), format!("{expected:?}"));
    }

    #[test]
    fn every_option_sets_its_value() {
        let options = parse(&[
            "--txpool.journal=/elsewhere/j",
            "--txpool.rejournal=1",
            "--txpool.nolocals",
            "--txpool.pricelimit=2",
            "--txpool.pricebump=3",
            "--txpool.accountslots=4",
            "--txpool.globalslots=5",
            "--txpool.accountqueue=6",
            "--txpool.globalqueue=7",
            "--txpool.lifetime=8",
        ]);
        let config = config_of(&options.unwrap(), &ChainSpec::dev(), false, None);
        let expected = PoolConfig {
            price_floor: U256::from(2),
            price_bump_percent: 3,
            account_slots: 4,
            global_slots: 5,
            account_queue: 6,
            global_queue: 7,
            lifetime: Duration::from_secs(8),
            locals: None,
            journal: Some("/elsewhere/j".into()),
            rejournal: Duration::from_secs(1),
            ..PoolConfig::default()
        };
        assert_eq!(format!("{config:?}"), format!("{expected:?}"));
        let none = parse(&["--txpool.journal="]).unwrap();
        assert_eq!(config_of(&none, &ChainSpec::dev(), false, None).journal, None);
        for bad in [
            "pricebump=0",
            "accountslots=0",
            "globalqueue=-1",
            "lifetime=0",
            "rejournal=x",
            "locals=0x12",
        ] {
            assert!(parse(&[&format!("--txpool.{bad}")]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_price_floor_depends_on_network_mining_and_options() {
        let check = |arguments: &[&str], spec: ChainSpec, mines, gasprice: Option<u64>, expected: u64| {
            let options = parse(arguments).unwrap();
            let gasprice = gasprice.map(U256::from);
            let config = config_of(&options, &spec, mines, gasprice);
            assert_eq!(
                config.price_floor,
                U256::from(expected),
                "{arguments:?} {mines} {gasprice:?}"
            );
        };
        let gsha = 1_000_000_000;
        check(&[], ChainSpec::main(), false, None, gsha);
        check(&[], ChainSpec::main(), true, None, 18 * gsha);
        check(&[], ChainSpec::dev(), true, None, 0);
        check(&["--txpool.pricelimit=5"], ChainSpec::main(), false, None, 5);
        check(
            &["--txpool.pricelimit=5"],
            ChainSpec::main(),
            true,
            None,
            18 * gsha,
        );
        check(&["--txpool.pricelimit=5"], ChainSpec::dev(), true, None, 5);
        check(
            &["--txpool.pricelimit=20000000000"],
            ChainSpec::main(),
            true,
            None,
            20 * gsha,
        );
        check(&["--txpool.pricelimit=5"], ChainSpec::main(), true, Some(7), 7);
    }
}
