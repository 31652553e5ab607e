//! Subnets that the node joins because the contract of an application chain asks for it.
//!
//! A server of this node that speaks for a chain lets the chain's contract be asked: its view
//! [`SUBNET_VIEW`] says whether a subnet carries the chain's messages. If it does, the node joins
//! the subnet. The node leaves it after [`SILENCE_MAX`] without a message, or when the contract
//! does not ask for it any more. Knows times and contracts; knows no sockets. Source: docs/p2p.md,
//! 5.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chain::Chain;
use chain::call::{CallOutcome, CallRequest, StateAt};
use primitives::Address;

/// The selector of the view.
const SUBNET_VIEW: [u8; 4] = [0x90, 0x34, 0x8e, 0xd6];
/// Gas and time of a call of the view. It reads a variable.
const VIEW_GAS: u64 = 1_000_000;
const VIEW_TIMEOUT: Duration = Duration::from_millis(200);
/// A subnet without a message for this long is left.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2 * 3600);
/// A contract is asked at this interval.
const ASK_INTERVAL: Duration = Duration::from_secs(60);
/// Contracts that are asked at a time.
const ASKED_MAX: usize = 4;
/// Chains that are remembered. Of more, the one that was silent longest is forgotten.
const CALLED_MAX: usize = 256;

/// A chain for which a server of this node has spoken.
#[derive(Clone, Copy, Debug)]
struct CalledSubnet {
    /// The time of the last message in either direction.
    last_message: Instant,
    /// The time at which the contract was asked.
    asked: Option<Instant>,
    is_enabled: bool,
}

#[derive(Debug, Default)]
pub(super) struct CalledSubnets(BTreeMap<Address, CalledSubnet>);

impl CalledSubnets {
    /// A server of this node has sent a message for a chain.
    pub(super) fn spoke(&mut self, address: Address, now: Instant) {
        if !self.0.contains_key(&address) && self.0.len() >= CALLED_MAX {
            let oldest = self.0.iter().min_by_key(|(_, called)| called.last_message);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.0.remove(&oldest);
            }
        }
        let new = CalledSubnet {
            last_message: now,
            asked: None,
            is_enabled: false,
        };
        self.0.entry(address).or_insert(new).last_message = now;
    }

    /// A message was seen on the subnet at this time.
    pub(super) fn heard(&mut self, address: &Address, at: Instant) {
        if let Some(called) = self.0.get_mut(address) {
            called.last_message = called.last_message.max(at);
        }
    }

    /// Forgets the chains that are silent. Returns those whose contracts must be asked now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Address> {
        self.0
            .retain(|_, called| now.saturating_duration_since(called.last_message) < SILENCE_MAX);
        let is_due = |called: &CalledSubnet| {
            let asked = called.asked.map(|asked| now.saturating_duration_since(asked));
            asked.is_none_or(|asked| asked >= ASK_INTERVAL)
        };
        let due = self.0.iter().filter(|(_, called)| is_due(called));
        due.map(|(address, _)| *address).take(ASKED_MAX).collect()
    }

    /// The contract was asked.
    pub(super) fn answered(&mut self, address: &Address, is_enabled: bool, now: Instant) {
        if let Some(called) = self.0.get_mut(address) {
            called.asked = Some(now);
            called.is_enabled = is_enabled;
        }
    }

    /// The chains whose subnets the node joins.
    pub(super) fn enabled(&self) -> impl Iterator<Item = Address> {
        let enabled = self.0.iter().filter(|(_, called)| called.is_enabled);
        enabled.map(|(address, _)| *address)
    }
}

/// Whether the contract of a chain asks for a subnet: its view answers with something else than 0.
/// If it cannot be asked, the answer is no.
pub(super) fn asks_for_subnet(chain: &Chain, address: Address) -> bool {
    let request = CallRequest {
        to: Some(address),
        gas: Some(VIEW_GAS),
        input: SUBNET_VIEW.to_vec().into(),
        ..CallRequest::default()
    };
    let outcome = chain.view().map(|view| {
        let head = StateAt::Block(view.head_number());
        view.call(head, &request, VIEW_TIMEOUT)
    });
    match outcome {
        Ok(Ok(CallOutcome::Success { output, .. })) => output.iter().any(|byte| *byte != 0),
        Ok(Ok(_)) => false,
        Ok(Err(error)) => {
            tracing::debug!(subnet = %address, %error, "a contract is not asked for its subnet");
            false
        }
        Err(error) => {
            tracing::warn!(subnet = %address, %error, "a contract is not asked for its subnet");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn chain(mark: u8) -> Address {
        Address::repeat_byte(mark)
    }

    fn enabled(called: &CalledSubnets) -> Vec<Address> {
        called.enabled().collect()
    }

    #[test]
    fn a_subnet_ends_after_two_hours_of_silence() {
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let mut called = CalledSubnets::default();
        called.spoke(chain(1), start);
        called.spoke(chain(2), start);
        assert_eq!(called.due(start), [chain(1), chain(2)]);
        called.answered(&chain(1), true, start);
        called.answered(&chain(2), false, start);
        assert_eq!(enabled(&called), [chain(1)]);
        assert!(called.due(start).is_empty(), "both were asked");
        assert_eq!(called.due(at(1)).len(), 2, "they are asked again");
        // A message of another node counts, too.
        called.heard(&chain(1), at(60));
        called.heard(&chain(1), at(30));
        called.due(at(179));
        assert_eq!(enabled(&called), [chain(1)]);
        called.due(at(180));
        assert!(enabled(&called).is_empty());
        assert!(called.0.is_empty());
        // The next message begins it again.
        called.spoke(chain(1), at(300));
        assert_eq!(called.due(at(300)), [chain(1)]);
        called.answered(&chain(1), true, at(300));
        assert_eq!(enabled(&called), [chain(1)]);
        // The contract can end it.
        called.answered(&chain(1), false, at(301));
        assert!(enabled(&called).is_empty());
    }

    #[test]
    fn chains_have_a_bound() {
        let start = Instant::now();
        let mut called = CalledSubnets::default();
        for mark in 0..=CALLED_MAX {
            let mut address = Address::ZERO;
            address.0[..8].copy_from_slice(&(mark as u64).to_be_bytes());
            called.spoke(address, start + Duration::from_secs(mark as u64));
        }
        assert_eq!(called.0.len(), CALLED_MAX);
        assert!(!called.0.contains_key(&Address::ZERO), "the oldest is forgotten");
        assert_eq!(called.due(start).len(), ASKED_MAX);
    }
}
