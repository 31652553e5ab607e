//! Tokens: what each may call, how often, and on how many connections.
//!
//! The rules can be replaced while the servers run. A token whose rule stays the same goes on as it
//! is. One whose rule has changed or gone is withdrawn: connections that last are closed, and other
//! requests are judged by the new rules.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use daemon::{ClientRates, SecretDigest, TokenRate};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::credentials::{Credentials, CredentialsError};
use super::jwt::{self, JwtError};
use crate::modules::Modules;

/// A key that clients sign tokens with.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey(pub Zeroizing<Vec<u8>>);

/// The proof that a client has a token.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// Nothing: the rule is for requests without a token.
    None,
    /// The token itself.
    Bearer(SecretDigest),
    /// A JWT that is signed with this key (HS256).
    Jwt(TokenKey),
}

/// Shows no secret.
impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer (not shown)",
            Self::Jwt(_) => "Jwt (not shown)",
        })
    }
}

/// The rights of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRule {
    /// The name in the log, and the user name of `Basic`.
    pub name: String,
    /// The proof that a client has the token.
    pub secret: TokenSecret,
    /// Modules that it may call, as far as the listener serves them.
    pub modules: Modules,
    /// Methods that it may call in addition, by their own names.
    pub methods: BTreeSet<String>,
    /// The rate of calls with the token. Requests without a token have this rate for each address.
    /// `None`: the rate of the listener holds for each address.
    pub rate: Option<TokenRate>,
    /// Most connections that use it at the same time.
    pub connections_max: Option<usize>,
}

/// A token that is in use.
#[derive(Debug)]
pub(crate) struct TokenEntry {
    pub(super) rule: TokenRule,
    pub(super) rates: Option<Arc<ClientRates>>,
    connections: AtomicUsize,
    pub(super) withdrawn: watch::Sender<bool>,
}

impl TokenEntry {
    fn new(rule: TokenRule) -> Self {
        Self {
            rates: rule.rate.map(ClientRates::new).map(Arc::new),
            rule,
            connections: AtomicUsize::new(0),
            withdrawn: watch::Sender::new(false),
        }
    }

    /// Whether the rule is for requests without a token.
    pub(super) fn is_anonymous(&self) -> bool {
        self.rule.secret == TokenSecret::None
    }
}

/// The token of a request.
#[derive(Debug)]
pub(super) struct FoundToken {
    pub(super) entry: Arc<TokenEntry>,
    /// Seconds from now until it expires, if it does.
    pub(super) expires_in_secs: Option<f64>,
}

impl FoundToken {
    fn lasting(entry: &Arc<TokenEntry>) -> Self {
        Self {
            entry: Arc::clone(entry),
            expires_in_secs: None,
        }
    }
}

/// The place of a connection among those of its token. Dropping it makes the place free.
#[derive(Debug)]
pub(crate) struct TokenPlace(Arc<TokenEntry>);

impl Drop for TokenPlace {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// Makes `held` the place of a connection that uses `entry`.
///
/// # Errors
/// If all places of `entry` are taken, the most connections that it may have.
pub(super) fn hold_place(entry: &Arc<TokenEntry>, held: &Mutex<Option<TokenPlace>>) -> Result<(), usize> {
    let mut held = held.lock();
    if held.as_ref().is_some_and(|place| Arc::ptr_eq(&place.0, entry)) {
        return Ok(());
    }
    let max = entry.rule.connections_max.unwrap_or(usize::MAX);
    let take = |open: usize| (open < max).then_some(open + 1);
    if entry.connections.fetch_update(Relaxed, Relaxed, take).is_err() {
        return Err(max);
    }
    *held = Some(TokenPlace(Arc::clone(entry)));
    Ok(())
}

/// The reason why a client has no token.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Unauthorized {
    /// There is no header, and requests without a token are not served.
    #[error("got no token, expected Authorization: Bearer TOKEN")]
    Missing,
    /// There is more than one header.
    #[error("got more than one Authorization header, expected one")]
    Several,
    /// The header is not understood.
    #[error(transparent)]
    Form(#[from] CredentialsError),
    /// No token is like this.
    #[error("got an unknown token")]
    Unknown,
    /// A token that was signed by its client is refused.
    #[error(transparent)]
    Jwt(#[from] JwtError),
}

/// All tokens of a node.
#[derive(Debug)]
pub struct Tokens(RwLock<Arc<TokenList>>);

/// The tokens at one time.
#[derive(Debug)]
struct TokenList {
    /// In the order of the rules.
    entries: Vec<Arc<TokenEntry>>,
    /// The entries of bearer tokens by digest. The map's own hash has a secret key, so the time of
    /// a search says nothing about the digests that are here.
    bearers: HashMap<[u8; 32], Arc<TokenEntry>>,
}

impl TokenList {
    fn new(entries: Vec<Arc<TokenEntry>>) -> Self {
        let bearer = |entry: &Arc<TokenEntry>| match &entry.rule.secret {
            TokenSecret::Bearer(SecretDigest(digest)) => Some((*digest, Arc::clone(entry))),
            TokenSecret::None | TokenSecret::Jwt(_) => None,
        };
        Self {
            bearers: entries.iter().filter_map(bearer).collect(),
            entries,
        }
    }

    fn find_bearer(&self, token: &str) -> Result<FoundToken, Unauthorized> {
        let entry = self.bearers.get(&SecretDigest::of(token).0);
        entry.map(FoundToken::lasting).ok_or(Unauthorized::Unknown)
    }
}

impl Tokens {
    /// Tokens with these rules. The first rule without a secret is for requests without a token.
    pub fn new(rules: Vec<TokenRule>) -> Self {
        let entries = rules.into_iter().map(TokenEntry::new).map(Arc::new);
        Self(RwLock::new(Arc::new(TokenList::new(entries.collect()))))
    }

    /// Replaces the rules. Rules that stay the same go on; the others are withdrawn.
    pub fn replace(&self, rules: Vec<TokenRule>) {
        let mut current = self.0.write();
        let old = Arc::clone(&current);
        let entries = rules.into_iter().map(|rule| {
            let same = old.entries.iter().find(|entry| entry.rule == rule);
            same.map_or_else(|| Arc::new(TokenEntry::new(rule)), Arc::clone)
        });
        *current = Arc::new(TokenList::new(entries.collect()));
        let gone = |entry: &&Arc<TokenEntry>| !current.entries.iter().any(|kept| Arc::ptr_eq(kept, entry));
        for entry in old.entries.iter().filter(gone) {
            entry.withdrawn.send_replace(true);
        }
    }

    /// The number of rules.
    pub fn count(&self) -> usize {
        self.0.read().entries.len()
    }

    /// The rule for a client that sends these `Authorization` headers. `now_secs` tells the seconds
    /// since 1970; a JWT needs them.
    pub(super) fn find<'h>(
        &self,
        mut headers: impl Iterator<Item = &'h [u8]>,
        now_secs: impl FnOnce() -> f64,
    ) -> Result<FoundToken, Unauthorized> {
        let tokens = Arc::clone(&self.0.read());
        let Some(header) = headers.next() else {
            let anonymous = tokens.entries.iter().find(|entry| entry.is_anonymous());
            return anonymous.map(FoundToken::lasting).ok_or(Unauthorized::Missing);
        };
        if headers.next().is_some() {
            return Err(Unauthorized::Several);
        }
        match Credentials::parse(header)? {
            Credentials::Bearer(token) => {
                tokens
                    .find_bearer(token)
                    .or_else(|unknown| match jwt::is_jwt(token) {
                        true => find_jwt(&tokens.entries, token, now_secs()),
                        false => Err(unknown),
                    })
            }
            Credentials::Basic { name, password } => {
                tokens
                    .find_bearer(&password)
                    .and_then(|found| match found.entry.rule.name == *name {
                        true => Ok(found),
                        false => Err(Unauthorized::Unknown),
                    })
            }
        }
    }
}

fn find_jwt(entries: &[Arc<TokenEntry>], token: &str, now_secs: f64) -> Result<FoundToken, Unauthorized> {
    let mut refused = Unauthorized::Unknown;
    for entry in entries {
        let TokenSecret::Jwt(TokenKey(key)) = &entry.rule.secret else {
            continue;
        };
        match jwt::verify_jwt(token, key, now_secs) {
            Ok(expires_in_secs) => {
                return Ok(FoundToken {
                    entry: Arc::clone(entry),
                    expires_in_secs,
                });
            }
            Err(JwtError::Signature) => {}
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const NOW: f64 = 1_700_000_000.0;
    const KEY: [u8; 32] = [9; 32];

    pub(crate) fn rule(name: &str, token: Option<&str>, modules: &str) -> TokenRule {
        let digest = |token| TokenSecret::Bearer(SecretDigest::of(token));
        TokenRule {
            name: name.to_owned(),
            secret: token.map_or(TokenSecret::None, digest),
            modules: modules.parse().expect("modules"),
            methods: BTreeSet::new(),
            rate: None,
            connections_max: None,
        }
    }

    fn signed(name: &str) -> TokenRule {
        TokenRule {
            secret: TokenSecret::Jwt(TokenKey(Zeroizing::new(KEY.to_vec()))),
            ..rule(name, None, "mc")
        }
    }

    #[track_caller]
    fn check(tokens: &Tokens, headers: &[&str], expected: Result<&str, Unauthorized>) {
        let found = tokens.find(headers.iter().map(|header| header.as_bytes()), || NOW);
        let found = found.map(|found| found.entry.rule.name.clone());
        assert_eq!(found, expected.map(str::to_owned), "{headers:?}");
    }

    #[test]
    fn the_token_decides() {
        let rules = vec![
            rule("one", Some("first"), "mc"),
            signed("signer"),
            rule("two", Some("second"), "net"),
        ];
        let tokens = Tokens::new(rules.clone());
        check(&tokens, &["Bearer first"], Ok("one"));
        check(&tokens, &["bearer second"], Ok("two"));
        // `two:second` and `one:second`.
        check(&tokens, &["Basic dHdvOnNlY29uZA=="], Ok("two"));
        check(&tokens, &["Basic b25lOnNlY29uZA=="], Err(Unauthorized::Unknown));
        for wrong in [
            "Bearer third",
            "Bearer firs",
            "Bearer firstx",
            "Bearer First",
            "Bearer a.b",
        ] {
            check(&tokens, &[wrong], Err(Unauthorized::Unknown));
        }
        check(&tokens, &[], Err(Unauthorized::Missing));
        check(
            &tokens,
            &["Bearer first", "Bearer first"],
            Err(Unauthorized::Several),
        );
        check(&tokens, &["first"], Err(CredentialsError::Form.into()));
        let jwt = jwt::sign(r#"{"alg":"HS256"}"#, r#"{"iat":1700000000}"#, &KEY);
        check(&tokens, &[&format!("Bearer {jwt}")], Ok("signer"));
        let foreign = jwt::sign(r#"{"alg":"HS256"}"#, r#"{"iat":1700000000}"#, &[1; 32]);
        check(
            &tokens,
            &[&format!("Bearer {foreign}")],
            Err(Unauthorized::Unknown),
        );
        let none = jwt::sign(r#"{"alg":"none"}"#, r#"{"iat":1700000000}"#, &KEY);
        check(
            &tokens,
            &[&format!("Bearer {none}")],
            Err(JwtError::Algorithm.into()),
        );
        let open = Tokens::new([rules, vec![rule("anybody", None, "net")]].concat());
        check(&open, &[], Ok("anybody"));
        check(&open, &["Bearer third"], Err(Unauthorized::Unknown));
        assert!(!format!("{open:?}").contains("9, 9"), "no secret is shown");
    }

    #[test]
    fn rules_that_change_are_withdrawn() {
        let tokens = Tokens::new(vec![
            rule("one", Some("first"), "mc"),
            rule("two", Some("second"), "mc"),
            rule("three", Some("third"), "mc"),
        ]);
        let find = |token: &str| tokens.find(std::iter::once(token.as_bytes()), || NOW);
        let [one, two, three] =
            ["Bearer first", "Bearer second", "Bearer third"].map(|token| find(token).expect("known").entry);
        tokens.replace(vec![
            rule("two", Some("second"), "net"),
            rule("one", Some("first"), "mc"),
        ]);
        let withdrawn = [&one, &two, &three].map(|entry| *entry.withdrawn.borrow());
        assert_eq!(withdrawn, [false, true, true]);
        assert!(Arc::ptr_eq(&find("Bearer first").expect("known").entry, &one));
        assert!(!Arc::ptr_eq(&find("Bearer second").expect("known").entry, &two));
        assert!(find("Bearer third").is_err());
        assert_eq!(tokens.count(), 2);
    }

    #[test]
    fn connections_of_a_token_are_counted() {
        let limited = |name, max| {
            Arc::new(TokenEntry::new(TokenRule {
                connections_max: max,
                ..rule(name, Some(name), "mc")
            }))
        };
        let (two, any) = (limited("two", Some(2)), limited("any", None));
        let connections: [Mutex<Option<TokenPlace>>; 3] = Default::default();
        let hold = |entry, index: usize| hold_place(entry, &connections[index]);
        assert_eq!([hold(&two, 0), hold(&two, 1)], [Ok(()), Ok(())]);
        assert_eq!(hold(&two, 1), Ok(()), "it has a place");
        assert_eq!(hold(&two, 2), Err(2));
        assert_eq!(hold(&any, 1), Ok(()), "it uses another token now");
        assert_eq!(hold(&two, 2), Ok(()));
        drop(connections);
        assert_eq!(two.connections.load(Relaxed), 0);
    }
}
