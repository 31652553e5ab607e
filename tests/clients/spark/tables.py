"""Reads the tables of an export with Spark and compares every row with the answers of the node.

Usage: as that of tables.py for DuckDB, and "modules": the folder with expected_tables.py.
"""

import json
import sys

from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
sys.path.append(given["modules"])
from expected_tables import compare, expected  # noqa: E402

with open(given["answers"]) as file:
    answers = json.load(file)[given["first"] : given["last"] + 1]

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)


def read(table):
    return [row.asDict() for row in spark.read.parquet(f"{given['folder']}/{table}").collect()]


counts = compare(expected(answers), read)
spark.stop()
print(json.dumps(counts))
