//! The schemas of traces and states, and of what explorers ask. The notation is that of
//! `objects.rs`.

use super::objects::ObjectMembers;

/// Every object, by name.
pub(super) const DEBUG_OBJECTS: &[(&str, ObjectMembers)] = &[
    (
        "TraceOptions",
        &[
            ("tracer?", "String"),
            ("tracerConfig?", "TracerConfig"),
            ("timeout?", "String"),
            ("limit?", "COUNT"),
            ("disableStack?", "Boolean"),
            ("disableMemory?", "Boolean"),
            ("disableStorage?", "Boolean"),
        ],
    ),
    (
        "TracerConfig",
        &[
            ("onlyTopCall?", "Boolean"),
            ("withLog?", "Boolean"),
            ("diffMode?", "Boolean"),
        ],
    ),
    (
        "TraceCallOptions",
        &[
            ("tracer?", "String"),
            ("tracerConfig?", "TracerConfig"),
            ("timeout?", "String"),
            ("limit?", "COUNT"),
            ("disableStack?", "Boolean"),
            ("disableMemory?", "Boolean"),
            ("disableStorage?", "Boolean"),
            ("stateOverrides?", "AccountOverride{}"),
            ("blockOverrides?", "BlockOverrides"),
        ],
    ),
    (
        "PrestateAccount",
        &[
            ("balance?", "QUANTITY"),
            ("nonce?", "Number"),
            ("code?", "DATA"),
            ("storage?", "DATA32{}"),
        ],
    ),
    (
        "PrestateChanges",
        &[("pre", "PrestateAccount{}"), ("post", "PrestateAccount{}")],
    ),
    (
        "CallLog",
        &[
            ("address", "DATA20"),
            ("topics", "DATA32[]"),
            ("data", "DATA"),
            ("position", "QUANTITY"),
        ],
    ),
    (
        "ParityTrace",
        &[
            ("action", "Object"),
            ("blockHash", "DATA32"),
            ("blockNumber", "Number"),
            ("error?", "String"),
            ("result?", "Object|null"),
            ("subtraces", "Number"),
            ("traceAddress", "Number[]"),
            ("transactionHash", "DATA32|null"),
            ("transactionPosition", "Number|null"),
            ("type", "String"),
        ],
    ),
    (
        "ParityCall",
        &[
            ("action", "Object"),
            ("error?", "String"),
            ("result?", "Object|null"),
            ("subtraces", "Number"),
            ("traceAddress", "Number[]"),
            ("type", "String"),
        ],
    ),
    (
        "ParityReplay",
        &[
            ("output", "DATA"),
            ("stateDiff", "AccountDiff{}|null"),
            ("trace", "ParityCall[]"),
            ("transactionHash?", "DATA32"),
            ("vmTrace", "null"),
        ],
    ),
    (
        "AccountDiff",
        &[
            ("balance", "String|Object"),
            ("code", "String|Object"),
            ("nonce", "String|Object"),
            ("storage", "Object"),
        ],
    ),
    (
        "TraceFilter",
        &[
            ("fromBlock?", "BLOCKREF"),
            ("toBlock?", "BLOCKREF"),
            ("fromAddress?", "DATA20[]"),
            ("toAddress?", "DATA20[]"),
            ("after?", "COUNT"),
            ("count?", "COUNT"),
        ],
    ),
    (
        "OtsOperation",
        &[
            ("type", "Number"),
            ("from", "DATA20"),
            ("to", "DATA20"),
            ("value", "QUANTITY"),
        ],
    ),
    (
        "OtsTraceEntry",
        &[
            ("type", "String"),
            ("depth", "Number"),
            ("from", "DATA20"),
            ("to", "DATA20"),
            ("value", "QUANTITY|null"),
            ("input", "DATA"),
            ("output", "DATA"),
        ],
    ),
    (
        "OtsBlockDetails",
        &[
            ("block", "OtsBlock"),
            ("issuance", "OtsIssuance"),
            ("totalFees", "QUANTITY"),
        ],
    ),
    (
        "OtsIssuance",
        &[
            ("blockReward", "QUANTITY"),
            ("uncleReward", "QUANTITY"),
            ("issuance", "QUANTITY"),
        ],
    ),
    (
        "OtsTransactions",
        &[("fullblock", "OtsBlock"), ("receipts", "OtsReceipt[]")],
    ),
    (
        "OtsPage",
        &[
            ("txs", "Transaction[]"),
            ("receipts", "OtsReceipt[]"),
            ("firstPage", "Boolean"),
            ("lastPage", "Boolean"),
        ],
    ),
    ("OtsCreator", &[("hash", "DATA32"), ("creator", "DATA20")]),
    (
        "StepTrace",
        &[
            ("gas", "Number"),
            ("failed", "Boolean"),
            ("returnValue", "String"),
            ("structLogs", "Step[]"),
        ],
    ),
    (
        "Step",
        &[
            ("pc", "Number"),
            ("op", "String"),
            ("gas", "Number"),
            ("gasCost", "Number"),
            ("depth", "Number"),
            ("error?", "String"),
            ("stack?", "String[]"),
            ("memory?", "String[]"),
            ("storage?", "String{}"),
        ],
    ),
    (
        "CallTrace",
        &[
            ("type", "String"),
            ("from", "DATA20"),
            ("to?", "DATA20"),
            ("value?", "QUANTITY"),
            ("gas", "QUANTITY"),
            ("gasUsed", "QUANTITY"),
            ("input", "DATA"),
            ("output?", "DATA"),
            ("error?", "String"),
            ("calls?", "CallTrace[]"),
            ("logs?", "CallLog[]"),
        ],
    ),
    (
        "TransactionTrace",
        &[
            ("txHash", "DATA32"),
            (
                "result",
                "StepTrace|CallTrace|PrestateAccount{}|PrestateChanges|Number{}",
            ),
        ],
    ),
    (
        "StorageRange",
        &[("storage", "StorageEntry{}"), ("nextKey", "DATA32|null")],
    ),
    ("StorageEntry", &[("key", "DATA32"), ("value", "DATA32")]),
    ("Dump", &[("root", "DATA32"), ("accounts", "DumpAccount{}")]),
    (
        "DumpAccount",
        &[
            ("balance", "String"),
            ("nonce", "Number"),
            ("root", "DATA32"),
            ("codeHash", "DATA32"),
            ("code", "DATA"),
            ("storage", "DATA32{}"),
        ],
    ),
    (
        "BadBlock",
        &[
            ("hash", "DATA32"),
            ("block", "Block"),
            ("rlp", "DATA"),
            ("reason", "String"),
        ],
    ),
];
