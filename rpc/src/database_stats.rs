//! The size of a node's database: its tables, old blocks, and which states it keeps.

use chain::upkeep::DatabaseSize;
use serde::{Deserialize, Serialize};

use crate::wire_type::{Described, WireType};

/// The size of a database, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStats {
    /// The tables, in the order of the program.
    pub tables: Vec<TableSize>,
    /// The number of blocks in the file of old blocks.
    pub old_blocks: u64,
    /// The oldest block whose state is kept, unless all states are kept.
    pub first_state: Option<u64>,
    /// The head block.
    pub head: Option<HeadName>,
}

/// The head block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeadName {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: String,
}

/// The size of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableSize {
    /// Its name.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Bytes of the pages that hold them.
    pub page_bytes: u64,
}

impl Described for DatabaseStats {
    const TYPE: WireType = WireType::Named("DatabaseStats");
}

impl From<DatabaseSize> for DatabaseStats {
    fn from(size: DatabaseSize) -> Self {
        let tables = size.tables.into_iter().map(|table| TableSize {
            name: table.name.to_owned(),
            rows: table.rows,
            bytes: table.stored_bytes,
            page_bytes: table.page_bytes,
        });
        Self {
            tables: tables.collect(),
            old_blocks: size.old_blocks,
            first_state: size.first_state,
            head: size.head.map(|(number, hash)| HeadName {
                number,
                hash: hash.to_string(),
            }),
        }
    }
}
