//! Settings of the Stratum server, their defaults, and why the server does not start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::Hosts;
use daemon::tls::ServerTls;

/// Default listening address.
pub const HOST: &str = "localhost";
/// Default listening port.
pub const PORT: u16 = 8008;
/// Default difficulty of a worker's first shares, in hashes.
pub const DIFFICULTY: u64 = 1 << 26;
/// Default of the most connections.
pub const CONNECTIONS_MAX: usize = 4096;
/// Default of the most connections of one address.
pub const ADDRESS_CONNECTIONS_MAX: usize = 1024;
/// Default of the seconds for which an address is banned.
pub const BAN_SECS: u64 = 600;
/// Fewest characters of a password that is hard to guess. The server warns of a shorter one.
pub const PASSWORD_LEN_MIN: usize = 12;

/// The warning about a password of `got` characters, if it is easy to guess. Without `bans` its
/// guesses are not even slowed down.
pub(crate) fn password_warning(got: usize, bans: bool) -> Option<String> {
    let slowed = if bans {
        ""
    } else {
        ", and with --stratum.bantime 0 guesses are not slowed down"
    };
    (got < PASSWORD_LEN_MIN).then(|| {
        format!(
            "--stratum.password is easy to guess: got {got} characters, expected at least \
             {PASSWORD_LEN_MIN}{slowed}"
        )
    })
}

/// Settings of the Stratum server.
#[derive(Clone, Debug)]
pub struct StratumConfig {
    /// An address or a name; `localhost` is 127.0.0.1.
    pub host: String,
    /// The port; 0 chooses a free port.
    pub port: u16,
    /// Difficulty of a worker's first shares, in hashes.
    pub difficulty: u64,
    /// Password that a login must give; with `None` any password is accepted.
    pub password: Option<String>,
    /// Most connections at the same time. For a further one, a connection without a valid share
    /// has to make room.
    pub connections_max: usize,
    /// Most connections of one IPv4 address, or of one IPv6 network of 64 bits.
    pub address_connections_max: usize,
    /// Time for which an address is banned if most of its shares are bad; `None`: never.
    pub ban_time: Option<Duration>,
    /// Certificate and key; `None` for plain text.
    pub tls: Option<Arc<ServerTls>>,
    /// Address where status and metrics are served, if any.
    pub status: Option<SocketAddr>,
    /// Host names that requests for the status may name.
    pub status_hosts: Hosts,
    /// Name and version of the node.
    pub agent: String,
}

/// An error while the Stratum server starts.
#[derive(Debug, thiserror::Error)]
pub enum StratumError {
    /// The server cannot listen at an address.
    #[error("Stratum cannot listen on {address}: {reason}")]
    Bind {
        /// The address, as in the settings.
        address: String,
        /// The error of the system.
        reason: io::Error,
    },
    /// The thread that receives work cannot start.
    #[error("cannot start a thread for Stratum: {0}")]
    Thread(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_password_is_warned_of_more_clearly_without_bans() {
        let warned = |got, bans| password_warning(got, bans).unwrap_or_default();
        assert!(warned(PASSWORD_LEN_MIN - 1, true).ends_with("got 11 characters, expected at least 12"));
        assert!(warned(PASSWORD_LEN_MIN - 1, false).contains("--stratum.bantime 0"));
        assert_eq!(password_warning(PASSWORD_LEN_MIN, true), None);
        assert_eq!(password_warning(PASSWORD_LEN_MIN, false), None);
    }
}
