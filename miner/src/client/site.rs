//! The hosts to which a pool may send its miners.
//!
//! Anybody who can change a plain connection can also send the miner elsewhere, and then has it for
//! much longer than the connection lasts. So a pool may send its miners only to itself: to the same
//! host, or to another host of the same registered domain. Which part of a name is registered
//! follows from the Public Suffix List (<https://publicsuffix.org>), which is compiled in:
//! `eu.pool.com` and `us.pool.com` are one site, `pool.co.uk` and `evil.co.uk` are two. A name
//! below a suffix that the list does not have is a site of its own.
//!
//! The port may change, because it belongs to the same site. Whether the connection is encrypted
//! does not change: a message of the pool cannot say anything about that.

use std::net::IpAddr;

/// Whether a pool whose address has the host `own` may send its miners to `host`.
pub(super) fn is_same_site(host: &str, own: &str) -> bool {
    let [host, own] = [host, own].map(normal);
    if host.is_empty() {
        return false;
    }
    match (host.parse::<IpAddr>(), own.parse::<IpAddr>()) {
        (Ok(host), Ok(own)) => host.to_canonical() == own.to_canonical(),
        (Err(_), Err(_)) => {
            host == own || registered_domain(&host).is_some_and(|site| registered_domain(&own) == Some(site))
        }
        _ => false,
    }
}

/// A host name in lower case and without the dot at its end.
fn normal(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The part of `host` that somebody has registered: the public suffix and one label before it.
/// `None` if the host is such a suffix, or if its suffix is unknown.
fn registered_domain(host: &str) -> Option<&str> {
    let domain = psl::domain(host.as_bytes())?;
    let is_known = domain.suffix().is_known();
    let site = core::str::from_utf8(domain.as_bytes()).ok()?;
    is_known.then_some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_send_miners_within_their_own_site_only() {
        for (host, own) in [
            ("eu.pool.com", "us.pool.com"),
            ("POOL.com", "eu.pool.com"),
            ("eu.pool.com.", "pool.com"),
            ("a.b.pool.co.uk", "pool.co.uk"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "0:0:0:0:0:0:0:1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("localhost", "localhost"),
            ("rig.lan", "RIG.lan"),
        ] {
            assert!(is_same_site(host, own), "{host} {own}");
        }
        for (host, own) in [
            ("evil.com", "pool.com"),
            ("evil.co.uk", "pool.co.uk"),
            ("co.uk", "pool.co.uk"),
            ("uk", "pool.co.uk"),
            // Everybody can have a name below these.
            ("evil.duckdns.org", "pool.duckdns.org"),
            ("evil.github.io", "pool.github.io"),
            ("pool.com.evil.org", "pool.com"),
            ("evilpool.com", "pool.com"),
            // The list does not know what is registered below these.
            ("other.lan", "rig.lan"),
            ("a.rig.lan", "b.rig.lan"),
            ("localhost", "pool.com"),
            ("10.0.0.1", "10.2.0.1"),
            ("10.0.0.1", "pool.com"),
            ("pool.com", "10.0.0.1"),
            ("::1", "127.0.0.1"),
            // Some resolvers read these as addresses.
            ("127.1", "10.127.1"),
            ("2130706433", "127.0.0.1"),
            ("", "pool.com"),
            (".", "pool.com"),
            ("", ""),
        ] {
            assert!(!is_same_site(host, own), "{host} {own}");
        }
    }
}
