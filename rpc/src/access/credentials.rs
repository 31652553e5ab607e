//! The content of an `Authorization` header: a bearer token (RFC 6750), or name and password (RFC
//! 7617), for clients that take both from a URL.
//!
//! Does not know whether they are right.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Longest header, in bytes. Tokens that a client signs itself have some hundred.
const HEADER_LEN_MAX: usize = 4096;

/// The credentials of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// A token: visible ASCII characters.
    Bearer(&'a str),
    /// A name, and a token in place of the password.
    Basic {
        /// The name; it has no colon.
        name: Zeroizing<String>,
        /// The password.
        password: Zeroizing<String>,
    },
}

/// The reason why a header is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The header is too long.
    #[error("got an Authorization header of {0} bytes, expected at most {HEADER_LEN_MAX}")]
    Length(usize),
    /// The header has another form.
    #[error("got an Authorization header of another form, expected Bearer TOKEN")]
    Form,
    /// The text after `Basic` is not a name and a password.
    #[error("got Basic with something else, expected the base64 of NAME:TOKEN")]
    Basic,
}

impl<'a> Credentials<'a> {
    /// Reads the value of an `Authorization` header.
    ///
    /// # Errors
    /// [`CredentialsError`] if it is too long or has another form.
    pub fn parse(header: &'a [u8]) -> Result<Self, CredentialsError> {
        if header.len() > HEADER_LEN_MAX {
            return Err(CredentialsError::Length(header.len()));
        }
        let text = std::str::from_utf8(header).map_err(|_| CredentialsError::Form)?;
        let (scheme, value) = text.split_once(' ').ok_or(CredentialsError::Form)?;
        let value = value.trim_matches(' ');
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CredentialsError::Form);
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::Bearer(value));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(CredentialsError::Form);
        }
        let decoded = Zeroizing::new(STANDARD.decode(value).map_err(|_| CredentialsError::Basic)?);
        let decoded = std::str::from_utf8(&decoded).map_err(|_| CredentialsError::Basic)?;
        let (name, password) = decoded.split_once(':').ok_or(CredentialsError::Basic)?;
        Ok(Self::Basic {
            name: Zeroizing::new(name.to_owned()),
            password: Zeroizing::new(password.to_owned()),
        })
    }
}

/// Shows no secret.
impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer (not shown)",
            Self::Basic { .. } => "Basic (not shown)",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(header: &str, expected: Result<Credentials<'_>, CredentialsError>) {
        assert!(
            Credentials::parse(header.as_bytes()) == expected,
            "{header:?}: expected {expected:?}"
        );
    }

    fn basic(name: &str, password: &str) -> Credentials<'static> {
        Credentials::Basic {
            name: Zeroizing::new(name.to_owned()),
            password: Zeroizing::new(password.to_owned()),
        }
    }

    #[test]
    fn headers() {
        check("Bearer abc", Ok(Credentials::Bearer("abc")));
        check("bEARER   a.b-c_~+/=  ", Ok(Credentials::Bearer("a.b-c_~+/=")));
        check("Basic YTpiOmM=", Ok(basic("a", "b:c")));
        check("basic Og==", Ok(basic("", "")));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer  ",
            " Bearer abc",
            "Bearer a b",
            "Bearer\tabc",
            "Bearer ä",
            "Digest abc",
            "abc",
        ] {
            check(bad, Err(CredentialsError::Form));
        }
        for bad in ["Basic abc", "Basic YQ==", "Basic /w==", "Basic /zo="] {
            check(bad, Err(CredentialsError::Basic));
        }
        let long = format!("Bearer {}", "a".repeat(HEADER_LEN_MAX));
        check(&long, Err(CredentialsError::Length(long.len())));
        assert!(Credentials::parse(b"Bearer \xff").is_err());
    }

    proptest! {
        #[test]
        fn any_token_is_read_as_it_is(token in "[!-~]{1,300}") {
            let header = format!("Bearer {token}");
            prop_assert!(Credentials::parse(header.as_bytes()) == Ok(Credentials::Bearer(&token)));
        }

        #[test]
        fn any_name_and_password_are_read_as_they_are(name in "[^:]{0,40}", password in ".{0,60}") {
            let header = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
            prop_assert!(Credentials::parse(header.as_bytes()) == Ok(basic(&name, &password)));
        }

        #[test]
        fn no_bytes_cause_a_panic(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "(Bearer|Basic|bearer) {0,2}[ -~]{0,80}".prop_map(String::into_bytes),
            ]
        ) {
            if let Ok(Credentials::Bearer(token)) = Credentials::parse(&bytes) {
                prop_assert!(!token.is_empty() && !token.contains(' '));
            }
        }
    }
}
