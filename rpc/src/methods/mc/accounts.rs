//! The accounts of this node, signing, sending (docs/interface.md, 4.4; docs/interface.md, 4.5).

use chain::call::CallRequest;
use chain::chain::SubmitError;
use chain::developer::impersonate;
use chain::pool::PoolError;
use chain::spec::{ChainFamily, Rule};
use keystore::AccountError;
use primitives::{
    Address, B256, DecodeError, SecretKey, Transaction, TxForm, TxRules, U256, UnsignedTransaction,
    ethereum_message_digest, format_ether, signed_message_digest,
};

use super::calls::estimate;
use super::price::gas_price;
use super::request::TransactionRequest;
use super::state::next_nonce;
use crate::control::ScsServiceControl;
use crate::developer::DeveloperError;
use crate::error::{RpcError, RpcResult, failure};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::shown_hash;
use crate::table::Method;
use crate::types::{BlockRef, Data};

/// The gas limit of a transaction for which the caller names none.
const GAS_DEFAULT: u64 = 90_000;
/// The highest sharding flag that exists: a contract of an application chain.
const SHARDING_FLAG_MAX: u64 = 3;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_accounts", [], accounts).summary("Returns the accounts of this node."),
        Method::blocking("mc_sign", ["address", "message"], sign)
            .summary("Signs a message for an unlocked account. Returns r, s and V. V is 27 or 28."),
        Method::blocking("mc_sendTransaction", ["transaction"], send)
            .summary("Signs a transaction of an unlocked account and sends it. Returns its hash."),
        Method::blocking("mc_sendRawTransaction", ["transaction"], send_raw)
            .summary("Sends a signed transaction. Returns its hash."),
    ]
}

/// `mc_accounts`: in the order in which the accounts were added. Under its Ethereum name the
/// accounts that may send without a key follow, as tools for contract developers expect.
fn accounts(node: &Node, (): (), name_style: NameStyle) -> RpcResult<Vec<Data<Address>>> {
    let mut addresses = node.accounts.addresses();
    if let (NameStyle::Ethereum, Some(developer)) = (name_style, &node.developer) {
        let others = developer.impersonated();
        addresses.extend(
            others
                .into_iter()
                .filter(|address| !node.accounts.contains(address)),
        );
    }
    Ok(addresses.into_iter().map(Data).collect())
}

/// The label that is signed before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::methods) enum MessageLabel {
    /// The public network's.
    Native,
    /// Ethereum's, which wallets and contracts of its tools expect.
    Ethereum,
}

impl MessageLabel {
    /// The label under which accounts sign by `personal_` methods, whose names are the same for
    /// all clients: Ethereum's on chains of its family and on the development network.
    pub(in crate::methods) fn of_chain(node: &Node) -> Self {
        let spec = node.chain.spec();
        if spec.family == ChainFamily::Ethereum || spec.developer {
            Self::Ethereum
        } else {
            Self::Native
        }
    }

    /// The digest of a message with this label.
    pub(in crate::methods) fn digest(self, message: &[u8]) -> B256 {
        match self {
            Self::Native => signed_message_digest(message),
            Self::Ethereum => ethereum_message_digest(message),
        }
    }
}

/// `mc_sign`: signs the chain's own label, the length of the message and the message. Under its
/// Ethereum name the label is Ethereum's. The signature is r, s and V, which is 27 or 28.
fn sign(
    node: &Node,
    (address, message): (Address, Data),
    name_style: NameStyle,
) -> RpcResult<Data<[u8; 65]>> {
    let label = match name_style {
        NameStyle::Native => MessageLabel::Native,
        NameStyle::Ethereum => MessageLabel::Ethereum,
    };
    sign_unlocked(node, &address, label, &message.0)
}

/// The signature of a message by an unlocked account.
pub(in crate::methods) fn sign_unlocked(
    node: &Node,
    address: &Address,
    label: MessageLabel,
    message: &[u8],
) -> RpcResult<Data<[u8; 65]>> {
    let signature = node
        .accounts
        .with_key(address, |key| sign_message(key, label, message));
    signature.map_err(account_error)
}

/// The signature of a message.
pub(in crate::methods) fn sign_message(
    key: &SecretKey,
    label: MessageLabel,
    message: &[u8],
) -> Data<[u8; 65]> {
    Data(key.sign(&label.digest(message)).to_rsv())
}

/// `mc_sendTransaction`: completes the transaction, signs it, and puts it into the pool. Under its
/// Ethereum name the gas is estimated if there is none, as other nodes do.
fn send(node: &Node, (request,): (TransactionRequest,), name_style: NameStyle) -> RpcResult<Data<B256>> {
    if let Some(developer) = &node.developer
        && developer.impersonates(&request.from)
        && !node.accounts.contains(&request.from)
    {
        return send_impersonated(node, request, name_style);
    }
    // The key is copied. So signing does not fail if the account is locked after a nonce was
    // chosen, and no nonce is left unused. The copy is wiped when it is dropped.
    let fee_max = node.settings.fee_caps.of(name_style);
    send_signed(node, request, name_style, fee_max, |from| {
        node.accounts
            .with_key(from, SecretKey::clone)
            .map_err(account_error)
    })
}

/// Completes a transaction of an account without a key, and puts it into the pool. Only the
/// development network has such transactions.
fn send_impersonated(
    node: &Node,
    request: TransactionRequest,
    name_style: NameStyle,
) -> RpcResult<Data<B256>> {
    match sending_route(node, &request)? {
        SendingRoute::Pool => {}
        SendingRoute::Service(_) => {
            return Err(RpcError::refused(
                "an account without a key sends no transactions to application chains",
            ));
        }
    }
    let request = with_gas(node, request, name_style)?;
    let (sender, price) = (request.from, gas_price_of(node, &request)?);
    let nonce_lock = node.sending.lock();
    let (unsigned, form) = complete(node, request, price)?;
    let transaction = impersonate(&unsigned, sender, node.chain.chain_id(), form);
    let hash = submit(node, transaction, NameStyle::Native)?;
    drop(nonce_lock);
    wait_for_peer(node).map(|()| hash)
}

/// Completes a transaction, signs it with the key that `key` returns for the sender, and puts it
/// into the pool. The key is looked up before gas is estimated and a nonce is chosen.
pub(in crate::methods) fn send_signed(
    node: &Node,
    request: TransactionRequest,
    name_style: NameStyle,
    fee_max: Option<U256>,
    key: impl FnOnce(&Address) -> RpcResult<SecretKey>,
) -> RpcResult<Data<B256>> {
    let route = sending_route(node, &request)?;
    let key = key(&request.from)?;
    let request = with_gas(node, request, name_style)?;
    let price = gas_price_of(node, &request)?;
    let nonce_lock = node.sending.lock();
    let (unsigned, form) = complete(node, request, price)?;
    match route {
        SendingRoute::Pool => {
            check_fee(fee_max, &unsigned)?;
            let hash = submit_own(node, (&unsigned, form), &key)?;
            drop(nonce_lock);
            wait_for_peer(node).map(|()| hash)
        }
        SendingRoute::Service(service) => {
            let signed = unsigned.sign(&key, node.chain.chain_id(), TxForm::Native);
            submit_to_service(service, &signed)
        }
    }
}

/// The gas price that the sender names, or the suggested one.
pub(super) fn gas_price_of(node: &Node, request: &TransactionRequest) -> RpcResult<U256> {
    request.gas_price.map_or_else(|| gas_price(node), Ok)
}

/// The transaction to be signed, and its form. Gas and nonce have defaults if the sender does not
/// set them.
///
/// # Errors
/// −32000 for a transaction of another chain, or of a type that the next block cannot have, −32603
/// if the chain cannot be read.
pub(super) fn complete(
    node: &Node,
    request: TransactionRequest,
    gas_price: U256,
) -> RpcResult<(UnsignedTransaction, TxForm)> {
    check_chain(node, request.chain_id)?;
    let form = form(node, request.access_list.is_some())?;
    let tx_nonce = match request.tx_nonce {
        Some(tx_nonce) => tx_nonce,
        None => next_nonce(node, &request.from)?,
    };
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas_price,
        gas: request.gas.unwrap_or(GAS_DEFAULT),
        to: request.to,
        value: request.value,
        input: request.input,
        sharding_flag: request.sharding_flag,
        via: request.via,
        access_list: request.access_list.unwrap_or_default(),
        ..Default::default()
    };
    Ok((unsigned, form))
}

/// Refuses to sign a transaction whose gas could cost more than the operator allows, which is most
/// often a price in a wrong unit.
///
/// # Errors
/// −32000 if it could.
pub(super) fn check_fee(fee_max: Option<U256>, unsigned: &UnsignedTransaction) -> RpcResult<()> {
    let fee = unsigned.gas_price.saturating_mul(U256::from(unsigned.gas));
    match fee_max {
        Some(max) if fee > max => Err(RpcError::refused(format!(
            "tx fee ({} coins) exceeds the configured cap ({} coins): gas {} at the price {}; --rpc.txfeecap changes the cap",
            coins(fee),
            coins(max),
            unsigned.gas,
            unsigned.gas_price
        ))),
        _ => Ok(()),
    }
}

/// An amount in coins, with the digits that it needs.
fn coins(amount: U256) -> String {
    let text = format_ether(amount);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The request with an estimate of its gas if it has none, under Ethereum's names. Under the
/// method's own name the default follows later, and so does it for a transaction for application
/// chains, which is not executed here.
///
/// # Errors
/// Errors of `mc_estimateGas`: the transaction would fail, or the estimate takes too long.
pub(super) fn with_gas(
    node: &Node,
    mut request: TransactionRequest,
    name_style: NameStyle,
) -> RpcResult<TransactionRequest> {
    if request.gas.is_none() && request.sharding_flag == 0 && name_style == NameStyle::Ethereum {
        check_chain(node, request.chain_id)?;
        form(node, request.access_list.is_some())?;
        let call = CallRequest {
            from: Some(request.from),
            to: request.to,
            gas_max: Some(node.settings.call_gas_max),
            value: request.value,
            input: request.input.clone(),
            access_list: request.access_list.clone().unwrap_or_default(),
            ..CallRequest::default()
        };
        request.gas = Some(estimate(node, BlockRef::Pending, &call)?);
    }
    Ok(request)
}

/// Refuses a request that names another chain than the node's.
pub(super) fn check_chain(node: &Node, chain_id: Option<u64>) -> RpcResult<()> {
    let expected = node.chain.chain_id();
    match chain_id {
        Some(got) if got != expected => Err(RpcError::refused(format!(
            "chainId does not match node's: got {got}, expected {expected}"
        ))),
        _ => Ok(()),
    }
}

/// The form of a transaction that this node signs. `is_typed` says that it has an access list.
///
/// # Errors
/// −32000 if the next block cannot have such a transaction.
fn form(node: &Node, is_typed: bool) -> RpcResult<TxForm> {
    let spec = node.chain.spec();
    if is_typed {
        let next = node.view()?.head_number().saturating_add(1);
        if !spec.rules_at(next).has(Rule::Eip2930) {
            return Err(RpcError::refused(format!(
                "field accessList or type: got a transaction of type 1 (EIP-2930), expected one without a type in block {next}"
            )));
        }
        return Ok(TxForm::AccessList);
    }
    Ok(match spec.tx_rules() {
        TxRules::Moac => TxForm::Native,
        TxRules::Ethereum => TxForm::Ethereum,
    })
}

/// The destination of a transaction, by its sharding flag and the proxy that it names.
enum TxRoute {
    /// Into this node's pool.
    Pool,
    /// To this node's service for servers of application chains.
    OwnService,
    /// To another node's service. `false` if it names no node.
    OtherProxy { is_named: bool },
    /// There is no such sharding flag.
    UnknownFlag,
}

impl TxRoute {
    fn of(node: &Node, sharding_flag: u64, via: Option<Address>) -> Self {
        match sharding_flag {
            0 => Self::Pool,
            1..=SHARDING_FLAG_MAX if via.is_some() && via == node.settings.vnode.beneficial_address => {
                Self::OwnService
            }
            1..=SHARDING_FLAG_MAX => Self::OtherProxy {
                is_named: via.is_some(),
            },
            _ => Self::UnknownFlag,
        }
    }
}

/// The ways by which this node sends a transaction.
enum SendingRoute<'a> {
    /// Into its pool.
    Pool,
    /// To its service for servers of application chains.
    Service(&'a dyn ScsServiceControl),
}

/// Chooses the way of a request. Refuses one that this node does not send, with the messages of
/// `mc_sendTransaction`.
fn sending_route<'a>(node: &'a Node, request: &TransactionRequest) -> RpcResult<SendingRoute<'a>> {
    match TxRoute::of(node, request.sharding_flag, request.via) {
        TxRoute::Pool => Ok(SendingRoute::Pool),
        TxRoute::OwnService => own_service(node, request.sharding_flag).map(SendingRoute::Service),
        TxRoute::OtherProxy { is_named: false } => Err(RpcError::refused("Empty via with shardingFlag set")),
        TxRoute::OtherProxy { is_named: true } => Err(RpcError::refused(
            "Mismatch address between VIA and VNODE PROXY when shardingFlag set",
        )),
        TxRoute::UnknownFlag => Err(RpcError::refused("shardingFlag error")),
    }
}

/// The service that takes transactions of application chains.
///
/// # Errors
/// −32000 if it does not run.
fn own_service(node: &Node, flag: u64) -> RpcResult<&dyn ScsServiceControl> {
    node.scs_service.as_deref().ok_or_else(|| {
        RpcError::refused(format!(
            "shardingFlag {flag}: no service for servers of application chains runs on this node: \
             SCSService in vnodeconfig.json starts it"
        ))
    })
}

/// Hands a transaction to the service. It enters neither the pool nor a block of this chain.
fn submit_to_service(service: &dyn ScsServiceControl, transaction: &Transaction) -> RpcResult<Data<B256>> {
    service
        .submit(transaction)
        .map(Data)
        .map_err(RpcError::refused_by)
}

/// `mc_sendRawTransaction`: in twelve or nine fields, or with a type.
fn send_raw(node: &Node, (raw,): (Data,), name_style: NameStyle) -> RpcResult<Data<B256>> {
    let decoded = Transaction::decode_raw(&raw.0, node.chain.spec().tx_rules());
    let transaction = decoded.map_err(|error| match error {
        DecodeError::Typed { got, .. } if node.application.is_some() => RpcError::refused(format!(
            "transaction type: got {got}, expected 0: blocks of a MicroChain carry no other type; \
             set gasPrice, which may be 0, in place of maxFeePerGas, and no accessList"
        )),
        error => RpcError::refused_by(error),
    })?;
    if let Some(application) = &node.application {
        let hash = shown_hash(&transaction, name_style);
        application.submit(transaction)?;
        return Ok(Data(hash));
    }
    match TxRoute::of(node, transaction.sharding_flag, transaction.via) {
        TxRoute::Pool => {
            let hash = submit(node, transaction, name_style)?;
            wait_for_peer(node).map(|()| hash)
        }
        TxRoute::OwnService => submit_to_service(own_service(node, transaction.sharding_flag)?, &transaction),
        TxRoute::OtherProxy { .. } => Err(RpcError::refused("via error")),
        TxRoute::UnknownFlag => Err(RpcError::refused("shardingFlag error")),
    }
}

/// Signs a transaction and puts it into the pool.
pub(super) fn submit_own(
    node: &Node,
    (unsigned, form): (&UnsignedTransaction, TxForm),
    key: &SecretKey,
) -> RpcResult<Data<B256>> {
    let signed = unsigned.sign(key, node.chain.chain_id(), form);
    // A transaction in the form of this node has the same hash under both names.
    submit(node, signed, NameStyle::Native)
}

/// Waits until a peer has the new transactions of the pool, if the node is set so. The caller must
/// not hold the lock of the nonces, for which the next transaction waits without a deadline.
///
/// # Errors
/// −32000 if none was sent them in time. They stay in the pool.
pub(super) fn wait_for_peer(node: &Node) -> RpcResult<()> {
    let limit = node.settings.send_wait;
    if limit.is_zero() {
        return Ok(());
    }
    let position = node.chain.pool().pending_cursor();
    let network = node.network.as_deref();
    if network.is_some_and(|network| network.wait_until_told(position, limit)) {
        return Ok(());
    }
    Err(RpcError::refused(format!(
        "the transaction is in the pool of this node, but no peer was sent it in {} ms",
        limit.as_millis()
    )))
}

/// Puts a transaction into the pool and returns the hash of its stored form.
///
/// Under Ethereum's names a nine-field transaction has the hash that Ethereum's clients compute,
/// because they compare it with the answer. The same holds for the error that the transaction is
/// known already.
fn submit(node: &Node, transaction: Transaction, name_style: NameStyle) -> RpcResult<Data<B256>> {
    let ethereum_hash = match name_style {
        NameStyle::Native => None,
        NameStyle::Ethereum => transaction.ethereum_hash(),
    };
    let shown = |stored| ethereum_hash.unwrap_or(stored);
    match node.chain.submit_transaction(transaction) {
        Ok(stored) => {
            if let Some(developer) = &node.developer {
                if let Some(pooled) = node.chain.pool().get(&stored) {
                    developer.warn_of_replays(pooled.sender);
                }
                developer.mine_at_once().map_err(DeveloperError::into_rpc)?;
            }
            Ok(Data(shown(stored)))
        }
        Err(SubmitError::Store(error)) => Err(failure(error)),
        Err(SubmitError::Pool(PoolError::Known(stored))) => {
            Err(RpcError::refused(PoolError::Known(shown(stored)).to_string()))
        }
        Err(error) => Err(RpcError::refused_by(error)),
    }
}

/// The error of an account that cannot sign.
pub(super) fn account_error(error: AccountError) -> RpcError {
    RpcError::refused_by(error)
}
