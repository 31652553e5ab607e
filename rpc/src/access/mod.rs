//! The clients that may speak to the servers.
//!
//! | subject | module |
//! |---|---|
//! | pages of which browser origins | `cors` |
//! | what an `Authorization` header says | `credentials` |
//! | tokens: what each may call, how often, on how many connections | `tokens` |
//! | tokens that a client signs itself (JWT) | `jwt` |
//! | what a client was granted | `grant` |
//! | all checks of a listener together | `guards` |
//!
//! The check of host names is that of the package `inbound`. Files are not known here: the
//! package `node` reads them and gives their rules.

mod cors;
mod credentials;
mod grant;
mod guards;
mod jwt;
mod tokens;

pub use cors::{BadOrigin, Cors};
pub use credentials::{Credentials, CredentialsError};
pub use daemon::{BadHost, Hosts};
pub(crate) use grant::Grant;
pub(crate) use guards::AccessRefusal;
pub use guards::Guards;
pub use jwt::{JwtError, verify_jwt};
pub(crate) use tokens::TokenPlace;
pub use tokens::{TokenKey, TokenRule, TokenSecret, Tokens};
