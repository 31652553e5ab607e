//! `vnode account` and `--unlock`, tested by running the binary.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use keystore::KeyFileError;
use serde_json::Value;

/// A temporary home and working directory.
struct Home(tempfile::TempDir);

/// The result of a command.
struct CommandResult {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("writable");
        path.display().to_string()
    }

    /// Runs `vnode` with `input` on its standard input, which is not a terminal.
    fn run(&self, arguments: &[&str], input: &str) -> CommandResult {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vnode"))
            .args(arguments)
            .arg("--datadir")
            .arg(self.path("data"))
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that reads no input may have ended already.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        CommandResult {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Runs a command that must succeed. Returns its standard output.
    #[track_caller]
    fn ok(&self, arguments: &[&str], input: &str) -> String {
        let ended = self.run(arguments, input);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        ended.stdout
    }

    /// Runs a command that must fail with `expected` in its standard error.
    #[track_caller]
    fn refused(&self, arguments: &[&str], input: &str, expected: &str) {
        let ended = self.run(arguments, input);
        assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stdout);
        let stderr = ended.stderr;
        assert!(
            stderr.contains(expected),
            "{arguments:?}: got {stderr:?}, expected {expected:?} in it"
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
    }

    /// Creates an account with `password`, encrypted with little work. Returns its address.
    fn account(&self, password: &str) -> String {
        address(&self.ok(&["account", "new", "--lightkdf"], &format!("{password}\n")))
    }

    /// The key file whose name ends with `address`.
    fn key_file(&self, address: &str) -> PathBuf {
        let files = fs::read_dir(self.path("data/keystore")).expect("a folder");
        let mut paths = files.map(|file| file.expect("readable").path());
        let end = address.trim_start_matches("0x");
        paths
            .find(|path| path.to_str().is_some_and(|path| path.ends_with(end)))
            .expect("the account's file")
    }

    /// Decrypts the key file of an account. Returns the address of the key.
    fn decrypt(&self, address: &str, password: &str) -> Result<String, KeyFileError> {
        let text = fs::read(self.key_file(address)).expect("readable");
        keystore::decrypt(&text, password).map(|key| format!("{:#x}", key.address()))
    }
}

/// The address in the output of `new`, `import` and `update`.
fn address(stdout: &str) -> String {
    let line = stdout.lines().next().expect("a line");
    line.strip_prefix("Address: ").expect("an address").to_owned()
}

#[test]
fn an_account_is_created_listed_and_changed() {
    let home = Home::new();
    let password = home.write("password", "one\r\n");
    assert_eq!(home.ok(&["account", "list"], ""), "");
    let arguments = ["account", "new", "--lightkdf", "--password", &password];
    let created = address(&home.ok(&arguments, ""));
    assert!(
        created.len() == 42 && created == created.to_lowercase(),
        "{created}"
    );
    assert_eq!(home.decrypt(&created, "one"), Ok(created.clone()));
    let listed = home.ok(&["account", "list"], "");
    let path = home.key_file(&created);
    let expected = format!("Account #0: {created} keystore://{}\n", path.display());
    assert_eq!(listed, expected);
    // The passwords come from standard input.
    home.ok(&["account", "update", "--lightkdf", &created], "one\ntwo\n");
    assert_eq!(home.decrypt(&created, "two"), Ok(created.clone()));
    assert_eq!(home.decrypt(&created, "one"), Err(KeyFileError::WrongPassword));
    // The account is named by its number, and the passwords come from a file with two lines.
    let passwords = home.write("password", "two\nthree\n");
    let arguments = ["account", "update", "--lightkdf", "0", "--password", &passwords];
    home.ok(&arguments, "");
    assert_eq!(home.decrypt(&created, "three"), Ok(created));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_key_files() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let created = home.account("one");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&home.key_file(&created)), 0o600);
    assert_eq!(mode(&home.path("data/keystore")), 0o700);
}

#[test]
fn the_standard_cost_is_the_default() {
    let home = Home::new();
    let created = address(&home.ok(&["account", "new"], "one\n"));
    let text = fs::read_to_string(home.key_file(&created)).expect("readable");
    let text: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(text["crypto"]["kdfparams"]["n"], 262_144);
    assert_eq!(text["address"], created.trim_start_matches("0x"));
}

#[test]
fn keys_are_imported() {
    let home = Home::new();
    let hex = home.write("hex", &format!("{}\n", "46".repeat(32)));
    let known = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f";
    let imported = address(&home.ok(&["account", "import", "--lightkdf", &hex], "new\n"));
    assert_eq!(imported, known);
    assert_eq!(home.decrypt(known, "new"), Ok(known.to_owned()));
    home.refused(&["account", "import", &hex], "x\n", "account already exists");

    // A key file of another client. Its password stays the same.
    let vectors = include_str!("../../tests/vectors/keystore.json");
    let vectors: Value = serde_json::from_str(vectors).expect("JSON");
    let mut files = vectors["files"].as_array().expect("an array").iter();
    let foreign = files
        .find(|file| file["name"] == "without an address")
        .expect("such a file");
    let file = home.write("foreign", &foreign["json"].to_string());
    let text = foreign["password"].as_str().expect("text");
    let password = home.write("password", text);
    let import = ["account", "import", "--lightkdf", &file, "--password", &password];
    let imported = address(&home.ok(&import, ""));
    assert_eq!(imported, foreign["address"]);
    assert_eq!(home.decrypt(&imported, text), Ok(imported));
    let listed = home.ok(&["account", "list"], "");
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

#[test]
fn errors_tell_what_is_wrong() {
    let home = Home::new();
    let created = home.account("one");
    let update = ["account", "update", &created];
    let wrong = "could not decrypt key with given passphrase";
    home.refused(&update, "two\nthree\n", wrong);
    home.refused(&update, "", "standard input: got its end");
    home.refused(&update, "one\n", "standard input: got its end");
    let one_line = home.write("password", "one\n");
    let arguments = ["account", "update", &created, "--password", &one_line];
    home.refused(&arguments, "", "got 1 line(s)");
    let stranger = "0x00000000000000000000000000000000000000ff";
    home.refused(&["account", "update", stranger], "one\ntwo\n", "unknown account");
    home.refused(&["account", "update", "7"], "", "expected less than 1");
    home.refused(&["account", "import", "nothing"], "", "cannot read nothing");
    let bad = home.write("bad", &"4g".repeat(32));
    home.refused(&["account", "import", &bad], "", "hexadecimal digits");
    let version = home.write("version", r#"{"version": 1}"#);
    home.refused(
        &["account", "import", &version],
        "x\n",
        "got version 1, expected 3",
    );
    let none = home.path("none").display().to_string();
    let arguments = ["account", "new", "--password", &none];
    home.refused(&arguments, "", "cannot read passwords from");
    assert_eq!(home.decrypt(&created, "one"), Ok(created));
}

#[test]
fn a_damaged_key_file_is_named_and_hides_no_account() {
    let home = Home::new();
    let created = home.account("one");
    fs::write(home.path("data/keystore/broken"), "{").expect("writable");
    let ended = home.run(&["account", "list"], "");
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains(&created), "{}", ended.stdout);
    let stderr = ended.stderr;
    assert!(stderr.contains("keystore/broken: key file: "), "{stderr}");
}

#[test]
fn a_wrong_password_stops_the_start() {
    let home = Home::new();
    let created = home.account("one");
    let wrong = home.write("password", "secret-of-mine\n");
    let start = ["--dev", "--unlock", &created, "--password", &wrong];
    home.refused(&start, "", "could not decrypt key with given passphrase");
    let stderr = home.run(&start, "").stderr;
    assert!(!stderr.contains("secret-of-mine"), "{stderr}");
    let start = ["--dev", "--unlock", "3", "--password", &wrong];
    home.refused(&start, "", "expected less than 1");
}
