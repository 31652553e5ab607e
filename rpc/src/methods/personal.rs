//! The `personal` module: accounts that are used with a password.
//!
//! The module is enabled only on request, because passwords travel in plain text. Keys are stored
//! by the package `keystore`. Checking a password takes a second and much memory, so the methods
//! that check a password are heavy ones.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use daemon::ClientId;
use keystore::{AccountError, AccountStatus, UnlockError};
use primitives::{Address, B256, EcdsaSignature, SecretKey, recover};
use serde::Serialize;
use zeroize::Zeroizing;

use super::mc::{MessageLabel, TransactionRequest, send_signed, sign_message, sign_unlocked};
use crate::decode::{FromParam, WrittenAddress, string};
use crate::error::{RpcError, RpcResult};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, Data, ParamError};
use crate::wire_type::{Described, WireType};

/// An account is unlocked for this many seconds if the caller names no time.
const UNLOCK_SECONDS_DEFAULT: u64 = 300;
/// The longest time in seconds for which an account is unlocked: about 292 years. 0 means without a
/// time limit.
const UNLOCK_SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("personal_listAccounts", [], list_accounts)
            .summary("Returns the accounts of this node, after it has read the folder of key files again."),
        Method::blocking("personal_listWallets", [], list_wallets)
            .summary("Returns the locations of the accounts' keys."),
        Method::heavy("personal_newAccount", ["password"], new_account)
            .summary("Creates a locked account. Returns its address."),
        Method::heavy("personal_importRawKey", ["key", "password"], import_raw_key)
            .summary("Stores a secret key of 64 hex digits. Returns its address."),
        Method::heavy(
            "personal_unlockAccount",
            ["address", "password", "seconds"],
            unlock_account,
        )
        .summary(
            "Unlocks an account for a number of seconds. The default is 300. 0 means \
             without a time limit.",
        ),
        Method::blocking("personal_lockAccount", ["address"], lock_account)
            .summary("Locks an account. Returns false if the account is unknown."),
        Method::heavy(
            "personal_sendTransaction",
            ["transaction", "password"],
            send_transaction,
        )
        .summary(
            "Signs a transaction of a locked account with the account's password, and sends it. \
             Returns its hash.",
        ),
        Method::heavy("personal_sign", ["message", "address", "password"], sign).summary(
            "Signs a message for a locked account with the account's password. An unlocked account \
                 needs none. The message has Ethereum's label on its chains and on the development \
                 network, and the public network's elsewhere.",
        ),
        Method::sized("personal_ecRecover", ["message", "signature"], ec_recover)
            .summary("Returns the address that signed a message with personal_sign."),
    ]
}

/// A password or a secret key, as text. It is wiped from memory when it is dropped, and never
/// shown.
struct Secret(Zeroizing<String>);

impl FromParam for Secret {
    const TYPE: WireType = <String as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let text = string(json, "a string")?;
        Ok(Self(Zeroizing::new(text.into_owned())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// `personal_listAccounts`: like `mc_accounts`, but reads the folder of the key files again first.
fn list_accounts(node: &Node) -> RpcResult<Vec<Data<Address>>> {
    refresh(node);
    Ok(node.accounts.addresses().into_iter().map(Data).collect())
}

/// A wallet. Each account has a wallet of its own.
#[derive(Serialize)]
struct Wallet {
    url: String,
    status: &'static str,
    accounts: [WalletAccount; 1],
}

impl Described for Wallet {
    const TYPE: WireType = WireType::Named("Wallet");
}

#[derive(Serialize)]
struct WalletAccount {
    address: Data<Address>,
    url: String,
}

/// `personal_listWallets`.
fn list_wallets(node: &Node) -> RpcResult<Vec<Wallet>> {
    refresh(node);
    let wallet = |AccountStatus {
                      address,
                      path,
                      unlocked,
                  }| {
        let memory = || format!("memory://{address:#x}");
        let url = path.map_or_else(memory, |path| keystore::url(&path));
        Wallet {
            url: url.clone(),
            status: if unlocked { "Unlocked" } else { "Locked" },
            accounts: [WalletAccount {
                address: Data(address),
                url,
            }],
        }
    };
    Ok(node.accounts.accounts().into_iter().map(wallet).collect())
}

/// Reads the folder of the key files again. If that fails, the failure is logged and the accounts
/// that are known already stay.
fn refresh(node: &Node) {
    match node.accounts.refresh() {
        Ok(skipped) => skipped
            .iter()
            .for_each(|file| tracing::warn!("key file not used: {file}")),
        Err(error) => tracing::warn!(%error, "key files cannot be read"),
    }
}

/// `personal_newAccount`: the address of the new account, which is locked.
fn new_account(node: &Node, (password,): (Secret,)) -> RpcResult<Data<Address>> {
    let stored = node.accounts.create(password.0.as_bytes(), SystemTime::now());
    let stored = stored.map_err(refused)?;
    tracing::info!(address = %format_args!("{:#x}", stored.address), path = %stored.path.display(), "new account");
    Ok(Data(stored.address))
}

/// `personal_importRawKey`: the key as 64 hexadecimal digits.
fn import_raw_key(node: &Node, (key, password): (Secret, Secret)) -> RpcResult<Data<Address>> {
    let key = SecretKey::from_hex(&key.0).map_err(|error| RpcError::invalid_argument(0, error))?;
    let stored = node
        .accounts
        .import(&key, password.0.as_bytes(), SystemTime::now());
    let stored = stored.map_err(refused)?;
    tracing::info!(address = %format_args!("{:#x}", stored.address), path = %stored.path.display(), "key imported");
    Ok(Data(stored.address))
}

/// `personal_unlockAccount`: for a number of seconds, 300 by default. 0 means without a time limit.
fn unlock_account(
    node: &Node,
    (WrittenAddress(address), password, seconds): (WrittenAddress, Secret, Option<Count>),
    client: ClientId,
) -> RpcResult<bool> {
    let time = match seconds.map_or(UNLOCK_SECONDS_DEFAULT, |seconds| seconds.0) {
        0 => None,
        seconds @ 1..=UNLOCK_SECONDS_MAX => Some(Duration::from_secs(seconds)),
        _ => return Err(RpcError::refused("unlock duration too large")),
    };
    refuse_if_exposed(node)?;
    with_password(node, client, &address, || {
        node.accounts
            .unlock_with_password(&address, password.0.as_bytes(), time)
    })?;
    Ok(true)
}

/// Refuses to unlock accounts while other machines can reach a listener: they could spend from
/// them.
fn refuse_if_exposed(node: &Node) -> RpcResult<()> {
    let mut listeners = [&node.listener, &node.ws_listener].into_iter().flatten();
    if !node.settings.insecure_unlock && listeners.any(|listener| listener.is_exposed()) {
        return Err(RpcError::refused(
            "account unlock is forbidden while other machines can reach this node over HTTP or WebSockets: \
             --allow-insecure-unlock allows it",
        ));
    }
    Ok(())
}

/// Tries a password of an account, and remembers wrong ones. After some of them the account takes
/// none from this client for a while.
fn with_password<T>(
    node: &Node,
    client: ClientId,
    address: &Address,
    attempt: impl FnOnce() -> Result<T, UnlockError>,
) -> RpcResult<T> {
    let begun = node.wrong_passwords.begin(client, address, Instant::now());
    let begun = begun.map_err(|wait| {
        RpcError::refused(format!(
            "too many wrong passwords for this account: try again in {} s",
            wait.as_secs() + 1
        ))
    })?;
    let result = attempt();
    match &result {
        Ok(_) => begun.right(),
        Err(UnlockError::Account(AccountError::WrongPassword)) => begun.wrong(Instant::now()),
        Err(_) => {}
    }
    result.map_err(refused)
}

/// `personal_lockAccount`: locks the account. Returns whether the account is known.
fn lock_account(node: &Node, (WrittenAddress(address),): (WrittenAddress,)) -> RpcResult<bool> {
    node.accounts.lock(&address);
    Ok(node.accounts.addresses().contains(&address))
}

/// `personal_sendTransaction`: like `mc_sendTransaction`, but the account is locked and the caller
/// gives its password.
fn send_transaction(
    node: &Node,
    (request, password): (TransactionRequest, Secret),
    client: ClientId,
) -> RpcResult<Data<B256>> {
    let fee_max = node.settings.fee_caps.ethereum;
    send_signed(node, request, NameStyle::Native, fee_max, |from| {
        with_password(node, client, from, || {
            node.accounts.key_with_password(from, password.0.as_bytes())
        })
    })
}

/// `personal_sign`: like `mc_sign`, but the account is locked and the caller gives its password. An
/// unlocked account needs none.
fn sign(
    node: &Node,
    (message, WrittenAddress(address), password): (Data, WrittenAddress, Option<Secret>),
    client: ClientId,
) -> RpcResult<Data<[u8; 65]>> {
    let label = MessageLabel::of_chain(node);
    let Some(password) = password else {
        return sign_unlocked(node, &address, label, &message.0);
    };
    let key = with_password(node, client, &address, || {
        node.accounts.key_with_password(&address, password.0.as_bytes())
    })?;
    Ok(sign_message(&key, label, &message.0))
}

/// `personal_ecRecover`: the address that signed a message with `personal_sign`. The signature is
/// r, s and V. V is 27 or 28.
fn ec_recover(node: &Node, (message, signature): (Data, Data)) -> RpcResult<Data<Address>> {
    let signature =
        EcdsaSignature::from_rsv(&signature.0).map_err(|error| RpcError::invalid_argument(1, error))?;
    let digest = MessageLabel::of_chain(node).digest(&message.0);
    recover(&digest, &signature)
        .map(Data)
        .map_err(RpcError::refused_by)
}

fn refused(error: UnlockError) -> RpcError {
    RpcError::refused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secret = Secret::from_json(r#""pa\u0073s""#).expect("a string");
        assert_eq!(secret.0.as_str(), "pass");
        assert_eq!(format!("{secret:?}"), "Secret(redacted)");
        let error = Secret::from_json("12345").unwrap_err().to_string();
        assert_eq!(error, "got a number, expected a string");
    }
}
