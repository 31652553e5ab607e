"""The rows that an export must have, made from the answers of a node; and the comparison of the two."""


def number(text):
    return None if text is None else int(text, 16)


def lower(text):
    return None if text is None else text.lower()


def block_row(block):
    return {
        "number": number(block["number"]),
        "hash": block["hash"],
        "parent_hash": block["parentHash"],
        "nonce": block["nonce"],
        "sha3_uncles": block["sha3Uncles"],
        "logs_bloom": block["logsBloom"],
        "transactions_root": block["transactionsRoot"],
        "state_root": block["stateRoot"],
        "receipts_root": block["receiptsRoot"],
        "miner": lower(block["miner"]),
        "difficulty": number(block["difficulty"]),
        "total_difficulty": number(block["totalDifficulty"]),
        "size": number(block["size"]),
        "extra_data": block["extraData"],
        "gas_limit": number(block["gasLimit"]),
        "gas_used": number(block["gasUsed"]),
        "timestamp": number(block["timestamp"]),
        "transaction_count": len(block["transactions"]),
        "base_fee_per_gas": None,
        "mix_hash": block["mixHash"],
        "uncles": block["uncles"],
    }


def transaction_row(one, block):
    return {
        "nonce": number(one["nonce"]),
        "block_hash": one["blockHash"],
        "block_number": number(one["blockNumber"]),
        "transaction_index": number(one["transactionIndex"]),
        "from_address": lower(one["from"]),
        "to_address": lower(one["to"]),
        "value": number(one["value"]),
        "gas": number(one["gas"]),
        "gas_price": number(one["gasPrice"]),
        "input": one["input"],
        "block_timestamp": number(block["timestamp"]),
        "max_fee_per_gas": None,
        "max_priority_fee_per_gas": None,
        "transaction_type": number(one["type"]),
        "value_lossless": str(number(one["value"])),
        "syscnt": number(one["syscnt"]),
        "sharding_flag": number(one["shardingFlag"]),
    }


def receipt_row(one):
    return {
        "transaction_index": number(one["transactionIndex"]),
        "block_hash": one["blockHash"],
        "block_number": number(one["blockNumber"]),
        "cumulative_gas_used": number(one["cumulativeGasUsed"]),
        "gas_used": number(one["gasUsed"]),
        "contract_address": lower(one["contractAddress"]),
        "root": one.get("root"),
        "status": number(one.get("status")),
        "effective_gas_price": number(one["effectiveGasPrice"]),
    }


def log_row(one):
    return {
        "log_index": number(one["logIndex"]),
        "transaction_index": number(one["transactionIndex"]),
        "block_hash": one["blockHash"],
        "block_number": number(one["blockNumber"]),
        "address": lower(one["address"]),
        "data": one["data"],
        "topics": one["topics"],
    }


def trace_row(one, failed):
    action, result, kind = one["action"], one.get("result") or {}, one["type"]
    place = one["traceAddress"]
    inside_failure = any(place[: len(outer)] == outer for outer in failed)
    return {
        "block_number": one["blockNumber"],
        "transaction_index": one["transactionPosition"],
        "from_address": lower(action.get("from", action.get("address"))),
        "to_address": lower(
            result.get("address") if kind == "create" else action.get("to", action.get("refundAddress", action.get("author")))
        ),
        "value": number(action.get("value", action.get("balance"))),
        "input": action.get("init", action.get("input")),
        "output": result.get("code", result.get("output")),
        "trace_type": kind,
        "call_type": action.get("callType"),
        "reward_type": action.get("rewardType"),
        "gas": number(action.get("gas")),
        "gas_used": number(result.get("gasUsed")),
        "subtraces": one["subtraces"],
        "trace_address": None if kind == "reward" else ",".join(map(str, place)),
        "error": one.get("error"),
        "status": 0 if inside_failure else 1,
        "value_lossless": str(number(action.get("value", action.get("balance")))),
    }


def expected(answers):
    rows = {"blocks": [], "transactions": [], "receipts": [], "logs": [], "traces": []}
    for answer in answers:
        block, receipts = answer["block"], answer["receipts"] or []
        rows["blocks"].append(block_row(block))
        rows["transactions"] += [transaction_row(one, block) for one in block["transactions"]]
        rows["receipts"] += [receipt_row(one) for one in receipts]
        rows["logs"] += [log_row(one) for receipt in receipts for one in receipt["logs"]]
        for one in answer["traces"]:
            same = [other for other in answer["traces"] if other["transactionHash"] == one["transactionHash"]]
            failed = [other["traceAddress"] for other in same if "error" in other]
            rows["traces"].append(trace_row(one, failed))
    return rows


def check_traces(rows):
    ids = [row["trace_id"] for row in rows]
    assert len(set(ids)) == len(ids), "trace ids are unique"
    for row in rows:
        if row["trace_type"] != "reward":
            place = (row["trace_address"] or "").replace(",", "_")
            assert row["trace_id"] == f"{row['trace_type']}_{row['transaction_hash']}_{place}", row


def compare(wanted, read):
    """Compares all tables, which `read` returns as lists of rows. Returns the number of rows of each."""
    tables = {table: read(table) for table in wanted}
    for table, rows in tables.items():
        got = [{name: value for name, value in row.items() if name in (wanted[table] or [{}])[0]} for row in rows]
        order = lambda row: [str(row.get(name)) for name in sorted(row)]
        for one, other in zip(sorted(got, key=order), sorted(wanted[table], key=order)):
            for name in other:
                assert one[name] == other[name], f"{table}.{name}: got {one[name]!r}, expected {other[name]!r} in {other}"
        assert len(got) == len(wanted[table]), f"{table}: got {len(got)} rows, expected {len(wanted[table])}"
    # Rows of one transaction have one hash, which is the chain's own.
    hashes = {(row["block_number"], row["transaction_index"]): row["hash"] for row in tables["transactions"]}
    for table in ["receipts", "logs", "traces"]:
        for row in tables[table]:
            place = (row["block_number"], row["transaction_index"])
            assert row["transaction_hash"] == hashes.get(place), (table, row)
    check_traces(tables["traces"])
    return {table: len(rows) for table, rows in tables.items()}
