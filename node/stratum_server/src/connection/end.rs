//! The reasons for which connections end.

use std::fmt;
use std::io;
use std::time::Duration;

use stratum::LineTooLong;

use super::{ERRORS_MAX, LINES, WRITE_TIMEOUT};

/// The reason for which a connection ends.
#[derive(Debug)]
pub(super) enum DisconnectReason {
    /// The miner closed the connection or said that it leaves.
    Left,
    Stopping,
    Failed(io::Error),
    LineTooLong(LineTooLong),
    Idle(Duration),
    NotReading,
    Flood,
    BadMessages,
    BadLogin,
    /// The address has sent wrong passwords, and has to wait so long.
    Guesses(Duration),
    /// Most shares of the connection were bad.
    MostlyBadShares,
    /// The address is banned, and the connection has sent bad shares and no more good ones.
    AddressBanned,
    /// Another connection needed the place.
    Displaced,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the miner left"),
            Self::Stopping => f.write_str("the server stops"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::LineTooLong(error) => write!(f, "the miner sent {error}"),
            Self::Idle(time) => write!(f, "the miner sent nothing for {time:?}"),
            Self::NotReading => write!(f, "the miner read nothing for {WRITE_TIMEOUT:?}"),
            Self::Flood => {
                write!(f, "the miner sent more than {} lines a second", LINES.per_second)
            }
            Self::BadMessages => write!(f, "the miner sent {ERRORS_MAX} bad messages"),
            Self::BadLogin => f.write_str("the login has a wrong password"),
            Self::Guesses(wait) => write!(
                f,
                "the address sent too many wrong passwords and has to wait for {} s",
                wait.as_secs() + 1
            ),
            Self::MostlyBadShares => f.write_str("most shares of the last minutes were bad"),
            Self::AddressBanned => f.write_str("the address is banned, because most of its shares were bad"),
            Self::Displaced => f.write_str("another connection needed its place"),
        }
    }
}
