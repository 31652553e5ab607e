//! The checks of a listener: TLS, tokens, and the rate of each client address.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemon::tls::ServerTls;
use daemon::{ClientId, ClientRates};
use parking_lot::Mutex;
use warp::http::HeaderMap;
use warp::http::header::AUTHORIZATION;

use super::grant::Grant;
use super::tokens::{TokenPlace, Tokens, Unauthorized, hold_place};

/// The checks of a listener. By default there are none. Listeners that have the same value here
/// count together.
#[derive(Clone, Default)]
pub struct Guards {
    /// Certificate and key; `None` for plain text.
    pub tls: Option<Arc<ServerTls>>,
    /// The tokens that clients need; `None` if they need none.
    pub tokens: Option<Arc<Tokens>>,
    /// The rate of calls of each client address; `None` for no limit.
    pub rates: Option<Arc<ClientRates>>,
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guards")
            .field("tls", &self.tls.is_some())
            .field("tokens", &self.tokens.is_some())
            .field("rates", &self.rates.is_some())
            .finish()
    }
}

/// The reason why a request is not served.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum AccessRefusal {
    /// The client has no token.
    #[error(transparent)]
    Unauthorized(#[from] Unauthorized),
    /// The client calls too often.
    #[error("too many requests: try again in {} s", wait.as_secs_f64().ceil().max(1.0))]
    Rate {
        /// The time until it may call again.
        wait: Duration,
    },
    /// As many connections use the token as may use it.
    #[error("got another connection with this token, expected at most {0} at the same time")]
    Connections(usize),
}

impl AccessRefusal {
    /// Whether the client has sent a token, and it was refused.
    pub(crate) const fn is_wrong_token(&self) -> bool {
        matches!(self, Self::Unauthorized(reason) if !matches!(reason, Unauthorized::Missing))
    }
}

impl Guards {
    /// Whether requests are checked at all.
    pub(crate) const fn check_requests(&self) -> bool {
        self.tokens.is_some() || self.rates.is_some()
    }

    /// The grant of `client` for a request with these headers. A call is paid for. `place` is the
    /// connection's place among those of its token.
    ///
    /// # Errors
    /// [`AccessRefusal`] if the request is not served.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        client: ClientId,
        place: &Mutex<Option<TokenPlace>>,
    ) -> Result<Grant, AccessRefusal> {
        let Some(tokens) = &self.tokens else {
            let mut grant = Grant::new(client, None, self.rates.as_ref());
            grant.prepay().map_err(|wait| AccessRefusal::Rate { wait })?;
            return Ok(grant);
        };
        let now_secs = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().as_secs_f64()
        };
        let sent = headers.get_all(AUTHORIZATION).iter();
        let found = match tokens.find(sent.map(|header| header.as_bytes()), now_secs) {
            Ok(found) => found,
            Err(refused) => {
                // A client that tries tokens pays for it like for calls.
                let mut guess = Grant::new(client, None, self.rates.as_ref());
                guess.prepay().map_err(|wait| AccessRefusal::Rate { wait })?;
                return Err(refused.into());
            }
        };
        let entry = Arc::clone(&found.entry);
        let mut grant = Grant::new(client, Some(found), self.rates.as_ref());
        grant.prepay().map_err(|wait| AccessRefusal::Rate { wait })?;
        hold_place(&entry, place).map_err(AccessRefusal::Connections)?;
        Ok(grant)
    }
}

#[cfg(test)]
mod tests {
    use daemon::TokenRate;
    use warp::http::HeaderValue;

    use super::super::TokenRule;
    use super::super::tokens::tests::rule;
    use super::*;
    use crate::caller::remote_client;

    fn rate(per_second: f64, burst: f64) -> TokenRate {
        TokenRate { burst, per_second }
    }

    fn guards(rules: Option<Vec<TokenRule>>, of_address: Option<TokenRate>) -> Guards {
        Guards {
            tls: None,
            tokens: rules.map(Tokens::new).map(Arc::new),
            rates: of_address.map(ClientRates::new).map(Arc::new),
        }
    }

    fn headers(token: Option<&str>) -> HeaderMap {
        let value = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")).expect("text"));
        value.into_iter().map(|value| (AUTHORIZATION, value)).collect()
    }

    fn admit(guards: &Guards, token: Option<&str>, address: u8) -> Result<Grant, AccessRefusal> {
        guards.admit(&headers(token), remote_client(address), &Mutex::default())
    }

    /// The number of requests that are admitted until one is refused.
    fn admitted(guards: &Guards, token: Option<&str>, address: u8) -> usize {
        let admit = |_| admit(guards, token, address).ok();
        (0..100).map_while(admit).count()
    }

    #[test]
    fn methods_are_those_of_the_rule() {
        let mut limited = rule("one", Some("first"), "net");
        limited.methods.insert("mc_call".to_owned());
        let guards = guards(Some(vec![limited]), None);
        let grant = admit(&guards, Some("first"), 1).expect("a token");
        assert!(grant.is_limited());
        for (module, name, expected) in [
            ("net", "net_version", true),
            ("mc", "mc_call", true),
            ("mc", "mc_getBalance", false),
            ("rpc", "rpc_modules", true),
        ] {
            assert_eq!(grant.permits(module, name), expected, "{name}");
        }
        let all = Grant::default();
        assert!(!all.is_limited() && all.permits("admin", "admin_peers"));
        assert_eq!(all.pay(1000), (1000, None));
    }

    #[test]
    fn each_address_has_a_rate() {
        let guards = guards(None, Some(rate(0.001, 4.0)));
        assert_eq!([admitted(&guards, None, 1), admitted(&guards, None, 2)], [4, 4]);
        let refused = admit(&guards, None, 1).expect_err("too many");
        assert!(matches!(refused, AccessRefusal::Rate { wait } if wait > Duration::from_secs(900)));
    }

    #[test]
    fn calls_of_a_batch_are_counted_one_by_one() {
        let guards = guards(None, Some(rate(0.001, 10.0)));
        let grant = admit(&guards, None, 1).expect("the first");
        let (paid, error) = grant.pay(4);
        assert_eq!((paid, error), (4, None), "one of them is paid for already");
        let (paid, error) = grant.for_connection().pay(8);
        assert_eq!(paid, 6);
        let error = error.expect("two are not paid for");
        assert_eq!(error.code(), -32005);
        assert!(error.message().starts_with("limit exceeded: "), "{error}");
    }

    #[test]
    fn a_token_has_a_rate_of_its_own_in_place_of_the_address() {
        let own = |name, token, per_second| TokenRule {
            rate: Some(per_second),
            ..rule(name, token, "mc")
        };
        let rules = vec![
            own("own", Some("first"), rate(0.001, 7.0)),
            rule("plain", Some("second"), "mc"),
            own("anybody", None, rate(0.001, 2.0)),
        ];
        let guards = guards(Some(rules), Some(rate(0.001, 3.0)));
        assert_eq!(admitted(&guards, Some("second"), 1), 3, "the rate of the address");
        assert_eq!(admitted(&guards, Some("first"), 1), 7);
        assert_eq!(
            admitted(&guards, Some("first"), 2),
            0,
            "all addresses pay together"
        );
        let each = [admitted(&guards, None, 1), admitted(&guards, None, 2)];
        assert_eq!(each, [2, 2], "without a token each address pays for itself");
    }

    #[test]
    fn whoever_tries_tokens_pays() {
        let guards = guards(
            Some(vec![rule("one", Some("first"), "mc")]),
            Some(rate(0.001, 3.0)),
        );
        let refused: Vec<_> = (0..4)
            .map(|_| admit(&guards, Some("x"), 1).expect_err("wrong"))
            .collect();
        assert_eq!(refused[2], Unauthorized::Unknown.into());
        assert!(matches!(refused[3], AccessRefusal::Rate { .. }), "{refused:?}");
        assert!(admit(&guards, Some("first"), 2).is_ok());
    }

    #[tokio::test]
    async fn who_holds_a_grant_hears_that_it_is_withdrawn() {
        let guards = guards(Some(vec![rule("one", Some("first"), "mc")]), None);
        let grant = admit(&guards, Some("first"), 1).expect("a token");
        let tokens = guards.tokens.as_ref().expect("tokens");
        let (withdrawn, ()) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(20), grant.ended()),
            async { tokens.replace(Vec::new()) }
        );
        assert!(withdrawn.is_ok());
        assert_eq!(tokens.count(), 0);
    }
}
