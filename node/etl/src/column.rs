//! Columns of tables: what a cell holds, and the values of a column until they are written.
//!
//! This module knows the types of Parquet. It does not know the meaning of columns.

use parquet::data_type::{ByteArray, FixedLenByteArray};
use primitives::U256;

/// The most decimal digits of a number in a decimal column.
const DECIMAL_DIGITS: usize = 38;
/// Length of a decimal number in a file, in bytes.
const DECIMAL_BYTES: usize = 16;

/// The type of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// A whole number of 64 bits with a sign.
    Int,
    /// Text.
    Text,
    /// A whole number of at most 38 decimal digits.
    Decimal,
    /// A list of texts.
    Texts,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
    /// Whether cells may be null.
    pub(crate) optional: bool,
}

impl Column {
    pub(crate) const fn int(name: &'static str) -> Self {
        Self::new(name, ColumnKind::Int)
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, ColumnKind::Text)
    }

    /// Decimal cells are null where a number has too many digits.
    pub(crate) const fn decimal(name: &'static str) -> Self {
        Self::new(name, ColumnKind::Decimal).or_null()
    }

    pub(crate) const fn texts(name: &'static str) -> Self {
        Self::new(name, ColumnKind::Texts)
    }

    pub(crate) const fn or_null(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    const fn new(name: &'static str, kind: ColumnKind) -> Self {
        Self {
            name,
            kind,
            optional: false,
        }
    }

    /// The column in the text form of Parquet's schemas.
    pub(crate) fn schema(&self) -> String {
        let repetition = if self.optional { "optional" } else { "required" };
        let name = self.name;
        match self.kind {
            ColumnKind::Int => format!("{repetition} int64 {name};"),
            ColumnKind::Text => format!("{repetition} binary {name} (UTF8);"),
            ColumnKind::Decimal => format!(
                "{repetition} fixed_len_byte_array({DECIMAL_BYTES}) {name} (DECIMAL({DECIMAL_DIGITS},0));"
            ),
            ColumnKind::Texts => format!(
                "required group {name} (LIST) {{ repeated group list {{ required binary element (UTF8); }} }}"
            ),
        }
    }
}

/// One value of a row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Int(i64),
    Text(ByteArray),
    Decimal(FixedLenByteArray),
    Texts(Vec<ByteArray>),
    Null,
}

impl Cell {
    /// A number. Those above 2^63 - 1 become 2^63 - 1.
    pub(crate) fn int(number: impl TryInto<i64>) -> Self {
        Self::Int(number.try_into().unwrap_or(i64::MAX))
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(ByteArray::from(text.into().into_bytes()))
    }

    /// Bytes as hex digits after `0x`.
    pub(crate) fn hex(bytes: &[u8]) -> Self {
        Self::Text(hex_text(bytes))
    }

    /// A number; null if it has more than 38 digits.
    pub(crate) fn decimal(number: &U256) -> Self {
        let bytes = number.to_be_bytes::<32>();
        let (high, low) = bytes.split_at(32 - DECIMAL_BYTES);
        let fits = high.iter().all(|byte| *byte == 0) && *number < decimal_bound();
        if fits {
            Self::Decimal(FixedLenByteArray::from(low.to_vec()))
        } else {
            Self::Null
        }
    }

    /// The cell, or null.
    pub(crate) fn or_null(cell: Option<Self>) -> Self {
        cell.unwrap_or(Self::Null)
    }
}

/// The smallest number that has too many digits.
fn decimal_bound() -> U256 {
    U256::from(10).pow(U256::from(DECIMAL_DIGITS))
}

/// Bytes as hex digits after `0x`.
pub(crate) fn hex_text(bytes: &[u8]) -> ByteArray {
    let mut text = vec![0; 2 + 2 * bytes.len()];
    text[..2].copy_from_slice(b"0x");
    hex::encode_to_slice(bytes, &mut text[2..]).expect("two digits for each byte");
    ByteArray::from(text)
}

/// The values of a column without nulls.
#[derive(Debug)]
pub(crate) enum Values {
    Int(Vec<i64>),
    Text(Vec<ByteArray>),
    Decimal(Vec<FixedLenByteArray>),
}

/// The cells of a column, as a writer of Parquet takes them.
#[derive(Debug)]
pub(crate) struct ColumnCells {
    pub(crate) values: Values,
    /// For each cell that may be missing 1 if it is there, otherwise 0. For lists, one for each
    /// element, and a 0 for an empty list. Empty for a column whose cells are always there.
    pub(crate) definitions: Vec<i16>,
    /// For lists: 0 for the first element, 1 for the others.
    pub(crate) repetitions: Vec<i16>,
    /// Approximate size of the values, in bytes.
    pub(crate) bytes: usize,
    column: Column,
}

impl ColumnCells {
    pub(crate) const fn new(column: Column) -> Self {
        Self {
            values: match column.kind {
                ColumnKind::Int => Values::Int(Vec::new()),
                ColumnKind::Text | ColumnKind::Texts => Values::Text(Vec::new()),
                ColumnKind::Decimal => Values::Decimal(Vec::new()),
            },
            definitions: Vec::new(),
            repetitions: Vec::new(),
            bytes: 0,
            column,
        }
    }

    /// Appends a cell.
    ///
    /// # Panics
    /// If the cell is of another kind than the column, which is an error in a table of this
    /// package.
    pub(crate) fn push(&mut self, cell: Cell) {
        let column = &self.column;
        match (&mut self.values, cell) {
            (Values::Int(values), Cell::Int(value)) => {
                values.push(value);
                self.bytes += size_of::<i64>();
            }
            (Values::Text(values), Cell::Text(value)) if column.kind == ColumnKind::Text => {
                self.bytes += size_of::<ByteArray>() + value.len();
                values.push(value);
            }
            (Values::Decimal(values), Cell::Decimal(value)) => {
                self.bytes += size_of::<ByteArray>() + DECIMAL_BYTES;
                values.push(value);
            }
            (Values::Text(values), Cell::Texts(list)) if column.kind == ColumnKind::Texts => {
                for (index, value) in list.iter().enumerate() {
                    self.definitions.push(1);
                    self.repetitions.push(i16::from(index > 0));
                    self.bytes += size_of::<ByteArray>() + value.len();
                }
                if list.is_empty() {
                    self.definitions.push(0);
                    self.repetitions.push(0);
                }
                values.extend(list);
                return;
            }
            (_, Cell::Null) if column.optional => {
                self.definitions.push(0);
                return;
            }
            (_, cell) => unreachable!("column {} got {cell:?}", column.name),
        }
        if column.optional {
            self.definitions.push(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_38_digits() {
        let most = decimal_bound() - U256::from(1);
        assert!(matches!(Cell::decimal(&most), Cell::Decimal(_)));
        assert!(matches!(Cell::decimal(&decimal_bound()), Cell::Null));
        assert!(matches!(Cell::decimal(&U256::MAX), Cell::Null));
        let Cell::Decimal(bytes) = Cell::decimal(&U256::from(0x0102)) else {
            panic!("a small number is null");
        };
        assert_eq!(bytes.data(), [vec![0; 14], vec![1, 2]].concat());
        assert!(matches!(Cell::int(u64::MAX), Cell::Int(i64::MAX)));
    }

    #[test]
    fn levels_say_what_is_missing() {
        let mut cells = ColumnCells::new(Column::text("a").or_null());
        for cell in [Cell::text("x"), Cell::Null, Cell::hex(&[0xab])] {
            cells.push(cell);
        }
        assert_eq!(cells.definitions, [1, 0, 1]);
        let Values::Text(values) = &cells.values else {
            panic!("a text column holds texts");
        };
        assert_eq!(values[1].data(), b"0xab");

        let mut lists = ColumnCells::new(Column::texts("b"));
        for list in [vec!["x", "y"], vec![], vec!["z"]] {
            let list = list.into_iter().map(ByteArray::from).collect();
            lists.push(Cell::Texts(list));
        }
        assert_eq!(lists.definitions, [1, 1, 0, 1]);
        assert_eq!(lists.repetitions, [0, 1, 0, 0]);
    }
}
