//! The accounts of block 0 of Ethereum Classic, from the data file that is compiled in.
//!
//! The origin of the file, and its form: `node/chain/data/README.md`. This module knows the form of
//! the file; the state root tells whether the accounts are right.

use primitives::{Address, U256};

use crate::spec::{GenesisAccount, GenesisAccounts};

/// The accounts, as a Zstandard frame.
const FRAME: &[u8] = include_bytes!("../../data/classic_accounts.zst");
/// The number of accounts in the frame.
const COUNT: usize = 8893;
/// More bytes than the content of the frame has.
const CONTENT_BYTES_MAX: usize = 1 << 20;

/// The accounts. If the compiled-in file were damaged, accounts would be missing, and the state
/// root of block 0 would tell.
pub(super) fn accounts() -> GenesisAccounts {
    let content = zstd::bulk::decompress(FRAME, CONTENT_BYTES_MAX).unwrap_or_default();
    read(&content).unwrap_or_default()
}

/// Reads the content of the frame. `None` if it has another form.
fn read(content: &[u8]) -> Option<GenesisAccounts> {
    let (addresses, mut balances) = content.split_at_checked(COUNT * 20)?;
    let mut accounts = GenesisAccounts::default();
    for address in addresses.chunks_exact(20) {
        let (length, rest) = balances.split_first()?;
        let (digits, rest) = rest.split_at_checked((*length).into())?;
        balances = rest;
        let account = GenesisAccount {
            balance: U256::try_from_be_slice(digits)?,
            ..Default::default()
        };
        accounts.insert(Address::from_slice(address), account);
    }
    balances.is_empty().then_some(accounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::accounts::state_root;
    use crate::spec::{ChainSpec, Genesis};

    #[test]
    fn the_accounts_have_the_state_root_of_block_0() {
        let genesis = Genesis {
            alloc: accounts(),
            ..Default::default()
        };
        assert_eq!(genesis.alloc.len(), COUNT);
        assert_eq!(
            Some(state_root(&genesis)),
            ChainSpec::classic().genesis.state_root
        );
    }

    #[test]
    fn another_form_is_refused() {
        let content = zstd::bulk::decompress(FRAME, CONTENT_BYTES_MAX).expect("a frame");
        assert!(read(&content).is_some());
        assert!(read(&content[..content.len() - 1]).is_none());
        assert!(read(&[content, vec![0]].concat()).is_none());
        assert!(read(&[]).is_none());
    }
}
