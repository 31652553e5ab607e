//! Signing transactions, and recovering who signed one.
//!
//! Knows which fields each form signs, and how V contains the chain id. Does not know the chain id
//! of the node: callers compare [`Transaction::chain_id`]. Source: EIP-155.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::{ACCESS_LIST_TX_TYPE, AccessListEntry, CLASSIC_V_BIT, Transaction, TxForm};
use crate::{
    SYSTEM_SENDER,
    key::{EcdsaSignature, SecretKey, SignatureError, recover},
    rlp::{encode_fields, encode_fields_to_vec},
};

/// Upper bound (exclusive) for the chain id of native and classic transactions: 2^60.
pub const NATIVE_CHAIN_ID_BOUND: u64 = 1 << 60;

/// The smallest V with a chain id. V = 35 + recovery id + 2 * chain id.
const PROTECTED_V: u64 = 35;

/// The smallest V without a chain id. V = 27 + recovery id.
const UNPROTECTED_V: u64 = 27;

/// A transaction before it is signed.
///
/// `syscnt`, `sharding_flag` and `via` are used by [`TxForm::Native`]. The forms that are signed
/// with nine fields do not have them, so their values are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnsignedTransaction {
    /// The nonce of the sender's account: its number of earlier transactions.
    pub tx_nonce: u64,
    /// Above 0 in system transactions, otherwise 0.
    pub syscnt: u64,
    /// Price of one unit of gas, in sha.
    pub gas_price: U256,
    /// Upper bound for the gas that it uses.
    pub gas: u64,
    /// The recipient; `None` if the transaction creates a contract.
    pub to: Option<Address>,
    /// The transferred amount, in sha.
    pub value: U256,
    /// Call data, or the code that creates a contract.
    pub input: Bytes,
    /// 0 for a transaction of the base chain, otherwise for an application chain.
    pub sharding_flag: u64,
    /// The node through which a transaction goes to an application chain.
    pub via: Option<Address>,
    /// The accounts and slots that a [`TxForm::AccessList`] names in advance. Other forms do not
    /// have them, so they are dropped.
    pub access_list: Vec<AccessListEntry>,
}

impl UnsignedTransaction {
    /// Signs the transaction for the chain `chain_id`. A [`TxForm::System`] is never signed: its V,
    /// r and s are 0.
    pub fn sign(&self, key: &SecretKey, chain_id: u64, form: TxForm) -> Transaction {
        let mut transaction = self.with_form(form, chain_id);
        if form == TxForm::System {
            return transaction;
        }
        let chain_id = U256::from(chain_id);
        let signature = key.sign(&transaction.signing_hash_for(Some(chain_id)));
        if form == TxForm::AccessList {
            transaction.v = U256::from(signature.recovery_id);
            transaction.r = signature.r;
            transaction.s = signature.s;
            return transaction;
        }
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

    /// Signs the transaction for all chains, in the form of Ethereum before EIP-155.
    pub fn sign_unprotected(&self, key: &SecretKey) -> Transaction {
        let transaction = self.with_form(TxForm::Ethereum, 0);
        let signature = key.sign(&transaction.signing_hash_for(None));
        let v = U256::from(UNPROTECTED_V + u64::from(signature.recovery_id));
        Transaction {
            v,
            r: signature.r,
            s: signature.s,
            ..transaction
        }
    }

    /// The digest that is signed for the chain `chain_id`.
    pub fn signing_hash(&self, chain_id: u64, form: TxForm) -> B256 {
        self.with_form(form, chain_id)
            .signing_hash_for(Some(U256::from(chain_id)))
    }

    /// The transaction without a signature: V, r and s are 0. Only a typed one has the chain id
    /// then.
    pub fn with_form(&self, form: TxForm, chain_id: u64) -> Transaction {
        let native = matches!(form, TxForm::Native | TxForm::System);
        let typed = form == TxForm::AccessList;
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
            typed_chain_id: if typed { chain_id } else { 0 },
            access_list: if typed {
                self.access_list.clone()
            } else {
                Vec::new()
            },
            v: U256::ZERO,
            r: U256::ZERO,
            s: U256::ZERO,
        }
    }
}

impl Transaction {
    /// The chain id in V, or that of a typed transaction. `None` if V has none (it is below 35) or
    /// if it is 2^64 or more.
    pub fn chain_id(&self) -> Option<u64> {
        self.wide_chain_id().and_then(|id| id.try_into().ok())
    }

    /// Whether the signature covers a chain id. Then the transaction is not valid on other chains.
    pub fn is_protected(&self) -> bool {
        self.wide_chain_id().is_some()
    }

    /// The digest that was signed. For a native transaction without a chain id, which has no
    /// sender, it is the digest for chain id 0.
    pub fn signing_hash(&self) -> B256 {
        self.signing_hash_for(self.wide_chain_id())
    }

    /// The account that signed the transaction; [`SYSTEM_SENDER`] for a system transaction.
    ///
    /// `low_s` says that an s in the upper half is an error. That is so for all rules but those of
    /// Ethereum's Frontier.
    ///
    /// # Errors
    /// [`SignatureError`] if no account can have signed, if a native or classic transaction has no
    /// chain id below [`NATIVE_CHAIN_ID_BOUND`], or if s is high and `low_s` is set.
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

    /// Checks V and returns the recovery id in it.
    fn recovery_id(&self) -> Result<u8, SignatureError> {
        let got = self.plain_v();
        if self.form == TxForm::AccessList {
            return match got.bit_len() {
                0 | 1 => Ok(got.bit(0).into()),
                _ => Err(SignatureError::InvalidV { got }),
            };
        }
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
        // V is 35 for recovery id 0 and chain id 0, so an odd V means recovery id 0.
        Ok((!got.bit(0)).into())
    }

    /// V without [`CLASSIC_V_BIT`].
    fn plain_v(&self) -> U256 {
        self.ethereum_v().unwrap_or(self.v)
    }

    /// The chain id, which may be larger than 64 bits in V; `None` if there is none.
    fn wide_chain_id(&self) -> Option<U256> {
        if self.form == TxForm::AccessList {
            return Some(U256::from(self.typed_chain_id));
        }
        self.plain_v()
            .checked_sub(U256::from(PROTECTED_V))
            .map(|twice| twice >> 1)
    }

    /// The digest for `chain_id`, independent of V.
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
            // A typed transaction has its chain id as a field.
            (TxForm::AccessList, _) => self.with_access_list_fields(&[], |fields| {
                let mut out = vec![ACCESS_LIST_TX_TYPE];
                encode_fields(fields, &mut out);
                out
            }),
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
    fn matches_the_example_of_eip_155() {
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
    fn high_s_is_an_error_only_if_low_s_is_required() {
        for form in [TxForm::Native, TxForm::Classic, TxForm::Ethereum] {
            let low = unsigned().sign(&key(), 100, form);
            // V with the other recovery id: 235 becomes 236 and the reverse.
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
    fn changing_a_signed_field_changes_the_signer() {
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
                ..good
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
