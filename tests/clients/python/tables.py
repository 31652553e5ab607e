"""Reads the tables of an export with DuckDB and compares every row with the answers of the node.

Usage: tables.py '{"folder": ..., "answers": FILE, "first": n, "last": m}'. `answers` has for each block what
eth_getBlockByNumber, eth_getBlockReceipts and trace_block returned. It prints the number of rows of each table.
"""

import json
import sys

import duckdb

from expected_tables import compare, expected

given = json.loads(sys.argv[1])
with open(given["answers"]) as file:
    answers = json.load(file)[given["first"] : given["last"] + 1]


def read(table):
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{given['folder']}/{table}/*/*/*.parquet', hive_partitioning = true)")
    return [dict(zip(rows.columns, row)) for row in rows.fetchall()]


counts = compare(expected(answers), read)
# A question as an analyst asks it: numbers are numbers.
total = duckdb.sql(
    f"SELECT sum(value), max(number) FROM read_parquet('{given['folder']}/transactions/*/*/*.parquet') t"
    f" JOIN read_parquet('{given['folder']}/blocks/*/*/*.parquet') b ON t.block_number = b.number"
).fetchall()[0]
values = [int(one["value"], 16) for answer in answers for one in answer["block"]["transactions"]]
assert int(total[0] or 0) == sum(values), (total, sum(values))
print(json.dumps(counts))
