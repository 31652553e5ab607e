//! The grant of a client: which methods it may call, and how often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::{ClientId, ClientRates};
use tokio::time::timeout_at;

use super::tokens::{FoundToken, TokenEntry};
use crate::error::RpcError;
use crate::modules::MODULE_RPC;

/// All clients of a token that has a rate of its own pay from one bucket: that of this client.
const ALL_CLIENTS: ClientId = ClientId::Local(0);

/// The methods and the rate that a client was granted. The default is everything, as on the local
/// socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grant {
    entry: Option<Arc<TokenEntry>>,
    /// The time at which the token expires, if it does.
    expires_at: Option<Instant>,
    meter: Option<CallMeter>,
    /// A call was paid for already.
    prepaid: bool,
}

/// The bucket that calls are paid from.
#[derive(Clone, Debug)]
struct CallMeter {
    rates: Arc<ClientRates>,
    payer: ClientId,
}

impl Grant {
    /// The grant of `client`, with the token that it has shown, if any. `rates` hold for each
    /// address.
    pub(super) fn new(client: ClientId, token: Option<FoundToken>, rates: Option<&Arc<ClientRates>>) -> Self {
        let expires_at = token.as_ref().and_then(|token| {
            let left = Duration::try_from_secs_f64(token.expires_in_secs?).ok()?;
            Instant::now().checked_add(left)
        });
        let entry = token.map(|token| token.entry);
        let own = entry.as_ref().and_then(|entry| {
            let rates = Arc::clone(entry.rates.as_ref()?);
            let payer = if entry.is_anonymous() { client } else { ALL_CLIENTS };
            Some(CallMeter { rates, payer })
        });
        let of_address = || {
            let rates = Arc::clone(rates?);
            Some(CallMeter { rates, payer: client })
        };
        Self {
            entry,
            expires_at,
            meter: own.or_else(of_address),
            prepaid: false,
        }
    }

    /// Pays for a call before it is read.
    ///
    /// # Errors
    /// If there is no token for it, the time until there is one.
    pub(super) fn prepay(&mut self) -> Result<(), Duration> {
        let Some(CallMeter { rates, payer }) = &self.meter else {
            return Ok(());
        };
        let now = Instant::now();
        if rates.take_up_to(*payer, 1, now) == 0 {
            return Err(rates.until_token(*payer, now));
        }
        self.prepaid = true;
        Ok(())
    }

    /// The same, without what was paid for.
    pub(crate) const fn for_connection(mut self) -> Self {
        self.prepaid = false;
        self
    }

    /// Pays for `count` calls of a message. Returns how many of them may run, the first ones, and
    /// the error for the others.
    pub(crate) fn pay(&self, count: usize) -> (usize, Option<RpcError>) {
        let Some(CallMeter { rates, payer }) = &self.meter else {
            return (count, None);
        };
        let paid = usize::from(self.prepaid).min(count);
        if paid == count {
            return (count, None);
        }
        let now = Instant::now();
        let paid = paid + rates.take_up_to(*payer, count - paid, now);
        if paid == count {
            return (count, None);
        }
        let rate = rates.rate();
        let wait = rates.until_token(*payer, now);
        (
            paid,
            Some(RpcError::limit_exceeded(rate.per_second, rate.burst, wait)),
        )
    }

    /// Whether some methods may not be called.
    pub(crate) const fn is_limited(&self) -> bool {
        self.entry.is_some()
    }

    /// Whether the method with this name, of this module, may be called.
    pub(crate) fn permits(&self, module: &str, name: &str) -> bool {
        self.entry.as_ref().is_none_or(|entry| {
            module == MODULE_RPC || entry.rule.modules.contains(module) || entry.rule.methods.contains(name)
        })
    }

    /// Waits until the token is withdrawn or expires. Waits for ever if there is none.
    pub(crate) async fn ended(&self) {
        let Some(entry) = &self.entry else {
            return std::future::pending().await;
        };
        // An error means that the sender is gone, and the sender is in `entry`.
        let mut watched = entry.withdrawn.subscribe();
        let withdrawn = watched.wait_for(|withdrawn| *withdrawn);
        match self.expires_at {
            Some(end) => drop(timeout_at(end.into(), withdrawn).await),
            None => drop(withdrawn.await),
        }
    }
}
