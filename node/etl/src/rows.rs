//! Makes the rows of a block from what the source has of it.
//!
//! This module knows the chain. It knows no files.

use chain::ChainSpec;
use chain::query_limit::CancelFlag;
use chain::rules::order::ExecutionOrder;
use chain::rules::payment::BlockPayment;
use chain::trace::{CallFrame, FlatCall, FlatCalls, error_word};
use chain::view::StoredBlock;
use parquet::data_type::ByteArray;
use primitives::{Address, B256, Block, Receipt, ReceiptOutcome, Transaction};

use crate::column::{Cell, hex_text};
use crate::source::{SourceError, TableSource, no_block};
use crate::table::{EtlTable, TableRows};

/// The hashes that tie blocks together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLink {
    pub(crate) parent: B256,
    pub(crate) hash: B256,
}

/// Appends the rows of block `number` to each of `tables`.
///
/// # Errors
/// [`SourceError`] if the source fails, or has no such block.
pub(crate) fn append_block(
    source: &dyn TableSource,
    number: u64,
    tables: &mut [TableRows],
    cancelled: &CancelFlag,
) -> Result<BlockLink, SourceError> {
    let block = source.block(number)?.ok_or_else(|| no_block(number))?;
    let spec = source.spec();
    let facts = BlockCells::of(spec, block);
    // Block 0 has no receipts.
    let needs_receipts = |rows: &TableRows| matches!(rows.table, EtlTable::Receipts | EtlTable::Logs);
    let receipts = if number > 0 && tables.iter().any(needs_receipts) {
        source.receipts(&facts.block)?
    } else {
        Vec::new()
    };
    for rows in tables {
        match rows.table {
            EtlTable::Blocks => facts.append_block(rows),
            EtlTable::Transactions => facts.append_transactions(rows),
            EtlTable::Receipts => facts.append_receipts(&receipts, rows),
            EtlTable::Logs => facts.append_logs(&receipts, rows),
            EtlTable::Traces => {
                // Block 0 has no transactions, and no parent to run them on.
                let trees = match facts.block.body.transactions.is_empty() {
                    true => Vec::new(),
                    false => source.call_trees(&facts.block, cancelled)?,
                };
                facts.append_traces(spec, &trees, rows);
            }
        }
    }
    Ok(BlockLink {
        parent: facts.block.record.header.parent_hash,
        hash: facts.block.hash,
    })
}

/// A block with the cells that many of its rows have.
struct BlockCells {
    block: StoredBlock,
    order: ExecutionOrder,
    number: Cell,
    hash: Cell,
    transaction_hashes: Vec<Cell>,
}

impl BlockCells {
    fn of(spec: &ChainSpec, block: StoredBlock) -> Self {
        let number = block.record.header.number;
        let transactions = &block.body.transactions;
        Self {
            order: ExecutionOrder::of(spec, number, transactions),
            number: Cell::int(number),
            hash: Cell::hex(block.hash.as_slice()),
            transaction_hashes: transactions
                .iter()
                .map(|one| Cell::hex(one.hash().as_slice()))
                .collect(),
            block,
        }
    }

    fn append_block(&self, rows: &mut TableRows) {
        let StoredBlock {
            hash: _,
            record,
            body,
        } = &self.block;
        let header = &record.header;
        let size = Block {
            header: header.clone(),
            transactions: body.transactions.clone(),
            uncles: body.uncles.clone(),
        }
        .size();
        let uncles = body.uncles.iter().map(|uncle| hex_text(uncle.hash().as_slice()));
        rows.push([
            self.number.clone(),
            self.hash.clone(),
            Cell::hex(header.parent_hash.as_slice()),
            Cell::hex(&header.pow_nonce.to_be_bytes()),
            Cell::hex(header.uncles_hash.as_slice()),
            Cell::hex(header.logs_bloom.as_slice()),
            Cell::hex(header.transactions_root.as_slice()),
            Cell::hex(header.state_root.as_slice()),
            Cell::hex(header.receipts_root.as_slice()),
            address(&header.beneficiary),
            Cell::decimal(&header.difficulty),
            Cell::decimal(&record.total_difficulty),
            Cell::int(size),
            Cell::hex(&header.extra_data),
            Cell::int(header.gas_limit),
            Cell::int(header.gas_used),
            Cell::int(header.timestamp),
            Cell::int(body.transactions.len()),
            Cell::Null,
            Cell::hex(header.mix_hash.as_slice()),
            Cell::Texts(uncles.collect()),
        ]);
    }

    fn append_transactions(&self, rows: &mut TableRows) {
        let body = &self.block.body;
        for (index, (transaction, sender)) in body.transactions.iter().zip(&body.senders).enumerate() {
            let ethereum_hash = transaction.ethereum_hash();
            rows.push([
                self.transaction_hashes[index].clone(),
                Cell::int(transaction.tx_nonce),
                self.hash.clone(),
                self.number.clone(),
                Cell::int(index),
                address(sender),
                Cell::or_null(transaction.to.as_ref().map(address)),
                Cell::decimal(&transaction.value),
                Cell::int(transaction.gas),
                Cell::decimal(&transaction.gas_price),
                Cell::hex(&transaction.input),
                Cell::int(self.block.record.header.timestamp),
                Cell::Null,
                Cell::Null,
                Cell::int(transaction.tx_type()),
                Cell::text(transaction.value.to_string()),
                Cell::or_null(ethereum_hash.as_ref().map(hash)),
                Cell::int(transaction.syscnt),
                Cell::int(transaction.sharding_flag),
                Cell::or_null(transaction.via.as_ref().map(address)),
            ]);
        }
    }

    /// The hash and the index of the transaction that a receipt is of. Both are null for a system
    /// transaction that the block does not contain.
    fn transaction_of(&self, receipt: usize) -> (Option<usize>, [Cell; 2]) {
        match self.order.transaction_of(receipt) {
            Some(index) => (
                Some(index),
                [self.transaction_hashes[index].clone(), Cell::int(index)],
            ),
            None => (None, [Cell::Null, Cell::Null]),
        }
    }

    fn append_receipts(&self, receipts: &[Receipt], rows: &mut TableRows) {
        let mut gas_before = 0;
        for (position, receipt) in receipts.iter().enumerate() {
            let (index, [hash, index_cell]) = self.transaction_of(position);
            let body = &self.block.body;
            let transaction =
                index.and_then(|index| Some((body.transactions.get(index)?, body.senders.get(index)?)));
            let (root, status) = match receipt.outcome {
                ReceiptOutcome::Root(root) => (Some(root), None),
                ReceiptOutcome::Status(success) => (None, Some(success)),
            };
            let creation = transaction.filter(|(one, _)| one.to.is_none() && status != Some(false));
            let created = creation.map(|(one, sender)| Transaction::created_address(sender, one.tx_nonce));
            let gas_used = receipt.cumulative_gas_used.saturating_sub(gas_before);
            gas_before = receipt.cumulative_gas_used;
            rows.push([
                hash,
                index_cell,
                self.hash.clone(),
                self.number.clone(),
                Cell::int(receipt.cumulative_gas_used),
                Cell::int(gas_used),
                Cell::or_null(created.as_ref().map(address)),
                Cell::or_null(root.as_ref().map(self::hash)),
                Cell::or_null(status.map(|success| Cell::int(u8::from(success)))),
                Cell::or_null(transaction.map(|(one, _)| Cell::decimal(&one.gas_price))),
            ]);
        }
    }

    fn append_logs(&self, receipts: &[Receipt], rows: &mut TableRows) {
        let mut log_index = 0_u64;
        for (position, receipt) in receipts.iter().enumerate() {
            let (_, [hash, index]) = self.transaction_of(position);
            for log in &receipt.logs {
                let topics = log.topics.iter().map(|topic| hex_text(topic.as_slice()));
                rows.push([
                    Cell::int(log_index),
                    hash.clone(),
                    index.clone(),
                    self.hash.clone(),
                    self.number.clone(),
                    address(&log.address),
                    Cell::hex(&log.data),
                    Cell::Texts(topics.collect()),
                ]);
                log_index += 1;
            }
        }
    }

    fn append_traces(&self, spec: &ChainSpec, trees: &[(usize, CallFrame)], rows: &mut TableRows) {
        for (index, top) in trees {
            // The places of calls that failed. A call inside has failed with them.
            let mut failed: Vec<Vec<usize>> = Vec::new();
            for call in FlatCalls::of(top) {
                failed.retain(|outer| call.address.starts_with(outer));
                let succeeded = failed.is_empty() && call.frame.error.is_none();
                if call.frame.error.is_some() {
                    failed.push(call.address.clone());
                }
                let hash = self.transaction_hashes[*index].clone();
                self.append_call(&call, (hash, *index), succeeded, rows);
            }
        }
        let header = &self.block.record.header;
        if header.number == 0 {
            return;
        }
        let payment = BlockPayment::of(spec, header.number, &self.block.body.uncles);
        let own = (header.beneficiary, payment.miner);
        for (index, (author, value)) in std::iter::once(own).chain(payment.uncles).enumerate() {
            let kind = if index == 0 { "block" } else { "uncle" };
            rows.push([
                self.number.clone(),
                Cell::Null,
                Cell::Null,
                Cell::Null,
                address(&author),
                Cell::decimal(&value),
                Cell::Null,
                Cell::Null,
                Cell::text("reward"),
                Cell::Null,
                Cell::text(kind),
                Cell::Null,
                Cell::Null,
                Cell::int(0),
                Cell::Null,
                Cell::Null,
                Cell::int(1),
                Cell::text(format!("reward_{}_{index}", header.number)),
                Cell::text(value.to_string()),
            ]);
        }
    }

    fn append_call(
        &self,
        call: &FlatCall<'_>,
        (transaction_hash, transaction_index): (Cell, usize),
        succeeded: bool,
        rows: &mut TableRows,
    ) {
        let frame = call.frame;
        let (kind, call_type) = match frame.kind {
            "CREATE" | "CREATE2" => ("create", None),
            "SELFDESTRUCT" => ("suicide", None),
            _ => ("call", Some(call.call_type())),
        };
        let is_run = kind != "suicide";
        let has_result = is_run && frame.error.is_none();
        let value = frame.value.unwrap_or_default();
        let place: Vec<_> = call.address.iter().map(ToString::to_string).collect();
        let id = match &transaction_hash {
            Cell::Text(hash) => trace_id(kind, hash, &place),
            _ => String::new(),
        };
        rows.push([
            self.number.clone(),
            transaction_hash,
            Cell::int(transaction_index),
            address(&frame.from),
            Cell::or_null(frame.to.as_ref().map(address)),
            Cell::decimal(&value),
            Cell::or_null(is_run.then(|| Cell::hex(&frame.input))),
            Cell::or_null(has_result.then(|| Cell::hex(&frame.output))),
            Cell::text(kind),
            Cell::or_null(call_type.map(Cell::text)),
            Cell::Null,
            Cell::or_null(is_run.then(|| Cell::int(frame.gas))),
            Cell::or_null(has_result.then(|| Cell::int(frame.gas_used))),
            Cell::int(call.subtraces),
            Cell::text(place.join(",")),
            Cell::or_null(frame.error.as_deref().map(|error| Cell::text(error_word(error)))),
            Cell::int(u8::from(succeeded)),
            Cell::text(id),
            Cell::text(value.to_string()),
        ]);
    }
}

fn trace_id(kind: &str, hash: &ByteArray, place: &[String]) -> String {
    let hash = String::from_utf8_lossy(hash.data());
    format!("{kind}_{hash}_{}", place.join("_"))
}

fn address(address: &Address) -> Cell {
    Cell::hex(address.as_slice())
}

fn hash(hash: &B256) -> Cell {
    Cell::hex(hash.as_slice())
}
