//! The `personal` module: accounts by password. Only enabled on request, as passwords travel in
//! plain text.
//!
//! Knows what is asked and answered; how keys are kept is the package `keystore`'s. A derivation
//! takes a second and much memory, so the methods that try passwords have the heavy calls' share.

use std::fmt;
use std::time::{Duration, SystemTime};

use keystore::{AccountStatus, UnlockError};
use primitives::{Address, B256, EcdsaSignature, SecretKey, recover, signed_message_digest};
use serde::Serialize;
use zeroize::Zeroizing;

use super::mc::{TransactionRequest, send_signed, sign_message};
use crate::decode::{FromParam, string};
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::{Method, reply};
use crate::types::{Count, Data, DecodeError};

/// Seconds for which an account is unlocked when none are named.
const UNLOCK_SECONDS_DEFAULT: u64 = 300;
/// Most seconds for which an account is unlocked: some 292 years. 0 is for good.
const UNLOCK_SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    vec![
        Method::blocking("personal_listAccounts", |node, params| {
            reply(params.parse().map(|()| list_accounts(node)))
        })
        .says(
            "-> DATA20[]",
            "The accounts of this node, after a new look at its key files.",
        ),
        Method::blocking("personal_listWallets", |node, params| {
            reply(params.parse().map(|()| list_wallets(node)))
        })
        .says("-> Wallet[]", "Where the keys of the accounts are."),
        Method::heavy("personal_newAccount", |node, params| {
            reply(params.parse().and_then(|given| new_account(node, given)))
        })
        .says("password: String -> DATA20", "Makes an account; it is locked."),
        Method::heavy("personal_importRawKey", |node, params| {
            reply(params.parse().and_then(|given| import_raw_key(node, given)))
        })
        .says(
            "key: String, password: String -> DATA20",
            "Keeps a secret key of 64 hex digits.",
        ),
        Method::heavy("personal_unlockAccount", |node, params| {
            reply(params.parse().and_then(|given| unlock_account(node, given)))
        })
        .says(
            "address: DATA20, password: String, seconds?: COUNT -> Boolean",
            "Unlocks an account for some time, 300 s unless told otherwise; 0: for good.",
        ),
        Method::blocking("personal_lockAccount", |node, params| {
            reply(params.parse().map(|given| lock_account(node, given)))
        })
        .says(
            "address: DATA20 -> Boolean",
            "Locks an account; false if it is unknown.",
        ),
        Method::heavy("personal_sendTransaction", |node, params| {
            reply(params.parse().and_then(|given| send_transaction(node, given)))
        })
        .says(
            "transaction: TransactionRequest, password: String -> DATA32",
            "Signs a transaction with the password in place of an unlocked account, and sends it.",
        ),
        Method::heavy("personal_sign", |node, params| {
            reply(params.parse().and_then(|given| sign(node, given)))
        })
        .says(
            "message: DATA, address: DATA20, password: String -> DATA65",
            "Signs a message with the password in place of an unlocked account.",
        ),
        Method::sized("personal_ecRecover", |_, params| {
            reply(params.parse().and_then(ec_recover))
        })
        .says(
            "message: DATA, signature: DATA -> DATA20",
            "Who signed a message.",
        ),
    ]
}

/// A password or a secret key, as text. Wiped from memory when dropped, never shown.
struct Secret(Zeroizing<String>);

impl FromParam for Secret {
    fn from_json(json: &str) -> Result<Self, DecodeError> {
        let text = string(json, "a string")?;
        Ok(Self(Zeroizing::new(text.into_owned())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// `personal_listAccounts`: like `mc_accounts`, after a new look at the key files.
fn list_accounts(node: &Node) -> Vec<Data<Address>> {
    refresh(node);
    node.accounts.addresses().into_iter().map(Data).collect()
}

/// A wallet: here one per account.
#[derive(Serialize)]
struct Wallet {
    url: String,
    status: &'static str,
    accounts: [WalletAccount; 1],
}

#[derive(Serialize)]
struct WalletAccount {
    address: Data<Address>,
    url: String,
}

/// `personal_listWallets`.
fn list_wallets(node: &Node) -> Vec<Wallet> {
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
    node.accounts.accounts().into_iter().map(wallet).collect()
}

/// Reads the folder again. What cannot be read is for the log: the known accounts still stand.
fn refresh(node: &Node) {
    match node.accounts.refresh() {
        Ok(skipped) => skipped
            .iter()
            .for_each(|file| tracing::warn!("passed over {file}")),
        Err(error) => tracing::warn!(%error, "key files"),
    }
}

/// `personal_newAccount`: the new account's address; it is locked.
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

/// `personal_unlockAccount`: for so many seconds, 300 unless named; 0 is for good.
fn unlock_account(
    node: &Node,
    (address, password, seconds): (Address, Secret, Option<Count>),
) -> RpcResult<bool> {
    let time = match seconds.map_or(UNLOCK_SECONDS_DEFAULT, |seconds| seconds.0) {
        0 => None,
        seconds @ 1..=UNLOCK_SECONDS_MAX => Some(Duration::from_secs(seconds)),
        _ => return Err(RpcError::refused("unlock duration too large")),
    };
    let unlocked = node
        .accounts
        .unlock_with_password(&address, password.0.as_bytes(), time);
    unlocked.map_err(refused)?;
    Ok(true)
}

/// `personal_lockAccount`: whether the account is known, and so is locked now.
fn lock_account(node: &Node, (address,): (Address,)) -> bool {
    node.accounts.lock(&address);
    node.accounts.addresses().contains(&address)
}

/// `personal_sendTransaction`: like `mc_sendTransaction`, with the password in place of an
/// unlocked account.
fn send_transaction(node: &Node, (request, password): (TransactionRequest, Secret)) -> RpcResult<Data<B256>> {
    send_signed(node, request, |from| {
        node.accounts
            .key_with_password(from, password.0.as_bytes())
            .map_err(refused)
    })
}

/// `personal_sign`: like `mc_sign`, with the password in place of an unlocked account.
fn sign(node: &Node, (message, address, password): (Data, Address, Secret)) -> RpcResult<Data<[u8; 65]>> {
    let key = node.accounts.key_with_password(&address, password.0.as_bytes());
    Ok(sign_message(&key.map_err(refused)?, &message.0))
}

/// `personal_ecRecover`: who signed the message, r, s and V (27 or 28) being given.
fn ec_recover((message, signature): (Data, Data)) -> RpcResult<Data<Address>> {
    let signature =
        EcdsaSignature::from_rsv(&signature.0).map_err(|error| RpcError::invalid_argument(1, error))?;
    let signer = recover(&signed_message_digest(&message.0), &signature);
    signer
        .map(Data)
        .map_err(|error| RpcError::refused(error.to_string()))
}

fn refused(error: UnlockError) -> RpcError {
    RpcError::refused(error.to_string())
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
        assert_eq!(error, "want a string, got a number");
    }
}
