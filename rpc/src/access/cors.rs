//! Which browser origins may read answers (`--rpccorsdomain`).
//!
//! Knows the header values; the routes are in `routes.rs`. Without a list no origin is allowed. A
//! request must be `application/json`, so a browser sends a preflight request before it.

use warp::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, HeaderValue, VARY,
};
use warp::http::{HeaderMap, Uri};

/// Seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE_SECS: &str = "600";

/// The allowed origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    any: bool,
    origins: Vec<String>,
}

/// An entry of the list is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CORS domain: got {got:?}, expected * or an origin such as http://localhost:3000")]
pub struct BadOrigin {
    /// The entry as the user gave it.
    pub got: String,
}

impl Cors {
    /// Whether any origin is allowed at all.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.any || !self.origins.is_empty()
    }

    /// Whether a page of `origin` may read answers.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.any || self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin))
    }

    /// Adds to `headers` that `origin` may read this answer. The caller has checked `origin`.
    pub(crate) fn mark(&self, origin: &str, headers: &mut HeaderMap) {
        // The origin came in a header, so it is a valid header value.
        if let Ok(origin) = HeaderValue::from_str(if self.any { "*" } else { origin }) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
    }

    /// Adds to `headers` which methods and headers a page of an allowed origin may send.
    /// `authorization` is for the tokens of a listener that has some.
    pub(crate) fn mark_preflight(headers: &mut HeaderMap) {
        headers.insert(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("POST, GET"),
        );
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("content-type, authorization"),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_SECS));
    }
}

/// Reads a comma-separated list of origins. `*` allows all origins, an empty list none.
impl std::str::FromStr for Cors {
    type Err = BadOrigin;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut cors = Self::default();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry {
                "*" => cors.any = true,
                _ if is_origin(entry) => cors.origins.push(entry.trim_end_matches('/').to_owned()),
                _ => {
                    return Err(BadOrigin {
                        got: entry.to_owned(),
                    });
                }
            }
        }
        Ok(cors)
    }
}

/// Whether `text` is a scheme and a host, with or without a port. Browsers send nothing else.
fn is_origin(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| {
        uri.scheme().is_some() && uri.authority().is_some() && uri.path() == "/" && uri.query().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let cors: Cors = "http://localhost:3000, https://example.org/".parse().unwrap();
        assert!(cors.allows("http://localhost:3000") && cors.allows("https://Example.org"));
        assert!(!cors.allows("https://example.org:444") && !cors.allows("null"));
        let any: Cors = "*".parse().unwrap();
        assert!(any.allows("https://example.org"));
        assert!(!"".parse::<Cors>().unwrap().is_enabled());
        for bad in ["example.org", "http://", "http://a/b", "ftp", "http://a b"] {
            assert_eq!(bad.parse::<Cors>(), Err(BadOrigin { got: bad.into() }));
        }
    }
}
