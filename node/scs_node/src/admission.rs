//! Which chain bases an SCS joins, and what it signs for them.
//!
//! An SCS joins by a signature with which its chain base locks a part of the bond, and can take it.
//! The pool of SCSs pays, and decides what the signature covers:
//!
//! | pool | signature over sha256 of | what a chain base can lock with it |
//! |---|---|---|
//! | published | SCS, chain base | the whole free bond, by one call |
//! | ours | SCS, chain base, bond, pool | this bond in this pool |
//!
//! So the code of the chain base decides in a published pool how much is at stake. The code of the
//! pool decides what an SCS signs.

use std::collections::BTreeSet;
use std::str::FromStr;

use microchain::DappBaseRules;
use microchain::codes::{self, CodeKind};
use primitives::{Address, B256, U256};
use sha2::{Digest, Sha256};

/// Base blocks for which a chain base must have had the same code and the same pool before an SCS
/// signs for a pool in which the signature does not cover the bond. Whoever replaces the chain base
/// by another contract at its address must replace as many blocks.
pub(crate) const PLAIN_DEPTH_BLOCKS: u64 = 3;

/// The chain bases that an SCS joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinMode {
    /// Chain bases whose address the operator lists.
    Listed,
    /// Chain bases whose code is known, and those that the operator lists.
    #[default]
    Known,
    /// All.
    Any,
}

/// The text is no mode.
#[derive(Debug, thiserror::Error)]
#[error("got {0:?}, expected listed, known or any")]
pub struct JoinModeError(String);

impl FromStr for JoinMode {
    type Err = JoinModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "listed" => Ok(Self::Listed),
            "known" => Ok(Self::Known),
            "any" => Ok(Self::Any),
            other => Err(JoinModeError(other.to_owned())),
        }
    }
}

/// The rules of the operator for joining.
#[derive(Clone, Debug, Default)]
pub struct JoinRules {
    /// The chain bases that are joined.
    pub mode: JoinMode,
    /// Addresses of chain bases and of pools.
    pub listed: BTreeSet<Address>,
    /// Hashes of the code of chain bases, pools and `DappBase`s that count as known.
    pub codes: BTreeSet<B256>,
}

/// The reason why an SCS does not join.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JoinRefusal {
    #[error("chain base: got {0}, expected one of --join.list")]
    NotListed(Address),
    #[error(
        "code of the chain base: got hash {got}, expected a known one; if you trust it: --join.list {chain} or --join.code {got}"
    )]
    ChainBaseCode { chain: Address, got: B256 },
    #[error(
        "code of the pool {pool}: got hash {got}, expected a known one; if you trust it: --join.list {pool} or --join.code {got}"
    )]
    PoolCode { pool: Address, got: B256 },
    #[error("free bond in the pool {pool}: got {got} sha, expected at least {expected}")]
    FreeBond {
        pool: Address,
        got: U256,
        expected: U256,
    },
}

/// The content of an SCS's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BondForm {
    /// SCS and chain base, as published pools check it.
    Plain,
    /// The bond and the pool, too.
    WithAmount,
}

/// A pool of SCSs, and the part of the bond there that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolReading {
    /// The [`codes::code_hash`] of its code.
    pub code: B256,
    /// The bond of the SCS, in sha.
    pub bond: U256,
    /// The part of it that MicroChains have locked.
    pub locked: U256,
}

impl JoinRules {
    /// Whether a chain base with this code may be joined.
    ///
    /// # Errors
    /// [`JoinRefusal`] if not.
    pub(crate) fn check_chain_base(&self, chain: &Address, code: &B256) -> Result<(), JoinRefusal> {
        let is_known = || codes::kind_of(code) == Some(CodeKind::ChainBase) || self.codes.contains(code);
        match self.mode {
            _ if self.listed.contains(chain) => Ok(()),
            JoinMode::Any => Ok(()),
            JoinMode::Listed => Err(JoinRefusal::NotListed(*chain)),
            JoinMode::Known if is_known() => Ok(()),
            JoinMode::Known => Err(JoinRefusal::ChainBaseCode {
                chain: *chain,
                got: *code,
            }),
        }
    }

    /// Whether `amount` may be locked in this pool, and what is signed for it.
    ///
    /// # Errors
    /// [`JoinRefusal`] if the pool is not known, or has no bond for it.
    pub(crate) fn check_pool(
        &self,
        pool: &Address,
        reading: &PoolReading,
        amount: U256,
    ) -> Result<BondForm, JoinRefusal> {
        let code = reading.code;
        let is_allowed =
            self.mode == JoinMode::Any || self.listed.contains(pool) || self.codes.contains(&code);
        let form = match codes::kind_of(&code) {
            Some(CodeKind::AmountPool) => BondForm::WithAmount,
            Some(CodeKind::PlainPool) => BondForm::Plain,
            _ if is_allowed => BondForm::Plain,
            _ => {
                return Err(JoinRefusal::PoolCode {
                    pool: *pool,
                    got: code,
                });
            }
        };
        let free = reading.bond.saturating_sub(reading.locked);
        if free < amount {
            return Err(JoinRefusal::FreeBond {
                pool: *pool,
                got: free,
                expected: amount,
            });
        }
        Ok(form)
    }

    /// The `DappBase`s whose withdrawals the SCS votes for.
    pub(crate) fn dapp_bases(&self) -> DappBaseRules {
        DappBaseRules {
            any: self.mode == JoinMode::Any,
            codes: self.codes.clone(),
        }
    }
}

/// The hash that an SCS signs to let a chain base lock `amount` of its bond in `pool`.
pub(crate) fn bond_digest(
    form: BondForm,
    scs: &Address,
    chain: &Address,
    amount: U256,
    pool: &Address,
) -> B256 {
    let mut digest = Sha256::new();
    digest.update(scs);
    digest.update(chain);
    if form == BondForm::WithAmount {
        digest.update(amount.to_be_bytes::<32>());
        digest.update(pool);
    }
    B256::from_slice(&digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Address = Address::repeat_byte(0xcc);
    const POOL: Address = Address::repeat_byte(0xbb);
    const OTHER: B256 = B256::repeat_byte(7);

    /// The hash of a line of `contracts/codes.txt`.
    fn code(kind: &str, what: &str) -> B256 {
        let table = include_str!("../../../contracts/codes.txt");
        let line = table
            .lines()
            .find(|line| line.starts_with(kind) && line.contains(what));
        let hash = line.and_then(|line| line.split_whitespace().nth(2));
        hash.and_then(|hash| hash.parse().ok()).expect("a line")
    }

    fn rules(mode: JoinMode, listed: &[Address], codes: &[B256]) -> JoinRules {
        JoinRules {
            mode,
            listed: listed.iter().copied().collect(),
            codes: codes.iter().copied().collect(),
        }
    }

    fn pool(code: B256) -> PoolReading {
        PoolReading {
            code,
            bond: U256::from(10),
            locked: U256::from(3),
        }
    }

    #[test]
    fn a_contract_that_only_looks_like_a_chain_base_is_not_joined() {
        let known = JoinRules::default();
        for what in [
            "published ASM",
            "published AST",
            "ours, ChainBase of release 0.2",
            "ours, TokenChainBase",
        ] {
            assert_eq!(
                known.check_chain_base(&CHAIN, &code("chain-base", what)),
                Ok(()),
                "{what}"
            );
        }
        let pools = ["pool-plain", "pool-amount"].map(|kind| code(kind, "p"));
        for got in [OTHER, B256::ZERO, pools[0], pools[1]] {
            let refusal = Err(JoinRefusal::ChainBaseCode { chain: CHAIN, got });
            assert_eq!(known.check_chain_base(&CHAIN, &got), refusal);
        }
        let listed = rules(JoinMode::Known, &[CHAIN], &[]);
        assert_eq!(listed.check_chain_base(&CHAIN, &OTHER), Ok(()));
        let by_code = rules(JoinMode::Known, &[], &[OTHER]);
        assert_eq!(by_code.check_chain_base(&CHAIN, &OTHER), Ok(()));
        assert_eq!(
            rules(JoinMode::Any, &[], &[]).check_chain_base(&CHAIN, &OTHER),
            Ok(())
        );
    }

    #[test]
    fn a_list_is_all_that_is_joined() {
        let asm = code("chain-base", "published ASM");
        let listed = rules(JoinMode::Listed, &[CHAIN], &[asm]);
        assert_eq!(listed.check_chain_base(&CHAIN, &OTHER), Ok(()));
        assert_eq!(
            listed.check_chain_base(&POOL, &asm),
            Err(JoinRefusal::NotListed(POOL))
        );
    }

    #[test]
    fn the_pool_decides_what_is_signed() {
        let one = U256::from(1);
        let known = JoinRules::default();
        for (kind, what, form) in [
            ("pool-plain", "published pool, optimized", BondForm::Plain),
            ("pool-plain", "ours, ScsPool of release 0.2", BondForm::Plain),
            ("pool-amount", "ours, ScsPool", BondForm::WithAmount),
        ] {
            assert_eq!(
                known.check_pool(&POOL, &pool(code(kind, what)), one),
                Ok(form),
                "{what}"
            );
        }
        let refusal = JoinRefusal::PoolCode {
            pool: POOL,
            got: OTHER,
        };
        for mode in [JoinMode::Known, JoinMode::Listed] {
            let without = rules(mode, &[CHAIN], &[]);
            assert_eq!(
                without.check_pool(&POOL, &pool(OTHER), one).as_ref(),
                Err(&refusal)
            );
            for with in [rules(mode, &[POOL], &[]), rules(mode, &[], &[OTHER])] {
                assert_eq!(with.check_pool(&POOL, &pool(OTHER), one), Ok(BondForm::Plain));
            }
        }
        // Seven of ten are free.
        let ours = pool(code("pool-amount", "ours"));
        assert!(known.check_pool(&POOL, &ours, U256::from(7)).is_ok());
        let error = known
            .check_pool(&POOL, &ours, U256::from(8))
            .expect_err("too much");
        assert!(
            error.to_string().ends_with("got 7 sha, expected at least 8"),
            "{error}"
        );
    }

    #[test]
    fn a_signature_for_one_form_is_none_for_the_other() {
        let scs = Address::repeat_byte(1);
        let digest = |form, amount, pool| bond_digest(form, &scs, &CHAIN, U256::from(amount), &pool);
        let plain = digest(BondForm::Plain, 1, POOL);
        assert_eq!(plain, digest(BondForm::Plain, 2, CHAIN));
        let all = [
            plain,
            digest(BondForm::WithAmount, 1, POOL),
            digest(BondForm::WithAmount, 2, POOL),
            digest(BondForm::WithAmount, 1, CHAIN),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn modes_are_read() {
        assert_eq!("listed".parse::<JoinMode>().ok(), Some(JoinMode::Listed));
        assert_eq!("known".parse::<JoinMode>().ok(), Some(JoinMode::default()));
        assert_eq!("any".parse::<JoinMode>().ok(), Some(JoinMode::Any));
        let error = "all".parse::<JoinMode>().expect_err("no mode").to_string();
        assert_eq!(error, "got \"all\", expected listed, known or any");
    }
}
