//! `vnode dump`: the state after a block as one JSON object, with a member for each account.
//!
//! The state is written account by account and slot by slot, so it may be larger than the memory.
//! Numbers, code and slots have the format of the `alloc` in a genesis file. Accounts and slots
//! come in the order of the hashes of their addresses and numbers. If only the hash is known, the
//! name is `pre(HASH)`, as geth writes it.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use chain::View;
use primitives::{B256, hex};
use store::{AccountKey, Snapshot, StateReads, StoreError, WalkedAccount};

use super::error::CommandError;
use super::output_file::OutputFile;
use super::stop_flag::stop_flag;

use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::{HeightRef, VnodeOptions};

/// Writes the state after `block` to `file`.
pub(super) fn run(options: &VnodeOptions, block: HeightRef, file: &Path) -> Result<(), CommandError> {
    let directory = DataDirectory::open(options, OpenPurpose::Read)?;
    let view = View::new(&directory.store, directory.spec.clone())?;
    let head = view.head_number();
    let number = match block {
        HeightRef::Latest => head,
        HeightRef::Number(got) if got > head => return Err(CommandError::AboveHead { got, head }),
        HeightRef::Number(number) => number,
    };
    view.require_state(number)?;
    let stop = stop_flag()?;
    let write = |source| CommandError::Write {
        path: file.to_owned(),
        source,
    };
    let mut output = OutputFile::open(file).map_err(write)?;
    dump(view.snapshot(), number, &mut output, &stop).map_err(|error| match error {
        DumpError::Store(error) => error.into(),
        DumpError::Write(source) => write(source),
        DumpError::Stopped => CommandError::Interrupted,
    })?;
    output.finish().map_err(write)
}

/// The end of a dump before the last account.
#[derive(Debug)]
enum DumpError {
    Store(StoreError),
    Write(std::io::Error),
    Stopped,
}

impl From<StoreError> for DumpError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for DumpError {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error)
    }
}

fn dump(view: &Snapshot, number: u64, out: &mut impl Write, stop: &AtomicBool) -> Result<(), DumpError> {
    let mut separator = "";
    out.write_all(b"{")?;
    view.walk_accounts::<DumpError>(&AccountKey(B256::ZERO), number, |found| {
        if stop.load(Ordering::Acquire) {
            return Err(DumpError::Stopped);
        }
        out.write_all(separator.as_bytes())?;
        separator = ",";
        dump_account(view, number, &found, out)
    })?;
    Ok(out.write_all(b"\n}\n")?)
}

fn dump_account(
    view: &Snapshot,
    number: u64,
    found: &WalkedAccount,
    out: &mut impl Write,
) -> Result<(), DumpError> {
    let account = &found.account;
    let name = found.name();
    let code = hex::encode_prefixed(view.code(&account.code_hash)?);
    write!(
        out,
        "\n\"{name}\":{{\"balance\":\"{:#x}\",\"nonce\":\"{:#x}\",\"codeHash\":\"{}\",\"code\":\"{code}\",\"root\":\"{}\",\"storage\":{{",
        account.balance, account.tx_nonce, account.code_hash, account.storage_root
    )?;
    let mut separator = "";
    view.walk_slots::<DumpError>(&found.storage(), &B256::ZERO, number, |slot| {
        write!(
            out,
            "{separator}\"{}\":\"{}\"",
            slot.name(),
            B256::from(slot.value)
        )?;
        separator = ",";
        Ok(())
    })?;
    Ok(out.write_all(b"}}")?)
}

#[cfg(test)]
mod tests {
    use chain::ChainSpec;
    use chain::genesis::{ensure_genesis, genesis_header};
    use serde_json::Value;
    use store::Store;

    use super::*;

    #[test]
    fn a_dump_can_be_the_alloc_of_a_genesis_file() {
        let text = r#"{"config": {"chainId": 7}, "difficulty": 1, "gasLimit": 5000, "alloc": {
            "0000000000000000000000000000000000000001": {"balance": "5", "nonce": "0x2"},
            "0000000000000000000000000000000000000002": {"balance": "0", "code": "0x6001",
                "storage": {"0x01": "0x05", "0x00": "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}},
            "00000000000000000000000000000000000000ff": {"balance": "0xffffffffffffffffffffffff"}}}"#;
        let read = |text: &str| ChainSpec::from_genesis_file("x", text).unwrap().spec;
        let spec = read(text);
        let store = Store::in_memory().unwrap();
        ensure_genesis(&store, &spec).unwrap();
        let mut out = Vec::new();
        dump(&store.snapshot().unwrap(), 0, &mut out, &AtomicBool::new(false)).unwrap();
        let alloc: Value = serde_json::from_slice(&out).unwrap();
        let second = &alloc["0x0000000000000000000000000000000000000002"];
        assert_eq!(second["storage"].as_object().unwrap().len(), 2);
        assert_eq!(second["code"], "0x6001");
        assert_eq!(
            second["root"],
            store
                .snapshot()
                .unwrap()
                .account_at(&primitives::Address::with_last_byte(2), 0)
                .unwrap()
                .account
                .unwrap()
                .storage_root
                .to_string()
        );
        let again =
            format!(r#"{{"config": {{"chainId": 7}}, "difficulty": 1, "gasLimit": 5000, "alloc": {alloc}}}"#);
        assert_eq!(genesis_header(&read(&again)), genesis_header(&spec));
        assert!(matches!(
            dump(
                &store.snapshot().unwrap(),
                0,
                &mut Vec::new(),
                &AtomicBool::new(true)
            ),
            Err(DumpError::Stopped)
        ));
    }
}
