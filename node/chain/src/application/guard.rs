//! Which calls of DappBase are allowed on an application chain (docs/microchain-design.md, 6).
//!
//! DappBase asks too little of its callers, so these calls revert if they are not allowed, wherever
//! they come from. The rules need nothing but the block and its state.

use primitives::{Address, U256};

use super::ApplicationRules;

/// Selector of `updateNodeList(address[])`.
const UPDATE_NODE_LIST: [u8; 4] = [0x31, 0xa0, 0x67, 0x71];
/// Selector of `postFlush(uint256,address[],uint256[],uint256[])`.
const POST_FLUSH: [u8; 4] = [0x12, 0xdf, 0x94, 0x12];
/// Selector of `redeemFromMicroChain()`.
const REDEEM: [u8; 4] = [0x89, 0x73, 0x9c, 0x5b];

/// The guard of one block.
#[derive(Clone, Debug)]
pub(crate) struct CallGuard {
    dapp_base: Address,
    owner: Address,
    members: Vec<Address>,
    withdrawal_min: U256,
}

impl CallGuard {
    /// The guard of a block with these members in force.
    pub(crate) fn new(rules: &ApplicationRules, members: Vec<Address>) -> Self {
        Self {
            dapp_base: rules.dapp_base(),
            owner: rules.owner,
            members,
            withdrawal_min: rules.withdrawal_min.max(U256::from(1)),
        }
    }

    /// Whether calls of this account are looked at.
    pub(crate) fn watches(&self, account: &Address) -> bool {
        *account == self.dapp_base
    }

    /// Whether a call of DappBase with this value is allowed. `origin` is the sender of the
    /// transaction.
    pub(crate) fn allows(&self, caller: Address, origin: Address, value: U256, input: &[u8]) -> bool {
        let Some((selector, arguments)) = input.split_first_chunk() else {
            return true;
        };
        match *selector {
            UPDATE_NODE_LIST => {
                caller == self.owner || (self.members.contains(&caller) && self.are_members(arguments))
            }
            POST_FLUSH => self.members.contains(&caller),
            // A contract here can have the address of a base-chain contract that refuses coins. Its
            // withdrawal would block all flushes. Withdrawals of almost nothing would fill them.
            REDEEM => caller == origin && value >= self.withdrawal_min,
            _ => true,
        }
    }

    /// Whether the arguments are a list of exactly the members, in any order. Only the usual
    /// encoding counts.
    fn are_members(&self, arguments: &[u8]) -> bool {
        let (words, rest) = arguments.as_chunks::<32>();
        let [offset, count, list @ ..] = words else {
            return false;
        };
        let number = |word: &[u8; 32]| U256::from_be_bytes(*word);
        let is_list = rest.is_empty()
            && number(offset) == U256::from(32)
            && number(count) == U256::from(list.len())
            && list.len() == self.members.len();
        is_list
            && self
                .members
                .iter()
                .all(|member| list.contains(&member.into_word().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> CallGuard {
        let rules = ApplicationRules {
            address: Address::repeat_byte(1),
            owner: Address::repeat_byte(2),
            supply: U256::from(1),
            withdrawal_min: U256::from(7),
        };
        let members = [3, 4, 5].map(Address::repeat_byte).to_vec();
        CallGuard::new(&rules, members)
    }

    fn node_list(members: &[u8]) -> Vec<u8> {
        let mut data = UPDATE_NODE_LIST.to_vec();
        data.extend(U256::from(32).to_be_bytes::<32>());
        data.extend(U256::from(members.len()).to_be_bytes::<32>());
        for member in members {
            data.extend(Address::repeat_byte(*member).into_word());
        }
        data
    }

    #[test]
    fn selectors_are_those_of_the_functions() {
        let selector = |signature: &str| primitives::keccak256(signature)[..4].to_vec();
        assert_eq!(selector("updateNodeList(address[])"), UPDATE_NODE_LIST);
        assert_eq!(
            selector("postFlush(uint256,address[],uint256[],uint256[])"),
            POST_FLUSH
        );
        assert_eq!(selector("redeemFromMicroChain()"), REDEEM);
    }

    #[test]
    fn members_may_vote_for_the_members_only() {
        let guard = guard();
        let allows = |caller: u8, data: &[u8]| {
            let caller = Address::repeat_byte(caller);
            guard.allows(caller, caller, U256::ZERO, data)
        };
        for list in [&[3, 4, 5][..], &[5, 3, 4]] {
            assert!(allows(3, &node_list(list)) && allows(2, &node_list(list)));
            assert!(!allows(6, &node_list(list)));
        }
        for list in [&[3][..], &[3, 4], &[3, 4, 4], &[3, 4, 6], &[3, 4, 5, 6]] {
            assert!(!allows(3, &node_list(list)), "{list:?}");
        }
        assert!(allows(2, &node_list(&[9])), "the owner is trusted");
        let mut long = node_list(&[3, 4, 5]);
        long.push(0);
        assert!(!allows(3, &long));
        assert!(allows(3, &POST_FLUSH) && !allows(2, &POST_FLUSH) && !allows(6, &POST_FLUSH));
        assert!(allows(6, &[0; 4]) && allows(6, &[]));
    }

    #[test]
    fn only_the_sender_of_a_transaction_withdraws() {
        let (user, contract) = (Address::repeat_byte(8), Address::repeat_byte(9));
        let seven = U256::from(7);
        assert!(guard().allows(user, user, seven, &REDEEM));
        assert!(!guard().allows(contract, user, seven, &REDEEM));
    }

    #[test]
    fn dust_is_not_withdrawn() {
        let user = Address::repeat_byte(8);
        let allows = |min: u64, value: u64| {
            let mut guard = guard();
            let rules = ApplicationRules {
                address: Address::ZERO,
                owner: guard.owner,
                supply: U256::from(1),
                withdrawal_min: U256::from(min),
            };
            guard = CallGuard::new(&rules, Vec::new());
            guard.allows(user, user, U256::from(value), &REDEEM)
        };
        assert!(allows(7, 7) && allows(7, 8) && !allows(7, 6) && !allows(7, 0));
        assert!(!allows(0, 0) && allows(0, 1), "nothing is never withdrawn");
    }
}
