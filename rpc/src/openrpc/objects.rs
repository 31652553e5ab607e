//! The schemas of the objects: their members in order, each with its type.
//!
//! The types are in the notation of [`crate::wire_type::WireType`]. A question mark after a name
//! says that the member may be absent. Most of these objects are in docs/interface.md, 2.

use serde_json::{Map, Value, json};

use super::types::schema;

/// The members of an object: name and type.
pub(super) type ObjectMembers = &'static [(&'static str, &'static str)];

/// Every object, by name.
const OBJECTS: &[(&str, ObjectMembers)] = &[
    ("MicroChainBlock", MICRO_CHAIN_BLOCK),
    (
        "MicroChainBlockList",
        &[
            ("blockList", "MicroChainBlock[]"),
            ("endBlk", "QUANTITY"),
            ("microchainAddress", "DATA20"),
            ("startBlk", "QUANTITY"),
        ],
    ),
    (
        "MicroChainInfo",
        &[
            ("balance", "QUANTITY"),
            ("blockReward", "QUANTITY"),
            ("bondLimit", "QUANTITY"),
            ("owner", "DATA20"),
            ("scsList", "DATA20[]"),
            ("txReward", "QUANTITY"),
            ("viaReward", "QUANTITY"),
        ],
    ),
    ("MicroChainReceipt", MICRO_CHAIN_RECEIPT),
    ("MicroChainLog", MICRO_CHAIN_LOG),
    (
        "DirectCall",
        &[
            ("from?", "DATA20"),
            ("to", "DATA20"),
            ("dappAddr?", "DATA20"),
            ("data?", "DATA"),
            ("input?", "DATA"),
        ],
    ),
    (
        "AccountExchange",
        &[
            ("DepositRecordCount", "Number"),
            ("DepositRecords", "ExchangeRecords"),
            ("DepositingRecordCount", "Number"),
            ("DepositingRecords", "ExchangeRecords"),
            ("WithdrawRecordCount", "Number"),
            ("WithdrawRecords", "ExchangeRecords"),
            ("WithdrawingRecordCount", "Number"),
            ("WithdrawingRecords", "ExchangeRecords"),
            ("microchain", "DATA20"),
            ("sender", "DATA20"),
        ],
    ),
    (
        "WaitingExchange",
        &[
            ("DepositingRecordCount", "Number"),
            ("DepositingRecords", "ExchangeRecords"),
            ("WithdrawingRecordCount", "Number"),
            ("WithdrawingRecords", "ExchangeRecords"),
            ("microchain", "DATA20"),
            ("scsid", "DATA20"),
        ],
    ),
    (
        "ExchangeRecord",
        &[
            ("address?", "DATA20"),
            ("DepositAmt?", "QUANTITY"),
            ("Deposittime?", "QUANTITY"),
            ("DepositingAmt?", "QUANTITY"),
            ("Depositingtime?", "QUANTITY"),
            ("WithdrawAmt?", "QUANTITY"),
            ("Withdrawtime?", "QUANTITY"),
            ("WithdrawingAmt?", "QUANTITY"),
            ("Withdrawingtime?", "QUANTITY"),
        ],
    ),
    ("Block", BLOCK),
    (
        "BlockObject",
        &[
            ("blockNumber?", "COUNT"),
            ("blockHash?", "DATA32"),
            ("requireCanonical?", "Boolean"),
        ],
    ),
    ("Transaction", TRANSACTION),
    ("Receipt", RECEIPT),
    ("Log", LOG),
    (
        "LogFilter",
        &[
            ("fromBlock?", "BLOCKREF"),
            ("toBlock?", "BLOCKREF"),
            ("blockHash?", "DATA32"),
            ("address?", "DATA20|DATA20[]"),
            ("topics?", "TOPIC[]"),
        ],
    ),
    (
        "SyncStatus",
        &[
            ("startingBlock", "QUANTITY"),
            ("currentBlock", "QUANTITY"),
            ("highestBlock", "QUANTITY"),
        ],
    ),
    ("TransactionRequest", TRANSACTION_REQUEST),
    (
        "CallRequest",
        &[
            ("from?", "DATA20"),
            ("to?", "DATA20"),
            ("gas?", "QUANTITY"),
            ("gasPrice?", "QUANTITY"),
            ("value?", "QUANTITY"),
            ("data?", "DATA"),
            ("input?", "DATA"),
            ("chainId?", "COUNT"),
            ("type?", "COUNT"),
            ("maxFeePerGas?", "QUANTITY"),
            ("maxPriorityFeePerGas?", "QUANTITY"),
            ("accessList?", "AccessListEntry[]"),
        ],
    ),
    (
        "AccessListEntry",
        &[("address", "DATA20"), ("storageKeys?", "DATA32[]")],
    ),
    (
        "AccountOverride",
        &[
            ("nonce?", "COUNT"),
            ("balance?", "QUANTITY"),
            ("code?", "DATA"),
            ("state?", "WORD{}"),
            ("stateDiff?", "WORD{}"),
        ],
    ),
    (
        "BlockOverrides",
        &[
            ("number?", "COUNT"),
            ("blockNumber?", "COUNT"),
            ("time?", "COUNT"),
            ("timestamp?", "COUNT"),
            ("gasLimit?", "COUNT"),
            ("coinbase?", "DATA20"),
            ("feeRecipient?", "DATA20"),
            ("difficulty?", "QUANTITY"),
            ("random?", "DATA32"),
            ("prevRandao?", "DATA32"),
            ("baseFee?", "QUANTITY"),
            ("baseFeePerGas?", "QUANTITY"),
        ],
    ),
    (
        "FeeHistory",
        &[
            ("oldestBlock", "QUANTITY"),
            ("reward?", "QUANTITY[][]"),
            ("baseFeePerGas", "QUANTITY[]"),
            ("gasUsedRatio", "Fraction[]"),
        ],
    ),
    (
        "CreatedAccessList",
        &[
            ("accessList", "AccessListEntry[]"),
            ("error?", "String"),
            ("gasUsed", "QUANTITY"),
        ],
    ),
    (
        "AccountProof",
        &[
            ("address", "DATA20"),
            ("accountProof", "DATA[]"),
            ("balance", "QUANTITY"),
            ("codeHash", "DATA32"),
            ("nonce", "QUANTITY"),
            ("storageHash", "DATA32"),
            ("storageProof", "SlotProof[]"),
        ],
    ),
    (
        "SlotProof",
        &[("key", "WORD"), ("value", "QUANTITY"), ("proof", "DATA[]")],
    ),
    (
        "TypedData",
        &[
            ("types", "TypedDataField[]{}"),
            ("primaryType", "String"),
            ("domain", "Object"),
            ("message", "Object"),
        ],
    ),
    ("TypedDataField", &[("name", "String"), ("type", "String")]),
    ("MineOptions", &[("timestamp?", "COUNT"), ("blocks?", "COUNT")]),
    ("SignedTransaction", &[("raw", "DATA"), ("tx", "Transaction")]),
    (
        "Pool",
        &[("pending", "Transaction{}{}"), ("queued", "Transaction{}{}")],
    ),
    (
        "PoolSummary",
        &[("pending", "String{}{}"), ("queued", "String{}{}")],
    ),
    (
        "AccountPool",
        &[("pending", "Transaction{}"), ("queued", "Transaction{}")],
    ),
    ("PoolStatus", &[("pending", "QUANTITY"), ("queued", "QUANTITY")]),
    (
        "Wallet",
        &[
            ("url", "String"),
            ("status", "String"),
            ("accounts", "WalletAccount[]"),
        ],
    ),
    ("WalletAccount", &[("address", "DATA20"), ("url", "String")]),
    (
        "NodeInfo",
        &[
            ("id", "String"),
            ("name", "String"),
            ("enode", "String"),
            ("enr", "String"),
            ("ip", "String"),
            ("ports", "Ports"),
            ("listenAddr", "String"),
            ("protocols", "Protocols"),
        ],
    ),
    ("Ports", &[("discovery", "Number"), ("listener", "Number")]),
    ("Protocols", &[("mc?", "Protocol"), ("eth?", "EthProtocol")]),
    (
        "Protocol",
        &[
            ("network", "Number"),
            ("difficulty", "Number"),
            ("genesis", "DATA32"),
            ("head", "DATA32"),
        ],
    ),
    (
        "EthProtocol",
        &[
            ("network", "Number"),
            ("difficulty", "Number"),
            ("genesis", "DATA32"),
            ("config", "Object"),
            ("head", "DATA32"),
        ],
    ),
    (
        "Peer",
        &[
            ("enr?", "String"),
            ("enode", "String"),
            ("id", "String"),
            ("name", "String"),
            ("caps", "String[]"),
            ("network", "PeerAddresses"),
            ("protocols", "PeerProtocols"),
            ("figures", "PeerFigures"),
        ],
    ),
    (
        "PeerFigures",
        &[
            ("slot", "Number"),
            ("since", "Number"),
            ("messagesIn", "Number"),
            ("messagesOut", "Number"),
            ("bytesIn", "Number"),
            ("bytesOut", "Number"),
            ("roundTrip", "Fraction|null"),
            ("lateAnswers", "Number"),
            ("faults", "Number"),
        ],
    ),
    (
        "PeerAddresses",
        &[
            ("localAddress", "String"),
            ("remoteAddress", "String"),
            ("inbound", "Boolean"),
            ("trusted", "Boolean"),
            ("static", "Boolean"),
        ],
    ),
    (
        "PeerProtocols",
        &[("mc?", "PeerProtocol"), ("eth?", "PeerProtocol")],
    ),
    (
        "PeerProtocol",
        &[
            ("version", "Number"),
            ("difficulty", "Number"),
            ("head", "DATA32"),
        ],
    ),
    (
        "Subnet",
        &[
            ("blockEnd", "QUANTITY"),
            ("blockStart", "QUANTITY"),
            ("peers", "String"),
            ("subnet", "DATA20"),
        ],
    ),
];

/// The members of a block of a MicroChain.
const MICRO_CHAIN_BLOCK: ObjectMembers = &[
    ("extraData", "DATA"),
    ("hash", "DATA32"),
    ("miner", "DATA20"),
    ("number", "QUANTITY"),
    ("parentHash", "DATA32"),
    ("receiptsRoot", "DATA32"),
    ("stateRoot", "DATA32"),
    ("timestamp", "QUANTITY"),
    ("transactions", "DATA32[]"),
    ("transactionsRoot", "DATA32"),
];

/// The members of a transaction of a MicroChain with its receipt.
const MICRO_CHAIN_RECEIPT: ObjectMembers = &[
    ("blockHash", "DATA32"),
    ("blockNumber", "QUANTITY"),
    ("contractAddress", "DATA20|null"),
    ("failed", "Boolean"),
    ("from", "DATA20"),
    ("gas", "QUANTITY"),
    ("gasPrice", "QUANTITY"),
    ("hash", "DATA32"),
    ("input", "DATA"),
    ("logs", "MicroChainLog[]"),
    ("logsBloom", "DATA256"),
    ("nonce", "QUANTITY"),
    ("queryInBlock", "Number"),
    ("r", "QUANTITY"),
    ("result", "String"),
    ("s", "QUANTITY"),
    ("shardingFlag", "QUANTITY"),
    ("status", "QUANTITY"),
    ("syscnt", "QUANTITY"),
    ("to", "DATA20|null"),
    ("transactionHash", "DATA32"),
    ("transactionIndex", "QUANTITY"),
    ("v", "QUANTITY"),
    ("value", "QUANTITY"),
];

/// The members of a log of a MicroChain. The data are base64.
const MICRO_CHAIN_LOG: ObjectMembers = &[
    ("address", "DATA20"),
    ("blockHash", "DATA32"),
    ("blockNumber", "Number"),
    ("data", "String"),
    ("logIndex", "Number"),
    ("removed", "Boolean"),
    ("topics", "DATA32[]"),
    ("transactionHash", "DATA32"),
    ("transactionIndex", "Number"),
];

const BLOCK: ObjectMembers = &[
    ("number", "QUANTITY|null"),
    ("hash", "DATA32|null"),
    ("parentHash", "DATA32"),
    ("nonce", "DATA8|null"),
    ("mixHash", "DATA32"),
    ("sha3Uncles", "DATA32"),
    ("logsBloom", "DATA256|null"),
    ("transactionsRoot", "DATA32"),
    ("stateRoot", "DATA32"),
    ("receiptsRoot", "DATA32"),
    ("miner", "DATA20"),
    ("difficulty", "QUANTITY"),
    ("totalDifficulty", "QUANTITY"),
    ("extraData", "DATA"),
    ("size", "QUANTITY"),
    ("gasLimit", "QUANTITY"),
    ("gasUsed", "QUANTITY"),
    ("timestamp", "QUANTITY"),
    ("transactions", "Transaction[]|DATA32[]"),
    ("uncles", "DATA32[]"),
];

/// The members of a block that a header does not have.
const NOT_IN_HEADER: [&str; 3] = ["size", "transactions", "uncles"];

/// The members of a block or a receipt that Otterscan gets in another form.
const NOT_IN_OTS: [&str; 3] = ["transactions", "logs", "logsBloom"];

/// The members that a block for Otterscan has in another form, or in addition.
const OTS_BLOCK: ObjectMembers = &[
    ("logsBloom", "null"),
    ("transactions?", "Transaction[]"),
    ("transactionCount", "Number"),
];

/// The members that a receipt for Otterscan has in another form, or in addition.
const OTS_RECEIPT: ObjectMembers = &[("logs", "null"), ("logsBloom", "null"), ("timestamp?", "Number")];

const TRANSACTION: ObjectMembers = &[
    ("hash", "DATA32"),
    ("nonce", "QUANTITY"),
    ("blockHash", "DATA32|null"),
    ("blockNumber", "QUANTITY|null"),
    ("transactionIndex", "QUANTITY|null"),
    ("from", "DATA20"),
    ("to", "DATA20|null"),
    ("value", "QUANTITY"),
    ("gasPrice", "QUANTITY"),
    ("gas", "QUANTITY"),
    ("input", "DATA"),
    ("syscnt", "QUANTITY"),
    ("v", "QUANTITY"),
    ("r", "QUANTITY"),
    ("s", "QUANTITY"),
    ("shardingFlag", "QUANTITY"),
    ("type?", "QUANTITY"),
    ("accessList?", "AccessListEntry[]"),
    ("chainId?", "QUANTITY"),
    ("yParity?", "QUANTITY"),
];

const RECEIPT: ObjectMembers = &[
    ("transactionHash", "DATA32"),
    ("transactionIndex", "QUANTITY"),
    ("blockHash", "DATA32"),
    ("blockNumber", "QUANTITY"),
    ("from", "DATA20"),
    ("to", "DATA20|null"),
    ("cumulativeGasUsed", "QUANTITY"),
    ("gasUsed", "QUANTITY"),
    ("contractAddress", "DATA20|null"),
    ("logs", "Log[]"),
    ("logsBloom", "DATA256"),
    ("root?", "DATA32"),
    ("status?", "QUANTITY"),
    ("type?", "QUANTITY"),
    ("effectiveGasPrice?", "QUANTITY"),
];

const LOG: ObjectMembers = &[
    ("removed", "Boolean"),
    ("logIndex", "QUANTITY|null"),
    ("transactionIndex", "QUANTITY|null"),
    ("transactionHash", "DATA32|null"),
    ("blockHash", "DATA32|null"),
    ("blockNumber", "QUANTITY|null"),
    ("address", "DATA20"),
    ("data", "DATA"),
    ("topics", "DATA32[]"),
];

const TRANSACTION_REQUEST: ObjectMembers = &[
    ("from", "DATA20"),
    ("to?", "DATA20"),
    ("gas?", "QUANTITY"),
    ("gasPrice?", "QUANTITY"),
    ("value?", "QUANTITY"),
    ("data?", "DATA"),
    ("input?", "DATA"),
    ("nonce?", "QUANTITY"),
    ("shardingFlag?", "QUANTITY"),
    ("via?", "DATA20"),
    ("chainId?", "COUNT"),
    ("type?", "COUNT"),
    ("accessList?", "AccessListEntry[]"),
];

/// The schemas of all objects.
pub(super) fn schemas() -> impl Iterator<Item = (String, Value)> {
    let header = BLOCK.iter().filter(|(name, _)| !NOT_IN_HEADER.contains(name));
    let header = ("Header".to_owned(), object(header));
    let ots_block = BLOCK.iter().filter(|(name, _)| !NOT_IN_OTS.contains(name));
    let ots_block = ("OtsBlock".to_owned(), object(ots_block.chain(OTS_BLOCK)));
    let ots_receipt = RECEIPT.iter().filter(|(name, _)| !NOT_IN_OTS.contains(name));
    let ots_receipt = ("OtsReceipt".to_owned(), object(ots_receipt.chain(OTS_RECEIPT)));
    described(OBJECTS).chain([header, ots_block, ots_receipt])
}

/// The schemas of these objects.
pub(super) fn described(
    objects: &'static [(&'static str, ObjectMembers)],
) -> impl Iterator<Item = (String, Value)> {
    objects
        .iter()
        .map(|(name, members)| ((*name).to_owned(), object(members.iter())))
}

fn object(members: impl Iterator<Item = &'static (&'static str, &'static str)> + Clone) -> Value {
    let named = |(name, kind): &(&str, &str)| (name.trim_end_matches('?').to_owned(), schema(kind));
    let properties: Map<_, _> = members.clone().map(named).collect();
    let required: Vec<_> = members
        .map(|(name, _)| *name)
        .filter(|name| !name.ends_with('?'))
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}
