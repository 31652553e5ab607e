//! The five tables: their names, their columns, and rows in memory.
//!
//! Tables and columns are named as ethereum-etl names them. Columns that it does not have stand
//! last. What the columns mean is in docs/parquet.md.

use std::fmt;
use std::str::FromStr;

use crate::column::{Cell, Column, ColumnCells};

/// A table of the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtlTable {
    /// One row for each block.
    Blocks,
    /// One row for each transaction.
    Transactions,
    /// One row for each receipt.
    Receipts,
    /// One row for each log.
    Logs,
    /// One row for each call, and for each reward of a miner.
    Traces,
}

const BLOCKS: &[Column] = &[
    Column::int("number"),
    Column::text("hash"),
    Column::text("parent_hash"),
    Column::text("nonce"),
    Column::text("sha3_uncles"),
    Column::text("logs_bloom"),
    Column::text("transactions_root"),
    Column::text("state_root"),
    Column::text("receipts_root"),
    Column::text("miner"),
    Column::decimal("difficulty"),
    Column::decimal("total_difficulty"),
    Column::int("size"),
    Column::text("extra_data"),
    Column::int("gas_limit"),
    Column::int("gas_used"),
    Column::int("timestamp"),
    Column::int("transaction_count"),
    Column::int("base_fee_per_gas").or_null(),
    Column::text("mix_hash"),
    Column::texts("uncles"),
];

const TRANSACTIONS: &[Column] = &[
    Column::text("hash"),
    Column::int("nonce"),
    Column::text("block_hash"),
    Column::int("block_number"),
    Column::int("transaction_index"),
    Column::text("from_address"),
    Column::text("to_address").or_null(),
    Column::decimal("value"),
    Column::int("gas"),
    Column::decimal("gas_price"),
    Column::text("input"),
    Column::int("block_timestamp"),
    Column::int("max_fee_per_gas").or_null(),
    Column::int("max_priority_fee_per_gas").or_null(),
    Column::int("transaction_type"),
    Column::text("value_lossless"),
    Column::text("ethereum_hash").or_null(),
    Column::int("syscnt"),
    Column::int("sharding_flag"),
    Column::text("via").or_null(),
];

const RECEIPTS: &[Column] = &[
    Column::text("transaction_hash").or_null(),
    Column::int("transaction_index").or_null(),
    Column::text("block_hash"),
    Column::int("block_number"),
    Column::int("cumulative_gas_used"),
    Column::int("gas_used"),
    Column::text("contract_address").or_null(),
    Column::text("root").or_null(),
    Column::int("status").or_null(),
    Column::decimal("effective_gas_price"),
];

const LOGS: &[Column] = &[
    Column::int("log_index"),
    Column::text("transaction_hash").or_null(),
    Column::int("transaction_index").or_null(),
    Column::text("block_hash"),
    Column::int("block_number"),
    Column::text("address"),
    Column::text("data"),
    Column::texts("topics"),
];

const TRACES: &[Column] = &[
    Column::int("block_number"),
    Column::text("transaction_hash").or_null(),
    Column::int("transaction_index").or_null(),
    Column::text("from_address").or_null(),
    Column::text("to_address").or_null(),
    Column::decimal("value"),
    Column::text("input").or_null(),
    Column::text("output").or_null(),
    Column::text("trace_type"),
    Column::text("call_type").or_null(),
    Column::text("reward_type").or_null(),
    Column::int("gas").or_null(),
    Column::int("gas_used").or_null(),
    Column::int("subtraces"),
    Column::text("trace_address").or_null(),
    Column::text("error").or_null(),
    Column::int("status"),
    Column::text("trace_id"),
    Column::text("value_lossless"),
];

impl EtlTable {
    /// All tables.
    pub const ALL: [Self; 5] = [
        Self::Blocks,
        Self::Transactions,
        Self::Receipts,
        Self::Logs,
        Self::Traces,
    ];

    /// The name, which is that of the folder, too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Transactions => "transactions",
            Self::Receipts => "receipts",
            Self::Logs => "logs",
            Self::Traces => "traces",
        }
    }

    pub(crate) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Blocks => BLOCKS,
            Self::Transactions => TRANSACTIONS,
            Self::Receipts => RECEIPTS,
            Self::Logs => LOGS,
            Self::Traces => TRACES,
        }
    }

    /// The columns in the text form of Parquet's schemas.
    pub(crate) fn schema(self) -> String {
        let columns: String = self.columns().iter().map(Column::schema).collect();
        format!("message {} {{ {columns} }}", self.name())
    }
}

impl fmt::Display for EtlTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A table that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table: got {0}, expected blocks, transactions, receipts, logs or traces")]
pub struct NoSuchTable(String);

impl FromStr for EtlTable {
    type Err = NoSuchTable;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|table| table.name() == text);
        found.ok_or_else(|| NoSuchTable(text.to_owned()))
    }
}

/// Rows of a table, column by column.
#[derive(Debug)]
pub(crate) struct TableRows {
    pub(crate) table: EtlTable,
    pub(crate) columns: Vec<ColumnCells>,
    pub(crate) rows: usize,
}

impl TableRows {
    pub(crate) fn new(table: EtlTable) -> Self {
        let columns = table.columns().iter().copied().map(ColumnCells::new);
        Self {
            table,
            columns: columns.collect(),
            rows: 0,
        }
    }

    /// Appends a row, which has a cell for each column.
    pub(crate) fn push<const N: usize>(&mut self, row: [Cell; N]) {
        assert_eq!(self.columns.len(), N, "columns of {}", self.table);
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(cell);
        }
        self.rows += 1;
    }

    /// Approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_names_and_schemas() {
        for table in EtlTable::ALL {
            assert_eq!(table.name().parse(), Ok(table));
            let schema = parquet::schema::parser::parse_message_type(&table.schema());
            let schema = schema.expect("a schema");
            assert_eq!(schema.get_fields().len(), table.columns().len());
        }
        let error = "tokens".parse::<EtlTable>().expect_err("no such table");
        assert_eq!(
            error.to_string(),
            "table: got tokens, expected blocks, transactions, receipts, logs or traces"
        );
    }
}
