//! Who signed a transaction, and how one is signed.
//!
//! Knows what each form puts under its signature and how V carries the chain id.
//! Does not know the node's own chain id: compare [`Transaction::chain_id`].

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::{CLASSIC_V_BIT, Transaction, TxForm};
use crate::{
    SYSTEM_SENDER,
    key::{EcdsaSignature, SecretKey, SignatureError, recover},
    rlp::encode_fields_to_vec,
};

/// Chain ids of native and classic transactions are below this, 2^60.
pub const NATIVE_CHAIN_ID_BOUND: u64 = 1 << 60;

/// The least V that carries a chain id; V is this, the recovery id and twice the id.
const PROTECTED_V: u64 = 35;

/// V of recovery id 0 without chain id.
const UNPROTECTED_V: u64 = 27;

/// A transaction before it is signed.
///
/// `syscnt`, `sharding_flag` and `via` are for [`TxForm::Native`]; the forms of nine
/// fields have no place for them and drop them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnsignedTransaction {
    /// The sender's count of earlier transactions.
    pub tx_nonce: u64,
    /// Above zero in system transactions.
    pub syscnt: u64,
    /// Price of a unit of gas, in sha.
    pub gas_price: U256,
    /// The most gas it may use.
    pub gas: u64,
    /// The recipient; `None` creates a contract.
    pub to: Option<Address>,
    /// The amount moved, in sha.
    pub value: U256,
    /// Call data, or the code that creates a contract.
    pub input: Bytes,
    /// 0 for the base chain; others go to an application chain.
    pub sharding_flag: u64,
    /// The node that an application-chain transaction goes through.
    pub via: Option<Address>,
}

impl UnsignedTransaction {
    /// Signs for the chain `chain_id`. A [`TxForm::System`] is never signed: its V, r
    /// and s stay zero.
    pub fn sign(&self, key: &SecretKey, chain_id: u64, form: TxForm) -> Transaction {
        let mut transaction = self.with_form(form);
        if form == TxForm::System {
            return transaction;
        }
        let chain_id = U256::from(chain_id);
        let signature = key.sign(&transaction.signing_hash_for(Some(chain_id)));
        let plain_v = U256::from(PROTECTED_V) + chain_id * U256::from(2) + U256::from(signature.recovery_id);
        let mark = if form == TxForm::Classic {
            CLASSIC_V_BIT
        } else {
            U256::ZERO
        };
        transaction.v = plain_v | mark;
        transaction.r = signature.r;
        transaction.s = signature.s;
        transaction
    }

    /// Signs for any chain, as [`TxForm::Ethereum`] did before EIP-155.
    pub fn sign_unprotected(&self, key: &SecretKey) -> Transaction {
        let transaction = self.with_form(TxForm::Ethereum);
        let signature = key.sign(&transaction.signing_hash_for(None));
        let v = U256::from(UNPROTECTED_V + u64::from(signature.recovery_id));
        Transaction {
            v,
            r: signature.r,
            s: signature.s,
            ..transaction
        }
    }

    /// The digest that a signer signs for `chain_id`.
    pub fn signing_hash(&self, chain_id: u64, form: TxForm) -> B256 {
        self.with_form(form).signing_hash_for(Some(U256::from(chain_id)))
    }

    /// The transaction without a signature: V, r and s are zero.
    pub fn with_form(&self, form: TxForm) -> Transaction {
        let native = matches!(form, TxForm::Native | TxForm::System);
        Transaction {
            form,
            tx_nonce: self.tx_nonce,
            syscnt: if native { self.syscnt } else { 0 },
            gas_price: self.gas_price,
            gas: self.gas,
            to: self.to,
            value: self.value,
            input: self.input.clone(),
            sharding_flag: if native { self.sharding_flag } else { 0 },
            via: self.via.filter(|_| native),
            v: U256::ZERO,
            r: U256::ZERO,
            s: U256::ZERO,
        }
    }
}

impl Transaction {
    /// The chain id in V; `None` without one (V below 35) or if it exceeds 64 bits.
    pub fn chain_id(&self) -> Option<u64> {
        self.wide_chain_id().and_then(|id| id.try_into().ok())
    }

    /// Whether V carries a chain id, so that no other chain accepts the signature.
    pub fn is_protected(&self) -> bool {
        self.wide_chain_id().is_some()
    }

    /// The digest under the signature. A native transaction without chain id, which
    /// has no sender, is digested as for chain 0.
    pub fn signing_hash(&self) -> B256 {
        self.signing_hash_for(self.wide_chain_id())
    }

    /// The account that signed; [`SYSTEM_SENDER`] for a system transaction.
    ///
    /// Native and classic transactions need a chain id below
    /// [`NATIVE_CHAIN_ID_BOUND`]. `low_s` refuses an s in the upper half, as every rule
    /// set does but Ethereum's first (Frontier).
    ///
    /// # Errors
    /// If no account can have signed, or not in this way.
    pub fn recover_sender(&self, low_s: bool) -> Result<Address, SignatureError> {
        if self.is_system() {
            return Ok(SYSTEM_SENDER);
        }
        let recovery_id = self.recovery_id()?;
        let signature = EcdsaSignature {
            r: self.r,
            s: self.s,
            recovery_id,
        };
        if low_s && !signature.is_low_s() {
            return Err(SignatureError::HighS { got: self.s });
        }
        recover(&self.signing_hash(), &signature)
    }

    /// Judges V and gives the recovery id in it.
    fn recovery_id(&self) -> Result<u8, SignatureError> {
        let got = self.plain_v();
        let Some(chain_id) = self.wide_chain_id() else {
            let unprotected = got
                .checked_sub(U256::from(UNPROTECTED_V))
                .filter(|id| id.bit_len() <= 1);
            let recovery_id = unprotected.ok_or(SignatureError::InvalidV { got })?;
            if self.form != TxForm::Ethereum {
                return Err(SignatureError::Unprotected { got });
            }
            return Ok(recovery_id.bit(0).into());
        };
        let bound_bits = match self.form {
            TxForm::Ethereum => u64::BITS,
            _ => NATIVE_CHAIN_ID_BOUND.ilog2(),
        };
        if chain_id.bit_len() > bound_bits as usize {
            return Err(SignatureError::ChainId {
                got: chain_id,
                bound_bits,
            });
        }
        // V is 35 for recovery id 0 of chain 0: the odd ones are 0.
        Ok((!got.bit(0)).into())
    }

    fn plain_v(&self) -> U256 {
        self.ethereum_v().unwrap_or(self.v)
    }

    fn wide_chain_id(&self) -> Option<U256> {
        self.plain_v()
            .checked_sub(U256::from(PROTECTED_V))
            .map(|twice| twice >> 1)
    }

    /// The digest for `chain_id`, whatever V says.
    fn signing_hash_for(&self, chain_id: Option<U256>) -> B256 {
        let encoded = match (self.form, chain_id) {
            (TxForm::Native | TxForm::System, chain_id) => {
                let chain_id = chain_id.unwrap_or_default();
                self.with_twelve_fields(&[&chain_id, &0u8, &0u8], encode_fields_to_vec)
            }
            (TxForm::Classic | TxForm::Ethereum, Some(chain_id)) => {
                self.with_nine_fields(&[&chain_id, &0u8, &0u8], encode_fields_to_vec)
            }
            (TxForm::Classic | TxForm::Ethereum, None) => self.with_nine_fields(&[], encode_fields_to_vec),
        };
        keccak256(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SECP256K1_ORDER;

    fn key() -> SecretKey {
        SecretKey::from_bytes(&[0x46; 32]).expect("a key")
    }

    fn unsigned() -> UnsignedTransaction {
        UnsignedTransaction {
            tx_nonce: 9,
            gas_price: U256::from(20_000_000_000u64),
            gas: 21_000,
            to: Some(Address::repeat_byte(0x35)),
            value: U256::from(10u64.pow(18)),
            ..Default::default()
        }
    }

    fn check_refused(transaction: Transaction, expected: SignatureError) {
        assert_eq!(transaction.recover_sender(true), Err(expected));
    }

    #[test]
    fn signs_in_each_form() {
        for form in [TxForm::Native, TxForm::Classic, TxForm::Ethereum] {
            for chain_id in [0, 1, 99, 100, NATIVE_CHAIN_ID_BOUND - 1] {
                let transaction = unsigned().sign(&key(), chain_id, form);
                assert_eq!(transaction.recover_sender(true), Ok(key().address()));
                assert_eq!(transaction.chain_id(), Some(chain_id));
                assert!(transaction.is_protected());
                assert_eq!(
                    transaction.signing_hash(),
                    unsigned().signing_hash(chain_id, form)
                );
            }
        }
    }

    #[test]
    fn unprotected_is_ethereum_only() {
        let transaction = unsigned().sign_unprotected(&key());
        assert_eq!(transaction.recover_sender(true), Ok(key().address()));
        assert_eq!(transaction.chain_id(), None);
        let got = transaction.v;
        let native = Transaction {
            form: TxForm::Native,
            ..transaction.clone()
        };
        check_refused(native, SignatureError::Unprotected { got });
        let classic = Transaction {
            form: TxForm::Classic,
            v: got | CLASSIC_V_BIT,
            ..transaction
        };
        check_refused(classic, SignatureError::Unprotected { got });
    }

    #[test]
    fn the_example_of_eip_155() {
        let transaction = unsigned().sign(&key(), 1, TxForm::Ethereum);
        let digest = "0xdaf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53";
        assert_eq!(transaction.signing_hash().to_string(), digest);
        assert_eq!(transaction.v, U256::from(37));
    }

    #[test]
    fn impossible_v() {
        let good = unsigned().sign(&key(), 100, TxForm::Native);
        for v in [0, 1, 26, 29, 34] {
            let got = U256::from(v);
            let bad = Transaction {
                v: got,
                ..good.clone()
            };
            check_refused(bad.clone(), SignatureError::InvalidV { got });
            let ethereum = Transaction {
                form: TxForm::Ethereum,
                ..bad
            };
            check_refused(ethereum, SignatureError::InvalidV { got });
        }
        let wide = unsigned().sign(&key(), NATIVE_CHAIN_ID_BOUND, TxForm::Native);
        let got = U256::from(NATIVE_CHAIN_ID_BOUND);
        check_refused(wide, SignatureError::ChainId { got, bound_bits: 60 });
        let got = (U256::MAX - U256::from(35)) >> 1;
        let widest = Transaction {
            form: TxForm::Ethereum,
            v: U256::MAX,
            ..good
        };
        assert_eq!(widest.chain_id(), None);
        check_refused(widest, SignatureError::ChainId { got, bound_bits: 64 });
    }

    #[test]
    fn high_s_is_a_matter_of_rules() {
        for form in [TxForm::Native, TxForm::Classic, TxForm::Ethereum] {
            let low = unsigned().sign(&key(), 100, form);
            // The other recovery id: 235 and 236 are one apart.
            let v = U256::from(235 + 236) - low.plain_v();
            let mark = low.v & CLASSIC_V_BIT;
            let high = Transaction {
                v: v | mark,
                s: SECP256K1_ORDER - low.s,
                ..low
            };
            assert_eq!(high.recover_sender(false), Ok(key().address()));
            check_refused(high.clone(), SignatureError::HighS { got: high.s });
        }
    }

    #[test]
    fn what_is_signed_binds() {
        let good = unsigned().sign(&key(), 100, TxForm::Native);
        let changed = [
            Transaction {
                tx_nonce: 10,
                ..good.clone()
            },
            Transaction {
                syscnt: 1,
                ..good.clone()
            },
            Transaction {
                gas: 21_001,
                ..good.clone()
            },
            Transaction {
                to: None,
                ..good.clone()
            },
            Transaction {
                sharding_flag: 1,
                ..good.clone()
            },
            Transaction {
                via: Some(Address::ZERO),
                ..good.clone()
            },
            Transaction {
                v: good.v + U256::from(2),
                ..good.clone()
            },
        ];
        for transaction in changed {
            assert_ne!(transaction.recover_sender(true), Ok(key().address()));
        }
    }

    #[test]
    fn system_is_not_signed() {
        let system = Transaction::system(3);
        assert_eq!(system.recover_sender(true), Ok(SYSTEM_SENDER));
        assert_eq!(system.chain_id(), None);
        let signed = unsigned().sign(&key(), 100, TxForm::System);
        assert!(signed.is_system() && signed.v.is_zero() && signed.r.is_zero());
    }
}
