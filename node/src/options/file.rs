//! Options in a file: TOML whose keys are the long names of options.
//!
//! The options of the file come before the command line, so that the command line wins. A variable
//! of the environment wins over the file, too. Knows no option by its meaning: clap checks names
//! and values as it does on the command line.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, FromArgMatches};
use toml::{Table, Value};

use super::VnodeOptions;
use super::effect::without_effect;
use super::help::{vnode_command, vnode_command_for};

/// The longest file, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;
/// Options that are no setting: they name this file, or ask for help.
const NO_SETTINGS: [&str; 3] = ["config", "help", "version"];
/// Options whose values are secrets. They are not written.
const SECRETS: [&str; 2] = ["nodekeyhex", "stratum.password"];

/// An error in a file of options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is too long.
    #[error("{}: got {got} bytes, expected at most {FILE_LEN_MAX}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        got: u64,
    },
    /// The file is not TOML.
    #[error("{}: {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        reason: String,
    },
    /// A value is of no kind that an option has.
    #[error("{}: {key}: got {got}, expected a string, a number, true, false, or a list of those", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The value that was found.
        got: &'static str,
    },
    /// An option of the file names another file.
    #[error("{}: config: a file cannot name another file", .0.display())]
    Nested(PathBuf),
}

/// Reads the options from the command line and from the file that it names, if any.
///
/// # Errors
/// [`OptionsFileError`] if the file cannot be used. Faults of options end the process with a
/// message, as clap does.
pub fn parse_options(arguments: Vec<OsString>) -> Result<(VnodeOptions, ArgMatches), OptionsFileError> {
    let typed = vnode_command_for(&arguments).get_matches_from(&arguments);
    let Some(path) = typed.get_one::<PathBuf>("config").cloned() else {
        let mut options = options_of(&typed);
        options.without_effect = without_effect(&options, &typed, &typed);
        return Ok((options, typed));
    };
    let from_file = read_file(&path)?
        .into_iter()
        .filter(|(key, _)| !is_in_environment(key));
    let (program, rest) = arguments.split_at(arguments.len().min(1));
    let all = program
        .iter()
        .cloned()
        .chain(from_file.map(|(_, argument)| argument))
        .chain(rest.iter().cloned());
    let matches = vnode_command().get_matches_from(all);
    let mut options = options_of(&matches);
    options.without_effect = without_effect(&options, &typed, &matches);
    Ok((options, matches))
}

fn options_of(matches: &ArgMatches) -> VnodeOptions {
    VnodeOptions::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}

/// Whether an environment variable gives the option with this long name.
fn is_in_environment(name: &str) -> bool {
    let command = vnode_command();
    let mut options = command.get_arguments();
    let option = options.find(|option| option.get_long() == Some(name));
    let variable = option.and_then(|option| option.get_env());
    variable.is_some_and(|variable| std::env::var_os(variable).is_some())
}

fn read_file(path: &Path) -> Result<Vec<(String, OsString)>, OptionsFileError> {
    let read_error = |source| OptionsFileError::Read {
        path: path.to_owned(),
        source,
    };
    let got = std::fs::metadata(path).map_err(read_error)?.len();
    if got > FILE_LEN_MAX {
        let path = path.to_owned();
        return Err(OptionsFileError::Length { path, got });
    }
    let text = std::fs::read_to_string(path).map_err(read_error)?;
    arguments_of(path, &text)
}

/// The arguments that the text of a file stands for, each with its key.
pub(crate) fn arguments_of(path: &Path, text: &str) -> Result<Vec<(String, OsString)>, OptionsFileError> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| OptionsFileError::Toml {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
    let mut arguments = Vec::new();
    add_table(path, "", &table, &mut arguments)?;
    Ok(arguments)
}

/// Adds the options of a table. The names of options in a table below begin with its name.
fn add_table(
    path: &Path,
    prefix: &str,
    table: &Table,
    arguments: &mut Vec<(String, OsString)>,
) -> Result<(), OptionsFileError> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        if key == "config" {
            return Err(OptionsFileError::Nested(path.to_owned()));
        }
        let refuse = |got| OptionsFileError::Value {
            path: path.to_owned(),
            key: key.clone(),
            got,
        };
        let text = match value {
            Value::Table(inner) => {
                add_table(path, &format!("{key}."), inner, arguments)?;
                continue;
            }
            Value::Boolean(true) => {
                let argument = format!("--{key}").into();
                arguments.push((key, argument));
                continue;
            }
            Value::Boolean(false) => continue,
            Value::Array(members) => {
                let texts: Option<Vec<_>> = members.iter().map(scalar).collect();
                texts.ok_or_else(|| refuse("a list of something else"))?.join(",")
            }
            other => scalar(other).ok_or_else(|| refuse("a date"))?,
        };
        let argument = format!("--{key}={text}").into();
        arguments.push((key, argument));
    }
    Ok(())
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// All options with their values, as a file that [`parse_options`] reads. Options without a value
/// are comments.
pub fn write_options(matches: &ArgMatches) -> String {
    let mut text = String::from("# Options of vnode. Each key is the long name of an option.\n");
    for option in vnode_command().get_arguments() {
        let is_setting = |name: &&str| !option.is_hide_set() && !NO_SETTINGS.contains(name);
        let Some(name) = option.get_long().filter(is_setting) else {
            continue;
        };
        if let Some(help) = option.get_help() {
            let help = help.to_string();
            let first = help.lines().next().unwrap_or_default();
            // Writing to a string does not fail.
            let _ = write!(text, "\n# {first}\n");
        }
        let id = option.get_id().as_str();
        let key = match name.contains('.') {
            true => format!("\"{name}\""),
            false => name.to_owned(),
        };
        let values: Vec<String> = matches
            .get_raw(id)
            .into_iter()
            .flatten()
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        let _ = match (option.get_action(), values.as_slice()) {
            (ArgAction::SetTrue, _) => writeln!(text, "{key} = {}", matches.get_flag(id)),
            _ if SECRETS.contains(&name) => writeln!(text, "# {key} = (not shown)"),
            // A value of the environment is there because it should not be in a file.
            _ if matches.value_source(id) == Some(ValueSource::EnvVariable) => {
                writeln!(text, "# {key} = (from the environment)")
            }
            (_, []) => writeln!(text, "# {key} ="),
            (ArgAction::Append, many) => {
                let many: Vec<_> = many.iter().map(|value| toml_text(value)).collect();
                writeln!(text, "{key} = [{}]", many.join(", "))
            }
            (_, [value, ..]) => writeln!(text, "{key} = {}", toml_text(value)),
        };
    }
    text
}

/// A value as TOML: a number if it is written like one, else a string.
fn toml_text(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        _ => Value::String(value.to_owned()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let arguments = arguments_of(Path::new("vnode.toml"), text).map_err(|error| error.to_string())?;
        Ok(arguments
            .into_iter()
            .map(|(_, argument)| argument.into_string().expect("text"))
            .collect())
    }

    #[test]
    fn nested_files_need_little_stack() {
        crate::system::on_small_stack(|| {
            for depth in [60, 100, 30_000] {
                let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
                let tables = format!("{}1{}", "{a=".repeat(depth), "}".repeat(depth));
                assert!(read(&format!("rpcapi = {lists}")).is_err(), "{depth} levels");
                let _ = read(&format!("rpc = {tables}"));
                let key = vec!["a"; depth].join(".");
                let _ = read(&format!("{key} = 1"));
                let _ = read(&format!("[{key}]"));
            }
        });
    }

    #[test]
    fn keys_are_names_of_options() {
        let text = "rpc = true\nmine = false\nrpcport = 0\n\"rpc.gascap\" = 7\nrpcapi = [\"mc\", \"net\"]\n\
                    [txpool]\npricelimit = \"5\"\n[log]\njson = true\n";
        let mut expected = [
            "--rpc",
            "--rpcport=0",
            "--rpc.gascap=7",
            "--rpcapi=mc,net",
            "--txpool.pricelimit=5",
            "--log.json",
        ]
        .map(str::to_owned);
        expected.sort();
        let mut got = read(text).expect("options");
        got.sort();
        assert_eq!(got, expected);
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn refused_files() {
        let check = |text: &str, expected: &str| {
            let error = read(text).expect_err(text);
            assert!(
                error.starts_with("vnode.toml: ") && error.contains(expected),
                "{error}"
            );
        };
        check("rpc = ", "line 1");
        check("rpc = true\nrpc = false", "duplicate key");
        check("rpcport = 1979-05-27", "rpcport: got a date");
        check("rpcapi = [[1]]", "rpcapi: got a list of something else");
        check("config = \"other.toml\"", "a file cannot name another file");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let arguments = [
            "vnode",
            "--dev",
            "--rpc",
            "--rpcport",
            "0",
            "--rpcapi",
            "mc,net",
            "--extradata",
            "a \"text\"",
        ];
        let matches = vnode_command().get_matches_from(arguments);
        let text = write_options(&matches);
        let again = read(&text).expect("options");
        let again = std::iter::once("vnode".to_owned()).chain(again);
        let again = vnode_command().get_matches_from(again);
        assert_eq!(write_options(&again), text);
        assert_eq!(
            format!("{:?}", options_of(&again)),
            format!("{:?}", options_of(&matches))
        );
        assert!(
            text.contains("\ndev = true\n") && text.contains("\nmine = false\n"),
            "{text}"
        );
        assert!(text.contains("\n\"rpc.gascap\" = 50000000\n"), "{text}");
    }

    #[test]
    fn secrets_are_not_written() {
        let secret = "ab".repeat(32);
        let matches = vnode_command().get_matches_from(["vnode", "--nodekeyhex", &secret]);
        let text = write_options(&matches);
        assert!(
            !text.contains(&secret) && text.contains("# nodekeyhex = (not shown)"),
            "{text}"
        );
    }

    #[test]
    fn the_command_line_wins() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("vnode.toml");
        std::fs::write(&path, "dev = true\nrpcport = 7\nwsport = 8\n").expect("written");
        let arguments = [
            "vnode",
            "--config",
            path.to_str().expect("text"),
            "--rpcport",
            "9",
        ];
        let (options, _) = parse_options(arguments.map(OsString::from).to_vec()).expect("options");
        assert!(options.dev);
        assert_eq!((options.rpcport, options.wsport), (9, 8));
        let missing = ["vnode", "--config", "/nonexistent/vnode.toml"];
        let error = parse_options(missing.map(OsString::from).to_vec()).expect_err("no file");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nonexistent/vnode.toml: "),
            "{error}"
        );
    }
}
