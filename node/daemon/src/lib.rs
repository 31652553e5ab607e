//! The parts that all programs share that run until they are told to stop.
//!
//! | subject | module |
//! |---|---|
//! | the signals that end a program | `stop` |
//! | the terminal: rows at its end, the log above them | `screen` |
//! | status, metrics and other pages over HTTP, read-only | [`status`] |
//! | accepting connections | `accept` |
//! | streams with TLS or without | `stream`, [`tls`] |
//! | the address that connections are counted by | `address` |
//! | the client that a connection belongs to | `client` |
//! | host names that requests may name | `hosts` |
//! | places for connections, and which connection makes room | `places` |
//! | how good the claim of a connection to its place is | `claim` |
//! | an amount that clients share, such as memory | `quota` |
//! | shares in percent | `share` |
//! | how often something may happen | `token_bucket` |
//! | how often each client may do something | `client_rates` |
//! | secrets that clients must know | `digest` |
//! | how often a secret may be guessed | `guesses` |
//!
//! From `address` on, the modules know neither sockets nor protocols: a server says who connects
//! and what its connections do. No module knows what is said on a connection of a server.

mod accept;
mod address;
mod claim;
mod client;
mod client_rates;
mod digest;
mod guesses;
mod hosts;
mod places;
mod quota;
mod screen;
mod share;
pub mod status;
mod stop;
mod stream;
pub mod tls;
mod token_bucket;

pub use accept::{Listener, accept, all_ended, listen_text, stopped};
pub use address::{ClientAddress, is_loopback_host};
pub use claim::{Claim, Claimant, StatedClaim};
pub use client::ClientId;
pub use client_rates::ClientRates;
pub use digest::SecretDigest;
pub use guesses::{GuessLimit, WrongGuesses};
pub use hosts::{BadHost, Hosts};
pub use places::{Place, PlaceLimits, Places};
pub use quota::{Quota, QuotaError, QuotaPermit};
pub use screen::{LogWriter, Screen};
pub use share::percent_of;
pub use stop::StopSignal;
pub use stream::MaybeTls;
pub use token_bucket::{TokenBucket, TokenRate};

/// Stack of the threads that do the work of strangers: 2 MiB, which is also Rust's default.
///
/// A stack overflow ends the process and cannot be caught. So no work for a stranger takes more
/// stack when the stranger sends more, and the tests do that work on an eighth of this.
pub const SERVING_STACK_LEN: usize = 2 * 1024 * 1024;
