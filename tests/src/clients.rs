//! Other people's client libraries: installed once into the target directory, run as processes.
//!
//! The scripts are in `clients/`. Where Node.js, Python or their registries are missing, a
//! test that needs them says so and skips; with `CI=true` or `REQUIRE_CLIENTS` set it fails.

use crate::binary::target_directory;
use crate::wait::note;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time for one script.
const SCRIPT_PATIENCE: Duration = Duration::from_secs(120);
/// Written into a folder when everything in it is installed.
const MARK: &str = "installed";

/// A language with its installed libraries.
#[derive(Clone, Debug)]
pub struct Clients {
    program: PathBuf,
    directory: PathBuf,
}

/// Node.js with `clients/js/package-lock.json` installed; `None` where the test is to be skipped.
pub fn javascript() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    or_skip(CLIENTS.get_or_init(|| {
        let wanted = ["package.json", "package-lock.json"];
        let directory = installed("js", &wanted, |directory| {
            // Without scripts: the native part of one dependency has a replacement in JavaScript.
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .current_dir(directory);
            succeed(&mut npm)
        })?;
        succeed(Command::new("node").arg("--version"))?;
        Ok(Clients {
            program: "node".into(),
            directory,
        })
    }))
}

/// Python with `clients/python/requirements.txt` installed; `None` where the test is to be skipped.
pub fn python() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    or_skip(CLIENTS.get_or_init(|| {
        let directory = installed("python", &["requirements.txt"], |directory| {
            succeed(
                Command::new("python3")
                    .args(["-m", "venv", "venv"])
                    .current_dir(directory),
            )?;
            let mut pip = Command::new(directory.join("venv/bin/python"));
            pip.args([
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "-r",
                "requirements.txt",
            ]);
            succeed(pip.current_dir(directory))
        })?;
        Ok(Clients {
            program: directory.join("venv/bin/python"),
            directory,
        })
    }))
}

fn or_skip(clients: &'static Result<Clients, String>) -> Option<&'static Clients> {
    match clients {
        Ok(clients) => Some(clients),
        Err(reason) => {
            let required = std::env::var_os("REQUIRE_CLIENTS").is_some()
                || std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!required, "client libraries are missing: {reason}");
            note(&format!("skipped, client libraries are missing: {reason}"));
            None
        }
    }
}

/// The folder of a language's libraries in the target directory, installed where it is not.
fn installed(
    language: &str,
    wanted: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(language);
    let directory = target_directory().join("clients").join(language);
    let failed = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
    let mut wish = String::new();
    for name in wanted {
        let path = source.join(name);
        wish += &fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
    }
    if fs::read_to_string(directory.join(MARK)).is_ok_and(|mark| mark == wish) {
        return copied(&source, directory);
    }
    // What is there is of another wish or half installed.
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&directory, error)),
        _ => fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?,
    }
    let directory = copied(&source, directory)?;
    let started = Instant::now();
    install(&directory)?;
    note(&format!(
        "installed the {language} clients in {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    fs::write(directory.join(MARK), wish).map_err(|error| failed(&directory, error))?;
    Ok(directory)
}

/// Copies the files of `source` (scripts find libraries beside themselves).
fn copied(source: &Path, directory: PathBuf) -> Result<PathBuf, String> {
    let copy = || -> std::io::Result<()> {
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), directory.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    copy().map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
    Ok(directory)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        words.trim()
    ))
}

impl Clients {
    /// Runs a script with `argument` as JSON; gives its last line, which is JSON too.
    ///
    /// # Panics
    /// When it fails, goes on for ever or ends with something else.
    #[track_caller]
    pub fn run(&self, script: &str, argument: &Value) -> Value {
        let output = self.finish(script, argument);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{script} {argument} ended with {}:\n{stdout}\n{stderr}",
            output.status
        );
        let last = stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{script} ended with {last:?}: {error}"))
    }

    #[track_caller]
    fn finish(&self, script: &str, argument: &Value) -> Output {
        let mut command = Command::new(&self.program);
        command
            .arg(script)
            .arg(argument.to_string())
            .current_dir(&self.directory);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = libc::pid_t::try_from(child.id()).expect("a process id fits");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        match receiver.recv_timeout(SCRIPT_PATIENCE) {
            Ok(output) => output.unwrap_or_else(|error| panic!("{script}: {error}")),
            Err(_) => {
                // SAFETY: takes numbers alone; the child is ours and not yet waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("{script} {argument} goes on after {SCRIPT_PATIENCE:?}");
            }
        }
    }
}
