//! The account of an SCS on the base chain: nonces, prices, and what is not in a block yet.
//!
//! The service of a VNODE gives no receipts. A transaction is known to be in a block when the
//! account's nonce at the head has passed it. Whether its call had an effect is seen in the state
//! of the contract: the engine asks for a call again if it had none.
//!
//! The transactions of votes are on the disk before they are sent, because a vote may have to be
//! withdrawn after a restart.

use std::collections::BTreeMap;

use microchain::BaseCall;
use microchain::contract::RETRY_BLOCKS;
use microchain::event::CONFIRMATIONS_MAX;
use primitives::{Address, B256, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};
use scs_service::client::{ScsClient, ScsClientError};

use crate::base::{GAS_PRICE_FIRST, GAS_PRICE_MAX};
use crate::folders::{Folders, KeptVote};

/// Transactions that are not in a block. If there are more, calls wait.
const WAITING_MAX: usize = 256;

/// A vote is kept for so many base blocks after its block: as long as it could count on another
/// branch.
const VOTE_KEPT_BLOCKS: u64 = 48 + CONFIRMATIONS_MAX;
/// The highest price of gas of a transaction without effect, in sha. It must replace another one.
const WITHDRAWAL_PRICE_MAX: u64 = 3 * GAS_PRICE_MAX;
/// Gas of a transaction without effect.
const WITHDRAWAL_GAS: u64 = 21_000;

/// The purpose of a transaction. Equal ones are not sent twice at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The SCS joins.
    Join,
    /// The engine of the chain has asked for it.
    Engine(BaseCall),
}

/// A call to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outlay {
    /// The chain base.
    pub chain: Address,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// The calldata.
    pub data: Bytes,
    /// The gas limit.
    pub gas: u64,
}

/// The reason why a call is not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutlayError {
    /// Too many transactions wait.
    #[error("got {0} transactions that are not in a block, expected at most {WAITING_MAX}")]
    TooManyWaiting(usize),
    /// The VNODE refuses the transaction, or does not answer.
    #[error(transparent)]
    Client(#[from] ScsClientError),
}

/// A transaction that is not in a block, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    outlay: Outlay,
    gas_price: u64,
    /// The base block at which it was sent last.
    sent_at: u64,
    /// The base block at which it was known to be in a block; `None` if it is in none.
    mined_at: Option<u64>,
    /// Whether a transaction without effect takes its place.
    is_withdrawn: bool,
}

impl Waiting {
    /// Whether it is still kept at this head. A vote may lose its block again.
    const fn is_kept(&self, head: u64) -> bool {
        let is_vote = matches!(self.outlay.purpose, Purpose::Engine(BaseCall::Vote { .. }));
        match self.mined_at {
            Some(mined) => is_vote && head <= mined.saturating_add(VOTE_KEPT_BLOCKS),
            None => true,
        }
    }

    /// The vote that this is, for the disk.
    fn kept_vote(&self, tx_nonce: u64) -> Option<KeptVote> {
        let Purpose::Engine(BaseCall::Vote { place, hash, .. }) = &self.outlay.purpose else {
            return None;
        };
        Some(KeptVote {
            tx_nonce,
            chain: self.outlay.chain.to_string(),
            place: *place,
            hash: hash.to_string(),
            gas: self.outlay.gas,
            gas_price: self.gas_price,
            sent_at: self.sent_at,
            is_withdrawn: self.is_withdrawn,
        })
    }

    /// A vote that was on the disk; `None` if it is damaged.
    fn of_kept(vote: &KeptVote) -> Option<Self> {
        let call = BaseCall::Vote {
            place: vote.place,
            hash: vote.hash.parse::<B256>().ok()?,
            redeem: true,
        };
        Some(Self {
            outlay: Outlay {
                chain: vote.chain.parse().ok()?,
                data: call.data(),
                purpose: Purpose::Engine(call),
                gas: vote.gas,
            },
            gas_price: vote.gas_price,
            sent_at: vote.sent_at,
            mined_at: None,
            is_withdrawn: vote.is_withdrawn,
        })
    }

    /// The price with which it is sent the next time.
    fn raised_price(&self) -> u64 {
        let max = if self.is_withdrawn {
            WITHDRAWAL_PRICE_MAX
        } else {
            GAS_PRICE_MAX
        };
        raised(self.gas_price, max)
    }
}

/// The account. One task works with it.
#[derive(Debug)]
pub(crate) struct BaseAccount {
    client: ScsClient,
    key: SecretKey,
    address: Address,
    chain_id: u64,
    /// By nonce.
    waiting: BTreeMap<u64, Waiting>,
    folders: Folders,
    /// The votes on the disk.
    kept: Vec<KeptVote>,
}

impl BaseAccount {
    /// The account of `key` on the base chain with this chain id, and the votes of before in
    /// `folders`.
    pub(crate) fn new(client: ScsClient, key: SecretKey, chain_id: u64, folders: Folders) -> Self {
        let kept = folders.votes().unwrap_or_else(|error| {
            tracing::warn!(%error, "votes of before are lost, and cannot be withdrawn");
            Vec::new()
        });
        let waiting = kept
            .iter()
            .filter_map(|vote| Some((vote.tx_nonce, Waiting::of_kept(vote)?)));
        Self {
            client,
            address: key.address(),
            key,
            chain_id,
            waiting: waiting.collect(),
            folders,
            kept,
        }
    }

    /// Writes down the votes that may have to be withdrawn, if they are others than before.
    fn keep_votes(&mut self) {
        let votes = self.waiting.iter();
        let votes: Vec<_> = votes
            .filter_map(|(tx_nonce, one)| one.kept_vote(*tx_nonce))
            .collect();
        if votes == self.kept {
            return;
        }
        match self.folders.keep_votes(&votes) {
            Ok(()) => self.kept = votes,
            Err(error) => {
                tracing::error!(%error, "votes were not written, and cannot be withdrawn after a restart")
            }
        }
    }

    /// Sends a call, unless an equal one is on its way. `head` is the number of the base block that
    /// was told last.
    ///
    /// # Errors
    /// [`OutlayError`] if the VNODE refuses the transaction or does not answer.
    pub(crate) async fn send(&mut self, outlay: Outlay, head: u64) -> Result<(), OutlayError> {
        self.note_mined(head).await?;
        let mut waiting = self.waiting.values().filter(|one| one.mined_at.is_none());
        let count = waiting.clone().count();
        let equal = |one: &Waiting| {
            !one.is_withdrawn && one.outlay.chain == outlay.chain && one.outlay.purpose == outlay.purpose
        };
        if waiting.any(equal) {
            return Ok(());
        }
        if count >= WAITING_MAX {
            return Err(OutlayError::TooManyWaiting(count));
        }
        let told = self.client.account_info(self.address).await?.tx_nonce;
        let tx_nonce = free_nonce(&self.waiting, told);
        let waiting = Waiting {
            outlay,
            gas_price: GAS_PRICE_FIRST,
            sent_at: head,
            mined_at: None,
            is_withdrawn: false,
        };
        self.waiting.insert(tx_nonce, waiting.clone());
        self.keep_votes();
        let submitted = self.submit(tx_nonce, &waiting).await;
        self.take_answer(tx_nonce, submitted)?;
        tracing::debug!(chain = %waiting.outlay.chain, tx_nonce, "a transaction was sent to the base chain");
        Ok(())
    }

    /// Forgets the transaction with this nonce if the VNODE did not take it. If no answer came, the
    /// VNODE may have it, and it is sent again with the same nonce (see [`Self::tend`]).
    fn take_answer(
        &mut self,
        tx_nonce: u64,
        submitted: Result<(), ScsClientError>,
    ) -> Result<(), OutlayError> {
        match submitted {
            Err(error) if error.is_unanswered() => {
                tracing::debug!(tx_nonce, %error, "it is not known whether the VNODE has a transaction");
                Ok(())
            }
            Err(error) => {
                self.waiting.remove(&tx_nonce);
                self.keep_votes();
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Replaces the transaction of a call by one without effect: now if it is in no block,
    /// otherwise when its block is taken back.
    pub(crate) async fn withdraw(&mut self, chain: Address, call: BaseCall) {
        let purpose = Purpose::Engine(call);
        let mut waiting = std::mem::take(&mut self.waiting);
        for (tx_nonce, one) in &mut waiting {
            if one.is_withdrawn || one.outlay.chain != chain || one.outlay.purpose != purpose {
                continue;
            }
            one.is_withdrawn = true;
            one.gas_price = one.raised_price();
            // If it is in a block, the nonce is used and the VNODE refuses.
            if let Err(error) = self.submit(*tx_nonce, one).await {
                tracing::debug!(%chain, tx_nonce, %error, "a transaction was not replaced now");
            }
        }
        self.waiting = waiting;
        self.keep_votes();
    }

    /// Looks after the transactions that are not in a block: those that wait too long are sent
    /// again at a higher price, as far as a chain base takes it. With `is_new_connection` all are
    /// sent again, because a VNODE that was started again may have lost them.
    pub(crate) async fn tend(&mut self, head: u64, is_new_connection: bool) {
        if self.waiting.is_empty() {
            return;
        }
        if let Err(error) = self.note_mined(head).await {
            tracing::debug!(%error, "the nonce of the account cannot be read");
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        for (tx_nonce, one) in &mut waiting {
            let is_late = head >= one.sent_at.saturating_add(RETRY_BLOCKS);
            if one.mined_at.is_some() || (!is_late && !is_new_connection) {
                continue;
            }
            if is_late {
                one.gas_price = one.raised_price();
                one.sent_at = head;
            }
            if let Err(error) = self.submit(*tx_nonce, one).await {
                // A pool refuses what it has. That is no fault.
                tracing::debug!(tx_nonce, %error, "a transaction was not taken again");
            }
        }
        self.waiting = waiting;
        self.keep_votes();
    }

    /// Notes which transactions are in blocks, and forgets those that need no more care.
    async fn note_mined(&mut self, head: u64) -> Result<(), ScsClientError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let account = self.client.chain_info(self.address, Vec::new()).await?;
        let next = account.map_or(0, |account| account.tx_nonce);
        note_next_nonce(&mut self.waiting, next, head);
        self.keep_votes();
        Ok(())
    }

    async fn submit(&self, tx_nonce: u64, waiting: &Waiting) -> Result<(), ScsClientError> {
        let empty = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(waiting.gas_price),
            gas: WITHDRAWAL_GAS,
            to: Some(self.address),
            ..UnsignedTransaction::default()
        };
        let unsigned = if waiting.is_withdrawn {
            empty
        } else {
            UnsignedTransaction {
                gas: waiting.outlay.gas,
                to: Some(waiting.outlay.chain),
                input: waiting.outlay.data.clone(),
                ..empty
            }
        };
        let signed = unsigned.sign(&self.key, self.chain_id, TxForm::Native);
        self.client.remote_call(signed.encode_raw().into()).await
    }
}

/// Notes that transactions below the nonce `next` are in blocks at this head, and others are not.
fn note_next_nonce(waiting: &mut BTreeMap<u64, Waiting>, next: u64, head: u64) {
    waiting.retain(|tx_nonce, one| {
        one.mined_at = (*tx_nonce < next).then(|| one.mined_at.unwrap_or(head));
        one.is_kept(head)
    });
}

/// The next nonce for which nothing waits, from the one on that the VNODE has told. Votes of before
/// a restart can have higher nonces than transactions of then that are lost.
fn free_nonce(waiting: &BTreeMap<u64, Waiting>, told: u64) -> u64 {
    let mut tx_nonce = told;
    while waiting.contains_key(&tx_nonce) {
        tx_nonce += 1;
    }
    tx_nonce
}

/// A price 10% higher, but not above `max`.
fn raised(gas_price: u64, max: u64) -> u64 {
    (gas_price + gas_price.div_ceil(10)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_rise_as_far_as_a_chain_base_takes_them() {
        let raised = |price| raised(price, GAS_PRICE_MAX);
        assert_eq!(raised(GAS_PRICE_FIRST), 19_800_000_000);
        assert_eq!(raised(19_800_000_000), GAS_PRICE_MAX);
        assert_eq!(raised(GAS_PRICE_MAX), GAS_PRICE_MAX);
    }

    fn waiting(call: BaseCall) -> Waiting {
        Waiting {
            outlay: Outlay {
                chain: Address::ZERO,
                data: call.data(),
                purpose: Purpose::Engine(call),
                gas: 1,
            },
            gas_price: GAS_PRICE_MAX,
            sent_at: 1,
            mined_at: None,
            is_withdrawn: false,
        }
    }

    #[test]
    fn a_vote_is_kept_until_no_branch_can_take_it() {
        let hash = primitives::B256::ZERO;
        let vote = BaseCall::Vote {
            place: 0,
            hash,
            redeem: true,
        };
        let others = BaseCall::Redeem { hash, left: 1 };
        let mut all = BTreeMap::from([(7, waiting(others)), (8, waiting(vote))]);
        note_next_nonce(&mut all, 7, 10);
        assert!(all.len() == 2 && all.values().all(|one| one.mined_at.is_none()));
        note_next_nonce(&mut all, 9, 11);
        assert_eq!(
            all.iter()
                .map(|(nonce, one)| (*nonce, one.mined_at))
                .collect::<Vec<_>>(),
            [(8, Some(11))]
        );
        // Its block is taken back: it waits again.
        note_next_nonce(&mut all, 8, 12);
        assert_eq!(all[&8].mined_at, None);
        note_next_nonce(&mut all, 9, 13);
        note_next_nonce(&mut all, 9, 13 + VOTE_KEPT_BLOCKS);
        assert_eq!(all[&8].mined_at, Some(13));
        note_next_nonce(&mut all, 9, 14 + VOTE_KEPT_BLOCKS);
        assert!(all.is_empty());
    }

    #[tokio::test]
    async fn votes_are_known_after_a_restart() {
        use scs_service::client::ScsClientConfig;

        let home = tempfile::tempdir().expect("a folder");
        let folders = Folders::open(home.path()).expect("writable");
        let account = || {
            let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
            let config = ScsClientConfig::new("127.0.0.1:9", scs_service::ScsId(key.address()), 100);
            BaseAccount::new(ScsClient::start(config).0, key, 100, folders.clone())
        };
        let mut first = account();
        let vote = BaseCall::Vote {
            place: 2,
            hash: primitives::B256::repeat_byte(3),
            redeem: true,
        };
        first
            .waiting
            .insert(5, waiting(BaseCall::BackupUpToDate { place: 1 }));
        first.waiting.insert(7, waiting(vote.clone()));
        first.keep_votes();
        let mut second = account();
        assert_eq!(second.waiting, BTreeMap::from([(7, waiting(vote.clone()))]));
        // A transaction that was lost leaves no hole.
        assert_eq!([5, 6, 7].map(|told| free_nonce(&second.waiting, told)), [5, 6, 8]);
        // The VNODE is away, so that nothing can be sent now.
        second.withdraw(Address::ZERO, vote.clone()).await;
        assert!(account().waiting[&7].is_withdrawn);
        note_next_nonce(&mut second.waiting, 8, 10);
        note_next_nonce(&mut second.waiting, 8, 11 + VOTE_KEPT_BLOCKS);
        second.keep_votes();
        assert!(account().waiting.is_empty());
        // Only a vote that the VNODE may have is still looked after.
        second.waiting.insert(8, waiting(vote.clone()));
        second.keep_votes();
        let no_answer = ScsClientError::Timeout(std::time::Duration::from_secs(1));
        second.take_answer(8, Err(no_answer)).expect("it may be there");
        assert!(account().waiting.contains_key(&8));
        let not_sent = second.take_answer(8, Err(ScsClientError::NotConnected));
        assert!(not_sent.is_err() && account().waiting.is_empty());
        // A damaged file is no reason not to start.
        std::fs::write(home.path().join("votes.json"), "[1").expect("writable");
        assert!(account().waiting.is_empty());
    }

    #[test]
    fn a_withdrawn_vote_is_replaced_at_a_higher_price() {
        let mut one = waiting(BaseCall::BackupUpToDate { place: 1 });
        assert_eq!(one.raised_price(), GAS_PRICE_MAX);
        one.is_withdrawn = true;
        assert_eq!(one.raised_price(), GAS_PRICE_MAX + GAS_PRICE_MAX / 10);
        one.gas_price = WITHDRAWAL_PRICE_MAX;
        assert_eq!(one.raised_price(), WITHDRAWAL_PRICE_MAX);
    }
}
