//! The `scs` module (docs/interface.md, 4.10): the MicroChains of an application-chain node.
//!
//! | topic | module |
//! |---|---|
//! | the SCS and its chains, calls, transactions that are sent | this file |
//! | blocks | `blocks` |
//! | transactions and receipts | `transactions` |
//! | deposits and withdrawals | `exchange` |
//!
//! A MicroChain that the SCS does not serve is no error: a method answers zero, an empty list or
//! null for it. Scripts ask for a chain before it has started.

mod blocks;
mod exchange;
mod transactions;

use std::sync::Arc;

use primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};

use crate::decode::{FromParam, ParamFields};
use crate::error::RpcResult;
use crate::json::JsonOf;
use crate::methods::net;
use crate::methods::txpool::TxpoolContent;
use crate::micro_chains::{DappCall, ScsNode, ServedAccount, ServedChain};
use crate::table::Method;
use crate::types::{Data, Integer, ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// The version of the rules that SCSs of this kind share (docs/microchain-design.md).
const PROTOCOL_VERSION: u64 = 1;

/// The rows of an application-chain node.
pub fn methods() -> Vec<Method<ScsNode>> {
    let mut rows = vec![
        net::listening(),
        Method::inline("scs_listening", [], listening)
            .summary("Returns true: a server that answers this does listen."),
        Method::inline("scs_getSCSId", [], id)
            .summary("Returns the id of this SCS: the address of its own account."),
        Method::inline("scs_protocolVersion", [], protocol_version)
            .summary("Returns the version of the rules that SCSs share."),
        Method::inline("scs_datadir", [], data_directory).summary("Returns the folder of the data."),
        Method::inline("scs_getMicroChainList", [], chains)
            .summary("Returns the MicroChains that this SCS serves."),
        Method::inline("scs_getMicroChainInfo", ["microchain"], info).summary(
            "Returns what the contract on the base chain says of a MicroChain: supply, rewards, bond, \
             owner, members.",
        ),
        Method::heavy("scs_getDappList", ["microchain"], dapps)
            .summary("Returns the Dapps of a MicroChain: DappBase, then those registered with it."),
        Method::heavy("scs_getDappAddrList", ["microchain"], dapps)
            .summary("Returns the Dapps of a MicroChain: DappBase, then those registered with it."),
        Method::heavy("scs_getDappState", ["microchain"], dapp_state)
            .summary("Returns 1 if a MicroChain has a Dapp, otherwise 0."),
        Method::blocking("scs_getNonce", ["microchain", "account"], nonce).summary(
            "Returns the number of transactions of an account in blocks of a MicroChain, as a plain \
             number.",
        ),
        Method::blocking("scs_getBalance", ["microchain", "account"], balance)
            .summary("Returns the balance of an account on a MicroChain, in the smallest unit of its token."),
        Method::heavy("scs_directCall", ["call"], direct_call).summary(
            "Returns the output of a call of a Dapp. No transaction is made. Without a field dappAddr \
             the call goes to DappBase.",
        ),
        Method::blocking("scs_getTxpool", ["microchain"], pool)
            .summary("Returns the transactions of a MicroChain that wait, by account and nonce."),
        Method::blocking("scs_sendRawTransaction", ["transaction"], send_raw_transaction)
            .summary("Takes a signed transaction of a MicroChain and returns its hash."),
    ];
    rows.extend(blocks::methods());
    rows.extend(transactions::methods());
    rows.extend(exchange::methods());
    rows
}

/// `scs_listening`.
const fn listening(_: &ScsNode) -> RpcResult<bool> {
    Ok(true)
}

/// `scs_getSCSId`.
fn id(scs: &ScsNode) -> RpcResult<Data<Address>> {
    Ok(Data(scs.0.id()))
}

/// `scs_protocolVersion`.
const fn protocol_version(_: &ScsNode) -> RpcResult<Quantity> {
    Ok(Quantity(PROTOCOL_VERSION))
}

/// `scs_datadir`.
fn data_directory(scs: &ScsNode) -> RpcResult<JsonOf<str>> {
    JsonOf::write(scs.0.data_directory())
}

/// `scs_getMicroChainList`.
fn chains(scs: &ScsNode) -> RpcResult<Vec<Data<Address>>> {
    Ok(scs.0.chains().into_iter().map(Data).collect())
}

/// An address with its checksum, as some answers of the public SCS have it.
struct ChecksumAddress(Address);

impl Serialize for ChecksumAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_checksum(None))
    }
}

/// The answer of `scs_getMicroChainInfo` (docs/interface.md, 2.10).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MicroChainInfoObject {
    balance: Quantity<U256>,
    block_reward: Quantity<U256>,
    bond_limit: Quantity<U256>,
    owner: ChecksumAddress,
    scs_list: Vec<ChecksumAddress>,
    tx_reward: Quantity<U256>,
    via_reward: Quantity<U256>,
}

impl Described for MicroChainInfoObject {
    const TYPE: WireType = WireType::Named("MicroChainInfo");
}

/// `scs_getMicroChainInfo`.
fn info(scs: &ScsNode, (chain,): (Address,)) -> RpcResult<Option<MicroChainInfoObject>> {
    let Some(chain) = scs.0.chain(&chain) else {
        return Ok(None);
    };
    let object = chain.info()?.map(|info| MicroChainInfoObject {
        balance: Quantity(info.balance),
        block_reward: Quantity(info.block_reward),
        bond_limit: Quantity(info.bond_limit),
        owner: ChecksumAddress(info.owner),
        scs_list: info.members.into_iter().map(ChecksumAddress).collect(),
        tx_reward: Quantity(info.tx_reward),
        via_reward: Quantity(info.via_reward),
    });
    Ok(object)
}

fn dapps_of(scs: &ScsNode, chain: &Address) -> RpcResult<Vec<Address>> {
    scs.0
        .chain(chain)
        .map_or_else(|| Ok(Vec::new()), |chain| chain.dapps())
}

/// `scs_getDappList` and `scs_getDappAddrList`.
fn dapps(scs: &ScsNode, (chain,): (Address,)) -> RpcResult<Vec<Data<Address>>> {
    Ok(dapps_of(scs, &chain)?.into_iter().map(Data).collect())
}

/// `scs_getDappState` (docs/interface.md, 3.3).
fn dapp_state(scs: &ScsNode, (chain,): (Address,)) -> RpcResult<Integer> {
    Ok(Integer(u64::from(!dapps_of(scs, &chain)?.is_empty())))
}

fn account_of(scs: &ScsNode, chain: &Address, account: &Address) -> RpcResult<ServedAccount> {
    let chain = scs.0.chain(chain);
    chain.map_or_else(|| Ok(ServedAccount::default()), |chain| chain.account(account))
}

/// `scs_getNonce`: a plain number.
fn nonce(scs: &ScsNode, (chain, account): (Address, Address)) -> RpcResult<Integer> {
    Ok(Integer(account_of(scs, &chain, &account)?.tx_nonce))
}

/// `scs_getBalance`.
fn balance(scs: &ScsNode, (chain, account): (Address, Address)) -> RpcResult<Quantity<U256>> {
    Ok(Quantity(account_of(scs, &chain, &account)?.balance))
}

/// The parameter of `scs_directCall`. Other fields of a transaction are ignored.
#[derive(Debug)]
struct DirectCallObject {
    chain: Address,
    call: DappCall,
}

impl FromParam for DirectCallObject {
    const TYPE: WireType = WireType::Named("DirectCall");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let from: Option<Address> = fields.get("from")?;
        let chain: Address = fields.get("to")?;
        let dapp: Option<Address> = fields.get("dappAddr")?;
        let data: Option<Data> = fields.get("data")?;
        let input: Option<Data> = fields.get("input")?;
        let input = data.or(input).unwrap_or_default();
        Ok(Self {
            chain,
            call: DappCall {
                from: from.unwrap_or_default(),
                // Some clients name the MicroChain where they mean its first Dapp.
                dapp: dapp.filter(|dapp| *dapp != chain),
                input: input.0.into(),
            },
        })
    }
}

/// `scs_directCall`.
fn direct_call(scs: &ScsNode, (object,): (DirectCallObject,)) -> RpcResult<Data<primitives::Bytes>> {
    let output = match scs.0.chain(&object.chain) {
        Some(chain) => chain.call(&object.call)?,
        None => primitives::Bytes::new(),
    };
    Ok(Data(output))
}

/// `scs_getTxpool`.
fn pool(scs: &ScsNode, (chain,): (Address,)) -> RpcResult<JsonOf<TxpoolContent<'static>>> {
    let chain = scs.0.chain(&chain);
    let content = chain.map_or_else(|| Ok(Default::default()), |chain| chain.pool())?;
    JsonOf::write(&TxpoolContent::new(&content))
}

/// `scs_sendRawTransaction`.
fn send_raw_transaction(scs: &ScsNode, (raw,): (Data,)) -> RpcResult<Data<B256>> {
    scs.0.submit(&raw.0).map(Data)
}

/// The chain with this address, if the SCS serves it.
fn served(scs: &ScsNode, chain: &Address) -> Option<Arc<dyn ServedChain>> {
    scs.0.chain(chain)
}
