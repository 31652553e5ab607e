//! Public client libraries: installed once into the target directory, run as processes.
//!
//! The scripts that use the libraries are in `clients/`; their output is printed. If Node.js,
//! Python or the package registries are missing, a test that needs them prints this and is skipped.
//! With `CI=true` or `REQUIRE_CLIENTS` set such a test fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::target_directory;
use crate::wait::{FairClock, LOOK_INTERVAL, note};

/// Longest time for one script. The longest one waits for some 75 blocks, one a second.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(240);
/// File in the folder of a language. It has the list of what is installed.
const MARK: &str = "installed";

/// An interpreter with its installed libraries.
#[derive(Clone, Debug)]
pub struct Clients {
    program: PathBuf,
    directory: PathBuf,
}

/// Node.js with the libraries of `clients/js/package-lock.json`; `None` if the test must be
/// skipped.
pub fn javascript() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    or_skip(CLIENTS.get_or_init(|| javascript_with("js")))
}

/// Node.js with Hardhat and Foundry, whose list is `clients/frameworks/package-lock.json`; `None`
/// if the test must be skipped.
pub fn frameworks() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    or_skip(CLIENTS.get_or_init(|| javascript_with("frameworks")))
}

/// Node.js with the libraries of `package-lock.json` in the folder `name` of `clients`.
fn javascript_with(name: &str) -> Result<Clients, String> {
    let lists = ["package.json", "package-lock.json"];
    let directory = install_once(name, &lists, |directory| {
        // Without install scripts: the native part of one dependency has a replacement in
        // JavaScript.
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
}

/// Python with the libraries of `clients/python/requirements.txt`; `None` if the test must be
/// skipped.
pub fn python() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    or_skip(CLIENTS.get_or_init(|| python_with("python")))
}

/// Python with Spark, whose list is `clients/spark/requirements.txt`. `None` if the test must be
/// skipped: Spark needs `SPARK=1`, because 400 MB are downloaded, and Java 17, which is never
/// required.
pub fn spark() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Result<Clients, String>> = OnceLock::new();
    if std::env::var_os("SPARK").is_none() {
        note("skipped: Spark is used with SPARK=1");
        return None;
    }
    if let Err(reason) = succeed(Command::new("java").arg("-version")) {
        note(&format!("skipped, Spark needs Java: {reason}"));
        return None;
    }
    or_skip(CLIENTS.get_or_init(|| python_with("spark")))
}

/// Python with the libraries of `requirements.txt` in the folder `name` of `clients`.
fn python_with(name: &str) -> Result<Clients, String> {
    let directory = install_once(name, &["requirements.txt"], |directory| {
        let python =
            |arguments: &[&str]| succeed(Command::new("python3").args(arguments).current_dir(directory));
        let in_venv = ["-m", "pip", "--python", "venv/bin/python"];
        // Python compiles what is imported.
        let install = [
            "install",
            "--disable-pip-version-check",
            "--no-compile",
            "-r",
            "requirements.txt",
        ];
        // The system's pip installs into the folder, so none is copied there. Some systems have
        // none, or one before 22.3.
        if python(&["-m", "venv", "--without-pip", "venv"]).is_ok()
            && python(&[&in_venv[..], &install].concat()).is_ok()
        {
            return Ok(());
        }
        python(&["-m", "venv", "--clear", "venv"])?;
        let mut pip = Command::new(directory.join("venv/bin/python"));
        succeed(pip.args(["-m", "pip"]).args(install).current_dir(directory))
    })?;
    Ok(Clients {
        program: directory.join("venv/bin/python"),
        directory,
    })
}

/// The program `cast`, which is installed with the JavaScript libraries; `None` if the test must be
/// skipped.
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
        // The program may be built for another C library. Then it exists but does not start.
        succeed(Command::new(&program).arg("--version"))?;
        Ok(Cast {
            program,
            home: libraries.directory.clone(),
        })
    }))
}

/// Returns the clients. If they are missing, prints the reason, or panics if they are required.
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

/// The folder with the libraries of a language, in the target directory. Runs `install` if the
/// libraries in the files `lists` are not installed yet.
fn install_once(
    language: &str,
    lists: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(language);
    let directory = target_directory().join("clients").join(language);
    install_into(&directory, &source, lists, install)?;
    Ok(directory)
}

/// Copies the scripts of `source` into `directory` and runs `install` there, unless it has run for
/// the same `lists`. Test programs run side by side, so one works and the others wait for it.
fn install_into(
    directory: &Path,
    source: &Path,
    lists: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut wanted = String::new();
    for name in lists {
        let path = source.join(name);
        wanted += &fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
    }
    let parent = directory.parent().unwrap_or(directory);
    fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
    // Beside the folder, which whoever has the lock may remove. The lock ends with the process.
    let path = directory.with_extension("lock");
    let lock = fs::File::create(&path).map_err(|error| failed(&path, error))?;
    lock.lock().map_err(|error| failed(&path, error))?;
    let is_installed = fs::read_to_string(directory.join(MARK)).is_ok_and(|mark| mark == wanted);
    if !is_installed {
        if directory.exists() {
            // Other libraries, or an installation that did not finish.
            fs::remove_dir_all(directory).map_err(|error| failed(directory, error))?;
        }
        fs::create_dir(directory).map_err(|error| failed(directory, error))?;
    }
    copy_scripts(source, directory).map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
    if is_installed {
        return Ok(());
    }
    let started = Instant::now();
    install(directory)?;
    note(&format!(
        "installed {} in {:.1} s",
        directory.display(),
        started.elapsed().as_secs_f64()
    ));
    fs::write(directory.join(MARK), wanted).map_err(|error| failed(directory, error))
}

/// Copies the scripts from `source` into `directory`, because scripts find libraries in their own
/// folder. Another process may be reading those that are there, so equal ones stay.
fn copy_scripts(source: &Path, directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let script = fs::read(entry.path())?;
            let copy = directory.join(entry.file_name());
            if fs::read(&copy).ok().as_ref() != Some(&script) {
                fs::write(copy, script)?;
            }
        }
    }
    Ok(())
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        stderr.trim()
    ))
}

impl Clients {
    /// Runs a script with `argument` as JSON. Prints the lines of its output and returns the last
    /// one, which must be JSON.
    ///
    /// # Panics
    /// If the script fails, does not end, or its last line is not JSON.
    #[track_caller]
    pub fn run(&self, script: &str, argument: &Value) -> Value {
        self.run_within(SCRIPT_TIMEOUT, script, argument)
    }

    /// The same with another longest time.
    ///
    /// # Panics
    /// As for [`Self::run`].
    #[track_caller]
    pub fn run_within(&self, timeout: Duration, script: &str, argument: &Value) -> Value {
        let mut command = Command::new(&self.program);
        command
            .arg(script)
            .arg(argument.to_string())
            .current_dir(&self.directory);
        let stdout = finish(timeout, command);
        let mut lines: Vec<_> = stdout.lines().filter(|line| !line.is_empty()).collect();
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            note(&format!("{script}: {line}"));
        }
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{script} ended with {last:?}: {error}"))
    }
}

impl Clients {
    /// The folder of the installed JavaScript libraries.
    pub fn node_modules(&self) -> PathBuf {
        self.directory.join("node_modules")
    }

    /// Starts a script that reads requests from its standard input and writes answers to its
    /// standard output.
    ///
    /// # Errors
    /// If the interpreter does not start.
    pub fn start(&self, script: &str) -> std::io::Result<Child> {
        Command::new(&self.program)
            .arg(script)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    }
}

/// The command-line client `cast`.
#[derive(Clone, Debug)]
pub struct Cast {
    program: PathBuf,
    /// A home directory without settings of the user.
    home: PathBuf,
}

impl Cast {
    /// Runs the client with `arguments` against the node at `url`. Returns its output.
    ///
    /// # Panics
    /// If the client fails or does not end.
    #[track_caller]
    pub fn run(&self, url: &str, arguments: &[&str]) -> String {
        finish(SCRIPT_TIMEOUT, self.command(url, arguments))
            .trim()
            .to_owned()
    }

    /// Runs the client with `arguments`, which must fail. Returns its standard error.
    ///
    /// # Panics
    /// If the client succeeds or does not end.
    #[track_caller]
    pub fn refused(&self, url: &str, arguments: &[&str]) -> String {
        let command = self.command(url, arguments);
        let shown = format!("{command:?}");
        let output = wait_for_end(SCRIPT_TIMEOUT, command);
        assert!(!output.status.success(), "{shown} succeeds: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn command(&self, url: &str, arguments: &[&str]) -> Command {
        let (subcommand, rest) = arguments.split_first().expect("a subcommand");
        let mut command = Command::new(&self.program);
        // The option is right after the subcommand, because `--create` must be followed by code.
        command
            .args([subcommand, "--rpc-url", url])
            .args(rest)
            .env("HOME", &self.home)
            .current_dir(&self.home);
        command
    }
}

/// Runs a program that must succeed. Returns its standard output.
#[track_caller]
fn finish(timeout: Duration, command: Command) -> String {
    let shown = format!("{command:?}");
    let output = wait_for_end(timeout, command);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{shown} ended with {}:\n{stdout}\n{stderr}",
        output.status
    );
    stdout.into_owned()
}

/// Runs a program until it ends.
#[track_caller]
fn wait_for_end(timeout: Duration, mut command: Command) -> Output {
    command
        // The nodes are on this machine, so no proxy is used.
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
    let mut clock = FairClock::start();
    loop {
        match receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(output) => return output.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            Err(_) if clock.elapsed() < timeout => {}
            Err(_) => {
                // SAFETY: the arguments are numbers; the child has not been waited for, so the id
                // is its own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("{command:?} has not ended after {timeout:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn programs_side_by_side_install_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, directory) = (folder.path().join("source"), folder.path().join("python"));
        fs::create_dir(&source).expect("a folder");
        fs::write(source.join("list"), "a library").expect("a file");
        let installs = AtomicUsize::new(0);
        let install_as_a_program = || {
            install_into(&directory, &source, &["list"], |directory| {
                installs.fetch_add(1, Ordering::Relaxed);
                fs::create_dir(directory.join("venv")).map_err(|error| error.to_string())?;
                // Long enough for the others to find a folder without a mark.
                std::thread::sleep(Duration::from_millis(50));
                fs::write(directory.join("venv/library"), "").map_err(|error| error.to_string())
            })
            .expect("installed");
            assert!(directory.join("venv/library").exists());
        };
        let all_install = || {
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(install_as_a_program);
                }
            });
        };
        all_install();
        assert_eq!(installs.load(Ordering::Relaxed), 1);
        fs::write(source.join("list"), "another library").expect("a file");
        all_install();
        assert_eq!(installs.load(Ordering::Relaxed), 2);
    }
}
