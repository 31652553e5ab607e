//! Reads blocks of a node: their bytes, where the node gives them, or from their JSON.

use primitives::{B256, Block, CLASSIC_V_BIT, Header, Transaction, TxForm, TxRules, U256, hex};
use serde_json::{Value, json};

use super::{FromHexText, NamedNode, parse};
use crate::error::DifferentialError;

impl NamedNode {
    /// The number of the node's head block.
    pub(super) fn head_number(&self) -> Result<u64, DifferentialError> {
        parse(&self.call("blockNumber", json!([]))?, "a block number")
    }

    /// The hash of block `number` as the node tells it.
    pub(super) fn block_hash(&self, number: u64) -> Result<B256, DifferentialError> {
        let block = self.call("getBlockByNumber", json!([format!("{number:#x}"), false]))?;
        parse(&block["hash"], "the hash of a block")
    }

    /// Reads block `number`.
    pub(super) fn read_block(&self, number: u64, rules: TxRules) -> Result<Block, DifferentialError> {
        let expected = self.block_hash(number)?;
        let block = match self.raw_block(number) {
            Some(rlp) => {
                Block::decode(&rlp, rules).map_err(|error| DifferentialError::Block { number, error })?
            }
            None => self.block_from_json(number, rules)?,
        };
        let got = block.hash();
        if got != expected {
            return Err(DifferentialError::BlockHash {
                number,
                got,
                expected,
            });
        }
        Ok(block)
    }

    /// The bytes of a block, from whichever method the node has.
    fn raw_block(&self, number: u64) -> Option<Vec<u8>> {
        let answers = [
            self.try_call("debug_getBlockRlp", json!([number])),
            self.try_call("debug_getRawBlock", json!([format!("{number:#x}")])),
        ];
        let texts = answers.into_iter().flatten();
        texts
            .filter_map(|answer| hex::decode(answer.as_str()?).ok())
            .find(|bytes| !bytes.is_empty())
    }

    fn block_from_json(&self, number: u64, rules: TxRules) -> Result<Block, DifferentialError> {
        let block = self.call("getBlockByNumber", json!([format!("{number:#x}"), true]))?;
        let transactions = block["transactions"].as_array().into_iter().flatten();
        let count = block["uncles"].as_array().map_or(0, Vec::len);
        let uncles = (0..count).map(|index| {
            let place = json!([format!("{number:#x}"), format!("{index:#x}")]);
            header(&self.call("getUncleByBlockNumberAndIndex", place)?)
        });
        Ok(Block {
            header: header(&block)?,
            transactions: transactions
                .map(|fields| transaction(fields, rules))
                .collect::<Result<_, _>>()?,
            uncles: uncles.collect::<Result<_, DifferentialError>>()?,
        })
    }
}

fn member<T: FromHexText>(object: &Value, key: &str) -> Result<T, DifferentialError> {
    parse(&object[key], key)
}

fn header(block: &Value) -> Result<Header, DifferentialError> {
    Ok(Header {
        parent_hash: member(block, "parentHash")?,
        uncles_hash: member(block, "sha3Uncles")?,
        beneficiary: member(block, "miner")?,
        state_root: member(block, "stateRoot")?,
        transactions_root: member(block, "transactionsRoot")?,
        receipts_root: member(block, "receiptsRoot")?,
        logs_bloom: member(block, "logsBloom")?,
        difficulty: member(block, "difficulty")?,
        number: member(block, "number")?,
        gas_limit: member(block, "gasLimit")?,
        gas_used: member(block, "gasUsed")?,
        timestamp: member(block, "timestamp")?,
        extra_data: member::<Vec<u8>>(block, "extraData")?.into(),
        mix_hash: member(block, "mixHash")?,
        pow_nonce: member(block, "nonce")?,
    })
}

fn transaction(fields: &Value, rules: TxRules) -> Result<Transaction, DifferentialError> {
    let optional = |key: &str| {
        let present = fields.get(key).is_some_and(|value| !value.is_null());
        if present { member(fields, key) } else { Ok(0) }
    };
    let (syscnt, v): (u64, U256) = (optional("syscnt")?, member(fields, "v")?);
    let form = match rules {
        TxRules::Ethereum => TxForm::Ethereum,
        TxRules::Moac if syscnt != 0 => TxForm::System,
        TxRules::Moac if v & CLASSIC_V_BIT != U256::ZERO => TxForm::Classic,
        TxRules::Moac => TxForm::Native,
    };
    Ok(Transaction {
        form,
        tx_nonce: member(fields, "nonce")?,
        syscnt,
        gas_price: member(fields, "gasPrice")?,
        gas: member(fields, "gas")?,
        to: if fields["to"].is_null() {
            None
        } else {
            Some(member(fields, "to")?)
        },
        value: member(fields, "value")?,
        input: member::<Vec<u8>>(fields, "input")?.into(),
        sharding_flag: optional("shardingFlag")?,
        via: None,
        typed_chain_id: 0,
        access_list: Vec::new(),
        v,
        r: member(fields, "r")?,
        s: member(fields, "s")?,
    })
}
