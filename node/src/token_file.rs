//! The file of `--rpc.tokens`: tokens, and what each may call. It is TOML:
//!
//! ```toml
//! [[token]]
//! name = "explorer"
//! secret = "a long text that nobody guesses"
//! modules = ["mc", "net"]
//! methods = ["debug_traceTransaction"]
//! rate = 50
//!
//! [anonymous]
//! modules = ["net"]
//! ```
//!
//! No error and no line of the log shows a secret. How tokens are compared is in the package `rpc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use daemon::{SecretDigest, TokenRate};
use primitives::hex;
use rpc::Modules;
use rpc::access::{TokenKey, TokenRule, TokenSecret};
use serde::Deserialize;
use zeroize::Zeroizing;

/// Longest file, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;
/// Most tokens, because each request is compared with all of them.
const TOKENS_MAX: usize = 1024;
/// Fewest characters of a secret.
const SECRET_LEN_MIN: usize = 16;
/// Most characters of a secret.
const SECRET_LEN_MAX: usize = 1024;
/// Fewest bytes of a key that clients sign tokens with (RFC 7518, 3.2).
const KEY_LEN_MIN: usize = 32;
/// The name of the rule for requests without a token.
const ANONYMOUS: &str = "anonymous";
/// Stands for all modules.
const ALL: &str = "*";

/// An error in a file of tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is no TOML, or has other keys or values.
    #[error("{}: line {line}: {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault.
        reason: String,
    },
    /// A value cannot be used.
    #[error("{}: {key}: got {got}, expected {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The token's name, or its number, and the key.
        key: String,
        /// The value that was found; never a secret.
        got: String,
        /// The value that was expected.
        expected: String,
    },
}

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenTable>,
    anonymous: Option<TokenTable>,
}

/// A table of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: Option<String>,
    secret: Option<SecretText>,
    sha256: Option<String>,
    jwt: Option<SecretText>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    methods: Vec<String>,
    rate: Option<f64>,
    burst: Option<f64>,
    connections: Option<usize>,
}

/// A text that is removed from memory after it was used. The error about another value does not
/// show the value, because it may be a secret whose quotes are missing.
#[derive(Deserialize)]
#[serde(try_from = "toml::Value")]
struct SecretText(Zeroizing<String>);

/// The type of a value that is not a text.
#[derive(Debug, thiserror::Error)]
#[error("got a value of the type {0}, expected a text in quotes")]
struct NotText(&'static str);

impl TryFrom<toml::Value> for SecretText {
    type Error = NotText;

    fn try_from(value: toml::Value) -> Result<Self, NotText> {
        match value {
            toml::Value::String(text) => Ok(Self(Zeroizing::new(text))),
            other => Err(NotText(other.type_str())),
        }
    }
}

/// Reads the rules from a file.
///
/// # Errors
/// [`TokenFileError`] if the file cannot be read or used.
pub(crate) fn read(path: &Path) -> Result<Vec<TokenRule>, TokenFileError> {
    let read_error = |source| TokenFileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(read_error)?;
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_LEN_MAX + 1)
        .read_to_string(&mut text)
        .map_err(read_error)?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(value(
            path,
            "the file",
            format!("more than {FILE_LEN_MAX} bytes"),
            "a short file",
        ));
    }
    let rules = parse(path, &text)?;
    warn_if_others_can_read(path);
    Ok(rules)
}

fn value(
    path: &Path,
    key: impl Into<String>,
    got: impl Into<String>,
    expected: impl Into<String>,
) -> TokenFileError {
    TokenFileError::Value {
        path: path.to_owned(),
        key: key.into(),
        got: got.into(),
        expected: expected.into(),
    }
}

/// Warns if other users of the machine can read the secrets.
fn warn_if_others_can_read(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if mode & 0o077 != 0 {
            let path = path.display();
            tracing::warn!(%path, "other users of this machine may read the tokens: chmod 600 keeps them secret");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<TokenRule>, TokenFileError> {
    let file: TokenFile = toml::from_str(text).map_err(|error| TokenFileError::Toml {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        }),
        // The whole error would show the line, which may have a secret.
        reason: error.message().to_owned(),
    })?;
    if file.token.len() > TOKENS_MAX {
        let got = format!("{} tokens", file.token.len());
        return Err(value(path, "token", got, format!("at most {TOKENS_MAX}")));
    }
    let methods = method_names();
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for (index, table) in file.token.into_iter().enumerate() {
        let number = format!("token {}", index + 1);
        let Some(name) = table.name.clone().filter(|name| is_name(name)) else {
            let got = table.name.unwrap_or_else(|| "none".to_owned());
            return Err(value(
                path,
                format!("{number}: name"),
                got,
                "letters, digits, points, dashes and underscores",
            ));
        };
        if name == ANONYMOUS || !names.insert(name.clone()) {
            return Err(value(path, format!("{number}: name"), name, "a name of its own"));
        }
        let secret = secret(path, &name, &table)?;
        rules.push(rule(path, name, secret, table, &methods)?);
    }
    if let Some(table) = file.anonymous {
        let has_secret = table.secret.is_some() || table.sha256.is_some() || table.jwt.is_some();
        if has_secret || table.name.is_some() {
            return Err(value(path, ANONYMOUS, "a name or a secret", "neither"));
        }
        rules.push(rule(
            path,
            ANONYMOUS.to_owned(),
            TokenSecret::None,
            table,
            &methods,
        )?);
    }
    if rules.is_empty() {
        return Err(value(
            path,
            "the file",
            "no token",
            "at least one [[token]] or [anonymous]",
        ));
    }
    Ok(rules)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The methods' own names, by all their names.
fn method_names() -> BTreeMap<String, String> {
    let rows = rpc::methods::all();
    let own = rows.iter().map(|row| row.name().to_owned());
    let mut names: BTreeMap<_, _> = own.map(|name| (name.clone(), name)).collect();
    for row in &rows {
        if let Some(alias) = row.info().alias() {
            names.insert(alias, row.name().to_owned());
        }
    }
    names
}

fn secret(path: &Path, name: &str, table: &TokenTable) -> Result<TokenSecret, TokenFileError> {
    let fault =
        |key: &str, got: String, expected: &str| Err(value(path, format!("{name}: {key}"), got, expected));
    match (&table.secret, &table.sha256, &table.jwt) {
        (Some(SecretText(secret)), None, None) => {
            let len = secret.len();
            if !(SECRET_LEN_MIN..=SECRET_LEN_MAX).contains(&len) {
                let expected = format!("{SECRET_LEN_MIN} to {SECRET_LEN_MAX}");
                return fault("secret", format!("{len} characters"), &expected);
            }
            if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
                return fault(
                    "secret",
                    "other characters".to_owned(),
                    "visible ASCII characters without space",
                );
            }
            Ok(TokenSecret::Bearer(SecretDigest::of(secret)))
        }
        (None, Some(digest), None) => {
            match hex::decode(digest).ok().and_then(|bytes| bytes.try_into().ok()) {
                Some(digest) => Ok(TokenSecret::Bearer(SecretDigest(digest))),
                None => fault("sha256", format!("{} characters", digest.len()), "64 hex digits"),
            }
        }
        (None, None, Some(SecretText(key))) => {
            match hex::decode(key.trim_start_matches("0x")).map(Zeroizing::new) {
                Ok(key) if key.len() >= KEY_LEN_MIN => Ok(TokenSecret::Jwt(TokenKey(key))),
                Ok(key) => fault(
                    "jwt",
                    format!("{} bytes", key.len()),
                    "at least 32 bytes as hex digits",
                ),
                Err(_) => fault(
                    "jwt",
                    "something else".to_owned(),
                    "at least 32 bytes as hex digits",
                ),
            }
        }
        _ => fault(
            "secret",
            "none or several".to_owned(),
            "one of secret, sha256 and jwt",
        ),
    }
}

fn rule(
    path: &Path,
    name: String,
    secret: TokenSecret,
    table: TokenTable,
    known: &BTreeMap<String, String>,
) -> Result<TokenRule, TokenFileError> {
    let key = |key: &str| format!("{name}: {key}");
    if table.modules.is_empty() && table.methods.is_empty() {
        return Err(value(
            path,
            key("modules"),
            "neither modules nor methods",
            "what the token may call; modules = [\"*\"] is everything that is served",
        ));
    }
    let modules = if table.modules.iter().any(|module| module == ALL) {
        Modules::all()
    } else {
        let list = table.modules.join(",");
        list.parse().map_err(|error: rpc::modules::UnknownModule| {
            value(path, key("modules"), error.got, "names of modules, or \"*\"")
        })?
    };
    let mut methods = BTreeSet::new();
    for method in table.methods {
        let own = known.get(&method).cloned();
        methods.insert(own.ok_or_else(|| value(path, key("methods"), method, "the name of a method"))?);
    }
    let rate = match (table.rate, table.burst) {
        (None, None) => None,
        (None, Some(_)) => return Err(value(path, key("burst"), "no rate", "a rate, too")),
        (Some(rate), burst) => {
            let range = 0.001..=1_000_000.0;
            let burst_or_rate = burst.unwrap_or_else(|| rate.max(1.0));
            if !range.contains(&rate) {
                return Err(value(
                    path,
                    key("rate"),
                    rate.to_string(),
                    "0.001 to 1000000 calls a second",
                ));
            }
            if !(1.0..=1_000_000.0).contains(&burst_or_rate) {
                return Err(value(
                    path,
                    key("burst"),
                    burst_or_rate.to_string(),
                    "1 to 1000000 calls",
                ));
            }
            Some(TokenRate {
                burst: burst_or_rate,
                per_second: rate,
            })
        }
    };
    if table.connections == Some(0) {
        return Err(value(path, key("connections"), "0", "at least 1"));
    }
    Ok(TokenRule {
        name,
        secret,
        modules,
        methods,
        rate,
        connections_max: table.connections,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a-secret-of-22-letters";

    fn read_text(text: &str) -> Result<Vec<TokenRule>, String> {
        parse(Path::new("tokens.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn nested_files_need_little_stack() {
        crate::system::on_small_stack(|| {
            for depth in [60, 100, 100_000] {
                let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
                let tables = format!("{}1{}", "{a=".repeat(depth), "}".repeat(depth));
                for value in [nested, tables] {
                    assert!(
                        read_text(&format!("unknown = {value}")).is_err(),
                        "{depth} levels"
                    );
                    assert!(read_text(&format!("token = {value}")).is_err(), "{depth} levels");
                }
                let key = vec!["a"; depth].join(".");
                assert!(read_text(&format!("{key} = 1")).is_err(), "{depth} levels");
                assert!(read_text(&format!("[{key}]")).is_err(), "{depth} levels");
            }
        });
    }

    #[test]
    fn a_whole_file() {
        let digest = hex::encode(SecretDigest::of("another token").0);
        let key = "ab".repeat(32);
        let text = format!(
            "[[token]]\nname = \"explorer\"\nsecret = \"{SECRET}\"\nmodules = [\"mc\", \"net\"]\n\
             methods = [\"debug_traceTransaction\", \"eth_call\", \"mc_sign\"]\nrate = 50\n\
             [[token]]\nname = \"b.c-d_1\"\nsha256 = \"{digest}\"\nmodules = [\"*\"]\nrate = 0.5\nconnections = 3\n\
             [[token]]\nname = \"signer\"\njwt = \"0x{key}\"\nmethods = [\"net_version\"]\n\
             [anonymous]\nmodules = [\"net\"]\nrate = 2\nburst = 20\n"
        );
        let rules = read_text(&text).expect("a good file");
        let names: Vec<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["explorer", "b.c-d_1", "signer", "anonymous"]);
        assert_eq!(rules[0].secret, TokenSecret::Bearer(SecretDigest::of(SECRET)));
        assert!(rules[0].modules.contains("net") && !rules[0].modules.contains("debug"));
        let own = ["debug_traceTransaction", "mc_call", "mc_sign"].map(str::to_owned);
        assert_eq!(rules[0].methods, own.into());
        let rate = |burst, per_second| Some(TokenRate { burst, per_second });
        let rates: Vec<_> = rules.iter().map(|rule| rule.rate).collect();
        assert_eq!(rates, [rate(50.0, 50.0), rate(1.0, 0.5), None, rate(20.0, 2.0)]);
        assert_eq!(
            rules[1].secret,
            TokenSecret::Bearer(SecretDigest::of("another token"))
        );
        assert_eq!(
            (rules[1].modules.clone(), rules[1].connections_max),
            (Modules::all(), Some(3))
        );
        assert_eq!(rules[3].secret, TokenSecret::None);
    }

    #[test]
    fn refused_files() {
        let token = |lines: &str| format!("[[token]]\nname = \"a\"\nsecret = \"{SECRET}\"\n{lines}\n");
        let good = token("modules = [\"mc\"]");
        for (text, expected) in [
            (String::new(), "got no token, expected at least one"),
            ("[[token]\n".to_owned(), "line 1"),
            (token("module = [\"mc\"]"), "line 4: unknown field `module`"),
            (token("modules = \"mc\""), "line 4: invalid type"),
            (token(""), "a: modules: got neither modules nor methods"),
            (
                token("modules = [\"mc\", \"eth2\"]"),
                "a: modules: got eth2, expected names of modules",
            ),
            (
                token("methods = [\"mc_cal\"]"),
                "a: methods: got mc_cal, expected the name of a method",
            ),
            (
                token("modules = [\"mc\"]\nrate = 0"),
                "a: rate: got 0, expected 0.001 to",
            ),
            (token("modules = [\"mc\"]\nrate = nan"), "a: rate: got NaN"),
            (token("modules = [\"mc\"]\nburst = 3"), "a: burst: got no rate"),
            (
                token("modules = [\"mc\"]\nrate = 3\nburst = 0"),
                "a: burst: got 0",
            ),
            (
                token("modules = [\"mc\"]\nconnections = 0"),
                "a: connections: got 0, expected at least 1",
            ),
            (
                token("modules = [\"mc\"]\nsha256 = \"00\""),
                "one of secret, sha256 and jwt",
            ),
            (
                format!("{good}{good}"),
                "token 2: name: got a, expected a name of its own",
            ),
            (
                good.replace("\"a\"", "\"a b\""),
                "token 1: name: got a b, expected letters",
            ),
            (good.replace("\"a\"", "\"anonymous\""), "a name of its own"),
            (good.replace("name = \"a\"\n", ""), "token 1: name: got none"),
            (
                good.replace(SECRET, "short"),
                "a: secret: got 5 characters, expected 16 to 1024",
            ),
            (
                good.replace(SECRET, "a secret with spaces"),
                "a: secret: got other characters",
            ),
            (
                good.replace("secret", "sha256"),
                "a: sha256: got 22 characters, expected 64 hex digits",
            ),
            (
                good.replace("secret", "jwt"),
                "a: jwt: got something else, expected at least 32 bytes",
            ),
            (
                good.replace(&format!("secret = \"{SECRET}\""), "jwt = \"abcd\""),
                "a: jwt: got 2 bytes",
            ),
            (
                format!("{good}[anonymous]\nsecret = \"{SECRET}\"\nmodules = [\"mc\"]"),
                "expected neither",
            ),
            (format!("secret = \"{SECRET}\n"), "line 1"),
        ] {
            let error = read_text(&text).expect_err(&text);
            assert!(
                error.starts_with("tokens.toml: ") && error.contains(expected),
                "{error}"
            );
            assert!(!error.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn a_secret_without_quotes_is_not_shown() {
        for key in ["secret", "jwt"] {
            let text = format!("[[token]]\nname = \"a\"\n{key} = 1234567890123456\nmodules = [\"mc\"]\n");
            let error = read_text(&text).expect_err(&text);
            let expected = "line 3: got a value of the type integer, expected a text in quotes";
            assert!(error.contains(expected) && !error.contains("12345"), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/no/such/tokens.toml")).expect_err("no file");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /no/such/tokens.toml: "),
            "{error}"
        );
    }
}
