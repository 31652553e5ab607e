//! The API of ethminer, which rig systems such as HiveOS, mmpOS, minerstat and Awesome Miner read:
//! JSON-RPC over TCP, one message per line.
//!
//! Nobody changes anything without the password, and if there is none, the API is read-only. The
//! module `answers` says what each method returns, `session` who gets which answer. The sockets are
//! in `server`. Knows no pool and no engine: both are behind `ApiSource`.

mod address;
mod answers;
mod server;
mod session;

use engine::monitor::RigReport;

pub use address::{ApiAddress, ApiAddressError};
pub(crate) use server::serve;

/// The settings of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// The address of the server, and whether it is read-only.
    pub address: ApiAddress,
    /// The password that every connection must give before anything else. `None`: there is none,
    /// and the API is read-only.
    pub password: Option<String>,
}

/// The rig behind the API.
pub(crate) trait ApiSource: Send + Sync + 'static {
    /// The state of the rig.
    fn report(&self) -> RigReport;
    /// The temperatures in degrees Celsius at which a card goes on and rests, if they are watched.
    fn heat_limits(&self) -> Option<(f64, f64)>;
    /// Makes all cards begin anew. The connection to the pool stays.
    fn restart(&self);
    /// Makes device `index` rest, or ends that rest. Returns false if there is no such device.
    fn pause(&self, index: usize, pause: bool) -> bool;
}
