//! Other people's client libraries: installed once into the target directory, run as processes.
//!
//! The scripts are in `clients/`; what they say they did is printed. Where Node.js, Python or
//! their registries are missing, a test that needs them says so and skips; with `CI=true` or
//! `REQUIRE_CLIENTS` set it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::target_directory;
use crate::wait::note;

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

/// `cast`, a program that comes with the JavaScript libraries; `None` where the test is to be skipped.
pub fn cast() -> Option<&'static Cast> {
    static CAST: OnceLock<Result<Cast, String>> = OnceLock::new();
    let libraries = javascript()?;
    or_skip(CAST.get_or_init(|| {
        let system = match std::env::consts::OS {
            "macos" => "darwin",
            other => other,
        };
        let processor = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let package = format!("node_modules/@foundry-rs/cast-{system}-{processor}/bin/cast");
        let program = libraries.directory.join(package);
        // A try, as a program for another C library lies there too, but does not start.
        succeed(Command::new(&program).arg("--version"))?;
        Ok(Cast {
            program,
            home: libraries.directory.clone(),
        })
    }))
}

fn or_skip<T>(clients: &'static Result<T, String>) -> Option<&'static T> {
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
    /// Runs a script with `argument` as JSON; prints the lines it says and gives its last one,
    /// which is JSON too.
    ///
    /// # Panics
    /// When it fails, goes on for ever or ends with something else.
    #[track_caller]
    pub fn run(&self, script: &str, argument: &Value) -> Value {
        let mut command = Command::new(&self.program);
        command
            .arg(script)
            .arg(argument.to_string())
            .current_dir(&self.directory);
        let stdout = finish(command);
        let mut lines: Vec<_> = stdout.lines().filter(|line| !line.is_empty()).collect();
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            note(&format!("{script}: {line}"));
        }
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{script} ended with {last:?}: {error}"))
    }
}

/// A command-line client.
#[derive(Clone, Debug)]
pub struct Cast {
    program: PathBuf,
    /// Where it finds no settings of the user.
    home: PathBuf,
}

impl Cast {
    /// Runs it with `arguments` against the node at `url`; gives what it writes.
    ///
    /// # Panics
    /// When it fails or goes on for ever.
    #[track_caller]
    pub fn run(&self, url: &str, arguments: &[&str]) -> String {
        finish(self.command(url, arguments)).trim().to_owned()
    }

    /// Runs it with `arguments`, which must fail; gives what it complains of.
    ///
    /// # Panics
    /// When it does not fail, or goes on for ever.
    #[track_caller]
    pub fn refused(&self, url: &str, arguments: &[&str]) -> String {
        let command = self.command(url, arguments);
        let words = format!("{command:?}");
        let output = wait_for_end(command);
        assert!(!output.status.success(), "{words} succeeds: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn command(&self, url: &str, arguments: &[&str]) -> Command {
        let (subcommand, rest) = arguments.split_first().expect("a subcommand");
        let mut command = Command::new(&self.program);
        // Right behind it, as what follows `--create` must be code.
        command
            .args([subcommand, "--rpc-url", url])
            .args(rest)
            .env("HOME", &self.home)
            .current_dir(&self.home);
        command
    }
}

/// Runs a program to its good end; gives its standard output.
#[track_caller]
fn finish(command: Command) -> String {
    let words = format!("{command:?}");
    let output = wait_for_end(command);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{words} ended with {}:\n{stdout}\n{stderr}",
        output.status
    );
    stdout.into_owned()
}

/// Runs a program to its end.
#[track_caller]
fn wait_for_end(mut command: Command) -> Output {
    command
        // The nodes are on this machine, whatever the way out of it.
        .env("NO_PROXY", "localhost,127.0.0.1,::1")
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
        Ok(output) => output.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        Err(_) => {
            // SAFETY: takes numbers alone; the child is ours and not yet waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("{command:?} goes on after {SCRIPT_PATIENCE:?}");
        }
    }
}
