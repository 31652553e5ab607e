//! The schemas of the objects: their members in order, each with its type.
//!
//! The types are in the notation of [`crate::wire_type::WireType`]. A question mark after a name
//! says that the member may be absent. Most of these objects are in docs/interface.md, 2.

use serde_json::{Map, Value, json};

use super::types::schema;

/// Every object: its name, and for each member the name and the type.
const OBJECTS: &str = "\
MicroChainBlock: extraData DATA, hash DATA32, miner DATA20, number QUANTITY, parentHash DATA32,
    receiptsRoot DATA32, stateRoot DATA32, timestamp QUANTITY, transactions DATA32[],
    transactionsRoot DATA32;
MicroChainBlockList: blockList MicroChainBlock[], endBlk QUANTITY, microchainAddress DATA20,
    startBlk QUANTITY;
MicroChainInfo: balance QUANTITY, blockReward QUANTITY, bondLimit QUANTITY, owner DATA20,
    scsList DATA20[], txReward QUANTITY, viaReward QUANTITY;
MicroChainReceipt: blockHash DATA32, blockNumber QUANTITY, contractAddress DATA20|null,
    failed Boolean, from DATA20, gas QUANTITY, gasPrice QUANTITY, hash DATA32, input DATA,
    logs MicroChainLog[], logsBloom DATA256, nonce QUANTITY, queryInBlock Number, r QUANTITY,
    result String, s QUANTITY, shardingFlag QUANTITY, status QUANTITY, syscnt QUANTITY,
    to DATA20|null, transactionHash DATA32, transactionIndex QUANTITY, v QUANTITY, value QUANTITY;
MicroChainLog: address DATA20, blockHash DATA32, blockNumber Number, data String, logIndex Number,
    removed Boolean, topics DATA32[], transactionHash DATA32, transactionIndex Number;
DirectCall: from? DATA20, to DATA20, dappAddr? DATA20, data? DATA, input? DATA;
AccountExchange: DepositRecordCount Number, DepositRecords ExchangeRecords,
    DepositingRecordCount Number, DepositingRecords ExchangeRecords, WithdrawRecordCount Number,
    WithdrawRecords ExchangeRecords, WithdrawingRecordCount Number,
    WithdrawingRecords ExchangeRecords, microchain DATA20, sender DATA20;
WaitingExchange: DepositingRecordCount Number, DepositingRecords ExchangeRecords,
    WithdrawingRecordCount Number, WithdrawingRecords ExchangeRecords, microchain DATA20,
    scsid DATA20;
ExchangeRecord: address? DATA20, DepositAmt? QUANTITY, Deposittime? QUANTITY,
    DepositingAmt? QUANTITY, Depositingtime? QUANTITY, WithdrawAmt? QUANTITY,
    Withdrawtime? QUANTITY, WithdrawingAmt? QUANTITY, Withdrawingtime? QUANTITY;
Block: number QUANTITY|null, hash DATA32|null, parentHash DATA32, nonce DATA8|null, mixHash DATA32,
    sha3Uncles DATA32, logsBloom DATA256|null, transactionsRoot DATA32, stateRoot DATA32,
    receiptsRoot DATA32, miner DATA20, difficulty QUANTITY, totalDifficulty QUANTITY,
    extraData DATA, size QUANTITY, gasLimit QUANTITY, gasUsed QUANTITY, timestamp QUANTITY,
    transactions Transaction[]|DATA32[], uncles DATA32[];
Backup: folder String, state String, head Number, rows Number, rowsTotal Number, bytes Number,
    error String|null;
DatabaseStats: tables TableSize[], oldBlocks Number, firstState Number|null,
    head DatabaseHead|null;
DatabaseHead: number Number, hash DATA32;
TableSize: name String, rows Number, bytes Number, pageBytes Number;
BlockReward: number QUANTITY, hash DATA32, miner DATA20, status String, uncleOf NephewBlock|null,
    reward QUANTITY, fees QUANTITY, total QUANTITY, uncles UncleReward[];
NephewBlock: number QUANTITY, hash DATA32;
UncleReward: number QUANTITY, hash DATA32, miner DATA20, reward QUANTITY;
BlockObject: blockNumber? COUNT, blockHash? DATA32, requireCanonical? Boolean;
Transaction: hash DATA32, nonce QUANTITY, blockHash DATA32|null, blockNumber QUANTITY|null,
    transactionIndex QUANTITY|null, from DATA20, to DATA20|null, value QUANTITY, gasPrice QUANTITY,
    gas QUANTITY, input DATA, syscnt QUANTITY, v QUANTITY, r QUANTITY, s QUANTITY,
    shardingFlag QUANTITY, type? QUANTITY, accessList? AccessListEntry[], chainId? QUANTITY,
    yParity? QUANTITY;
Receipt: transactionHash DATA32, transactionIndex QUANTITY, blockHash DATA32, blockNumber QUANTITY,
    from DATA20, to DATA20|null, cumulativeGasUsed QUANTITY, gasUsed QUANTITY,
    contractAddress DATA20|null, logs Log[], logsBloom DATA256, root? DATA32, status? QUANTITY,
    type? QUANTITY, effectiveGasPrice? QUANTITY;
Log: removed Boolean, logIndex QUANTITY|null, transactionIndex QUANTITY|null,
    transactionHash DATA32|null, blockHash DATA32|null, blockNumber QUANTITY|null, address DATA20,
    data DATA, topics DATA32[];
LogFilter: fromBlock? BLOCKREF, toBlock? BLOCKREF, blockHash? DATA32, address? DATA20|DATA20[],
    topics? TOPIC[];
SyncStatus: startingBlock QUANTITY, currentBlock QUANTITY, highestBlock QUANTITY,
    syncedAccounts? QUANTITY, syncedAccountBytes? QUANTITY, syncedStorage? QUANTITY,
    syncedStorageBytes? QUANTITY, syncedBytecodes? QUANTITY, syncedBytecodeBytes? QUANTITY,
    healedTrienodes? QUANTITY, healedTrienodeBytes? QUANTITY;
NodeConfig: current RulesConfig, next RulesConfig|null, last RulesConfig|null;
RulesConfig: activationBlock QUANTITY, chainId QUANTITY, forkId DATA|null, precompiles DATA20{},
    systemContracts DATA20{};
TransactionRequest: from DATA20, to? DATA20, gas? QUANTITY, gasPrice? QUANTITY, value? QUANTITY,
    data? DATA, input? DATA, nonce? QUANTITY, shardingFlag? QUANTITY, via? DATA20, chainId? COUNT,
    type? COUNT, accessList? AccessListEntry[];
CallRequest: from? DATA20, to? DATA20, gas? QUANTITY, gasPrice? QUANTITY, value? QUANTITY,
    data? DATA, input? DATA, chainId? COUNT, type? COUNT, maxFeePerGas? QUANTITY,
    maxPriorityFeePerGas? QUANTITY, accessList? AccessListEntry[];
AccessListEntry: address DATA20, storageKeys? DATA32[];
AccountOverride: nonce? COUNT, balance? QUANTITY, code? DATA, state? WORD{}, stateDiff? WORD{};
BlockOverrides: number? COUNT, blockNumber? COUNT, time? COUNT, timestamp? COUNT, gasLimit? COUNT,
    coinbase? DATA20, feeRecipient? DATA20, difficulty? QUANTITY, random? DATA32,
    prevRandao? DATA32, baseFee? QUANTITY, baseFeePerGas? QUANTITY;
FeeHistory: oldestBlock QUANTITY, reward? QUANTITY[][], baseFeePerGas QUANTITY[],
    gasUsedRatio Fraction[];
CreatedAccessList: accessList AccessListEntry[], error? String, gasUsed QUANTITY;
AccountProof: address DATA20, accountProof DATA[], balance QUANTITY, codeHash DATA32,
    nonce QUANTITY, storageHash DATA32, storageProof SlotProof[];
SlotProof: key WORD, value QUANTITY, proof DATA[];
TypedData: types TypedDataField[]{}, primaryType String, domain Object, message Object;
TypedDataField: name String, type String;
ResetOptions: forking? Object;
TokenBalance: token DATA20, balance QUANTITY|null, decimals QUANTITY|null, symbol String|null;
DeveloperNodeInfo: currentBlockNumber QUANTITY, currentBlockTimestamp Number, currentBlockHash DATA32, hardFork String,
    transactionOrder String, environment DeveloperEnvironment, forkConfig Object;
DeveloperEnvironment: baseFee QUANTITY, chainId Number, gasLimit QUANTITY, gasPrice QUANTITY;
DeveloperMetadata: clientVersion String, chainId Number, instanceId DATA32, latestBlockNumber Number, latestBlockHash DATA32;
MineOptions: timestamp? COUNT, blocks? COUNT;
SignedTransaction: raw DATA, tx Transaction;
Pool: pending Transaction{}{}, queued Transaction{}{};
PoolSummary: pending String{}{}, queued String{}{};
AccountPool: pending Transaction{}, queued Transaction{};
PoolStatus: pending QUANTITY, queued QUANTITY;
Wallet: url String, status String, accounts WalletAccount[];
WalletAccount: address DATA20, url String;
NodeInfo: id String, name String, enode String, enr String, ip String, ports Ports,
    listenAddr String, protocols Protocols;
Ports: discovery Number, listener Number;
Protocols: mc? Protocol, eth? EthProtocol;
Protocol: network Number, difficulty Number, genesis DATA32, head DATA32;
EthProtocol: network Number, difficulty Number, genesis DATA32, config Object, head DATA32;
Peer: enr? String, enode String, id String, name String, caps String[], network PeerAddresses,
    protocols PeerProtocols, figures PeerFigures;
PeerFigures: slot Number, since Number, messagesIn Number, messagesOut Number, bytesIn Number,
    bytesOut Number, roundTrip Fraction|null, lateAnswers Number, faults Number;
PeerAddresses: localAddress String, remoteAddress String, inbound Boolean, trusted Boolean,
    static Boolean;
PeerProtocols: mc? PeerProtocol, eth? PeerProtocol;
PeerProtocol: version Number, difficulty Number, head DATA32;
Subnet: blockEnd QUANTITY, blockStart QUANTITY, peers String, subnet DATA20;
TraceOptions: tracer? String, tracerConfig? TracerConfig, timeout? String, limit? COUNT,
    disableStack? Boolean, disableMemory? Boolean, disableStorage? Boolean;
TracerConfig: onlyTopCall? Boolean, withLog? Boolean, diffMode? Boolean;
TraceCallOptions: tracer? String, tracerConfig? TracerConfig, timeout? String, limit? COUNT,
    disableStack? Boolean, disableMemory? Boolean, disableStorage? Boolean,
    stateOverrides? AccountOverride{}, blockOverrides? BlockOverrides;
PrestateAccount: balance? QUANTITY, nonce? Number, code? DATA, storage? DATA32{};
PrestateChanges: pre PrestateAccount{}, post PrestateAccount{};
CallLog: address DATA20, topics DATA32[], data DATA, position QUANTITY;
ParityTrace: action Object, blockHash DATA32, blockNumber Number, error? String,
    result? Object|null, subtraces Number, traceAddress Number[], transactionHash DATA32|null,
    transactionPosition Number|null, type String;
ParityCall: action Object, error? String, result? Object|null, subtraces Number,
    traceAddress Number[], type String;
ParityReplay: output DATA, stateDiff AccountDiff{}|null, trace ParityCall[],
    transactionHash? DATA32, vmTrace null;
AccountDiff: balance String|Object, code String|Object, nonce String|Object, storage Object;
TraceFilter: fromBlock? BLOCKREF, toBlock? BLOCKREF, fromAddress? DATA20[], toAddress? DATA20[],
    after? COUNT, count? COUNT;
OtsOperation: type Number, from DATA20, to DATA20, value QUANTITY;
OtsTraceEntry: type String, depth Number, from DATA20, to DATA20, value QUANTITY|null, input DATA,
    output DATA;
OtsBlockDetails: block OtsBlock, issuance OtsIssuance, totalFees QUANTITY;
OtsIssuance: blockReward QUANTITY, uncleReward QUANTITY, issuance QUANTITY;
OtsTransactions: fullblock OtsBlock, receipts OtsReceipt[];
OtsPage: txs Transaction[], receipts OtsReceipt[], firstPage Boolean, lastPage Boolean;
OtsCreator: hash DATA32, creator DATA20;
StepTrace: gas Number, failed Boolean, returnValue String, structLogs Step[];
Step: pc Number, op String, gas Number, gasCost Number, depth Number, error? String,
    stack? String[], memory? String[], storage? String{};
CallTrace: type String, from DATA20, to? DATA20, value? QUANTITY, gas QUANTITY, gasUsed QUANTITY,
    input DATA, output? DATA, error? String, calls? CallTrace[], logs? CallLog[];
TransactionTrace: txHash DATA32,
    result StepTrace|CallTrace|PrestateAccount{}|PrestateChanges|Number{};
StorageRange: storage StorageEntry{}, nextKey DATA32|null;
StorageEntry: key DATA32, value DATA32;
Dump: root DATA32, accounts DumpAccount{};
DumpAccount: balance String, nonce Number, root DATA32, codeHash DATA32, code DATA,
    storage DATA32{};
BadBlock: hash DATA32, block Block, rlp DATA, reason String;
";

/// The members of an object: name and type.
type ObjectMembers = Vec<(&'static str, &'static str)>;

/// An object with the members of another one.
struct DerivedObject {
    name: &'static str,
    origin: &'static str,
    /// Members of the other object that this one does not have, or has in another form.
    without: &'static [&'static str],
    /// Members of this object alone.
    with: &'static [(&'static str, &'static str)],
}

/// Headers, and blocks and receipts as Otterscan gets them.
const DERIVED: [DerivedObject; 3] = [
    DerivedObject {
        name: "Header",
        origin: "Block",
        without: &["size", "transactions", "uncles"],
        with: &[],
    },
    DerivedObject {
        name: "OtsBlock",
        origin: "Block",
        without: &["transactions", "logsBloom"],
        with: &[
            ("logsBloom", "null"),
            ("transactions?", "Transaction[]"),
            ("transactionCount", "Number"),
        ],
    },
    DerivedObject {
        name: "OtsReceipt",
        origin: "Receipt",
        without: &["logs", "logsBloom"],
        with: &[("logs", "null"), ("logsBloom", "null"), ("timestamp?", "Number")],
    },
];

/// The schemas of all objects.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let mut all: Vec<(&str, ObjectMembers)> = OBJECTS.split(';').filter_map(read_object).collect();
    for derived in DERIVED {
        let origin = all.iter().find(|(name, _)| *name == derived.origin);
        let mut members = origin.map_or_else(Vec::new, |(_, members)| members.clone());
        members.retain(|(name, _)| !derived.without.contains(name));
        members.extend(derived.with);
        all.push((derived.name, members));
    }
    let described = |(name, members): (&str, ObjectMembers)| (name.to_owned(), object(&members));
    all.into_iter().map(described).collect()
}

/// Reads `Name: member TYPE, member TYPE`.
fn read_object(text: &'static str) -> Option<(&'static str, ObjectMembers)> {
    let (name, members) = text.split_once(':')?;
    let members = members
        .split(',')
        .filter_map(|member| member.trim().split_once(' '));
    Some((name.trim(), members.collect()))
}

fn object(members: &ObjectMembers) -> Value {
    let named = |(name, kind): &(&str, &str)| (name.trim_end_matches('?').to_owned(), schema(kind));
    let properties: Map<_, _> = members.iter().map(named).collect();
    let required = members.iter().map(|(name, _)| *name);
    let required: Vec<_> = required.filter(|name| !name.ends_with('?')).collect();
    json!({"type": "object", "properties": properties, "required": required})
}
