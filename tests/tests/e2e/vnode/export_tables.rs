//! `vnode export --format parquet`: engines of others read the tables, which must say the same as
//! JSON-RPC. A running node gives the same files. Exports go on where they ended.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::clients::{javascript, python, spark};
use e2e::process::EndSignal;
use e2e::{Launch, note};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::vnode::offline::{assert_contains, run_failing, run_ok, text};

/// A chain with all kinds of calls. Its node has stopped.
struct TracedChain {
    folder: TempDir,
    head: u64,
}

impl TracedChain {
    /// `None` if the test must be skipped.
    fn make() -> Option<Self> {
        let libraries = javascript()?;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let apis = "chain3,mc,net,evm,anvil,debug,trace";
        let node = Launch::dev(["--dev.seal", "instant", "--rpcapi", apis])
            .data(&folder.path().join("data"))
            .start();
        let answers = libraries.run("scene-answers.mjs", &json!({"url": node.url()}));
        let asked = folder.path().join("asked");
        let words = ["export", "--format", "parquet", text(&asked), "--partition", "4"];
        let output = run_ok(&folder.path().join("data"), &words);
        assert_contains(&output, &[" of the running node (0 were there already)"]);
        fs::write(folder.path().join("answers.json"), answers.to_string()).expect("a write");
        assert!(node.end(EndSignal::Interrupt).status.success());
        let head = answers.as_array().map_or(0, Vec::len) as u64 - 1;
        assert!(head >= 9, "{head} blocks");
        Some(Self { folder, head })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Exports to the folder `tables`.
    fn export(&self, rest: &[&str]) -> String {
        let tables = self.tables();
        let words = [&["export", "--format", "parquet", text(&tables)][..], rest].concat();
        run_ok(&self.data(), &words)
    }

    fn refused(&self, rest: &[&str]) -> String {
        let tables = self.tables();
        let words = [&["export", "--format", "parquet", text(&tables)][..], rest].concat();
        run_failing(&self.data(), &words)
    }

    /// The tables that were exported while the node ran, with partitions of four blocks.
    fn asked(&self) -> PathBuf {
        self.folder.path().join("asked")
    }

    fn tables(&self) -> PathBuf {
        self.folder.path().join("tables")
    }

    /// The task of a script that compares tables with answers.
    fn comparison(&self, first: u64, last: u64) -> Value {
        json!({"folder": self.tables(), "answers": self.folder.path().join("answers.json"), "first": first, "last": last})
    }
}

/// All files below `folder`, with when they were changed.
fn files(folder: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().and_then(|metadata| metadata.modified());
            found.push((path, changed.expect("a time")));
        }
    }
    found.sort();
    found
}

#[test]
fn engines_read_what_json_rpc_says() {
    let Some(chain) = TracedChain::make() else { return };
    let output = chain.export(&["--partition", "4"]);
    note(output.trim());
    // A running node gives the same rows.
    let bytes = |folder: &Path| {
        let all = files(folder).into_iter();
        let all = all.map(|(path, _)| {
            let name = path
                .strip_prefix(folder)
                .expect("a file of the folder")
                .to_owned();
            (name, fs::read(path).expect("a file"))
        });
        all.collect::<Vec<_>>()
    };
    let (asked, own) = (bytes(&chain.asked()), bytes(&chain.tables()));
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&asked), names(&own));
    for ((name, asked), (_, own)) in asked.iter().zip(&own) {
        assert!(asked == own, "{}", name.display());
    }
    let all = chain.comparison(0, chain.head);
    if let Some(libraries) = python() {
        let counts = libraries.run("tables.py", &all);
        note(&format!("DuckDB: {counts}"));
        let count = |table: &str| counts[table].as_u64().unwrap_or(0);
        assert_eq!(count("blocks"), chain.head + 1);
        assert!(
            count("traces") > count("transactions") && count("logs") > 0,
            "{counts}"
        );
        if let Some(engine) = spark() {
            let mut all = all;
            all["modules"] = json!(e2e::binary::workspace().join("tests/clients/python"));
            let by_spark = engine.run("tables.py", &all);
            assert_eq!(by_spark, counts);
        }
    }
}

#[test]
fn an_export_goes_on_where_it_ended() {
    let Some(chain) = TracedChain::make() else { return };
    // Three blocks now, then more: files that are complete stay as they are.
    assert_contains(
        &chain.export(&["--partition", "2", "0", "2"]),
        &["exported 3 blocks of 0 to 2 (0 were there already): 10 files"],
    );
    let before = files(&chain.tables());
    let again = chain.export(&["--partition", "2", "0", "2"]);
    assert_contains(
        &again,
        &["exported 0 blocks of 0 to 2 (3 were there already): 0 files"],
    );
    assert_eq!(files(&chain.tables()), before);
    // The file of block 2 alone is replaced by one of blocks 2 and 3. What a killed export left is
    // removed, and a damaged file is written again.
    let part = chain
        .tables()
        .join("logs/start_block=00000000/end_block=00000001/.x.part");
    fs::write(&part, "part").expect("a write");
    let damaged = chain
        .tables()
        .join("blocks/start_block=00000000/end_block=00000001/blocks_00000000_00000001.parquet");
    let len = damaged.metadata().expect("a file").len();
    fs::File::options()
        .write(true)
        .open(&damaged)
        .and_then(|file| file.set_len(len - 5))
        .expect("shorter");
    assert_contains(
        &chain.export(&["--partition", "2", "0", "4"]),
        &["exported 5 blocks of 0 to 4 (0 were there already): 11 files"],
    );
    assert!(!part.exists());
    let names: Vec<_> = files(&chain.tables().join("receipts")).into_iter().collect();
    assert_eq!(names.len(), 3, "{names:?}");
    if let Some(libraries) = python() {
        libraries.run("tables.py", &chain.comparison(0, 4));
    }
    // A table alone, and other sizes of files.
    assert_contains(
        &chain.export(&["--partition", "100", "--tables", "logs,blocks", "0", "7"]),
        &["exported 8 blocks of 0 to 7 (0 were there already): 2 files"],
    );
    assert_contains(
        &chain.refused(&["--partition", "5", "--tables", "logs", "5", "9"]),
        &["logs_00000000_00000007.parquet: blocks: got 0 to 7, expected none beyond 5 to 9"],
    );
    assert_contains(
        &chain.refused(&["5", "100000"]),
        &["block: got 100000, expected at most the head"],
    );
    // A folder that cannot be written.
    let file = chain.folder.path().join("file");
    fs::write(&file, "").expect("a write");
    let words = ["export", "--format", "parquet", text(&file)];
    assert_contains(&run_failing(&chain.data(), &words), &[text(&file)]);
    // The tables of another chain.
    let other = tempfile::tempdir().expect("a temporary directory");
    let genesis = other.path().join("genesis.json");
    fs::write(
        &genesis,
        r#"{"config": {"chainId": 9}, "difficulty": "0x1", "gasLimit": "0x47e7c4", "alloc": {}}"#,
    )
    .expect("a write");
    let data = other.path().join("data");
    run_ok(&data, &["init", text(&genesis)]);
    let tables = chain.tables();
    let error = run_failing(&data, &["export", "--format", "parquet", text(&tables)]);
    assert_contains(&error, &["block 0: got 0x", "expected 0x"]);
}
