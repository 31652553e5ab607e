//! Era1 files from the command line: they are exported, imported, and named when they are damaged.

use tempfile::TempDir;

use super::offline::{assert_contains, mined_chain, run_failing, run_ok, text};

#[test]
fn era1_files_are_exported_imported_and_served() {
    let mined = mined_chain();
    let home = TempDir::new().expect("a directory");
    let (folder, data) = (home.path().join("files"), home.path().join("data"));
    let export = ["export", "--format", "era1", text(&folder)];
    assert_contains(&run_ok(&mined.data(), &export), &["1 files in", "0 files were"]);
    assert_contains(&run_ok(&mined.data(), &export), &["0 files in", "1 files were"]);
    let mut names = std::fs::read_dir(&folder).expect("a folder");
    let file = names.next().expect("one file").expect("readable").path();
    assert_contains(text(&file), &["files/dev-00000-", ".era1"]);
    // A file that is cut gives the blocks before the cut; the whole file goes on from there.
    let bytes = std::fs::read(&file).expect("readable");
    let cut = home.path().join("cut.era1");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("written");
    let error = run_failing(&data, &["--dev", "import", text(&cut)]);
    assert_contains(&error, &["cut.era1: block ", "cut off"]);
    let ancient = ["--ancient", text(&folder)];
    let output = run_ok(&data, &[&ancient[..], &["import", text(&folder)]].concat());
    assert_contains(
        &output,
        &[&format!("the head is block {} {}", mined.head, mined.head_hash)],
    );
    let output = run_ok(&data, &["import", text(&folder)]);
    assert_contains(
        &output,
        &[
            "imported 0 blocks",
            &format!("{} were already stored", mined.head + 1),
        ],
    );
    // The blocks from the files are those that were mined.
    let again = home.path().join("again.rlp");
    run_ok(&data, &[&ancient[..], &["export", text(&again)]].concat());
    let expected = std::fs::read(mined.stream()).expect("readable");
    assert_eq!(std::fs::read(&again).expect("readable"), expected);
    let error = run_failing(&data, &["import", text(&home.path().join("data"))]);
    assert_contains(&error, &["got no file with a name that ends in .era1"]);
    let error = run_failing(
        &data,
        &["--ancient", text(&home.path().join("none")), "db", "check"],
    );
    assert_contains(&error, &["none"]);
}
