//! Tokens that a client signs itself: JWT with HMAC-SHA256 (RFC 7519, HS256).
//!
//! The claims are those of the authentication between Ethereum's clients (execution-apis, engine,
//! authentication): `iat`, when the token was made, must be near the present. `exp` and `nbf` are
//! respected if they are there. Other claims are ignored. A header with `crit` is refused: it names
//! extensions that must be understood (RFC 7515, 4.1.11), and none is understood here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use sha2::Sha256;

/// The greatest difference between `iat` and the present, in seconds.
const AGE_SECS_MAX: f64 = 60.0;

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JwtError {
    /// The text is not a JWT.
    #[error("got a token of another form, expected a JWT of three parts")]
    Form,
    /// The token is signed in another way.
    #[error("alg: got another value, expected HS256")]
    Algorithm,
    /// The header names extensions that must be understood.
    #[error("crit: got extensions that must be understood, expected none")]
    Critical,
    /// The signature is not made with this key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The claims do not say when the token was made.
    #[error("the claims of the token are not understood: expected a JSON object with iat, in seconds")]
    Claims,
    /// The token is not of the present.
    #[error("{claim}: got {got}, expected {expected} {now}")]
    Time {
        /// The name of the claim.
        claim: &'static str,
        /// Its value, in seconds after 1970.
        got: f64,
        /// Its place beside the present that was expected.
        expected: &'static str,
        /// The present, in seconds after 1970.
        now: f64,
    },
}

#[derive(Deserialize)]
struct JwtHeader<'a> {
    alg: &'a str,
    /// Whether the header has `crit`, whatever its value is.
    #[serde(default, rename = "crit", deserialize_with = "is_there")]
    has_critical: bool,
}

/// Reads a value of any kind.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[derive(Deserialize)]
struct Claims {
    iat: f64,
    exp: Option<f64>,
    nbf: Option<f64>,
}

/// Whether a text may be a JWT: it has three parts.
pub(super) fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Checks that `token` is signed with `key`, and made now: `now_secs` after 1970. Returns the
/// seconds from now until the token expires, if it does.
///
/// # Errors
/// [`JwtError`] with the first fault.
pub fn verify_jwt(token: &str, key: &[u8], now_secs: f64) -> Result<Option<f64>, JwtError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(JwtError::Form)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Form);
    let (header, claims, signature) = (decode(header)?, decode(claims)?, decode(signature)?);
    let header: JwtHeader<'_> = serde_json::from_slice(&header).map_err(|_| JwtError::Form)?;
    if header.alg != "HS256" {
        return Err(JwtError::Algorithm);
    }
    if header.has_critical {
        return Err(JwtError::Critical);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| JwtError::Signature)?;
    mac.update(signed.as_bytes());
    // The comparison takes the same time wherever the signatures part.
    mac.verify_slice(&signature).map_err(|_| JwtError::Signature)?;
    // From here on the client has the key, so what is wrong may be told.
    let Claims { iat, exp, nbf } = serde_json::from_slice(&claims).map_err(|_| JwtError::Claims)?;
    let time = |claim, got, expected| JwtError::Time {
        claim,
        got,
        expected,
        now: now_secs,
    };
    if (iat - now_secs).abs() > AGE_SECS_MAX {
        return Err(time("iat", iat, "at most 60 seconds from"));
    }
    if let Some(exp) = exp.filter(|exp| *exp <= now_secs) {
        return Err(time("exp", exp, "after"));
    }
    if let Some(nbf) = nbf.filter(|nbf| *nbf > now_secs + AGE_SECS_MAX) {
        return Err(time("nbf", nbf, "at most 60 seconds after"));
    }
    Ok(exp.map(|exp| exp - now_secs))
}

/// A token with these parts, signed with `key`.
#[cfg(test)]
pub(super) fn sign(header: &str, claims: &str, key: &[u8]) -> String {
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{signed}.{signature}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &[u8] = &[7; 32];
    const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
    const NOW: f64 = 1_700_000_000.0;

    #[track_caller]
    fn check(header: &str, claims: &str, expected: Result<(), &str>) {
        let token = sign(header, claims, KEY);
        assert!(is_jwt(&token));
        let got = verify_jwt(&token, KEY, NOW).map_err(|error| error.to_string());
        match expected {
            Ok(()) => assert!(got.is_ok(), "{header} {claims}: {got:?}"),
            Err(part) => assert!(
                got.as_ref().is_err_and(|text| text.contains(part)),
                "{claims}: {got:?}"
            ),
        }
    }

    /// The example of RFC 7515, A.1: another implementation has signed it.
    #[test]
    fn the_example_of_the_standard_is_signed_with_its_key() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let key = URL_SAFE_NO_PAD.decode(key).expect("base64");
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
                     eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
                     dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        // The token has no `iat`, which is looked at after the signature.
        assert_eq!(verify_jwt(token, &key, NOW), Err(JwtError::Claims));
        assert_eq!(verify_jwt(token, KEY, NOW), Err(JwtError::Signature));
    }

    #[test]
    fn claims() {
        check(HEADER, r#"{"iat":1700000000}"#, Ok(()));
        check(
            HEADER,
            r#"{"iat":1700000060,"exp":1700000001,"nbf":1700000000,"id":"x"}"#,
            Ok(()),
        );
        check(HEADER, r#"{"iat":1699999940.5}"#, Ok(()));
        check(
            HEADER,
            r#"{"iat":1699999939}"#,
            Err("iat: got 1699999939, expected"),
        );
        check(HEADER, r#"{"iat":1700000061}"#, Err("iat"));
        check(HEADER, r#"{"iat":1700000000,"exp":1700000000}"#, Err("exp"));
        check(HEADER, r#"{"iat":1700000000,"nbf":1700000061}"#, Err("nbf"));
        check(HEADER, r#"{"exp":1800000000}"#, Err("iat"));
        check(HEADER, r#"{"iat":"1700000000"}"#, Err("iat"));
        check(HEADER, "nonsense", Err("iat"));
        let left = |claims| verify_jwt(&sign(HEADER, claims, KEY), KEY, NOW);
        assert_eq!(left(r#"{"iat":1700000000}"#), Ok(None));
        assert_eq!(left(r#"{"iat":1700000000,"exp":1700000007.5}"#), Ok(Some(7.5)));
    }

    #[test]
    fn critical_extensions_are_not_understood() {
        let claims = r#"{"iat":1700000000}"#;
        for critical in [r#"["b64"]"#, r#"["exp"]"#, "[]", "null", r#""""#] {
            let header = format!(r#"{{"alg":"HS256","crit":{critical},"b64":true,"exp":1}}"#);
            check(&header, claims, Err("crit: got"));
        }
        check(r#"{"alg":"HS256","b64":true,"kid":"x"}"#, claims, Ok(()));
    }

    #[test]
    fn other_ways_to_sign_are_refused() {
        let claims = r#"{"iat":1700000000}"#;
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"HS512"}"#,
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"hs256"}"#,
        ] {
            check(header, claims, Err("expected HS256"));
        }
        check("{}", claims, Err("of another form"));
        let unsigned = sign(HEADER, claims, KEY);
        let unsigned = unsigned.rsplit_once('.').expect("three parts").0;
        assert_eq!(
            verify_jwt(&format!("{unsigned}."), KEY, NOW),
            Err(JwtError::Signature)
        );
        for bad in ["", ".", "..", "a.b.c", "a.b"] {
            assert!(verify_jwt(bad, KEY, NOW).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_token_is_refused(at in any::<prop::sample::Index>(), byte in "[A-Za-z0-9_-]") {
            let token = sign(HEADER, r#"{"iat":1700000000}"#, KEY);
            let at = at.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(at..=at, &byte);
            prop_assume!(changed != token);
            // The last character of the signature has two bits that mean nothing and must be 0.
            prop_assert!(verify_jwt(&changed, KEY, NOW).is_err());
        }
    }
}
